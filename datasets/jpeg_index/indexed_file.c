#include "datasets/jpeg_index/indexed_file.h"

#include "base/buf.h"
#include "datasets/jpeg_index/jpeg_index_file.h"
#include "image/codecs/codec.h"

#include <stdlib.h>

enum sluice_index_use sluice_indexed_file_find(const struct sluice_jpeg_index_file *indexes,
                                               const char *path, uint64_t len, int64_t mtime_ns,
                                               struct sluice_buf_pool *pool,
                                               struct sluice_jpeg_index **out)
{
    struct sluice_buf *entry;
    if (!indexes)
        return SLUICE_INDEX_NONE;
    const sluice_status status = sluice_jpeg_index_file_find(indexes, path, pool, &entry, NULL);
    if (status == SLUICE_E_NOT_FOUND)
        return SLUICE_INDEX_MISSING;
    if (status != SLUICE_OK)
        return SLUICE_INDEX_STALE;
    struct sluice_jpeg_index *index = calloc(1, sizeof(*index));
    const bool is_sound =
        index && sluice_jpeg_index_parse(entry->data, entry->len, index, NULL) == SLUICE_OK &&
        index->file_len == len && (index->mtime_ns == mtime_ns || mtime_ns < 0);
    sluice_buf_unref(entry);
    if (!is_sound) {
        sluice_jpeg_index_destroy(index);
        return SLUICE_INDEX_STALE;
    }
    *out = index;
    return SLUICE_INDEX_HIT;
}

enum sluice_index_use
sluice_indexed_file_plan(const struct sluice_indexed_want *want, uint64_t len, int64_t mtime_ns,
                         struct sluice_jpeg_index **out,
                         struct sluice_file_part parts[SLUICE_JPEG_INDEX_MAX_PARTS],
                         unsigned *num_parts)
{
    struct sluice_jpeg_index *index = NULL;
    const enum sluice_index_use use =
        sluice_indexed_file_find(want->indexes, want->path, len, mtime_ns, want->pool, &index);
    struct sluice_box box;
    *num_parts = 0;
    /* A file that its EXIF turns needs other rows, which only its headers tell: ops fail on those
     * that were not read, by their hashes, and the whole file is read. */
    if (index && (want->end == 0 || sluice_codec_uses_index()) && /* cutting always does */
        sluice_pipeline_file_box(want->pipeline, &want->key, index->width, index->height, want->end,
                                 want->form, &box)) {
        *num_parts = sluice_jpeg_index_parts(index, &box, parts);
        uint64_t bytes = 0;
        for (unsigned i = 0; i < *num_parts; i++)
            bytes += parts[i].to - parts[i].from;
        index->is_partial = bytes * 100 < len * SLUICE_INDEXED_MAX_PARTIAL_PERCENT;
    }
    if (!index || !index->is_partial) {
        parts[0] = (struct sluice_file_part){0, (size_t)len};
        *num_parts = 1;
    }
    *out = index;
    return use;
}

bool sluice_indexed_file_has_holes(const struct sluice_sample *sample)
{
    return sample->kind == SLUICE_KIND_FILE && !sample->coding && sample->jpeg_index &&
           sample->jpeg_index->is_partial;
}
