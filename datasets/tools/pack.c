#include "datasets/tools/pack.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/text.h"
#include "datasets/list/class_list.h"
#include "datasets/list/split_name.h"
#include "datasets/shards/shard.h"
#include "datasets/shards/shard_list.h"
#include "datasets/shards/tar.h"
#include "datasets/tools/pack_fields.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_FILE_BYTES ((size_t)1 << 31)
#define MAX_SHARDS 1000000 /* so that their names sort by number */
#define POOL_BYTES ((size_t)64 << 20)

static sluice_status check_empty(const char *out, struct sluice_err *err)
{
    if (sluice_folder_has_files(out))
        return sluice_fail(err, SLUICE_E_INVALID, "%s is not empty: give a new folder", out);
    return SLUICE_OK;
}

/* A sample's file, if it is what the manifest says. */
static sluice_status read_sample(const char *root, const struct sluice_manifest_entry *entry,
                                 struct sluice_buf_pool *pool, struct sluice_buf **out,
                                 struct sluice_err *err)
{
    struct sluice_buf *file = NULL;
    sluice_status status = sluice_shard_read(root, entry->path, entry->offset, entry->bytes,
                                             MAX_FILE_BYTES, pool, &file, NULL, err);
    if (status != SLUICE_OK)
        return status;
    const struct sluice_hash128 hash = sluice_hash128(file->data, file->len);
    if (file->len != entry->bytes ||
        (entry->has_hash && (hash.high != entry->hash.high || hash.low != entry->hash.low))) {
        sluice_buf_unref(file);
        return sluice_fail(err, SLUICE_E_STALE,
                           "%s/%.200s: not what the manifest says; run 'offload_dataset index'",
                           root, entry->path);
    }
    *out = file;
    return SLUICE_OK;
}

/* --- packing --- */

struct packer {
    const char *out;
    uint64_t shard_bytes;
    FILE *file; /* of the tar at hand; NULL: none */
    char path[SLUICE_MAX_PATH_BYTES];
    char prefix[SLUICE_SPLIT_FOLDER_BYTES]; /* of its samples: "", or the folder of their split, as
                                               "train/" */
    uint64_t bytes;                         /* in it */
    size_t number;                          /* of the next one with this prefix */
    struct sluice_pack_summary sums;
};

static sluice_status write_bytes(struct packer *packer, const void *data, size_t len,
                                 struct sluice_err *err)
{
    if (fwrite(data, 1, len, packer->file) != len)
        return sluice_fail(err, SLUICE_E_IO, "%s: write: %s", packer->path, strerror(errno));
    packer->bytes += len;
    return SLUICE_OK;
}

static sluice_status write_member(struct packer *packer, const char *name, const void *data,
                                  size_t len, struct sluice_err *err)
{
    static const uint8_t zeros[SLUICE_TAR_BLOCK];
    uint8_t header[SLUICE_TAR_MAX_HEADER];
    const size_t header_len = sluice_tar_header(name, len, header);
    if (!header_len)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "%.200s: no member for a tar", name);
    sluice_status status = write_bytes(packer, header, header_len, err);
    if (status == SLUICE_OK)
        status = write_bytes(packer, data, len, err);
    if (status == SLUICE_OK)
        status = write_bytes(packer, zeros, sluice_tar_padding(len), err);
    return status;
}

/* "PATH.part" until it is whole. */
static bool part_path(const struct packer *packer, char part[SLUICE_MAX_PATH_BYTES])
{
    return sluice_print(part, SLUICE_MAX_PATH_BYTES, "%s.part", packer->path);
}

static sluice_status open_shard(struct packer *packer, const char *prefix, struct sluice_err *err)
{
    char folder[SLUICE_MAX_PATH_BYTES], part[SLUICE_MAX_PATH_BYTES];
    if (strcmp(packer->prefix, prefix) != 0)
        packer->number = 0;
    (void)sluice_print(packer->prefix, sizeof(packer->prefix), "%s", prefix);
    packer->bytes = 0;
    const size_t number = packer->number++;
    if (number >= MAX_SHARDS)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "more than %d tars: give larger ones",
                           MAX_SHARDS);
    if (!sluice_print(folder, sizeof(folder), "%s/%s", packer->out, prefix) ||
        !sluice_print(packer->path, sizeof(packer->path), "%s/%sshard-%06zu.tar", packer->out,
                      prefix, number) ||
        !part_path(packer, part))
        return sluice_fail(err, SLUICE_E_INVALID, "%.100s: a path too long", packer->out);
    const sluice_status status = sluice_mkdirs(folder, err);
    if (status != SLUICE_OK)
        return status;
    packer->file = fopen(part, "wbe");
    return packer->file ? SLUICE_OK
                        : sluice_fail(err, SLUICE_E_IO, "%s: %s", part, strerror(errno));
}

