#include "compute_client/api/loader_state.h"

#include "compute_client/loader/order/boxed_draws.h"
#include "datasets/shards/shard.h"
#include "image/image.h"
#include "image/orientation.h"

#include <stdlib.h>
#include <sys/stat.h>

#define MAX_FILE_BYTES ((size_t)512 << 20)

/* The size of the image as the pipeline decodes it, from its file. */
static sluice_status read_size(const struct sluice_loader *loader,
                               const struct sluice_manifest_entry *entry, bool is_upright,
                               uint32_t *width, uint32_t *height, struct sluice_err *err)
{
    const char *in_root;
    const struct sluice_root *root =
        sluice_roots_find(&loader->options.dirs, entry->path, &in_root);
    struct sluice_image_info info = {0};
    struct sluice_buf *file = NULL;
    struct stat st;
    if (!root)
        return sluice_fail(err, SLUICE_E_NOT_FOUND, "%s: in no DIR", entry->path);
    sluice_status status = sluice_shard_read(root->place, in_root, entry->offset, entry->bytes,
                                             MAX_FILE_BYTES, NULL, &file, &st, err);
    if (status != SLUICE_OK)
        return status;
    status = sluice_image_probe(file->data, file->len, &info, err);
    if (status == SLUICE_OK) {
        const bool is_turned =
            is_upright &&
            sluice_orientation_swaps(sluice_image_orientation(&info, file->data, file->len));
        *width = is_turned ? info.height : info.width;
        *height = is_turned ? info.width : info.height;
    }
    sluice_buf_unref(file);
    return status;
}

/* A list has the sizes in the files' headers, which differ for images that are turned upright. */
static sluice_status size_of(const struct sluice_loader *loader,
                             const struct sluice_pipeline *pipeline,
                             const struct sluice_drawn_sample *sample, uint32_t *width,
                             uint32_t *height, struct sluice_err *err)
{
    const unsigned long long id = sample->sample_id;
    const struct sluice_manifest_entry entry = sluice_manifest_at(loader->manifest, id);
    const bool is_upright = sluice_pipeline_is_upright(pipeline);
    *width = sample->width;
    *height = sample->height;
    if (*width > 0 && *height > 0)
        return SLUICE_OK;
    *width = entry.width;
    *height = entry.height;
    if (*width > 0 && *height > 0 && (!is_upright || *width == *height))
        return SLUICE_OK;
    if (loader->options.mode == SLUICE_MODE_LOCAL)
        return read_size(loader, &entry, is_upright, width, height, err);
    if (is_upright)
        return sluice_fail(
            err, SLUICE_E_INVALID,
            "sample %llu (%s): exif_transpose turns images by their files, which are on the "
            "storage node: pass the turned image's width and height",
            id, entry.path);
    return sluice_fail(err, SLUICE_E_INVALID,
                       "sample %llu (%s): the dataset's list has no image sizes: index the "
                       "dataset, or pass width and height",
                       id, entry.path);
}

sluice_status sluice_loader_draws(const struct sluice_loader *loader,
                                  const struct sluice_drawn_sample *sample, char **json,
                                  struct sluice_err *err)
{
    const struct part *part = loader_const_part(loader, sample->part);
    uint32_t width, height;
    if (!loader->is_open)
        return sluice_fail(err, SLUICE_E_INVALID, "the loader is not open");
    if (sample->sample_id >= loader->manifest->num_entries)
        return sluice_fail(err, SLUICE_E_NOT_FOUND, "there is no sample %llu",
                           (unsigned long long)sample->sample_id);
    sluice_status status = size_of(loader, part->pipeline, sample, &width, &height, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_draw_key key = {
        .seed = loader->options.seed,
        .epoch = sample->draw_epoch,
        .sample_id = sample->sample_id,
        .schedule = sample->epoch,
    };
    status = sluice_boxed_draws(part->pipeline, loader->manifest,
                                (struct sluice_size){width, height}, &key, err);
    if (status != SLUICE_OK)
        return status;
    return sluice_pipeline_write_draws(part->pipeline, &key, width, height, json, err);
}
