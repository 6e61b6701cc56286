#include "datasets/jpeg_index/jpeg_indexer.h"

#include "base/buf.h"
#include "base/log.h"
#include "datasets/jpeg_index/jpeg_index_file.h"
#include "image/codecs/coding.h"
#include "image/jpeg/index.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct sluice_jpeg_indexer {
    struct sluice_jpeg_index_file *old; /* of the same step; or NULL */
    struct sluice_jpeg_index_writer *writer;
    uint32_t step;
    _Atomic uint64_t made, kept, without; /* sums only */
};

static int64_t mtime_ns(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

sluice_status sluice_jpeg_indexer_create(const char *path, uint32_t step, size_t max_entries,
                                         struct sluice_jpeg_indexer **out, struct sluice_err *err)
{
    struct sluice_jpeg_indexer *indexer = calloc(1, sizeof(*indexer));
    if (!indexer)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for an index");
    indexer->step = step ? step : SLUICE_JPEG_INDEX_AUTO_STEP;
    struct sluice_err why = {0};
    sluice_status status = sluice_jpeg_index_file_open(path, &indexer->old, &why);
    if (status != SLUICE_OK && status != SLUICE_E_NOT_FOUND)
        sluice_log(SLUICE_LOG_WARN, "%s; made anew", why.text);
    if (indexer->old && sluice_jpeg_index_file_step(indexer->old) != indexer->step) {
        sluice_jpeg_index_file_close(indexer->old);
        indexer->old = NULL;
    }
    status =
        sluice_jpeg_index_writer_create(path, indexer->step, max_entries, &indexer->writer, err);
    if (status != SLUICE_OK) {
        sluice_jpeg_indexer_destroy(indexer);
        return status;
    }
    *out = indexer;
    return SLUICE_OK;
}

void sluice_jpeg_indexer_destroy(struct sluice_jpeg_indexer *indexer)
{
    if (!indexer)
        return;
    sluice_jpeg_index_file_close(indexer->old);
    sluice_jpeg_index_writer_destroy(indexer->writer);
    free(indexer);
}

/* Whether an entry is sound and of a file of this length and time. */
static bool is_current(const struct sluice_buf *entry, const struct stat *st)
{
    struct sluice_jpeg_index index;
    if (sluice_jpeg_index_parse(entry->data, entry->len, &index, NULL) != SLUICE_OK)
        return false;
    const bool is_same = index.file_len == (uint64_t)st->st_size && index.mtime_ns == mtime_ns(st);
    sluice_jpeg_index_clear(&index);
    return is_same;
}

static sluice_status make_entry(const struct stat *st, uint32_t step, const struct sluice_buf *file,
                                struct sluice_buf **entry, struct sluice_err *err)
{
    struct sluice_jpeg_index index;
    sluice_status status =
        sluice_jpeg_index_build(file->data, file->len, mtime_ns(st), step, &index, err);
    if (status != SLUICE_OK)
        return status;
    status = sluice_jpeg_index_write(&index, entry, err);
    sluice_jpeg_index_clear(&index);
    return status;
}

static sluice_status copy_entry(struct sluice_jpeg_indexer *indexer, const char *path,
                                const struct stat *st, bool *is_kept, struct sluice_err *err)
{
    struct sluice_buf *entry = NULL;
    sluice_status status = SLUICE_OK;
    *is_kept = false;
    if (!indexer->old ||
        sluice_jpeg_index_file_find(indexer->old, path, NULL, &entry, NULL) != SLUICE_OK)
        return SLUICE_OK;
    if (is_current(entry, st)) {
        status = sluice_jpeg_index_writer_add(indexer->writer, path, entry, err);
        atomic_fetch_add(&indexer->kept, 1);
        *is_kept = true;
    }
    sluice_buf_unref(entry);
    return status;
}

sluice_status sluice_jpeg_indexer_keep(struct sluice_jpeg_indexer *indexer, const char *path,
                                       const struct stat *st, uint8_t coding, bool *is_kept,
                                       struct sluice_err *err)
{
    const enum sluice_coding kind = sluice_coding_kind(coding);
    const bool is_jpeg = kind >= SLUICE_CODING_JPEG_444 && kind <= SLUICE_CODING_JPEG_OTHER;
    if (kind != SLUICE_CODING_UNKNOWN && (!is_jpeg || sluice_coding_is_progressive(coding))) {
        atomic_fetch_add(&indexer->without, 1);
        *is_kept = true;
        return SLUICE_OK;
    }
    return copy_entry(indexer, path, st, is_kept, err);
}

sluice_status sluice_jpeg_indexer_add(struct sluice_jpeg_indexer *indexer, const char *path,
                                      const struct stat *st, const struct sluice_buf *file,
                                      struct sluice_err *err)
{
    struct sluice_buf *entry = NULL;
    bool is_kept;
    const sluice_status kept_status = copy_entry(indexer, path, st, &is_kept, err);
    if (is_kept)
        return kept_status;
    struct sluice_err why = {0};
    sluice_status status = make_entry(st, indexer->step, file, &entry, &why);
    if (status == SLUICE_E_NO_MEMORY)
        return sluice_fail(err, status, "%s: %s", path, why.text);
    if (status != SLUICE_OK) {
        atomic_fetch_add(&indexer->without, 1);
        return SLUICE_OK;
    }
    status = sluice_jpeg_index_writer_add(indexer->writer, path, entry, err);
    sluice_buf_unref(entry);
    atomic_fetch_add(&indexer->made, 1);
    return status;
}

sluice_status sluice_jpeg_indexer_commit(struct sluice_jpeg_indexer *indexer,
                                         struct sluice_jpeg_indexer_summary *summary,
                                         struct sluice_err *err)
{
    *summary = (struct sluice_jpeg_indexer_summary){
        .made = atomic_load(&indexer->made),
        .kept = atomic_load(&indexer->kept),
        .without = atomic_load(&indexer->without),
    };
    return sluice_jpeg_index_writer_commit(indexer->writer, &summary->bytes, err);
}

sluice_status sluice_jpeg_indexer_check(const struct sluice_jpeg_index_file *indexes,
                                        const char *path, const struct stat *st,
                                        const struct sluice_buf *file, struct sluice_err *err)
{
    struct sluice_buf *entry, *want = NULL;
    struct sluice_err why = {0};
    sluice_status status = sluice_jpeg_index_file_find(indexes, path, NULL, &entry, &why);
    if (status == SLUICE_E_NOT_FOUND)
        return SLUICE_OK;
    if (status != SLUICE_OK)
        return sluice_fail(err, status, "%s: %s", path, why.text);
    if (!is_current(entry, st))
        status = sluice_fail(err, SLUICE_E_CORRUPT, "%s: its index is stale", path);
    else if (make_entry(st, sluice_jpeg_index_file_step(indexes), file, &want, NULL) != SLUICE_OK ||
             want->len != entry->len || memcmp(want->data, entry->data, want->len) != 0)
        status = sluice_fail(err, SLUICE_E_CORRUPT, "%s: its index is not that of the file", path);
    sluice_buf_unref(want);
    sluice_buf_unref(entry);
    return status;
}
