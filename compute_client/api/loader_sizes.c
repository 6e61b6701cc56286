#include "compute_client/api/loader_state.h"

#include "compute_client/loader/order/boxed_draws.h"
#include "datasets/manifest/image_sizes.h"
#include "image/orientation.h"
#include "op/geometry.h"
#include "op/op.h"

#include <math.h>
#include <stdlib.h>

/* Outputs whose size follows from the image: aspect buckets, whose batches are of one bucket each
 * (order/bucket_order.h), and images of sizes of their own; and draws that need the image's size
 * (order/boxed_draws.h). */

/* The size that counts for an image without one (datasets/manifest/image_sizes.h), whose sample is
 * an error later: a square. */
static const struct sluice_size no_size = {256, 256};

static sluice_status check_settings(const struct sluice_loader *loader, const struct part *part,
                                    struct sluice_err *err)
{
    if (part == &loader->train && loader->options.is_profiling &&
        sluice_pipeline_u8_bytes(part->pipeline) == 0)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--profiling: a pipeline that ends in sizes which follow from the image "
                           "or the batch cannot be profiled; remote_auto plans without a profile");
    return SLUICE_OK;
}

/* --- sizes of the decoded images --- */

/* Whether images end in sizes that follow from theirs. */
static bool ends_in_sizes(const struct part *part)
{
    return part->num_ids > 0 && sluice_pipeline_u8_bytes(part->pipeline) == 0 &&
           !sluice_pipeline_draws_bucket(part->pipeline);
}

static bool needs_sizes(const struct part *part)
{
    return ends_in_sizes(part) ||
           (part->num_ids > 0 && sluice_pipeline_draws_by_boxes(part->pipeline));
}

/* Reads what the list does not say, on this machine or by the servers. */
static sluice_status read_sizes(struct sluice_loader *loader, bool is_upright,
                                struct sluice_image_sizes **sizes, struct sluice_err *err)
{
    const struct sluice_manifest *manifest = loader->manifest;
    struct sluice_image_sizes *made = NULL;
    sluice_status status = sluice_image_sizes_create(manifest->num_entries, is_upright, &made, err);
    if (status != SLUICE_OK)
        return status;
    status = loader->servers
                 ? sluice_servers_read_sizes(loader->servers, manifest->num_entries, made, err)
                 : sluice_image_sizes_read_folders(made, manifest, &loader->options.dirs,
                                                   &loader->is_stopped, err);
    if (status == SLUICE_OK)
        *sizes = made;
    else
        sluice_image_sizes_destroy(made);
    return status;
}

/* As the part's pipeline decodes the images. */
static sluice_status take_sizes(struct part *part, const struct sluice_image_sizes *sizes,
                                size_t num, struct sluice_err *err)
{
    part->sizes = malloc(num * sizeof(*part->sizes));
    if (!part->sizes)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the sizes of %zu images", num);
    for (size_t i = 0; i < num; i++) {
        struct sluice_image_size size;
        (void)sluice_image_sizes_get(sizes, i, &size);
        const bool is_turned = sluice_pipeline_is_upright(part->pipeline) &&
                               sluice_orientation_swaps(size.orientation);
        part->sizes[i] = size.width == 0 ? no_size
                         : is_turned     ? (struct sluice_size){size.height, size.width}
                                         : (struct sluice_size){size.width, size.height};
    }
    return SLUICE_OK;
}

/* Sets the sizes of both parts where the list does not say them. */
static sluice_status find_image_sizes(struct sluice_loader *loader, struct sluice_err *err)
{
    const size_t num = loader->manifest->num_entries;
    struct part *parts[] = {&loader->train, &loader->val};
    struct sluice_image_sizes *sizes = NULL;
    bool is_needed = false, is_upright = false;
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(parts); i++) {
        if (!needs_sizes(parts[i]))
            continue;
        is_needed = true;
        is_upright = is_upright || sluice_pipeline_is_upright(parts[i]->pipeline);
    }
    if (is_needed && sluice_image_sizes_are_missing(loader->manifest, is_upright))
        status = read_sizes(loader, is_upright, &sizes, err);
    for (size_t i = 0; sizes && status == SLUICE_OK && i < SLUICE_ARRAY_LEN(parts); i++) {
        if (needs_sizes(parts[i]))
            status = take_sizes(parts[i], sizes, num, err);
    }
    sluice_image_sizes_destroy(sizes);
    return status;
}

static struct sluice_size size_of(const struct sluice_loader *loader, const struct part *part,
                                  uint32_t id)
{
    if (part->sizes)
        return part->sizes[id];
    const struct sluice_manifest_entry entry = sluice_manifest_at(loader->manifest, id);
    return (struct sluice_size){entry.width, entry.height};
}

