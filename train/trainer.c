#include "train/train.h"

#include "host/pages.h"
#include "train/trainer_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct device {
    const char *name;
    const struct sluice_trainer_ops *ops; /* NULL: this build lacks it */
    const char *build_option;
} devices[] = {
    {"none", &sluice_trainer_none_ops, NULL},
#ifdef SLUICE_HAVE_ONEDNN
    {"cpu", &sluice_trainer_cpu_ops, NULL},
#else
    {"cpu", NULL, "SLUICE_ONEDNN"},
#endif
#ifdef SLUICE_HAVE_CUDA
    {"cuda", &sluice_trainer_cuda_ops, NULL},
#else
    {"cuda", NULL, "SLUICE_CUDA"},
#endif
};

static const char *const precision_names[] = {
    [SLUICE_PRECISION_DEFAULT] = "default",
    [SLUICE_PRECISION_BF16] = "bf16",
    [SLUICE_PRECISION_TF32] = "tf32",
    [SLUICE_PRECISION_FP32] = "fp32",
};

const char *sluice_precision_name(enum sluice_precision precision)
{
    return precision_names[precision];
}

bool sluice_precision_parse(const char *name, enum sluice_precision *precision)
{
    for (int i = SLUICE_PRECISION_DEFAULT; i <= SLUICE_PRECISION_FP32; i++) {
        if (strcmp(name ? name : precision_names[SLUICE_PRECISION_DEFAULT], precision_names[i]) !=
            0)
            continue;
        *precision = (enum sluice_precision)i;
        return true;
    }
    return false;
}

static sluice_status find_device(const char *name, const struct device **device,
                                 struct sluice_err *err)
{
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(devices); i++) {
        if (!name || strcmp(name, devices[i].name) != 0)
            continue;
        if (!devices[i].ops)
            return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                               "device %s is not in this build: configure with -D%s=ON",
                               devices[i].name, devices[i].build_option);
        *device = &devices[i];
        return SLUICE_OK;
    }
    return sluice_fail(err, SLUICE_E_INVALID, "device: none, cpu or cuda, not \"%s\"",
                       name ? name : "");
}

static sluice_status check_ranks(const struct sluice_train_options *options, bool learns,
                                 struct sluice_err *err)
{
    const unsigned world_size = options->world_size ? options->world_size : 1;
    if (options->rank >= world_size)
        return sluice_fail(err, SLUICE_E_INVALID, "rank: below world_size %u, not %u", world_size,
                           options->rank);
    if (world_size > 1 && options->gate.point)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "gate: world_size is %u, and ranks wait for each other in each step; "
                           "one process alone can stop at a gate",
                           world_size);
    if (world_size == 1 || !learns)
        return SLUICE_OK;
    if (strcmp(options->device, "cpu") == 0)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "device cpu: ranks are not joined; world_size %u needs device cuda (or "
                           "none, which trains nothing)",
                           world_size);
    if (!options->rendezvous || !options->rendezvous[0])
        return sluice_fail(err, SLUICE_E_INVALID, "rendezvous: missing, and world_size is %u",
                           world_size);
    return SLUICE_OK;
}

static sluice_status check_options(const struct sluice_train_options *options, bool learns,
                                   struct sluice_err *err)
{
    if (options->batch_size < 1)
        return sluice_fail(err, SLUICE_E_INVALID, "batch_size: at least 1");
    if (options->num_classes < 1)
        return sluice_fail(err, SLUICE_E_INVALID, "num_classes: at least 1");
    if (!(options->consume_rate >= 0) || isinf(options->consume_rate))
        return sluice_fail(err, SLUICE_E_INVALID, "consume_rate: 0 or more, not %g",
                           options->consume_rate);
    if (!learns)
        return SLUICE_OK;
    if (!options->table)
        return sluice_fail(err, SLUICE_E_INVALID, "table: missing");
    if (!(options->lr >= 0) || isinf(options->lr))
        return sluice_fail(err, SLUICE_E_INVALID, "lr: 0 or more, not %g", options->lr);
    if (!(options->momentum >= 0) || isinf(options->momentum))
        return sluice_fail(err, SLUICE_E_INVALID, "momentum: 0 or more, not %g", options->momentum);
    if (!(options->weight_decay >= 0) || isinf(options->weight_decay))
        return sluice_fail(err, SLUICE_E_INVALID, "weight_decay: 0 or more, not %g",
                           options->weight_decay);
    if (!(options->dropout < 1))
        return sluice_fail(err, SLUICE_E_INVALID, "dropout: below 1, not %g", options->dropout);
    if (options->gpu < 0)
        return sluice_fail(err, SLUICE_E_INVALID, "gpu: 0 or more, not %d", options->gpu);
    return SLUICE_OK;
}

static sluice_status make_mix(struct sluice_trainer *trainer, struct sluice_err *err)
{
    const sluice_status status = sluice_batch_ops_check(&trainer->options.batch_ops, err);
    if (status)
        return status;
    trainer->mix.rows = calloc(trainer->options.batch_size, sizeof(*trainer->mix.rows));
    trainer->mix.quantiles = malloc(SLUICE_NUM_QUANTILES * sizeof(*trainer->mix.quantiles));
    if (!trainer->mix.rows || !trainer->mix.quantiles)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a trainer");
    sluice_normal_quantiles(trainer->mix.quantiles);
    return SLUICE_OK;
}

