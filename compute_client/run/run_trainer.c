#include "compute_client/run/run_state.h"

#include "base/log.h"
#include "plan/mode.h"

#include <string.h>

/* Whether the trainer can read the loader's batches where they are. */
static sluice_status check_place(const struct run *run, const char *device, struct sluice_err *err)
{
    const int rows = sluice_loader_device(run->loader);
    const int trainer = sluice_trainer_device(run->trainer);
    if (rows < 0 || !run->learns || rows == trainer)
        return SLUICE_OK;
    if (trainer < 0)
        return sluice_fail(
            err, SLUICE_E_INVALID,
            "batches are on CUDA device %d, but device %s trains on the host's: give "
            "--device cuda, or --gpu-decode off",
            rows, device);
    return sluice_fail(
        err, SLUICE_E_INVALID,
        "batches are on GPU %d (--gpu-device), but the model is on GPU %d (--gpu): leave "
        "--gpu-device out, or give --gpu-decode off",
        rows, trainer);
}

static bool is_same_table(const struct sluice_row_format *a, const struct sluice_row_format *b)
{
    for (size_t channel = 0; channel < 3; channel++) {
        for (size_t value = 0; value < 256; value++) {
            if (a->table[channel][value] != b->table[channel][value])
                return false;
        }
    }
    return true;
}

/* A model here has one size of images and one table. */
static sluice_status check_formats(const struct run *run, struct sluice_err *err)
{
    const struct sluice_row_format *train = sluice_loader_row_format(run->loader, SLUICE_TRAIN);
    const struct sluice_row_format *val = sluice_loader_row_format(run->loader, SLUICE_VAL);
    const bool has_views = sluice_loader_num_views(run->loader, SLUICE_TRAIN) > 1 ||
                           sluice_loader_num_views(run->loader, SLUICE_VAL) > 1;
    if (has_views && strcmp(run->options->device, "none") != 0)
        return sluice_fail(
            err, SLUICE_E_INVALID,
            "a pipeline with views makes several images of each sample: a model here "
            "takes one; --device none takes them");
    if (strcmp(run->options->device, "none") != 0 && train->height == 0)
        return sluice_fail(
            err, SLUICE_E_INVALID,
            "--pipeline ends in several sizes: a model here takes one; --device none "
            "takes them");
    const bool is_same_size = train->height == val->height && train->width == val->width;
    if (strcmp(run->options->device, "none") == 0 || run->dataset->num_samples[SLUICE_VAL] == 0 ||
        (is_same_size && is_same_table(train, val)))
        return SLUICE_OK;
    return sluice_fail(err, SLUICE_E_INVALID,
                       "--val-pipeline ends at %u x %u and --pipeline at %u x %u%s: a model here "
                       "trains and validates at one size, with one normalize; --device none takes "
                       "any",
                       val->width, val->height, train->width, train->height,
                       is_same_size ? ", with another normalize" : "");
}

/* Before the first step, so that a batch that is too large for a GPU's other users is seen. */
static void tell_memory(const struct run *run, const char *device)
{
    struct sluice_train_memory memory;
    sluice_trainer_memory(run->trainer, &memory);
    if (memory.total == 0)
        return;
    sluice_log(SLUICE_LOG_INFO,
               "%s in %s on %s: %.1f MB of memory (parameters %.1f, activations %.1f, workspace "
               "%.1f)",
               run->options->arch, sluice_precision_name(sluice_trainer_precision(run->trainer)),
               device, (double)memory.total * 1e-6, (double)memory.parameters * 1e-6,
               (double)memory.activations * 1e-6, (double)memory.workspace * 1e-6);
}

