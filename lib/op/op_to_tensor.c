#include "op/op.h"

/* to_tensor: torchvision's ToTensor (tensor.h has the arithmetic). */

const struct sluice_op_type sluice_op_to_tensor = {
    .name = "to_tensor",
    .help = "floats from 0 to 1; comes after all pixel ops",
    .column = "ToTensor",
    .kind = SLUICE_OP_TENSOR,
};
