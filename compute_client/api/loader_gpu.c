#include "compute_client/api/loader_state.h"

#include "base/log.h"
#include "compute_client/loader/tuning.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The fewest of a row: XXH3 has another algorithm for fewer bytes (gpu/place.h). */
#define MIN_GPU_PIXELS 78u

/* The environment may put the GPU's work on the CPU, with the same source, as SLUICE_CPU chooses a
 * CPU's kernels: for tests. */
static bool is_host(void)
{
    const char *wish = getenv("SLUICE_GPU");
    return wish && strcmp(wish, "host") == 0;
}

/* The largest height and width of the pipeline's buckets; 0 x 0: it has none. */
static struct sluice_size largest_sides(const struct sluice_pipeline *pipeline)
{
    struct sluice_size largest = {0, 0};
    for (unsigned i = 0; i < sluice_pipeline_num_buckets(pipeline); i++) {
        const struct sluice_size size = sluice_pipeline_bucket_size(pipeline, i);
        largest.width = size.width > largest.width ? size.width : largest.width;
        largest.height = size.height > largest.height ? size.height : largest.height;
    }
    return largest;
}

/* SLUICE_E_UNSUPPORTED: the GPU makes no batches of these pipelines. */
static sluice_status check_sizes(const struct sluice_loader *loader, struct sluice_err *err)
{
    const struct sluice_pipeline *train = loader->train.pipeline;
    if (sluice_pipeline_most_u8_bytes(train) == 0 ||
        sluice_pipeline_most_u8_bytes(loader->val.pipeline) == 0)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                           "the GPU makes no batches whose images have sizes of their own: the "
                           "rows of a batch are of one size there");
    for (unsigned i = 0; i < sluice_pipeline_num_buckets(train); i++) {
        const struct sluice_size size = sluice_pipeline_bucket_size(train, i);
        if (size.width * size.height < MIN_GPU_PIXELS)
            return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                               "a bucket of %u x %u pixels is too small for the GPU", size.height,
                               size.width);
    }
    return SLUICE_OK;
}

/* A lane's stream waits here while a borrower has the GPU. */
static sluice_status point(void *data, void *stream, struct sluice_err *err)
{
    const struct sluice_loader *loader = data;
    return loader->lend ? sluice_lend_point(loader->lend, stream, err) : SLUICE_OK;
}

sluice_status sluice_loader_set_lend(struct sluice_loader *loader, struct sluice_lend *lend,
                                     struct sluice_err *err)
{
    if (loader->prefetcher)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "a loader's GPU is lent from its first epoch on, which has begun");
    loader->lend = lend;
    return SLUICE_OK;
}

static sluice_status create(struct sluice_loader *loader, struct sluice_err *err)
{
    const struct sluice_options *o = &loader->options;
    const struct sluice_row_layout *layout = &loader->train.layout;
    const size_t train_bytes = sluice_pipeline_most_u8_bytes(loader->train.pipeline);
    const size_t val_bytes = sluice_pipeline_most_u8_bytes(loader->val.pipeline);
    const struct sluice_size largest = largest_sides(loader->train.pipeline);
    static_assert(SLUICE_MAX_VIEWS == SLUICE_GPU_MAX_VIEWS, "a place makes every view of a row");
    struct sluice_gpu_place_options options = {
        .is_host = is_host(),
        .device = (int)o->gpu_device,
        .max_rows = (uint32_t)o->batch_size,
        .num_views = layout->num_views,
        .most_row_bytes = train_bytes > val_bytes ? train_bytes : val_bytes,
        .has_any_size = largest.width > 0,
        .num_blocks = TUNING_GPU_LANES + TUNING_GPU_READY,
        .num_lanes = TUNING_GPU_LANES,
        .num_stagings = TUNING_GPU_STAGINGS,
        .memory_bytes = o->gpu_memory,
        .gate = {.point = point, .data = loader},
    };
    for (unsigned v = 0; v < layout->num_views; v++)
        options.views[v] =
            (struct sluice_gpu_view_size){layout->views[v].width, layout->views[v].height};
    if (options.has_any_size)
        options.views[0] = (struct sluice_gpu_view_size){largest.width, largest.height};
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
    sluice_status status = check_sizes(loader, &cause);
    if (status == SLUICE_OK)
        status = create(loader, &cause);
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
    const struct sluice_size largest = largest_sides(loader->train.pipeline),
                             of_part = largest_sides(part->pipeline);
    bool is_same = own->num_views == place->num_views && (largest.width > 0) == (of_part.width > 0);
    if (largest.width > 0) /* rows of any size up to these */
        return loader->has_place && is_same && of_part.width <= largest.width &&
               of_part.height <= largest.height && sluice_pipeline_has_kernels(part->pipeline);
    for (unsigned v = 0; is_same && v < own->num_views; v++)
        is_same = own->views[v].height == place->views[v].height &&
                  own->views[v].width == place->views[v].width;
    return loader->has_place && is_same && sluice_pipeline_has_kernels(part->pipeline);
}

int sluice_loader_device(const struct sluice_loader *loader)
{
    return loader->device;
}
