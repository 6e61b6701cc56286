#include "op/op.h"

/* k_of: draws some of its ops by weight, with or without replacement, and runs them in the order
 * drawn. */

struct params {
    uint32_t count;
    double replace; /* 1: an op may come again */
};

static const struct sluice_op_param param_list[] = {
    {.name = "count",
     .kind = SLUICE_PARAM_SIZE,
     .offset = offsetof(struct params, count),
     .form = "K"},
    {.name = "replace",
     .kind = SLUICE_PARAM_NUMBER,
     .offset = offsetof(struct params, replace),
     .form = "1",
     .max = 1,
     .has_preset = true},
    {0},
};

static unsigned choose(const void *params, const struct sluice_op *children, unsigned num_children,
                       struct sluice_rng *rng, uint8_t chosen[SLUICE_MAX_CHOSEN])
{
    const struct params *p = params;
    bool is_taken[SLUICE_MAX_NODES] = {false};
    for (unsigned i = 0; i < p->count; i++) {
        chosen[i] = sluice_draw_child(children, num_children, is_taken, rng);
        is_taken[chosen[i]] = p->replace == 0;
    }
    return p->count;
}

static unsigned num_chosen(const void *params, unsigned num_children)
{
    (void)num_children;
    return ((const struct params *)params)->count;
}

static const char *prepare(void *params)
{
    const struct params *p = params;
    if (p->replace != 0 && p->replace != 1)
        return "replace is 0 or 1";
    return p->count > SLUICE_MAX_CHOSEN ? "at most 32 ops can be drawn" : NULL;
}

static const char *check_children(const void *params, unsigned num_children)
{
    const struct params *p = params;
    return p->replace == 0 && p->count > num_children
               ? "fewer ops stand here than are to be drawn; :replace=1 lets one come again"
               : NULL;
}

const struct sluice_op_type sluice_op_k_of = {
    .name = "k_of",
    .help = "two of these ops, drawn by their weights; k_of(2:replace=1,...): one may come twice",
    .example = "(2,invert,equalize,grayscale)",
    .kind = SLUICE_OP_CHOICE,
    .is_random = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .prepare = prepare,
    .choose = choose,
    .num_chosen = num_chosen,
    .check_children = check_children,
};
