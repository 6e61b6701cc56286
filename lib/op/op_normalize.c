#include "op/tensor.h"

/* normalize: torchvision's Normalize (tensor.h has the arithmetic). */

static const struct sluice_op_param param_list[] = {
    {.name = "scale",
     .kind = SLUICE_PARAM_SCALE,
     .form = "imagenet' or '=R:G:B/R:G:B",
     .example = "imagenet"},
    {0},
};

static const char *prepare(void *params)
{
    const struct sluice_scale *scale = params;
    for (int c = 0; c < 3; c++) {
        if (scale->std[c] == 0)
            return "a deviation is 0";
    }
    sluice_pipeline_table table;
    sluice_tensor_table(scale, table);
    return sluice_tensor_table_is_invertible(table) ? NULL
                                                    : "with these, two pixel values give one float";
}

const struct sluice_op_type sluice_op_normalize = {
    .name = "normalize",
    .help = "subtracts the mean and divides by the deviation, also R:G:B/R:G:B; follows to_tensor",
    .column = "Normalize",
    .kind = SLUICE_OP_SCALE,
    .params = param_list,
    .params_size = sizeof(struct sluice_scale),
    .prepare = prepare,
};
