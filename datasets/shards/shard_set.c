#include "datasets/shards/shard_set.h"

#include "base/array.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "datasets/list/beneath.h"
#include "datasets/list/brace.h"
#include "datasets/shards/shard.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_INDEX_BYTES ((size_t)64 << 20)

static sluice_status no_memory(struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the names of shards");
}

/* --- a folder --- */

static sluice_status find_in_folder(void *ctx, const char *path, uint64_t *bytes, int64_t *mtime_ns,
                                    struct sluice_err *err)
{
    const struct sluice_shard_folder *folder = ctx;
    struct stat st;
    if (!sluice_stat_beneath(folder->root_fd, path, &st))
        return sluice_fail(err, errno == ENOENT ? SLUICE_E_NOT_FOUND : SLUICE_E_IO, "%s",
                           strerror(errno));
    if (!S_ISREG(st.st_mode))
        return sluice_fail(err, SLUICE_E_INVALID, "not a regular file");
    *bytes = (uint64_t)st.st_size;
    *mtime_ns = sluice_file_mtime_ns(&st);
    return SLUICE_OK;
}

static sluice_status read_in_folder(void *ctx, const char *path, size_t max_bytes,
                                    struct sluice_buf **file, struct sluice_err *err)
{
    const struct sluice_shard_folder *folder = ctx;
    char full[SLUICE_MAX_PATH_BYTES];
    const sluice_status status = sluice_path_in(folder->root, path, full, err);
    return status == SLUICE_OK ? sluice_file_read(full, max_bytes, NULL, file, err) : status;
}

struct sluice_shard_place sluice_shard_place_of_folder(struct sluice_shard_folder *folder)
{
    return (struct sluice_shard_place){folder->root, folder, find_in_folder, read_in_folder};
}

/* --- */

sluice_status sluice_shard_set_add(struct sluice_shard_set *set,
                                   const struct sluice_shard_file *file, struct sluice_err *err)
{
    if (!sluice_array_reserve(&set->files, &set->capacity, set->num + 1, sizeof(*set->files)))
        return no_memory(err);
    char *path = strdup(file->path);
    if (!path)
        return no_memory(err);
    set->files[set->num] = *file;
    set->files[set->num++].path = path;
    return SLUICE_OK;
}

/* A shard that something names; `by` is what. */
static sluice_status add_named(struct sluice_shard_set *set, const struct sluice_shard_place *place,
                               char *path, const char *by, const struct sluice_columns *columns,
                               struct sluice_err *err)
{
    struct sluice_shard_file file = {.path = path, .columns = columns};
    struct sluice_err why = {0};
    const sluice_status status = place->find(place->ctx, path, &file.bytes, &file.mtime_ns, &why);
    if (status != SLUICE_OK)
        return sluice_fail(err, status, "%s/%.200s, which %.200s names: %s", place->root, path, by,
                           why.text);
    return sluice_shard_set_add(set, &file, err);
}

/* --- index.json --- */

struct sluice_shard_columns {
    struct sluice_shard_columns *next;
    struct sluice_columns columns;
};

/* The columns, owned by the set; NULL: no memory. */
static const struct sluice_columns *keep_columns(struct sluice_shard_set *set,
                                                 const struct sluice_columns *columns)
{
    struct sluice_shard_columns *kept = malloc(sizeof(*kept));
    if (!kept)
        return NULL;
    kept->next = set->columns;
    kept->columns = *columns;
    set->columns = kept;
    return &kept->columns;
}

/* Whether a shard that was compressed lies there as it was before, too. */
static bool are_all_there(const struct sluice_records_index *index,
                          const struct sluice_shard_place *place, const char *path, int folder_len)
{
    char shard[SLUICE_MAX_PATH_BYTES];
    uint64_t bytes;
    int64_t mtime_ns;
    for (size_t i = 0; i < index->num; i++) {
        if (!sluice_print(shard, sizeof(shard), "%.*s%s", folder_len, path, index->names[i]) ||
            place->find(place->ctx, shard, &bytes, &mtime_ns, NULL) != SLUICE_OK)
            return false;
    }
    return index->num > 0;
}

static sluice_status add_shards(struct sluice_shard_set *set,
                                const struct sluice_shard_place *place, const char *path,
                                const struct sluice_records_index *index, struct sluice_err *err)
{
    const char *slash = strrchr(path, '/');
    const int folder_len = slash ? (int)(slash - path) + 1 : 0;
    const struct sluice_columns *columns = NULL;
    if (index->compression && !are_all_there(index, place, path, folder_len))
        return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                           "%s/%.*s%.200s is compressed (%.40s): cannot be read in place; "
                           "decompress the shards, or write them without compression",
                           place->root, folder_len, path, index->compressed, index->compression);
    if (index->columns.num > 0 && !(columns = keep_columns(set, &index->columns)))
        return no_memory(err);
    for (size_t i = 0; i < index->num; i++) {
        char shard[SLUICE_MAX_PATH_BYTES];
        if (!sluice_print(shard, sizeof(shard), "%.*s%s", folder_len, path, index->names[i]))
            return sluice_fail(err, SLUICE_E_INVALID, "%s/%.200s: a path too long", place->root,
                               path);
        const sluice_status status = add_named(set, place, shard, path, columns, err);
        if (status != SLUICE_OK)
            return status;
    }
    return SLUICE_OK;
}

