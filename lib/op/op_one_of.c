#include "op/op.h"

/* one_of: runs one of its ops, drawn by weight, as torchvision's RandomChoice. */

static unsigned choose(const void *params, const struct sluice_op *children, unsigned num_children,
                       struct sluice_rng *rng, uint8_t chosen[SLUICE_MAX_CHOSEN])
{
    (void)params;
    chosen[0] = sluice_draw_child(children, num_children, NULL, rng);
    return 1;
}

static unsigned num_chosen(const void *params, unsigned num_children)
{
    (void)params, (void)num_children;
    return 1;
}

const struct sluice_op_type sluice_op_one_of = {
    .name = "one_of",
    .help = "one of these ops, drawn by their weights",
    .example = "(grayscale,invert:weight=2)",
    .kind = SLUICE_OP_CHOICE,
    .is_random = true,
    .choose = choose,
    .num_chosen = num_chosen,
};
