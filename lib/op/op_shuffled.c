#include "op/op.h"

/* shuffled: runs all of its ops in a random order (Fisher-Yates), as torchvision's RandomOrder. */

static unsigned choose(const void *params, const struct sluice_op *children, unsigned num_children,
                       struct sluice_rng *rng, uint8_t chosen[SLUICE_MAX_CHOSEN])
{
    (void)params, (void)children;
    return sluice_draw_order(num_children, rng, chosen);
}

static const char *check_children(const void *params, unsigned num_children)
{
    (void)params;
    return num_children > SLUICE_MAX_CHOSEN ? "at most 32 ops can be shuffled" : NULL;
}

const struct sluice_op_type sluice_op_shuffled = {
    .name = "shuffled",
    .help = "all of these ops, in an order that is drawn",
    .example = "(brightness=0.6-1.4,color=0.6-1.4)",
    .kind = SLUICE_OP_CHOICE,
    .is_random = true,
    .choose = choose,
    .num_chosen = sluice_num_children,
    .check_children = check_children,
};