sluice_status sluice_shard_set_add_index(struct sluice_shard_set *set,
                                         const struct sluice_shard_place *place, const char *path,
                                         bool *is_index, struct sluice_err *err)
{
    struct sluice_buf *file = NULL;
    struct sluice_records_index index = {0};
    struct sluice_err why = {0};
    *is_index = false;
    sluice_status status = place->read(place->ctx, path, MAX_INDEX_BYTES, &file, err);
    if (status != SLUICE_OK)
        return status;
    status =
        sluice_records_index_parse((const char *)file->data, file->len, &index, is_index, &why);
    sluice_buf_unref(file);
    if (status != SLUICE_OK)
        status = sluice_fail(err, status, "%s/%.200s: %s", place->root, path, why.text);
    else if (*is_index)
        status = add_shards(set, place, path, &index, err);
    sluice_records_index_clear(&index);
    return status;
}

/* --- patterns --- */

struct adding {
    struct sluice_shard_set *set;
    const struct sluice_shard_place *place;
};

static sluice_status add_by_pattern(void *ctx, const char *name, struct sluice_err *err)
{
    struct adding *adding = ctx;
    char shard[SLUICE_MAX_PATH_BYTES];
    const size_t len = strlen(name);
    if (len >= sizeof(shard) || !sluice_is_shard_name(name) || sluice_shard_split(name, shard))
        return sluice_fail(err, SLUICE_E_INVALID, "'%.200s' is no path of a .tar or .mds", name);
    memcpy(shard, name, len + 1);
    return add_named(adding->set, adding->place, shard, "the list", NULL, err);
}

sluice_status sluice_shard_set_add_patterns(struct sluice_shard_set *set,
                                            const struct sluice_shard_place *place,
                                            const char *patterns, struct sluice_err *err)
{
    struct adding adding = {set, place};
    struct sluice_err why = {0};
    const sluice_status status = sluice_brace_expand(patterns, add_by_pattern, &adding, &why);
    if (status != SLUICE_OK)
        return sluice_fail(err, status, "--shards: %s", why.text);
    if (sluice_shard_set_sort(set) > 0)
        return sluice_fail(err, SLUICE_E_INVALID, "--shards: a shard comes twice");
    return SLUICE_OK;
}

/* --- */

static int compare_files(const void *a, const void *b)
{
    const struct sluice_shard_file *x = a, *y = b;
    return strcmp(x->path, y->path);
}

size_t sluice_shard_set_sort(struct sluice_shard_set *set)
{
    size_t num_kept = 0;
    if (set->num > 1)
        qsort(set->files, set->num, sizeof(*set->files), compare_files);
    for (size_t i = 0; i < set->num; i++) {
        if (num_kept > 0 && strcmp(set->files[num_kept - 1].path, set->files[i].path) == 0)
            free(set->files[i].path);
        else
            set->files[num_kept++] = set->files[i];
    }
    const size_t num_twice = set->num - num_kept;
    set->num = num_kept;
    return num_twice;
}

static void tell_unnamed(const struct sluice_shard_set *set, const char *root, size_t num_mds)
{
    size_t num_named = 0;
    for (size_t i = 0; i < set->num; i++)
        num_named += sluice_has_suffix(set->files[i].path, ".mds");
    if (num_named < num_mds)
        sluice_log(SLUICE_LOG_WARN,
                   "%s: passed over: %zu of %zu .mds, which no " SLUICE_RECORDS_INDEX_FILE " names",
                   root, num_mds - num_named, num_mds);
}

sluice_status sluice_shard_set_list(struct sluice_shard_set *set,
                                    const struct sluice_shard_options *how, size_t num_mds,
                                    struct sluice_manifest_builder *builder,
                                    struct sluice_shard_summary *summary, struct sluice_err *err)
{
    (void)sluice_shard_set_sort(set);
    tell_unnamed(set, how->root, num_mds);
    for (size_t i = 0; i < set->num; i++) {
        if (!sluice_is_shard_name(set->files[i].path)) /* by its name it was none */
            sluice_passed_over_take_back(how->passed, set->files[i].path);
    }
    return set->num > 0 ? sluice_shards_list(how, set->files, set->num, builder, summary, err)
                        : SLUICE_OK;
}

void sluice_shard_set_clear(struct sluice_shard_set *set)
{
    for (size_t i = 0; i < set->num; i++)
        free(set->files[i].path);
    while (set->columns) {
        struct sluice_shard_columns *first = set->columns;
        set->columns = first->next;
        free(first);
    }
    free(set->files);
    *set = (struct sluice_shard_set){0};
}