/* --- what follows from them --- */

/* Whether the list has what an op that draws by boxes needs. */
static sluice_status check_boxes(const struct sluice_loader *loader, const struct part *part,
                                 struct sluice_err *err)
{
    const char *flag = part == &loader->val ? "val-pipeline" : "pipeline";
    if (!sluice_pipeline_draws_by_boxes(part->pipeline))
        return SLUICE_OK;
    if (sluice_boxes_field(loader->manifest) == SLUICE_MAX_FIELDS)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--%s has iou_crop, which draws by the boxes of objects, and the "
                           "dataset has no field of boxes: read them with offload_dataset index "
                           "--annotations",
                           flag);
    if (sluice_pipeline_is_upright(part->pipeline))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--%s has exif_transpose and iou_crop: the list has the sizes and boxes "
                           "of images before they are turned",
                           flag);
    return SLUICE_OK;
}

static sluice_status find_buckets(struct sluice_loader *loader, struct part *part,
                                  struct sluice_err *err)
{
    part->bucket_of = calloc(part->num_ids + 1, 1);
    if (!part->bucket_of)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu samples", part->num_ids);
    if (sluice_pipeline_draws_bucket(part->pipeline)) /* all in one, until batches draw theirs */
        return SLUICE_OK;
    for (size_t i = 0; i < part->num_ids; i++) {
        const struct sluice_size size = size_of(loader, part, part->ids[i]);
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
    const size_t times = most_times(loader, part);
    size_t *bytes = malloc((part->num_ids + 1) * sizeof(*bytes));
    sluice_status status = SLUICE_OK;
    if (!bytes)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu samples", part->num_ids);
    for (size_t i = 0; status == SLUICE_OK && i < part->num_ids; i++) {
        struct sluice_size size = size_of(loader, part, part->ids[i]);
        size = sluice_pipeline_largest(part->pipeline, size.width, size.height);
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

sluice_status loader_find_sizes(struct sluice_loader *loader, struct sluice_err *err)
{
    struct part *parts[] = {&loader->train, &loader->val};
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; status == SLUICE_OK && i < SLUICE_ARRAY_LEN(parts); i++) {
        parts[i]->num_buckets = sluice_pipeline_num_buckets(parts[i]->pipeline);
        status = check_settings(loader, parts[i], err);
        if (status == SLUICE_OK)
            status = check_boxes(loader, parts[i], err);
    }
    if (status == SLUICE_OK)
        status = find_image_sizes(loader, err);
    for (size_t i = 0; status == SLUICE_OK && i < SLUICE_ARRAY_LEN(parts); i++) {
        if (parts[i]->num_buckets > 0)
            status = find_buckets(loader, parts[i], err);
        else if (ends_in_sizes(parts[i]))
            status = find_batch_bytes(loader, parts[i], err);
    }
    return status;
}

sluice_status loader_check_batches(const struct sluice_loader *loader,
                                   const struct sluice_sampler_item *items, size_t num_items,
                                   struct sluice_err *err)
{
    const struct part *part = loader->part;
    size_t bytes = 0;
    if (!sluice_row_has_own_size(part->pipeline))
        return SLUICE_OK;
    for (size_t i = 0; i < num_items; i++) {
        const struct sluice_size of = size_of(loader, part, part->ids[items[i].position]);
        const struct sluice_size size =
            sluice_pipeline_largest(part->pipeline, of.width, of.height);
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
    const bool is_drawn = sluice_pipeline_draws_bucket(of->pipeline);
    const struct sluice_bucket_options options = {
        .order = loader->order,
        .seed = loader->options.seed,
        .is_shuffled = !is_drawn && part == SLUICE_TRAIN && loader->options.is_shuffled,
        .num_buckets = is_drawn ? 1 : of->num_buckets,
        .bucket_of = of->bucket_of,
    };
    const sluice_status status =
        sluice_bucket_order_make(&options, (uint32_t)epoch, items, count, cursor, order, err);
    for (size_t i = 0; status == SLUICE_OK && is_drawn && i < order->num_batches; i++)
        order->batches[i].bucket = (uint8_t)sluice_pipeline_draw_bucket(
            of->pipeline, options.seed, (uint32_t)epoch, order->batches_before + i);
    return status;
}

bool sluice_loader_draws_by_boxes(const struct sluice_loader *loader, enum sluice_part part)
{
    return sluice_pipeline_draws_by_boxes(loader_const_part(loader, part)->pipeline);
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
