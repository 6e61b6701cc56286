#include "storage_server/data/sample_file.h"

#include "base/buf.h"
#include "datasets/jpeg_index/indexed_file.h"
#include "datasets/manifest/freshness.h"
#include "datasets/shards/shard.h"
#include "op/form.h"
#include "storage_server/data/sample_list.h"
#include "storage_server/observe/stats.h"
#include "store/store.h"

struct reading {
    uint64_t merge_gap_bytes;           /* the store's */
    struct sluice_freshness *freshness; /* NULL: the file is not a sample */
    size_t sample;
    int64_t mtime_ns;
    bool needs_content;                     /* to tell whether it is the sample's file */
    const struct sluice_indexed_want *want; /* NULL: the whole file */
    struct sluice_jpeg_index *index;        /* owned */
    struct sluice_file_reading seen;
    const void *owner;
};

/* Parts that lie close become one, which costs less than a request more. */
static void merge_parts(struct sluice_file_part *parts, unsigned *num_parts, uint64_t gap_bytes)
{
    unsigned num = 0;
    for (unsigned i = 1; i < *num_parts; i++) {
        if (parts[i].from >= parts[num].to && parts[i].from - parts[num].to <= gap_bytes)
            parts[num].to = parts[i].to;
        else
            parts[++num] = parts[i];
    }
    if (*num_parts)
        *num_parts = num + 1;
}

static sluice_status choose(void *ctx, uint64_t len, int64_t mtime_ns,
                            struct sluice_file_part parts[SLUICE_STORE_MAX_PARTS],
                            unsigned *num_parts, struct sluice_err *err)
{
    struct reading *reading = ctx;
    reading->mtime_ns = mtime_ns;
    if (reading->freshness) {
        const sluice_status status = sluice_freshness_look(reading->freshness, reading->sample, len,
                                                           mtime_ns, &reading->needs_content, err);
        if (status != SLUICE_OK)
            return status;
    }
    parts[0] = (struct sluice_file_part){0, (size_t)len};
    *num_parts = 1;
    if (reading->want) {
        reading->seen.use = sluice_indexed_file_plan(reading->want, len, mtime_ns, &reading->index,
                                                     parts, num_parts);
        if (reading->needs_content && reading->index && reading->index->is_partial) {
            reading->index->is_partial = false;
            parts[0] = (struct sluice_file_part){0, (size_t)len};
            *num_parts = 1;
        }
    }
    if (reading->merge_gap_bytes)
        merge_parts(parts, num_parts, reading->merge_gap_bytes);
    reading->seen.file_bytes = len;
    for (unsigned i = 0; i < *num_parts; i++)
        reading->seen.read_bytes += parts[i].to - parts[i].from;
    return SLUICE_OK;
}

static sluice_status read_file(const struct sluice_sample_want *want, struct reading *reading,
                               struct sluice_buf **file, struct sluice_err *err)
{
    struct sluice_store *store = want->store;
    const struct sluice_manifest_entry entry =
        sluice_manifest_at(want->list->manifest, reading->sample);
    struct sluice_store_limits limits;
    store->limits(store, &limits);
    reading->merge_gap_bytes = limits.merge_gap_bytes;
    struct sluice_store_read read = {
        .key = want->path,
        .offset = entry.offset,
        .bytes = entry.bytes,
        .version = entry.mtime_ns,
        .choose = choose,
        .ctx = reading,
        .pool = want->buffers,
        .owner = reading->owner,
    };
    char shard[SLUICE_MAX_PATH_BYTES];
    if (read.offset && sluice_shard_split(want->path, shard))
        read.key = shard;
    struct sluice_buf *buf;
    sluice_status status = store->read(store, &read, &buf, err);
    if (status != SLUICE_OK)
        return status;
    if (reading->needs_content)
        status = sluice_freshness_read(reading->freshness, reading->sample, reading->mtime_ns,
                                       buf->data, buf->len, err);
    if (status != SLUICE_OK)
        sluice_buf_unref(buf);
    else
        *file = buf;
    return status;
}

sluice_status sluice_sample_file_read(const struct sluice_sample_want *want, bool is_again,
                                      struct sluice_sample *sample,
                                      struct sluice_file_reading *seen, struct sluice_err *err)
{
    const bool has_work = want->split > 0 || !sluice_form_type(want->form)->is_plain;
    const struct sluice_indexed_want indexed = {
        .indexes = has_work && !is_again ? want->list->jpeg_indexes : NULL,
        .path = want->path,
        .pipeline = want->pipeline,
        .key = want->key,
        .end = want->split,
        .form = want->form,
        .pool = want->buffers,
    };
    struct reading reading = {
        .freshness = want->list->freshness,
        .sample = want->sample,
        .want = &indexed,
        .owner = want->owner,
        .seen = {.is_again = is_again},
    };
    struct sluice_buf *file;
    const sluice_status status = read_file(want, &reading, &file, err);
    if (status != SLUICE_OK) {
        sluice_jpeg_index_destroy(reading.index);
        return status;
    }
    *seen = reading.seen;
    *sample = (struct sluice_sample){
        .key = want->key,
        .kind = SLUICE_KIND_FILE,
        .data = file,
        .jpeg_index = reading.index,
    };
    return SLUICE_OK;
}

sluice_status sluice_sample_file_read_whole(const struct sluice_sample_want *want,
                                            struct sluice_buf **file, struct sluice_err *err)
{
    struct reading reading = {
        .freshness = want->list->freshness,
        .sample = want->sample,
    };
    return read_file(want, &reading, file, err);
}
