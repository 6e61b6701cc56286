#include "op/op.h"

/* when: runs all of its ops in order, only in some epochs of the training. */

struct params {
    struct sluice_epochs epochs;
};

static const struct sluice_op_param param_list[] = {
    {.name = "epochs",
     .kind = SLUICE_PARAM_EPOCHS,
     .offset = offsetof(struct params, epochs),
     .form = "epoch>=N, epoch<N or A<=epoch<B"},
    {0},
};

static bool runs_in(const void *params, uint32_t epoch)
{
    const struct sluice_epochs *epochs = &((const struct params *)params)->epochs;
    return epoch >= epochs->from && epoch < epochs->end;
}

static const char *check_children(const void *params, unsigned num_children)
{
    (void)params;
    return num_children > SLUICE_MAX_CHOSEN ? "at most 32 ops can follow" : NULL;
}

const struct sluice_op_type sluice_op_when = {
    .name = "when",
    .help = "these ops in order, in some epochs alone, which count from 0",
    .example = "(epoch<71,grayscale:p=0.2)",
    .kind = SLUICE_OP_CHOICE,
    .params = param_list,
    .params_size = sizeof(struct params),
    .runs_in = runs_in,
    .choose = sluice_choose_all,
    .num_chosen = sluice_num_children,
    .check_children = check_children,
};
