#include "op/op.h"

/* sequence: runs all of its ops in order, so that a choice can treat them as one. */

static const char *check_children(const void *params, unsigned num_children)
{
    (void)params;
    return num_children > SLUICE_MAX_CHOSEN ? "at most 32 ops can be in a sequence" : NULL;
}

const struct sluice_op_type sluice_op_sequence = {
    .name = "sequence",
    .help = "these ops in order, as one op of a choice, or with one :p=P",
    .example = "(grayscale,invert)",
    .kind = SLUICE_OP_CHOICE,
    .choose = sluice_choose_all,
    .num_chosen = sluice_num_children,
    .check_children = check_children,
};