sluice_status sluice_trainer_create(const struct sluice_train_options *options,
                                    struct sluice_trainer **trainer, struct sluice_err *err)
{
    const struct device *device = NULL;
    sluice_status status = find_device(options->device, &device, err);
    if (status)
        return status;
    const bool learns = device->ops != &sluice_trainer_none_ops;
    status = check_options(options, learns, err);
    if (!status)
        status = check_ranks(options, learns, err);
    if (status)
        return status;

    struct sluice_trainer *t = calloc(1, device->ops->size);
    if (!t)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a trainer");
    t->ops = device->ops;
    t->options = *options;
    t->options.device = device->name;
    t->options.model = "none";
    t->lr = options->lr;
    t->rows_device = -1;
    if (learns) {
        status = sluice_net_build(options->model, options->height, options->width,
                                  options->num_classes, options->dropout, &t->net, err);
        if (status) {
            free(t);
            return status;
        }
        t->options.model = t->net.model;
    }
    if (learns && sluice_has_batch_ops(&options->batch_ops))
        status = make_mix(t, err);
    if (!status)
        status = t->ops->init(t, err);
    if (status) {
        sluice_trainer_destroy(t);
        return status;
    }
    *trainer = t;
    return SLUICE_OK;
}

void sluice_trainer_destroy(struct sluice_trainer *trainer)
{
    if (!trainer)
        return;
    trainer->ops->clear(trainer);
    free(trainer->mix.rows);
    free(trainer->mix.quantiles);
    sluice_net_clear(&trainer->net);
    free(trainer);
}

int sluice_trainer_device(const struct sluice_trainer *trainer)
{
    return trainer->rows_device;
}

enum sluice_precision sluice_trainer_precision(const struct sluice_trainer *trainer)
{
    return trainer->options.precision;
}

void sluice_trainer_memory(const struct sluice_trainer *trainer, struct sluice_train_memory *memory)
{
    *memory = (struct sluice_train_memory){0};
    if (trainer->ops->memory)
        trainer->ops->memory(trainer, memory);
}

void *sluice_trainer_stream(const struct sluice_trainer *trainer)
{
    return trainer->rows_stream;
}

static sluice_status check_batch(const struct sluice_trainer *trainer,
                                 const struct sluice_train_batch *batch, unsigned min,
                                 struct sluice_err *err)
{
    if (batch->n < min || batch->n > trainer->options.batch_size)
        return sluice_fail(err, SLUICE_E_INVALID, "a batch of %u samples; %u to %u fit", batch->n,
                           min, trainer->options.batch_size);
    const bool learns = trainer->net.num_layers > 0;
    if (batch->is_on_device && learns && trainer->rows_device < 0)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "rows on a device, but device %s reads the host's",
                           trainer->options.device);
    for (unsigned i = 0; i < batch->n; i++) {
        if (batch->labels[i] >= trainer->options.num_classes)
            return sluice_fail(err, SLUICE_E_INVALID,
                               "sample %u of the batch has label %u, but there are %u classes", i,
                               batch->labels[i], trainer->options.num_classes);
    }
    return SLUICE_OK;
}

/* A device that has a stream puts points on it itself. */
static sluice_status stop_at_gate(const struct sluice_trainer *trainer, struct sluice_err *err)
{
    const struct sluice_train_gate *gate = &trainer->options.gate;
    if (!gate->point || trainer->rows_stream)
        return SLUICE_OK;
    return gate->point(gate->data, NULL, err);
}

sluice_status sluice_trainer_step(struct sluice_trainer *trainer,
                                  const struct sluice_train_batch *batch, struct sluice_err *err)
{
    const unsigned min = trainer->options.world_size > 1 ? 0 : 1;
    sluice_status status = check_batch(trainer, batch, min, err);
    struct sluice_train_batch drawn = *batch;
    if (!trainer->mix.rows || batch->n == 0)
        drawn.key = NULL;
    if (!status && drawn.key)
        status =
            sluice_mix_draw(&trainer->options.batch_ops, trainer->options.seed, batch,
                            (struct sluice_size){trainer->net.width, trainer->net.height},
                            trainer->net.num_classes, &trainer->mix.batch, trainer->mix.rows, err);
    if (!status)
        status = stop_at_gate(trainer, err);
    if (!status)
        status = trainer->ops->step(trainer, &drawn, err);
    if (status)
        return status;
    trainer->has_grad = true;
    trainer->steps++;
    trainer->batches_tracked += batch->n > 0;
    trainer->totals.steps++;
    trainer->totals.samples += batch->n;
    return SLUICE_OK;
}

