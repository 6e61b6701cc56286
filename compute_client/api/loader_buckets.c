#include "compute_client/api/loader_state.h"

#include "op/op.h"

#include <stdlib.h>

/* Aspect buckets: the bucket of each sample, from the sizes in the list, and the batches of an epoch
 * whose batches are of one bucket each (order/bucket_order.h). */

static sluice_status check_settings(const struct sluice_loader *loader, const struct part *part,
                                    struct sluice_err *err)
{
    const char *flag = part == &loader->val ? "val-pipeline" : "pipeline";
    if (sluice_pipeline_is_upright(part->pipeline))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--%s has exif_transpose before fit_bucket: the list has the sizes of "
                           "images before they are turned, so that their buckets are not known",
                           flag);
    if (part == &loader->train && loader->options.is_profiling)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--profiling: a pipeline with the buckets of fit_bucket cannot be "
                           "profiled; remote_auto plans without a profile");
    return SLUICE_OK;
}

sluice_status loader_find_buckets(struct sluice_loader *loader, struct part *part,
                                  struct sluice_err *err)
{
    part->num_buckets = sluice_pipeline_num_buckets(part->pipeline);
    if (part->num_buckets == 0)
        return SLUICE_OK;
    const sluice_status status = check_settings(loader, part, err);
    if (status != SLUICE_OK)
        return status;
    part->bucket_of = malloc(part->num_ids + 1);
    if (!part->bucket_of)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu samples", part->num_ids);
    for (size_t i = 0; i < part->num_ids; i++) {
        const struct sluice_manifest_entry entry =
            sluice_manifest_at(loader->manifest, part->ids[i]);
        if (entry.width == 0 || entry.height == 0 || entry.width > SLUICE_MAX_IMAGE_SIDE ||
            entry.height > SLUICE_MAX_IMAGE_SIDE)
            return sluice_fail(err, SLUICE_E_INVALID,
                               "fit_bucket needs the size of each image, and the list has none for "
                               "%s: run offload_dataset index on the dataset",
                               entry.path);
        part->bucket_of[i] =
            (uint8_t)sluice_pipeline_bucket_of(part->pipeline, entry.width, entry.height);
    }
    return SLUICE_OK;
}

sluice_status loader_order_buckets(const struct sluice_loader *loader, enum sluice_part part,
                                   uint64_t epoch, const struct sluice_sampler_item *items,
                                   size_t count, uint64_t cursor, struct sluice_bucket_order *order,
                                   struct sluice_err *err)
{
    const struct part *of = part == SLUICE_VAL ? &loader->val : &loader->train;
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
    return part == SLUICE_VAL ? loader->val.num_buckets : loader->train.num_buckets;
}

struct sluice_view sluice_loader_bucket(const struct sluice_loader *loader, enum sluice_part part,
                                        unsigned bucket)
{
    const struct part *of = part == SLUICE_VAL ? &loader->val : &loader->train;
    if (bucket >= of->num_buckets)
        return (struct sluice_view){0};
    const struct sluice_size size = sluice_pipeline_bucket_size(of->pipeline, bucket);
    return (struct sluice_view){.height = size.height, .width = size.width};
}
