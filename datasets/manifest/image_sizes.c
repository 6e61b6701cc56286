#include "datasets/manifest/image_sizes.h"

#include "base/buf.h"
#include "base/log.h"
#include "datasets/manifest/manifest.h"
#include "datasets/manifest/parallel.h"
#include "datasets/shards/shard.h"
#include "image/codecs/codec.h"
#include "image/orientation.h"
#include "store/open.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* The part of a file that is read at first: EXIF with a thumbnail and a color profile mostly fit.  A disk
 * reads that much in the time of one seek, and a network in that of one round trip. */
#define HEAD_BYTES ((size_t)32 << 10)

/* The longest file of a folder that is read whole. */
#define MAX_FILE_BYTES ((uint64_t)512 << 20)

/* width, height << 16, orientation << 32; 0: not known yet. */
struct sluice_image_sizes {
    size_t num;
    bool is_upright;
    _Atomic uint64_t at[];
};

sluice_status sluice_image_sizes_create(size_t num, bool is_upright,
                                        struct sluice_image_sizes **sizes, struct sluice_err *err)
{
    struct sluice_image_sizes *made =
        num < SIZE_MAX / 16 ? calloc(1, sizeof(*made) + num * sizeof(made->at[0])) : NULL;
    if (!made)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the sizes of %zu images", num);
    made->num = num;
    made->is_upright = is_upright;
    *sizes = made;
    return SLUICE_OK;
}

void sluice_image_sizes_destroy(struct sluice_image_sizes *sizes)
{
    free(sizes);
}

bool sluice_image_sizes_is_upright(const struct sluice_image_sizes *sizes)
{
    return sizes->is_upright;
}

/* Relaxed: a size is one number, and nothing else is published by it. */
bool sluice_image_sizes_get(const struct sluice_image_sizes *sizes, size_t i,
                            struct sluice_image_size *size)
{
    const uint64_t packed = atomic_load_explicit(&sizes->at[i], memory_order_relaxed);
    *size = (struct sluice_image_size){.width = packed & 0xFFFF,
                                       .height = packed >> 16 & 0xFFFF,
                                       .orientation = (uint8_t)(packed >> 32)};
    return packed != 0;
}

void sluice_image_sizes_set(struct sluice_image_sizes *sizes, size_t i,
                            const struct sluice_image_size *size)
{
    const bool is_valid =
        size->width >= 1 && size->width <= 0xFFFF && size->height >= 1 && size->height <= 0xFFFF;
    const uint64_t sides = is_valid ? size->width | (uint64_t)size->height << 16 : 0;
    const unsigned orientation =
        size->orientation >= 1 && size->orientation <= 8 ? size->orientation : 1;
    atomic_store_explicit(&sizes->at[i], sides | (uint64_t)orientation << 32, memory_order_relaxed);
}

bool sluice_image_sizes_are_missing(const struct sluice_manifest *manifest, bool is_upright)
{
    for (size_t i = 0; i < manifest->num_entries; i++) {
        const struct sluice_manifest_entry entry = sluice_manifest_at(manifest, i);
        if (is_upright || entry.width == 0 || entry.height == 0)
            return true;
    }
    return false;
}

/* --- reading --- */

struct reading {
    struct sluice_image_sizes *sizes;
    const struct sluice_image_sizes_source *source;
    const size_t *samples; /* to read */
    bool is_remote;

    pthread_mutex_t lock;
    size_t num_without;
    char first[sizeof(((struct sluice_err *)0)->text) + 256]; /* of these, with the reason */
};

struct head {
    size_t most;
    uint64_t bytes, file_bytes; /* that were read; of the file */
};

static sluice_status choose_head(void *ctx, uint64_t len, int64_t version,
                                 struct sluice_file_part *parts, unsigned *num_parts,
                                 struct sluice_err *err)
{
    (void)version;
    (void)err;
    struct head *head = ctx;
    head->file_bytes = len;
    head->bytes = len < head->most ? len : head->most;
    parts[0] = (struct sluice_file_part){0, (size_t)head->bytes};
    *num_parts = 1;
    return SLUICE_OK;
}

static sluice_status read_head(const struct reading *reading,
                               const struct sluice_manifest_entry *entry, struct head *head,
                               struct sluice_buf **file, struct sluice_err *err)
{
    const struct sluice_image_sizes_source *source = reading->source;
    char shard[SLUICE_MAX_PATH_BYTES];
    struct sluice_store_read read = {
        .key = entry->path,
        .offset = entry->offset,
        .bytes = entry->bytes,
        .version = entry->mtime_ns,
        .choose = choose_head,
        .ctx = head,
        .owner = source->owner,
    };
    if (read.offset && sluice_shard_split(entry->path, shard))
        read.key = shard;
    return source->store->read(source->store, &read, file, err);
}

/* *is_settled: more bytes would change nothing. */
static sluice_status find_size(const uint8_t *bytes, const struct head *head, bool is_upright,
                               struct sluice_image_size *size, bool *is_settled,
                               struct sluice_err *err)
{
    struct sluice_image_info info;
    const size_t len = (size_t)head->bytes;
    const sluice_status status = sluice_image_probe(bytes, len, &info, err);
    *is_settled = len == head->file_bytes;
    if (status != SLUICE_OK)
        return status;
    *size = (struct sluice_image_size){info.width, info.height, 1};
    *is_settled = true;
    if (is_upright) {
        *is_settled = sluice_image_head_has_orientation(&info, bytes, len, head->file_bytes);
        size->orientation = (uint8_t)sluice_image_orientation(&info, bytes, len);
    }
    return SLUICE_OK;
}

