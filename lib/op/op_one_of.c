#include "op/op.h"

/* one_of: runs one of its ops, drawn by weight, as torchvision's RandomChoice. */

const struct sluice_op_type sluice_op_one_of = {
    .name = "one_of",
    .help = "one of these ops, drawn by their weights",
    .example = "(grayscale,invert:weight=2)",
    .kind = SLUICE_OP_CHOICE,
    .is_random = true,
    .choose = sluice_choose_one,
    .num_chosen = sluice_num_one,
};
