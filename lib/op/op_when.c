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

static const struct sluice_epochs *epochs(const void *params)
{
    return &((const struct params *)params)->epochs;
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
    .epochs = epochs,
    .choose = sluice_choose_all,
    .num_chosen = sluice_num_children,
    .check_children = check_children,
};
