#include "op/op.h"

/* exif_transpose: turns images upright.  It takes effect within decode, because only the file has
 * the orientation: decoded pixels are upright already. */

const struct sluice_op_type sluice_op_exif_transpose = {
    .name = "exif_transpose",
    .help = "turns the image upright as its EXIF says; right after decode",
    .column = "exif_transpose",
    .kind = SLUICE_OP_UPRIGHT,
};
