#include "op/op.h"

/* exif_transpose takes effect within decode: the orientation stands in the file, which the pixels
 * after decode no longer have with them.  What stands between the two is upright already. */

const struct sluice_op_type sluice_op_exif_transpose = {
    .name = "exif_transpose",
    .help = "turns the image upright as its EXIF says; right after decode",
    .column = "exif_transpose",
    .kind = SLUICE_OP_UPRIGHT,
};
