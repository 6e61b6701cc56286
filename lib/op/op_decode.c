#include "op/op.h"

/* decode: the pixels of a file.  The codec does the work (run_region.c). */

static const char *const words[] = {"pillow12", "pillow13", NULL};

static const struct sluice_op_param param_list[] = {
    {.name = "numerics",
     .kind = SLUICE_PARAM_WORD,
     .offset = offsetof(struct sluice_decode_params, numerics),
     .form = "pillow12 or pillow13",
     .has_preset = true,
     .words = words,
     .is_quiet = true},
    {0},
};

const struct sluice_op_type sluice_op_decode = {
    .name = "decode",
    .help = "the pixels of the file; stands first; decode=pillow13 resizes as Pillow 13 does",
    .column = "decoding",
    .kind = SLUICE_OP_DECODE,
    .params = param_list,
    .params_size = sizeof(struct sluice_decode_params),
};
