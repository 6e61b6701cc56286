#include "datasets/shard_set.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/text.h"
#include "datasets/beneath.h"
#include "datasets/brace.h"
#include "datasets/shard.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_INDEX_BYTES ((size_t)64 << 20)

static sluice_status no_memory(struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the names of shards");
}

sluice_status sluice_shard_set_add(struct sluice_shard_set *set, const char *path,
                                   const struct stat *st, const struct sluice_columns *columns,
                                   struct sluice_err *err)
{
    if (set->num == set->capacity) {
        const size_t capacity = set->capacity ? 2 * set->capacity : 64;
        void *moved = realloc(set->files, capacity * sizeof(*set->files));
        if (!moved)
            return no_memory(err);
        set->files = moved;
        set->capacity = capacity;
    }
    char *copy = strdup(path);
    if (!copy)
        return no_memory(err);
    set->files[set->num++] = (struct sluice_shard_file){
        .path = copy,
        .bytes = (uint64_t)st->st_size,
        .mtime_ns = sluice_file_mtime_ns(st),
        .columns = columns,
    };
    return SLUICE_OK;
}

/* A shard that something names; `by` is what. */
static sluice_status add_named(struct sluice_shard_set *set, const char *root, int root_fd,
                               const char *path, const char *by,
                               const struct sluice_columns *columns, struct sluice_err *err)
{
    struct stat st;
    if (!sluice_stat_beneath(root_fd, path, &st))
        return sluice_fail(err, errno == ENOENT ? SLUICE_E_NOT_FOUND : SLUICE_E_IO,
                           "%s/%.200s, which %.200s names: %s", root, path, by, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%s/%.200s, which %.200s names: not a regular file", root, path, by);
    return sluice_shard_set_add(set, path, &st, columns, err);
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
static bool are_all_there(const struct sluice_records_index *index, int root_fd, const char *path,
                          int folder_len)
{
    char shard[SLUICE_MAX_PATH_BYTES];
    struct stat st;
    for (size_t i = 0; i < index->num; i++) {
        if (!sluice_print(shard, sizeof(shard), "%.*s%s", folder_len, path, index->names[i]) ||
            !sluice_stat_beneath(root_fd, shard, &st))
            return false;
    }
    return index->num > 0;
}

static sluice_status add_shards(struct sluice_shard_set *set, const char *root, int root_fd,
                                const char *path, const struct sluice_records_index *index,
                                struct sluice_err *err)
{
    const char *slash = strrchr(path, '/');
    const int folder_len = slash ? (int)(slash - path) + 1 : 0;
    const struct sluice_columns *columns = NULL;
    if (index->compression && !are_all_there(index, root_fd, path, folder_len))
        return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                           "%s/%.*s%.200s is compressed (%.40s): cannot be read in place; "
                           "decompress the shards, or write them without compression",
                           root, folder_len, path, index->compressed, index->compression);
    if (index->columns.num > 0 && !(columns = keep_columns(set, &index->columns)))
        return no_memory(err);
    for (size_t i = 0; i < index->num; i++) {
        char shard[SLUICE_MAX_PATH_BYTES];
        if (!sluice_print(shard, sizeof(shard), "%.*s%s", folder_len, path, index->names[i]))
            return sluice_fail(err, SLUICE_E_INVALID, "%s/%.200s: a path too long", root, path);
        const sluice_status status = add_named(set, root, root_fd, shard, path, columns, err);
        if (status != SLUICE_OK)
            return status;
    }
    return SLUICE_OK;
}

sluice_status sluice_shard_set_add_index(struct sluice_shard_set *set, const char *root,
                                         int root_fd, const char *path, bool *is_index,
                                         struct sluice_err *err)
{
    char full[SLUICE_MAX_PATH_BYTES];
    struct sluice_buf *file = NULL;
    struct sluice_records_index index = {0};
    struct sluice_err why = {0};
    *is_index = false;
    sluice_status status = sluice_path_in(root, path, full, err);
    if (status == SLUICE_OK)
        status = sluice_file_read(full, MAX_INDEX_BYTES, NULL, &file, err);
    if (status != SLUICE_OK)
        return status;
    status =
        sluice_records_index_parse((const char *)file->data, file->len, &index, is_index, &why);
    sluice_buf_unref(file);
    if (status != SLUICE_OK)
        status = sluice_fail(err, status, "%s: %s", full, why.text);
    else if (*is_index)
        status = add_shards(set, root, root_fd, path, &index, err);
    sluice_records_index_clear(&index);
    return status;
}

/* --- patterns --- */

struct adding {
    struct sluice_shard_set *set;
    const char *root;
    int root_fd;
};

static sluice_status add_by_pattern(void *ctx, const char *name, struct sluice_err *err)
{
    struct adding *adding = ctx;
    char shard[SLUICE_MAX_PATH_BYTES];
    const size_t len = strlen(name);
    if (len >= sizeof(shard) || !sluice_is_shard_name(name) || sluice_shard_split(name, shard))
        return sluice_fail(err, SLUICE_E_INVALID, "'%.200s' is no path of a .tar or .mds", name);
    return add_named(adding->set, adding->root, adding->root_fd, name, "the list", NULL, err);
}

sluice_status sluice_shard_set_add_patterns(struct sluice_shard_set *set, const char *root,
                                            int root_fd, const char *patterns,
                                            struct sluice_err *err)
{
    struct adding adding = {set, root, root_fd};
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
