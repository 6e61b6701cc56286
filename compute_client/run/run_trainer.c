#include "compute_client/run/run_state.h"

#include "base/log.h"

#include <string.h>

sluice_status run_make_trainer(struct run *run, struct sluice_err *err)
{
    const struct sluice_options *o = run->options;
    struct sluice_train_options options = {
        .model = o->arch,
        .num_classes =
            (unsigned)(o->num_classes ? o->num_classes : run->loader->manifest->num_classes),
        .image_size = sluice_pipeline_output_size(run->loader->train.pipeline),
        .batch_size = (unsigned)o->batch_size,
        .lr = o->lr,
        .momentum = o->momentum,
        .weight_decay = o->weight_decay,
        .seed = o->seed,
        .table = *sluice_pipeline_tail_table(run->loader->train.pipeline),
        .consume_rate = o->consume_rate,
        .num_threads = (unsigned)o->train_threads,
        .allow_tf32 = o->allow_tf32,
        .dropout = o->dropout,
    };
    if (options.num_classes < run->loader->manifest->num_classes)
        return sluice_fail(err, SLUICE_E_INVALID, "--num-classes %u: the dataset has %zu",
                           options.num_classes, run->loader->manifest->num_classes);
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
        /* The next device is tried only if this one is missing, so that no other failure is
         * hidden. */
        if (i + 1 == num_devices || status != SLUICE_E_UNSUPPORTED)
            return sluice_fail(err, status, "%s", cause.text);
        sluice_log(SLUICE_LOG_DEBUG, "%s", cause.text);
    }
    run->learns = strcmp(options.device, "none") != 0;
    if (run->learns && sluice_pipeline_num_ops(run->loader->train.pipeline) ==
                           sluice_pipeline_u8_split(run->loader->train.pipeline))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "a model needs a pipeline that ends in to_tensor or normalize");
    if (!run->learns && (o->checkpoint || o->resume))
        return sluice_fail(err, SLUICE_E_INVALID, "%s: device none has no model",
                           o->checkpoint ? "--checkpoint" : "--resume");
    if (is_auto)
        sluice_log(SLUICE_LOG_INFO, "device %s", options.device);
    return SLUICE_OK;
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

sluice_status run_lend_memory(struct run *run, struct sluice_err *err)
{
    const struct sluice_options *o = run->options;
    struct sluice_host_memory memory = {
        .alloc = alloc_pinned,
        .free = free_pinned,
        .ctx = run->trainer,
    };
    /* Before the run, since during it uploads overlap with training, and nothing shows their rate.
     */
    const bool is_asked = sluice_mode_is_planned(o->mode) && o->mode != SLUICE_MODE_SOPHON &&
                          !o->is_greedy && o->pcie_bw <= 0;
    const sluice_status status =
        is_asked ? sluice_trainer_measure_upload(run->trainer, &memory.upload_bytes_per_s, err)
                 : SLUICE_OK;
    if (status == SLUICE_OK)
        run->loader->memory = memory;
    return status;
}
