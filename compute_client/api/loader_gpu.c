#include "compute_client/api/loader_state.h"

#include "base/log.h"
#include "compute_client/loader/tuning.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The environment may put the GPU's work on the CPU, with the same source, as SLUICE_CPU chooses a
 * CPU's kernels: for tests. */
static bool is_host(void)
{
    const char *wish = getenv("SLUICE_GPU");
    return wish && strcmp(wish, "host") == 0;
}

static sluice_status create(struct sluice_loader *loader, struct sluice_err *err)
{
    const struct sluice_options *o = &loader->options;
    const struct sluice_row_layout *layout = &loader->train.layout;
    const size_t train_bytes = sluice_pipeline_u8_bytes(loader->train.pipeline);
    const size_t val_bytes = sluice_pipeline_u8_bytes(loader->val.pipeline);
    static_assert(SLUICE_MAX_VIEWS == SLUICE_GPU_MAX_VIEWS, "a place makes every view of a row");
    struct sluice_gpu_place_options options = {
        .is_host = is_host(),
        .device = (int)o->gpu_device,
        .max_rows = (uint32_t)o->batch_size,
        .num_views = layout->num_views,
        .most_row_bytes = train_bytes > val_bytes ? train_bytes : val_bytes,
        .num_blocks = TUNING_GPU_LANES + TUNING_GPU_READY,
        .num_lanes = TUNING_GPU_LANES,
        .num_stagings = TUNING_GPU_STAGINGS,
        .memory_bytes = o->gpu_memory,
    };
    for (unsigned v = 0; v < layout->num_views; v++)
        options.views[v] =
            (struct sluice_gpu_view_size){layout->views[v].width, layout->views[v].height};
    sluice_status status = sluice_gpu_place_create(&options, &loader->place, err);
    /* While nobody holds a batch. */
    if (status == SLUICE_OK)
        status =
            sluice_gpu_place_measure_upload(loader->place, &loader->place_upload_bytes_per_s, err);
    if (status != SLUICE_OK) {
        sluice_gpu_place_destroy(loader->place);
        loader->place = NULL;
    }
    return status;
}

static sluice_status alloc_locked(void *ctx, size_t bytes, void **memory, struct sluice_err *err)
{
    return sluice_gpu_host_alloc(ctx, bytes, memory, err);
}

static void free_locked(void *ctx, void *memory, size_t bytes)
{
    sluice_gpu_host_free(ctx, memory, bytes);
}

sluice_status loader_open_gpu(struct sluice_loader *loader, struct sluice_err *err)
{
    const char *when = loader->options.gpu_decode;
    loader->device = -1;
    if (strcmp(when, "off") == 0)
        return SLUICE_OK;
    struct sluice_err cause = {0};
    const bool has_one_size = sluice_pipeline_u8_bytes(loader->train.pipeline) > 0 &&
                              sluice_pipeline_u8_bytes(loader->val.pipeline) > 0;
    const sluice_status status =
        has_one_size ? create(loader, &cause)
                     : sluice_fail(&cause, SLUICE_E_UNSUPPORTED,
                                   "the GPU makes no batches whose sizes follow from the image");
    if (status != SLUICE_OK && strcmp(when, "on") == 0)
        return sluice_fail(err, status, "gpu-decode: %s", cause.text);
    if (status != SLUICE_OK) { /* most machines have none, and nobody asked for one */
        sluice_log(status == SLUICE_E_UNSUPPORTED ? SLUICE_LOG_DEBUG : SLUICE_LOG_INFO,
                   "the CPU decodes: %s", cause.text);
        return SLUICE_OK;
    }
    loader->has_place = true;
    loader->device = sluice_gpu_place_device(loader->place);
    if (!loader->has_memory)
        loader->memory = (struct sluice_host_memory){
            .alloc = alloc_locked, .free = free_locked, .ctx = loader->place};
    sluice_log(SLUICE_LOG_INFO,
               "batches are made on %s, with %.0f MB of its memory and %.0f MB of the host's, "
               "page-locked",
               loader->device < 0 ? "the GPU that the CPU stands in for" : "the GPU",
               (double)sluice_gpu_place_bytes(loader->place) * 1e-6,
               (double)sluice_gpu_place_locked_bytes(loader->place) * 1e-6);
    return SLUICE_OK;
}

bool loader_decodes_on_gpu(const struct sluice_loader *loader, const struct part *part)
{
    const struct sluice_row_layout *own = &part->layout, *place = &loader->train.layout;
    bool is_same = own->num_views == place->num_views;
    for (unsigned v = 0; is_same && v < own->num_views; v++)
        is_same = own->views[v].height == place->views[v].height &&
                  own->views[v].width == place->views[v].width;
    return loader->has_place && is_same && sluice_pipeline_has_kernels(part->pipeline);
}

int sluice_loader_device(const struct sluice_loader *loader)
{
    return loader->device;
}