static sluice_status close_shard(struct packer *packer, struct sluice_err *err)
{
    static const uint8_t end[2 * SLUICE_TAR_BLOCK];
    char part[SLUICE_MAX_PATH_BYTES];
    (void)part_path(packer, part);
    sluice_status status = write_bytes(packer, end, sizeof(end), err);
    const bool is_synced =
        status == SLUICE_OK && fflush(packer->file) == 0 && fsync(fileno(packer->file)) == 0;
    const bool is_closed = fclose(packer->file) == 0;
    packer->file = NULL;
    if (status == SLUICE_OK && (!is_synced || !is_closed || rename(part, packer->path) != 0))
        status = sluice_fail(err, SLUICE_E_IO, "%s: %s", packer->path, strerror(errno));
    packer->sums.num_shards++;
    packer->sums.bytes += packer->bytes;
    return status;
}

static void drop_shard(struct packer *packer)
{
    char part[SLUICE_MAX_PATH_BYTES];
    if (!packer->file)
        return;
    fclose(packer->file);
    if (part_path(packer, part))
        unlink(part);
}

/* Packing can keep order and labels by .cls, and subsets by folder. */
static sluice_status check_packable(const struct sluice_manifest *manifest, bool *has_subsets,
                                    struct sluice_err *err)
{
    *has_subsets = false;
    for (size_t i = 0; i < manifest->num_entries; i++)
        *has_subsets = *has_subsets || sluice_manifest_at(manifest, i).subset == SLUICE_SUBSET_VAL;
    for (size_t i = 0; i < manifest->num_entries; i++) {
        const struct sluice_manifest_entry entry = sluice_manifest_at(manifest, i);
        if (entry.offset)
            return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                               "%.200s: a member of a tar already; unpack first", entry.path);
        if (*has_subsets && sluice_split_of_path(entry.path, NULL) != (int)entry.subset)
            return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                               "%.200s: of split %s by a table, and tars keep only that of folders",
                               entry.path, entry.subset == SLUICE_SUBSET_VAL ? "val" : "train");
    }
    for (size_t i = 0; i < manifest->num_classes; i++) {
        if (!manifest->classes[i][0] && manifest->num_classes > 1)
            return sluice_fail(err, SLUICE_E_UNSUPPORTED, "class %zu has no name", i);
    }
    return SLUICE_OK;
}

/* Whether two samples are of one key, and go to one tar. */
static bool is_same_key(const struct sluice_manifest_entry *a,
                        const struct sluice_manifest_entry *b)
{
    const size_t len = sluice_shard_key_len(a->path);
    return len == sluice_shard_key_len(b->path) && memcmp(a->path, b->path, len) == 0;
}

static sluice_status write_label(struct packer *packer, const char *name, uint32_t label,
                                 struct sluice_err *err)
{
    char cls[SLUICE_MAX_PATH_BYTES + 8], text[16];
    snprintf(cls, sizeof(cls), "%.*s.cls", (int)sluice_shard_key_len(name), name);
    const int len = snprintf(text, sizeof(text), "%u", label);
    return write_member(packer, cls, text, (size_t)len, err);
}

static sluice_status write_values(struct packer *packer, const char *name,
                                  const struct sluice_fields *fields,
                                  const struct sluice_manifest_entry *entry, struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    for (unsigned i = 0; i < fields->num && status == SLUICE_OK; i++) {
        char member[SLUICE_MAX_PATH_BYTES + SLUICE_FIELD_NAME + 2], *text = NULL;
        size_t len = 0;
        snprintf(member, sizeof(member), "%.*s.%s", (int)sluice_shard_key_len(name), name,
                 sluice_packed_suffix(fields, i));
        status = sluice_packed_value(fields, i, entry, &text, &len, err);
        if (status == SLUICE_OK)
            status = write_member(packer, member, text, len, err);
        free(text);
    }
    return status;
}