static sluice_status read_size(const struct reading *reading,
                               const struct sluice_manifest_entry *entry,
                               struct sluice_image_size *size, struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    bool is_settled = false;
    for (size_t most = HEAD_BYTES; !is_settled; most = SIZE_MAX) {
        struct sluice_buf *file;
        struct head head = {.most = most};
        *err = (struct sluice_err){0};
        *size = (struct sluice_image_size){0};
        status = read_head(reading, entry, &head, &file, err);
        if (status != SLUICE_OK)
            return status;
        status = find_size(file->data, &head, reading->sizes->is_upright, size, &is_settled, err);
        sluice_buf_unref(file);
    }
    return status;
}

static void note_without(struct reading *reading, const char *path, const char *why)
{
    pthread_mutex_lock(&reading->lock);
    if (reading->num_without++ == 0)
        snprintf(reading->first, sizeof(reading->first), "%.250s: %s", path, why);
    pthread_mutex_unlock(&reading->lock);
}

static sluice_status read_one(void *ctx, size_t n, struct sluice_err *err)
{
    struct reading *reading = ctx;
    const struct sluice_image_sizes_source *source = reading->source;
    const size_t i = reading->samples[n];
    if (source->is_cancelled && atomic_load(source->is_cancelled))
        return sluice_fail(err, SLUICE_E_CLOSED, "stopped while the sizes of images were read");
    const struct sluice_manifest_entry entry = sluice_manifest_at(source->manifest, i);
    struct sluice_image_size size = {0};
    struct sluice_err why;
    const sluice_status status = read_size(reading, &entry, &size, &why);
    const bool ends_all = status == SLUICE_E_NO_MEMORY || status == SLUICE_E_CLOSED ||
                          (status == SLUICE_E_IO && reading->is_remote);
    if (ends_all)
        return sluice_fail(err, status, "%.250s: %s", entry.path, why.text);
    if (status != SLUICE_OK) {
        size = (struct sluice_image_size){0};
        note_without(reading, entry.path, why.text);
    }
    sluice_image_sizes_set(reading->sizes, i, &size);
    return SLUICE_OK;
}

/* The samples whose headers are to be read; takes the other sizes from the list. */
static size_t find_unread(struct sluice_image_sizes *sizes, const struct sluice_manifest *manifest,
                          size_t *samples)
{
    size_t num = 0;
    for (size_t i = 0; i < sizes->num; i++) {
        const struct sluice_manifest_entry entry = sluice_manifest_at(manifest, i);
        struct sluice_image_size size = {entry.width, entry.height, 1};
        if (sluice_image_sizes_get(sizes, i, &(struct sluice_image_size){0}))
            continue;
        if (!sizes->is_upright && size.width > 0 && size.height > 0)
            sluice_image_sizes_set(sizes, i, &size);
        else
            samples[num++] = i;
    }
    return num;
}

sluice_status sluice_image_sizes_read(struct sluice_image_sizes *sizes,
                                      const struct sluice_image_sizes_source *source,
                                      struct sluice_err *err)
{
    struct sluice_store_limits limits;
    source->store->limits(source->store, &limits);
    size_t *samples = calloc(sizes->num + 1, sizeof(*samples));
    if (!samples)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the sizes of %zu images",
                           sizes->num);
    struct reading reading = {
        .sizes = sizes, .source = source, .samples = samples, .is_remote = limits.is_remote};
    const size_t num = find_unread(sizes, source->manifest, samples);
    const unsigned num_threads = source->num_threads ? source->num_threads
                                 : limits.is_remote  ? limits.parallel_reads
                                                     : 0;
    sluice_status status = SLUICE_OK;
    pthread_mutex_init(&reading.lock, NULL);
    if (num > 0)
        status = sluice_parallel_for(num, num_threads, "reading sizes", read_one, &reading, err);
    pthread_mutex_destroy(&reading.lock);
    free(samples);
    if (reading.num_without > 0)
        sluice_log(SLUICE_LOG_WARN, "%zu of %zu images have no size that can be read, as %s",
                   reading.num_without, num, reading.first);
    return status;
}

sluice_status sluice_image_sizes_read_folders(struct sluice_image_sizes *sizes,
                                              const struct sluice_manifest *manifest,
                                              const struct sluice_roots *roots,
                                              const atomic_bool *is_cancelled,
                                              struct sluice_err *err)
{
    const struct sluice_store_options options = {.max_object_bytes = MAX_FILE_BYTES};
    struct sluice_store *store = NULL;
    sluice_status status = sluice_store_open_roots(&options, roots, NULL, &store, err);
    if (status != SLUICE_OK)
        return status;
    const struct sluice_image_sizes_source source = {
        .manifest = manifest, .store = store, .is_cancelled = is_cancelled};
    status = sluice_image_sizes_read(sizes, &source, err);
    store->destroy(store);
    return status;
}
