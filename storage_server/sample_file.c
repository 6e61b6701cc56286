#include "storage_server/sample_file.h"

#include "base/buf.h"
#include "datasets/indexed_file.h"
#include "storage_server/context.h"
#include "storage_server/stats.h"
#include "storage_server/store.h"

struct reading {
    struct sluice_indexed_want want;
    struct sluice_jpeg_index *index; /* owned */
    struct sluice_file_reading seen;
};

static unsigned choose(void *ctx, uint64_t len, int64_t mtime_ns,
                       struct sluice_file_part parts[SLUICE_STORE_MAX_PARTS])
{
    struct reading *reading = ctx;
    unsigned num_parts;
    reading->seen.use =
        sluice_indexed_file_plan(&reading->want, len, mtime_ns, &reading->index, parts, &num_parts);
    reading->seen.file_bytes = len;
    for (unsigned i = 0; i < num_parts; i++)
        reading->seen.read_bytes += parts[i].to - parts[i].from;
    return num_parts;
}

sluice_status sluice_sample_file_read(struct sluice_context *context,
                                      const struct sluice_sample_want *want, bool is_again,
                                      struct sluice_sample *sample,
                                      struct sluice_file_reading *seen, struct sluice_err *err)
{
    const bool has_work = want->split > 0 || want->form == SLUICE_FORM_JPEG_CROP;
    struct reading reading = {
        .want =
            {
                .indexes = has_work && !is_again ? context->jpeg_indexes : NULL,
                .path = want->path,
                .pipeline = want->pipeline,
                .key = want->key,
                .end = want->split,
                .form = want->form,
                .pool = context->buffers,
            },
        .seen = {.is_again = is_again},
    };
    struct sluice_buf *file;
    struct sluice_store *store = context->store;
    const sluice_status status =
        store->read_parts
            ? store->read_parts(store, want->path, choose, &reading, context->buffers, &file, err)
            : store->read(store, want->path, context->buffers, &file, err);
    if (status != SLUICE_OK) {
        sluice_jpeg_index_destroy(reading.index);
        return status;
    }
    if (!store->read_parts)
        reading.seen.file_bytes = reading.seen.read_bytes = file->len;
    sluice_stats_count_file(context->stats, &reading.seen);
    *seen = reading.seen;
    *sample = (struct sluice_sample){
        .key = want->key,
        .kind = SLUICE_KIND_FILE,
        .data = file,
        .jpeg_index = reading.index,
    };
    return SLUICE_OK;
}