/* Sample i, and behind the last one of its key label and values. */
static sluice_status pack_one(struct packer *packer, const char *root,
                              const struct sluice_manifest *manifest, size_t i, const char *prefix,
                              struct sluice_buf_pool *pool, struct sluice_err *err)
{
    const struct sluice_manifest_entry entry = sluice_manifest_at(manifest, i);
    struct sluice_manifest_entry before = {0}, next = {0};
    if (i > 0)
        before = sluice_manifest_at(manifest, i - 1);
    if (i + 1 < manifest->num_entries)
        next = sluice_manifest_at(manifest, i + 1);
    const bool is_first = !before.path || !is_same_key(&before, &entry);
    const bool is_last = !next.path || !is_same_key(&entry, &next);
    const char *name = entry.path + strlen(prefix);
    if (!is_last && next.label != entry.label)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%.100s and %.100s: one key, and labels %u and %u", entry.path,
                           next.path, entry.label, next.label);
    if (!is_last &&
        !sluice_field_is_same(entry.values, entry.values_bytes, next.values, next.values_bytes))
        return sluice_fail(err, SLUICE_E_INVALID, "%.100s and %.100s: one key, and two targets",
                           entry.path, next.path);
    sluice_status status = SLUICE_OK;
    if (packer->file &&
        (strcmp(packer->prefix, prefix) != 0 || (is_first && packer->bytes >= packer->shard_bytes)))
        status = close_shard(packer, err);
    if (status == SLUICE_OK && !packer->file)
        status = open_shard(packer, prefix, err);
    struct sluice_buf *file = NULL;
    if (status == SLUICE_OK)
        status = read_sample(root, &entry, pool, &file, err);
    if (status == SLUICE_OK)
        status = write_member(packer, name, file->data, file->len, err);
    sluice_buf_unref(file);
    if (status == SLUICE_OK && is_last)
        status = write_label(packer, name, entry.label, err);
    if (status == SLUICE_OK && is_last && entry.values)
        status = write_values(packer, name, &manifest->fields, &entry, err);
    return status;
}

/* The folder of a sample's split, with its slash. */
static void prefix_of(const char *path, char prefix[SLUICE_SPLIT_FOLDER_BYTES])
{
    const char *rest = path;
    (void)sluice_split_of_path(path, &rest);
    (void)sluice_print(prefix, SLUICE_SPLIT_FOLDER_BYTES, "%.*s", (int)(rest - path), path);
}

sluice_status sluice_pack(const char *root, const struct sluice_manifest *manifest, const char *out,
                          uint64_t shard_bytes, struct sluice_pack_summary *summary,
                          struct sluice_err *err)
{
    struct packer packer = {.out = out, .shard_bytes = shard_bytes};
    struct sluice_buf_pool *pool = NULL;
    char classes[SLUICE_MAX_PATH_BYTES];
    bool has_subsets = false;
    sluice_status status = check_packable(manifest, &has_subsets, err);
    if (status == SLUICE_OK)
        status = sluice_packed_check_suffixes(&manifest->fields, err);
    if (status == SLUICE_OK)
        status = check_empty(out, err);
    if (status == SLUICE_OK)
        status = sluice_buf_pool_create(POOL_BYTES, &pool, err);
    struct sluice_progress progress;
    const bool is_begun = status == SLUICE_OK;
    if (is_begun)
        sluice_progress_start(&progress, "packing", manifest->num_entries);
    size_t done = 0;
    for (; done < manifest->num_entries && status == SLUICE_OK; done++) {
        char prefix[SLUICE_SPLIT_FOLDER_BYTES] = "";
        if (has_subsets)
            prefix_of(sluice_manifest_at(manifest, done).path, prefix);
        status = pack_one(&packer, root, manifest, done, prefix, pool, err);
        sluice_progress_update(&progress, done + 1, NULL);
    }
    if (status == SLUICE_OK && packer.file)
        status = close_shard(&packer, err);
    drop_shard(&packer);
    if (is_begun)
        sluice_progress_end(&progress, done);
    sluice_buf_pool_destroy(pool);
    if (status == SLUICE_OK)
        status = sluice_path_in(out, SLUICE_CLASS_LIST_FILE, classes, err);
    if (status == SLUICE_OK)
        status = sluice_class_list_write(manifest, classes, err);
    if (status != SLUICE_OK)
        return status;
    *summary = packer.sums;
    summary->num_samples = manifest->num_entries;
    return SLUICE_OK;
}

/* --- unpacking --- */

struct unpacked {
    char *path;
    size_t sample;
};

static int compare_unpacked(const void *a, const void *b)
{
    const struct unpacked *x = a, *y = b;
    return strcmp(x->path, y->path);
}

