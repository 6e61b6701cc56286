#include "compute_client/api/loader_state.h"

#include "op/op.h"

#include <math.h>
#include <stdlib.h>

/* Outputs whose size follows from the image, by the sizes in the list: aspect buckets, whose
 * batches are of one bucket each (order/bucket_order.h), and images of sizes of their own. */

static sluice_status check_settings(const struct sluice_loader *loader, const struct part *part,
                                    struct sluice_err *err)
{
    const char *flag = part == &loader->val ? "val-pipeline" : "pipeline";
    if (sluice_pipeline_is_upright(part->pipeline))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--%s has exif_transpose and ends in sizes that follow from the image: "
                           "the list has the sizes of images before they are turned",
                           flag);
    if (part == &loader->train && loader->options.is_profiling)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--profiling: a pipeline that ends in sizes which follow from the image "
                           "cannot be profiled; remote_auto plans without a profile");
    return SLUICE_OK;
}

/* The size of a sample's image by the list. */
static sluice_status size_of(const struct sluice_loader *loader, uint32_t id,
                             struct sluice_size *size, struct sluice_err *err)
{
    const struct sluice_manifest_entry entry = sluice_manifest_at(loader->manifest, id);
    if (entry.width == 0 || entry.height == 0 || entry.width > SLUICE_MAX_IMAGE_SIDE ||
        entry.height > SLUICE_MAX_IMAGE_SIDE)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "the pipeline needs the size of each image, and the list has none for "
                           "%s: run offload_dataset index on the dataset",
                           entry.path);
    *size = (struct sluice_size){entry.width, entry.height};
    return SLUICE_OK;
}

static sluice_status find_buckets(struct sluice_loader *loader, struct part *part,
                                  struct sluice_err *err)
{
    part->bucket_of = malloc(part->num_ids + 1);
    if (!part->bucket_of)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu samples", part->num_ids);
    for (size_t i = 0; i < part->num_ids; i++) {
        struct sluice_size size;
        const sluice_status status = size_of(loader, part->ids[i], &size, err);
        if (status != SLUICE_OK)
            return status;
        part->bucket_of[i] =
            (uint8_t)sluice_pipeline_bucket_of(part->pipeline, size.width, size.height);
    }
    return SLUICE_OK;
}

static int compare_falling(const void *a, const void *b)
{
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* How often a sample may come in a batch. */
static size_t most_times(const struct sluice_loader *loader, const struct part *part)
{
    if (part == &loader->val)
        return 1;
    size_t times = (size_t)loader->options.repeat;
    for (size_t i = 0; i < loader->num_ranges; i++) { /* an epoch may begin within a pass */
        const double of_range = ceil(loader->ranges[i].weight * (double)loader->options.repeat) + 1;
        if (of_range > (double)times)
            times = (size_t)of_range;
    }
    return times * (size_t)loader->options.repeat_within_batch;
}

/* The bytes of the largest batch that may come: the largest images, each as often as it may. */
static sluice_status find_batch_bytes(struct sluice_loader *loader, struct part *part,
                                      struct sluice_err *err)
{
    const unsigned end = sluice_pipeline_u8_split(part->pipeline);
    const size_t times = most_times(loader, part);
    size_t *bytes = malloc((part->num_ids + 1) * sizeof(*bytes));
    sluice_status status = SLUICE_OK;
    if (!bytes)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu samples", part->num_ids);
    for (size_t i = 0; status == SLUICE_OK && i < part->num_ids; i++) {
        struct sluice_size size = {0};
        status = size_of(loader, part->ids[i], &size, err);
        if (status != SLUICE_OK)
            break;
        size = sluice_pipeline_size_at(part->pipeline, end, size.width, size.height);
        const uint64_t pixels = (uint64_t)size.width * size.height;
        bytes[i] = (size_t)pixels * 3;
        if (pixels > loader->options.max_output_pixels)
            status = sluice_fail(
                err, SLUICE_E_INVALID,
                "%s ends as %u x %u pixels, more than the %llu of --max-output-pixels: let the "
                "pipeline resize it, or raise the limit",
                sluice_manifest_at(loader->manifest, part->ids[i]).path, size.width, size.height,
                (unsigned long long)loader->options.max_output_pixels);
    }
    if (status == SLUICE_OK) {
        qsort(bytes, part->num_ids, sizeof(*bytes), compare_falling);
        size_t rows = (size_t)loader->options.batch_size;
        for (size_t i = 0; i < part->num_ids && rows > 0; i++) {
            const size_t num = rows < times ? rows : times;
            part->batch_bytes += num * bytes[i];
            rows -= num;
        }
    }
    free(bytes);
    return status;
}

sluice_status loader_find_sizes(struct sluice_loader *loader, struct part *part,
                                struct sluice_err *err)
{
    part->num_buckets = sluice_pipeline_num_buckets(part->pipeline);
    if (sluice_pipeline_u8_bytes(part->pipeline) > 0)
        return SLUICE_OK;
    const sluice_status status = check_settings(loader, part, err);
    if (status != SLUICE_OK)
        return status;
    return part->num_buckets > 0 ? find_buckets(loader, part, err)
                                 : find_batch_bytes(loader, part, err);
}

sluice_status loader_check_batches(const struct sluice_loader *loader,
                                   const struct sluice_sampler_item *items, size_t num_items,
                                   struct sluice_err *err)
{
    const struct part *part = loader->part;
    const unsigned end = sluice_pipeline_u8_split(part->pipeline);
    size_t bytes = 0;
    if (!sluice_row_has_own_size(part->pipeline))
        return SLUICE_OK;
    for (size_t i = 0; i < num_items; i++) {
        const struct sluice_manifest_entry entry =
            sluice_manifest_at(loader->manifest, part->ids[items[i].position]);
        const struct sluice_size size =
            sluice_pipeline_size_at(part->pipeline, end, entry.width, entry.height);
        bytes = i % loader->options.batch_size == 0 ? 0 : bytes;
        bytes += (size_t)size.width * size.height * 3;
        if (bytes > part->batch_bytes)
            return sluice_fail(err, SLUICE_E_INVALID,
                               "batch %zu of the order has more than the %zu bytes of the largest "
                               "images: it repeats samples",
                               (size_t)(i / loader->options.batch_size), part->batch_bytes);
    }
    return SLUICE_OK;
}

sluice_status loader_order_buckets(const struct sluice_loader *loader, enum sluice_part part,
                                   uint64_t epoch, const struct sluice_sampler_item *items,
                                   size_t count, uint64_t cursor, struct sluice_bucket_order *order,
                                   struct sluice_err *err)
{
    const struct part *of = loader_const_part(loader, part);
    const struct sluice_bucket_options options = {
        .order = loader->order,
        .seed = loader->options.seed,
        .is_shuffled = part == SLUICE_TRAIN && loader->options.is_shuffled,
        .num_buckets = of->num_buckets,
        .bucket_of = of->bucket_of,
    };
    return sluice_bucket_order_make(&options, (uint32_t)epoch, items, count, cursor, order, err);
}

unsigned sluice_loader_num_buckets(const struct sluice_loader *loader, enum sluice_part part)
{
    return loader_const_part(loader, part)->num_buckets;
}

struct sluice_view sluice_loader_bucket(const struct sluice_loader *loader, enum sluice_part part,
                                        unsigned bucket)
{
    const struct part *of = loader_const_part(loader, part);
    if (bucket >= of->num_buckets)
        return (struct sluice_view){0};
    const struct sluice_size size = sluice_pipeline_bucket_size(of->pipeline, bucket);
    return (struct sluice_view){.height = size.height, .width = size.width};
}