sluice_status sluice_trainer_evaluate(struct sluice_trainer *trainer,
                                      const struct sluice_train_batch *batch,
                                      struct sluice_err *err)
{
    sluice_status status = check_batch(trainer, batch, 1, err);
    struct sluice_train_batch plain = *batch;
    plain.key = NULL;
    if (!status)
        status = stop_at_gate(trainer, err);
    if (!status)
        status = trainer->ops->evaluate(trainer, &plain, err);
    if (status)
        return status;
    trainer->totals.steps++;
    trainer->totals.samples += batch->n;
    return SLUICE_OK;
}

static sluice_status check_loss(struct sluice_trainer *trainer,
                                const struct sluice_train_totals *totals, struct sluice_err *err)
{
    if (isfinite(totals->loss_sum))
        return SLUICE_OK;
    struct sluice_nonfinite found = {.steps = trainer->steps};
    if (trainer->ops->find_nonfinite) {
        const sluice_status status = trainer->ops->find_nonfinite(trainer, &found, err);
        if (status)
            return status;
    }
    return sluice_fail(
        err, SLUICE_E_INTERNAL,
        "the loss or a gradient is not finite after %llu steps%s%s: is lr %g too high?",
        (unsigned long long)found.steps, found.where[0] ? "; it begins in " : "", found.where,
        trainer->lr);
}

sluice_status sluice_trainer_progress(struct sluice_trainer *trainer,
                                      struct sluice_train_totals *totals, struct sluice_err *err)
{
    struct sluice_train_totals sums = {0};
    sluice_status status = trainer->ops->progress(trainer, &sums, err);
    if (!status)
        status = check_loss(trainer, &sums, err);
    if (!status)
        *totals = sums;
    return status;
}

sluice_status sluice_trainer_collect(struct sluice_trainer *trainer,
                                     struct sluice_train_totals *totals, struct sluice_err *err)
{
    sluice_status status = trainer->ops->collect(trainer, err);
    if (status)
        return status;
    const struct sluice_train_totals sums = trainer->totals;
    memset(&trainer->totals, 0, sizeof(trainer->totals));
    status = check_loss(trainer, &sums, err);
    if (!status)
        *totals = sums;
    return status;
}

void sluice_trainer_set_lr(struct sluice_trainer *trainer, double lr)
{
    trainer->lr = lr;
}

sluice_status sluice_trainer_host_alloc(struct sluice_trainer *trainer, size_t bytes, void **memory,
                                        struct sluice_err *err)
{
    if (trainer->ops->host_alloc)
        return trainer->ops->host_alloc(trainer, bytes, memory, err);
    return sluice_pages_alloc(bytes, memory, err);
}

void sluice_trainer_host_free(struct sluice_trainer *trainer, void *memory)
{
    if (trainer->ops->host_free)
        trainer->ops->host_free(trainer, memory);
    else
        free(memory);
}

sluice_status sluice_trainer_measure_upload(struct sluice_trainer *trainer, double *bytes_per_s,
                                            struct sluice_err *err)
{
    if (trainer->ops->measure_upload)
        return trainer->ops->measure_upload(trainer, bytes_per_s, err);
    *bytes_per_s = INFINITY;
    return SLUICE_OK;
}

size_t sluice_trainer_num_params(const struct sluice_trainer *trainer)
{
    return trainer->net.num_params;
}

const char *sluice_trainer_param_name(const struct sluice_trainer *trainer, size_t param)
{
    return trainer->net.params[param].name;
}

size_t sluice_trainer_param_count(const struct sluice_trainer *trainer, size_t param)
{
    return trainer->net.params[param].count;
}

static sluice_status check_param(const struct sluice_trainer *trainer, size_t param,
                                 struct sluice_err *err)
{
    if (param >= trainer->net.num_params)
        return sluice_fail(err, SLUICE_E_INVALID, "parameter %zu of %u", param,
                           trainer->net.num_params);
    return SLUICE_OK;
}

sluice_status sluice_trainer_get_param(struct sluice_trainer *trainer, size_t param, float *out,
                                       struct sluice_err *err)
{
    const sluice_status status = check_param(trainer, param, err);
    if (status)
        return status;
    return trainer->ops->read(trainer, SLUICE_ARRAY_VALUE, (unsigned)param, out, err);
}

sluice_status sluice_trainer_set_param(struct sluice_trainer *trainer, size_t param,
                                       const float *in, struct sluice_err *err)
{
    const sluice_status status = check_param(trainer, param, err);
    if (status)
        return status;
    return trainer->ops->write(trainer, SLUICE_ARRAY_VALUE, (unsigned)param, in, err);
}

sluice_status sluice_trainer_get_grad(struct sluice_trainer *trainer, size_t param, float *out,
                                      struct sluice_err *err)
{
    const sluice_status status = check_param(trainer, param, err);
    if (status)
        return status;
    if (!trainer->net.params[param].is_trained)
        return sluice_fail(err, SLUICE_E_INVALID, "%s is not trained and has no gradient",
                           trainer->net.params[param].name);
    if (!trainer->has_grad)
        return sluice_fail(err, SLUICE_E_INVALID, "no gradient before the first step");
    return trainer->ops->read(trainer, SLUICE_ARRAY_GRAD, (unsigned)param, out, err);
}