static void free_paths(struct unpacked *paths, size_t num)
{
    for (size_t i = 0; paths && i < num; i++)
        free(paths[i].path);
    free(paths);
}

/* Without its tar.  Records of MDS and LitData have numbers for names: their shard stays a folder.
 */
static const char *unpacked_path(const struct sluice_manifest_entry *entry,
                                 char room[SLUICE_MAX_PATH_BYTES])
{
    char shard[SLUICE_MAX_PATH_BYTES];
    const bool is_member = entry->offset && sluice_shard_split(entry->path, shard);
    return is_member && sluice_has_suffix(shard, ".tar")
               ? sluice_shard_unpacked(entry->path, entry->offset, room)
               : entry->path;
}

/* The paths without tars, by path.  *num is how many there are, also after a failure. */
static sluice_status find_paths(const struct sluice_manifest *manifest, struct unpacked **paths,
                                size_t *num, struct sluice_err *err)
{
    char room[SLUICE_MAX_PATH_BYTES];
    *num = 0;
    *paths = calloc(manifest->num_entries + 1, sizeof(**paths));
    for (size_t i = 0; *paths && i < manifest->num_entries; i++) {
        const struct sluice_manifest_entry entry = sluice_manifest_at(manifest, i);
        const char *path = unpacked_path(&entry, room);
        (*paths)[i] = (struct unpacked){strdup(path), i};
        if (!(*paths)[i].path)
            break;
        ++*num;
    }
    if (!*paths || *num < manifest->num_entries)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu paths",
                           manifest->num_entries);
    bool is_in_order = true;
    for (size_t i = 1; i < *num; i++)
        is_in_order = is_in_order && strcmp((*paths)[i - 1].path, (*paths)[i].path) < 0;
    if (!is_in_order)
        qsort(*paths, *num, sizeof(**paths), compare_unpacked);
    for (size_t i = 1; i < *num; i++) {
        const struct unpacked *last = &(*paths)[i - 1], *at = &(*paths)[i];
        if (strcmp(last->path, at->path) == 0)
            return sluice_fail(err, SLUICE_E_INVALID, "%.150s and %.150s would be one file",
                               sluice_manifest_at(manifest, last->sample).path,
                               sluice_manifest_at(manifest, at->sample).path);
    }
    if (!is_in_order)
        sluice_log(SLUICE_LOG_WARN,
                   "the samples have another order in the folder than in the tars: "
                   "draws and digests will be others");
    return SLUICE_OK;
}

static sluice_status make_folder_of(const char *path, char last[SLUICE_MAX_PATH_BYTES],
                                    struct sluice_err *err)
{
    const char *slash = strrchr(path, '/');
    const size_t len = (size_t)(slash - path);
    if (strncmp(last, path, len) == 0 && !last[len])
        return SLUICE_OK;
    memcpy(last, path, len);
    last[len] = '\0';
    return sluice_mkdirs(last, err);
}

static sluice_status write_file(const char *path, const void *data, size_t len,
                                struct sluice_err *err)
{
    FILE *out = fopen(path, "wbxe");
    if (!out)
        return sluice_fail(err, SLUICE_E_IO, "%s: %s", path, strerror(errno));
    const bool is_written = fwrite(data, 1, len, out) == len;
    const int error = errno;
    if (fclose(out) != 0 || !is_written)
        return sluice_fail(err, SLUICE_E_IO, "%s: write: %s", path,
                           strerror(is_written ? errno : error));
    return SLUICE_OK;
}

static sluice_status write_labels(const struct sluice_manifest *manifest, const char *folder,
                                  const struct unpacked *paths, struct sluice_err *err)
{
    char path[SLUICE_MAX_PATH_BYTES];
    sluice_status status = sluice_path_in(folder, SLUICE_CLASS_LIST_FILE, path, err);
    if (status == SLUICE_OK)
        status = sluice_class_list_write(manifest, path, err);
    if (status == SLUICE_OK)
        status = sluice_path_in(folder, "labels.csv", path, err);
    if (status != SLUICE_OK)
        return status;
    FILE *out = fopen(path, "wxe");
    if (!out)
        return sluice_fail(err, SLUICE_E_IO, "%s: %s", path, strerror(errno));
    fputs("file_name,label", out);
    sluice_packed_columns(out, &manifest->fields, NULL);
    fputc('\n', out);
    for (size_t i = 0; i < manifest->num_entries; i++) {
        const struct sluice_manifest_entry entry = sluice_manifest_at(manifest, paths[i].sample);
        sluice_packed_quote(out, paths[i].path, strlen(paths[i].path));
        fprintf(out, ",%u", entry.label);
        sluice_packed_columns(out, &manifest->fields, &entry);
        fputc('\n', out);
    }
    const bool is_written = !ferror(out);
    if (fclose(out) != 0 || !is_written)
        return sluice_fail(err, SLUICE_E_IO, "%s: write: %s", path, strerror(errno));
    return SLUICE_OK;
}