sluice_status run_make_trainer(struct run *run, struct sluice_err *err)
{
    const struct sluice_options *o = run->options;
    const sluice_status formats = check_formats(run, err);
    if (formats != SLUICE_OK)
        return formats;
    struct sluice_train_options options = {
        .model = o->arch,
        .num_classes = (unsigned)(o->num_classes ? o->num_classes : run->dataset->num_classes),
        .height = run->dataset->height,
        .width = run->dataset->width,
        .batch_size = (unsigned)o->batch_size,
        .lr = o->lr,
        .momentum = o->momentum,
        .weight_decay = o->weight_decay,
        .seed = o->seed,
        .batch_ops = o->batch_ops,
        .table = run->dataset->table,
        .consume_rate = o->consume_rate,
        .num_threads = (unsigned)o->train_threads,
        .is_deterministic = o->is_deterministic,
        .gpu = (int)o->gpu,
        .engine_cache = o->engine_cache,
        .rank = (unsigned)o->rank,
        .world_size = (unsigned)o->world_size,
        .rendezvous = o->rendezvous,
        .gate = {.point = o->lend ? run_lend_point : NULL, .data = run},
        .dropout = o->dropout,
    };
    sluice_precision_parse(o->precision, &options.precision);
    if (options.num_classes < run->dataset->num_classes)
        return sluice_fail(err, SLUICE_E_INVALID, "--num-classes %u: the dataset has %llu",
                           options.num_classes, (unsigned long long)run->dataset->num_classes);
    static const char *const all[] = {"cuda", "cpu", "none"};
    const bool is_auto = strcmp(o->device, "auto") == 0;
    const char *const *devices = is_auto ? all : &o->device;
    const size_t num_devices = is_auto ? SLUICE_ARRAY_LEN(all) : 1;
    for (size_t i = 0; i < num_devices; i++) {
        struct sluice_err cause = {0};
        options.device = devices[i];
        const sluice_status status = sluice_trainer_create(&options, &run->trainer, &cause);
        if (status == SLUICE_OK)
            break;
        if (status == SLUICE_E_INVALID && o->world_size > 1 && !o->rendezvous &&
            strcmp(options.device, "cuda") == 0)
            return sluice_fail(
                err, status,
                "%s (--gpus and torchrun give one; elsewhere set " SLUICE_RENDEZVOUS_VARIABLE
                " to a text that only these ranks share)",
                cause.text);
        /* The next device is tried only if this one is missing, so that no other failure is
         * hidden. */
        if (i + 1 == num_devices || status != SLUICE_E_UNSUPPORTED)
            return sluice_fail(err, status, "%s", cause.text);
        sluice_log(SLUICE_LOG_DEBUG, "%s", cause.text);
    }
    run->learns = strcmp(options.device, "none") != 0;
    if (run->learns && !run->dataset->has_normalization)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "a model needs a pipeline that ends in to_tensor or normalize");
    if (!run->learns && (o->checkpoint || o->resume || o->init))
        return sluice_fail(err, SLUICE_E_INVALID, "%s: device none has no model",
                           o->checkpoint ? "--checkpoint"
                           : o->resume   ? "--resume"
                                         : "--init");
    if (is_auto)
        sluice_log(SLUICE_LOG_INFO, "device %s", options.device);
    tell_memory(run, options.device);
    const sluice_status status = check_place(run, options.device, err);
    const bool is_joined = o->world_size > 1 && strcmp(options.device, "cuda") == 0;
    return status == SLUICE_OK && is_joined ? run_join_ranks(run, err) : status;
}

static sluice_status alloc_pinned(void *ctx, size_t bytes, void **memory, struct sluice_err *err)
{
    return sluice_trainer_host_alloc(ctx, bytes, memory, err);
}

static void free_pinned(void *ctx, void *memory, size_t bytes)
{
    (void)bytes;
    sluice_trainer_host_free(ctx, memory);
}

sluice_status run_set_memory(struct run *run, struct sluice_err *err)
{
    const struct sluice_options *o = run->options;
    if (sluice_loader_device(run->loader) >= 0 && sluice_trainer_device(run->trainer) < 0)
        return SLUICE_OK; /* the loader's own is page-locked, and this trainer's is not */
    struct sluice_host_memory memory = {
        .alloc = alloc_pinned,
        .free = free_pinned,
        .ctx = run->trainer,
    };
    /* Before the run, since during it uploads overlap with training, and nothing shows their rate.
     * A loader that makes its batches on a GPU measures by itself. */
    const bool is_asked = sluice_mode_is_planned(o->mode) && o->mode != SLUICE_MODE_SOPHON &&
                          !o->is_greedy && o->pcie_bw <= 0 && sluice_loader_device(run->loader) < 0;
    const sluice_status status =
        is_asked ? sluice_trainer_measure_upload(run->trainer, &memory.upload_bytes_per_s, err)
                 : SLUICE_OK;
    if (status == SLUICE_OK)
        sluice_loader_set_memory(run->loader, &memory);
    return status;
}
