#include "op/op.h"

/* decode: the pixels of a file.  The codec does the work (run_region.c). */

const struct sluice_op_type sluice_op_decode = {
    .name = "decode",
    .help = "the pixels of the file; stands first",
    .column = "decoding",
    .kind = SLUICE_OP_DECODE,
};
