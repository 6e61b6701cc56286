#include "datasets/manifest/index_known.h"

#include "base/array.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "SLUICEPG\1\0\0\0\0\0\0\0"
#define MAGIC_BYTES 16
#define BUFFER_BYTES ((size_t)64 << 10) /* some 500 rows are lost with a run that is killed */
#define MAX_BYTES ((size_t)1 << 40)

struct record {
    uint64_t seal; /* XXH3-64 of what follows, and the path */
    uint32_t path_len, width, height, coding;
    uint64_t bytes;
    int64_t mtime_ns;
    uint64_t offset, hash_high, hash_low;
};

_Static_assert(sizeof(struct record) == 64, "no padding");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are copied as they are");

struct sluice_index_known {
    pthread_mutex_t lock;
    uint8_t buffer[BUFFER_BYTES]; /* not written yet */
    size_t len;
    int fd; /* -1: none, or it could not be written */

    struct sluice_manifest *old; /* constant from here; or NULL */
    struct sluice_buf *file;     /* of the run before; or NULL */
    const uint8_t **records;     /* in it, by path */
    size_t num_records;
    char path[SLUICE_MAX_PATH_BYTES]; /* "": none */
};

static struct record record_at(const uint8_t *at)
{
    struct record record;
    memcpy(&record, at, sizeof(record));
    return record;
}

static uint64_t seal_of(const uint8_t *at, size_t path_len)
{
    return sluice_hash64(at + sizeof(uint64_t),
                         sizeof(struct record) - sizeof(uint64_t) + path_len);
}

static int compare_paths(const char *a, size_t a_len, const char *b, size_t b_len)
{
    const int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return order ? order : (a_len > b_len) - (a_len < b_len);
}

static int compare_records(const void *x, const void *y)
{
    const uint8_t *a = *(const uint8_t *const *)x, *b = *(const uint8_t *const *)y;
    const int order = compare_paths((const char *)a + sizeof(struct record), record_at(a).path_len,
                                    (const char *)b + sizeof(struct record), record_at(b).path_len);
    return order ? order : (a < b) - (a > b); /* the later one first */
}

/* How much of the file counts, and how many records that is; `at` (or NULL) gets them. */
static size_t walk_records(const struct sluice_buf *file, const uint8_t **at, size_t *num)
{
    size_t done = MAGIC_BYTES;
    *num = 0;
    if (file->len < MAGIC_BYTES || memcmp(file->data, MAGIC, MAGIC_BYTES) != 0)
        return 0;
    while (file->len - done >= sizeof(struct record)) {
        const uint8_t *here = file->data + done;
        const struct record record = record_at(here);
        const size_t left = file->len - done - sizeof(record);
        if (record.path_len == 0 || record.path_len >= SLUICE_MAX_PATH_BYTES ||
            record.path_len > left || record.seal != seal_of(here, record.path_len) ||
            record.coding > UINT8_MAX)
            break;
        if (at)
            at[*num] = here;
        ++*num;
        done += sizeof(record) + record.path_len;
    }
    return done;
}

/* Reads the progress file of an interrupted run; *whole: its bytes without damage. */
static sluice_status read_progress(struct sluice_index_known *known, size_t *whole,
                                   struct sluice_err *err)
{
    struct sluice_err why = {0};
    *whole = 0;
    const sluice_status status = sluice_file_read(known->path, MAX_BYTES, NULL, &known->file, &why);
    if (status == SLUICE_E_NO_MEMORY)
        return sluice_fail(err, status, "%s", why.text);
    if (status != SLUICE_OK) {
        if (status != SLUICE_E_NOT_FOUND)
            sluice_log(SLUICE_LOG_WARN, "%s; not gone on with", why.text);
        return SLUICE_OK;
    }
    *whole = walk_records(known->file, NULL, &known->num_records);
    known->records = calloc(known->num_records + 1, sizeof(*known->records));
    if (!known->records)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu rows", known->num_records);
    (void)walk_records(known->file, known->records, &known->num_records);
    qsort(known->records, known->num_records, sizeof(*known->records), compare_records);
    if (known->num_records)
        sluice_log(SLUICE_LOG_INFO, "%s: goes on after %zu files of a run that was ended",
                   known->path, known->num_records);
    return SLUICE_OK;
}

/* "X.progress" for "X.tsv"; "" if the manifest is not a file. */
static void name_progress(const char *text_path, char path[SLUICE_MAX_PATH_BYTES])
{
    struct stat st;
    const size_t len = strlen(text_path);
    const bool is_tsv = len > 4 && strcmp(text_path + len - 4, ".tsv") == 0;
    if ((stat(text_path, &st) == 0 && !S_ISREG(st.st_mode)) ||
        !sluice_print(path, SLUICE_MAX_PATH_BYTES, "%.*s.progress", (int)(is_tsv ? len - 4 : len),
                      text_path))
        path[0] = '\0';
}