static sluice_status unpack_one(const char *root, const struct sluice_manifest_entry *entry,
                                const char *out, const char *name, struct sluice_buf_pool *pool,
                                char last_folder[SLUICE_MAX_PATH_BYTES], struct sluice_err *err)
{
    char path[SLUICE_MAX_PATH_BYTES];
    struct sluice_buf *file = NULL;
    sluice_status status = sluice_path_in(out, name, path, err);
    if (status == SLUICE_OK)
        status = read_sample(root, entry, pool, &file, err);
    if (status == SLUICE_OK)
        status = make_folder_of(path, last_folder, err);
    if (status == SLUICE_OK)
        status = write_file(path, file->data, file->len, err);
    sluice_buf_unref(file);
    return status;
}

/* Masks are files next to their image, which is at out/name. */
static sluice_status unpack_masks(const struct sluice_manifest *manifest,
                                  const struct sluice_manifest_entry *entry, const char *out,
                                  const char *name, struct sluice_err *err)
{
    const struct sluice_fields *fields = &manifest->fields;
    const char *slash = strrchr(name, '/'), *dot = strrchr(slash ? slash : name, '.');
    const int stem = dot ? (int)(dot - name) : (int)strlen(name);
    sluice_status status = SLUICE_OK;
    for (unsigned i = 0; i < fields->num && status == SLUICE_OK; i++) {
        char path[SLUICE_MAX_PATH_BYTES];
        const struct sluice_field_value value =
            sluice_fields_value(fields, i, entry->values, entry->values_bytes);
        if (!sluice_packed_is_file(fields, i))
            continue;
        if (!sluice_print(path, sizeof(path), "%s/%.*s.%s", out, stem, name,
                          sluice_packed_suffix(fields, i)))
            return sluice_fail(err, SLUICE_E_INVALID, "%.100s...: a path too long", name);
        status = write_file(path, value.at, value.bytes, err);
    }
    return status;
}

sluice_status sluice_unpack(const char *root, const struct sluice_manifest *manifest,
                            const char *out, struct sluice_pack_summary *summary,
                            struct sluice_err *err)
{
    struct sluice_buf_pool *pool = NULL;
    struct unpacked *paths = NULL;
    char last_folder[SLUICE_MAX_PATH_BYTES] = "";
    size_t num = 0, done = 0;
    uint64_t bytes = 0;
    sluice_status status = check_empty(out, err);
    if (status == SLUICE_OK)
        status = sluice_packed_check_columns(manifest, err);
    if (status == SLUICE_OK)
        status = sluice_packed_check_suffixes(&manifest->fields, err);
    if (status == SLUICE_OK)
        status = find_paths(manifest, &paths, &num, err);
    if (status == SLUICE_OK)
        status = sluice_mkdirs(out, err);
    if (status == SLUICE_OK)
        status = sluice_buf_pool_create(POOL_BYTES, &pool, err);
    struct sluice_progress progress;
    const bool is_begun = status == SLUICE_OK;
    if (is_begun)
        sluice_progress_start(&progress, "unpacking", num);
    for (; done < num && status == SLUICE_OK; done++) {
        const struct sluice_manifest_entry entry = sluice_manifest_at(manifest, paths[done].sample);
        status = unpack_one(root, &entry, out, paths[done].path, pool, last_folder, err);
        if (status == SLUICE_OK)
            status = unpack_masks(manifest, &entry, out, paths[done].path, err);
        bytes += entry.bytes;
        sluice_progress_update(&progress, done + 1, NULL);
    }
    if (is_begun)
        sluice_progress_end(&progress, done);
    if (status == SLUICE_OK)
        status = write_labels(manifest, out, paths, err);
    sluice_buf_pool_destroy(pool);
    free_paths(paths, num);
    if (status == SLUICE_OK)
        *summary = (struct sluice_pack_summary){.num_samples = num, .bytes = bytes};
    return status;
}
