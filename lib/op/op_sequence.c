#include "op/op.h"

/* sequence: all of its ops in order, so that a choice may take them as one. */

static unsigned choose(const void *params, const struct sluice_op *children, unsigned num_children,
                       struct sluice_rng *rng, uint8_t chosen[SLUICE_MAX_CHOSEN])
{
    (void)params, (void)children, (void)rng;
    for (unsigned i = 0; i < num_children; i++)
        chosen[i] = (uint8_t)i;
    return num_children;
}

static unsigned num_chosen(const void *params, unsigned num_children)
{
    (void)params;
    return num_children;
}

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
    .choose = choose,
    .num_chosen = num_chosen,
    .check_children = check_children,
};