static sluice_status open_progress(struct sluice_index_known *known, bool is_anew,
                                   struct sluice_err *err)
{
    size_t whole = 0;
    known->fd = open(known->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (known->fd < 0)
        return SLUICE_OK; /* the manifest cannot be written either, which is said then */
    if (flock(known->fd, LOCK_EX | LOCK_NB) != 0) {
        sluice_log(SLUICE_LOG_WARN,
                   "%s is another run's: what this one does is not kept on the way", known->path);
        close(known->fd);
        known->fd = -1;
        return SLUICE_OK;
    }
    const sluice_status status = is_anew ? SLUICE_OK : read_progress(known, &whole, err);
    if (status != SLUICE_OK)
        return status;
    if (ftruncate(known->fd, (off_t)whole) != 0 || lseek(known->fd, 0, SEEK_END) < 0) {
        close(known->fd);
        known->fd = -1;
    } else if (whole == 0) {
        memcpy(known->buffer, MAGIC, MAGIC_BYTES);
        known->len = MAGIC_BYTES;
    }
    return SLUICE_OK;
}

sluice_status sluice_index_known_open(const char *text_path, bool is_anew,
                                      struct sluice_index_known **out, struct sluice_err *err)
{
    struct sluice_index_known *known = calloc(1, sizeof(*known));
    struct sluice_err why = {0};
    if (!known)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for an index");
    pthread_mutex_init(&known->lock, NULL);
    known->fd = -1;
    name_progress(text_path, known->path);
    sluice_status status = SLUICE_OK;
    if (known->path[0] && !is_anew) {
        status = sluice_manifest_read(text_path, &known->old, &why);
        if (status != SLUICE_OK && status != SLUICE_E_NOT_FOUND)
            sluice_log(SLUICE_LOG_WARN, "%s; every file is read", why.text);
        status = SLUICE_OK;
    }
    if (known->path[0])
        status = open_progress(known, is_anew, err);
    if (status != SLUICE_OK)
        sluice_index_known_close(known);
    else
        *out = known;
    return status;
}

/* Without the lock, or under it. */
static void flush(struct sluice_index_known *known)
{
    for (size_t done = 0; known->fd >= 0 && done < known->len;) {
        const ssize_t put = write(known->fd, known->buffer + done, known->len - done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0) { /* a record that is cut ends what counts */
            close(known->fd);
            known->fd = -1;
            break;
        }
        done += (size_t)put;
    }
    known->len = 0;
}

void sluice_index_known_close(struct sluice_index_known *known)
{
    if (!known)
        return;
    if (known->len > MAGIC_BYTES)
        flush(known);
    if (known->fd >= 0) {
        struct stat st; /* an empty file is useless */
        if (fstat(known->fd, &st) == 0 && st.st_size <= MAGIC_BYTES)
            (void)unlink(known->path);
        close(known->fd);
    }
    free(known->records);
    sluice_buf_unref(known->file);
    sluice_manifest_destroy(known->old);
    pthread_mutex_destroy(&known->lock);
    free(known);
}

static bool find_record(const struct sluice_index_known *known, struct sluice_manifest_entry *row)
{
    const size_t len = strlen(row->path);
    size_t first = 0;
    SLUICE_FIND_FIRST(first, known->num_records, i,
                      compare_paths((const char *)known->records[i] + sizeof(struct record),
                                    record_at(known->records[i]).path_len, row->path, len) < 0);
    if (first == known->num_records)
        return false;
    const uint8_t *at = known->records[first];
    const struct record record = record_at(at);
    if (compare_paths((const char *)at + sizeof(record), record.path_len, row->path, len) != 0 ||
        record.bytes != row->bytes || record.mtime_ns != row->mtime_ns ||
        record.offset != row->offset)
        return false;
    row->has_hash = true;
    row->hash = (struct sluice_hash128){record.hash_high, record.hash_low};
    row->width = record.width;
    row->height = record.height;
    row->coding = (uint8_t)record.coding;
    return true;
}

static bool find_old(const struct sluice_manifest *old, struct sluice_manifest_entry *row)
{
    const size_t first = sluice_manifest_find_first(old, row->path);
    if (first == old->num_entries)
        return false;
    const struct sluice_manifest_entry was = sluice_manifest_at(old, first);
    if (strcmp(was.path, row->path) != 0 || was.bytes != row->bytes ||
        was.mtime_ns != row->mtime_ns || was.offset != row->offset || !was.has_hash || !was.width)
        return false;
    row->has_hash = true;
    row->hash = was.hash;
    row->width = was.width;
    row->height = was.height;
    row->coding = was.coding;
    return true;
}

bool sluice_index_known_find(const struct sluice_index_known *known,
                             struct sluice_manifest_entry *row)
{
    if (!row->mtime_ns) /* not known, so it cannot be compared */
        return false;
    return find_record(known, row) || (known->old && find_old(known->old, row));
}

void sluice_index_known_add(struct sluice_index_known *known,
                            const struct sluice_manifest_entry *row)
{
    const size_t len = strlen(row->path);
    uint8_t bytes[sizeof(struct record) + SLUICE_MAX_PATH_BYTES];
    if (!row->has_hash || !row->width || len == 0 || len >= SLUICE_MAX_PATH_BYTES)
        return;
    struct record record = {
        .path_len = (uint32_t)len,
        .width = row->width,
        .height = row->height,
        .coding = row->coding,
        .bytes = row->bytes,
        .mtime_ns = row->mtime_ns,
        .offset = row->offset,
        .hash_high = row->hash.high,
        .hash_low = row->hash.low,
    };
    memcpy(bytes, &record, sizeof(record));
    memcpy(bytes + sizeof(record), row->path, len);
    record.seal = seal_of(bytes, len);
    memcpy(bytes, &record.seal, sizeof(record.seal));
    pthread_mutex_lock(&known->lock);
    if (known->len + sizeof(record) + len > BUFFER_BYTES)
        flush(known);
    if (known->fd >= 0) {
        memcpy(known->buffer + known->len, bytes, sizeof(record) + len);
        known->len += sizeof(record) + len;
    }
    pthread_mutex_unlock(&known->lock);
}

void sluice_index_known_remove(struct sluice_index_known *known)
{
    known->len = 0;
    if (known->fd < 0)
        return;
    (void)unlink(known->path);
    close(known->fd);
    known->fd = -1;
}
