#include "datasets/shards/shard_targets.h"

#include "base/c_locale.h"
#include "base/file.h"
#include "base/text.h"
#include "datasets/shards/shard.h"
#include "datasets/shards/shard_list.h"
#include "datasets/shards/tar.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct reading {
    const char *root;
    struct sluice_target_column column;
    struct sluice_manifest_builder *builder;
    struct sluice_target_values values; /* the type, and the one at hand */
    char shard[SLUICE_MAX_PATH_BYTES];
    size_t first, end; /* rows of its members */
    int fd;
};

static sluice_status read_at(void *ctx, uint64_t at, void *to, size_t len, struct sluice_err *err)
{
    const struct reading *r = ctx;
    const ssize_t got = sluice_pread_fully(r->fd, to, len, at);
    if (got >= 0 && (size_t)got == len)
        return SLUICE_OK;
    return sluice_fail(err, SLUICE_E_IO, "%s/%s: read: %s", r->root, r->shard,
                       got < 0 ? strerror(errno) : "it shrank meanwhile");
}

/* Reads the member to r->values. */
static sluice_status read_target(struct reading *r, const struct sluice_tar_member *member,
                                 struct sluice_target_place *place, struct sluice_err *err)
{
    if (member->bytes > SLUICE_MAX_TARGET_BYTES)
        return sluice_fail(err, SLUICE_E_INVALID, "has more than 1 MiB");
    char *text = malloc((size_t)member->bytes + 1);
    if (!text)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a target");
    sluice_status status = read_at(r, member->offset, text, (size_t)member->bytes, err);
    text[member->bytes] = '\0';
    r->values.len = 0;
    if (status == SLUICE_OK && r->column.kind != SLUICE_TARGETS_VECTOR)
        status =
            sluice_target_values_add_bytes(&r->values, text, (size_t)member->bytes, place, err);
    else if (status == SLUICE_OK && memchr(text, '\0', (size_t)member->bytes))
        status = sluice_fail(err, SLUICE_E_INVALID, "has a NUL byte");
    else if (status == SLUICE_OK)
        status = sluice_target_values_add_text(&r->values, text, place, err);
    free(text);
    return status;
}

/* Gives the member to all images of its key. */
static sluice_status take_member(struct reading *r, const struct sluice_tar_member *member,
                                 struct sluice_err *err)
{
    const char *name = member->name;
    const size_t key = sluice_shard_key_len(name);
    char path[2 * SLUICE_MAX_PATH_BYTES];
    if (member->kind || sluice_strcasecmp(name + key, r->column.name) != 0)
        return SLUICE_OK;
    const int len = snprintf(path, sizeof(path), "%s/%.*s.", r->shard, (int)key, name);
    struct sluice_manifest *manifest = r->builder->manifest;
    struct sluice_target_place place = {0};
    sluice_status status = SLUICE_OK;
    bool is_read = false;
    for (size_t i = sluice_manifest_find_first(manifest, path); status == SLUICE_OK && i < r->end;
         i++) {
        if (strncmp(manifest->rows[i].path, path, (size_t)len) != 0)
            break;
        if (!is_read) {
            struct sluice_err why = {0};
            status = read_target(r, member, &place, &why);
            if (status != SLUICE_OK)
                return sluice_fail(err, status, "%s/%s/%s %s", r->root, r->shard, name, why.text);
            is_read = true;
        }
        status =
            sluice_manifest_set_target(r->builder, i, r->values.bytes + place.at, place.bytes, err);
    }
    return status;
}

static sluice_status read_shard(struct reading *r, struct sluice_err *err)
{
    char path[SLUICE_MAX_PATH_BYTES];
    struct stat st;
    sluice_status status = sluice_path_in(r->root, r->shard, path, err);
    if (status != SLUICE_OK)
        return status;
    r->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (r->fd < 0 || fstat(r->fd, &st) != 0) {
        status = sluice_fail(err, SLUICE_E_IO, "%s: %s", path, strerror(errno));
    } else {
        struct sluice_tar tar = {.read_at = read_at, .ctx = r, .size = (uint64_t)st.st_size};
        bool is_end = false;
        while (status == SLUICE_OK && !is_end) {
            struct sluice_tar_member member;
            struct sluice_err why = {0};
            status = sluice_tar_next(&tar, &member, &is_end, &why);
            if (status == SLUICE_E_CORRUPT) { /* told when its images were listed */
                status = SLUICE_OK;
                break;
            }
            if (status != SLUICE_OK)
                sluice_fail(err, status, "%s", why.text);
            else if (!is_end)
                status = take_member(r, &member, err);
        }
    }
    if (r->fd >= 0)
        close(r->fd);
    return status;
}

static sluice_status check_all(const struct reading *r, struct sluice_err *err)
{
    const struct sluice_manifest *manifest = r->builder->manifest;
    size_t num_without = 0, first = 0;
    for (size_t i = 0; i < manifest->num_entries; i++) {
        if (!manifest->rows[i].target && num_without++ == 0)
            first = i;
    }
    if (num_without)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%s: %zu of %zu images have no %s of their key in their tar (%.200s%s)",
                           r->root, num_without, manifest->num_entries, r->column.name,
                           manifest->rows[first].path, num_without > 1 ? ", ..." : "");
    return SLUICE_OK;
}

sluice_status sluice_shard_targets_read(const char *root, struct sluice_target_column column,
                                        struct sluice_manifest_builder *builder,
                                        struct sluice_err *err)
{
    struct reading r = {.root = root, .column = column, .builder = builder};
    struct sluice_manifest *manifest = builder->manifest;
    sluice_status status = SLUICE_OK;
    r.values.wanted = column.kind ? column.kind : SLUICE_TARGETS_BYTES;
    while (r.first < manifest->num_entries && status == SLUICE_OK) {
        const struct sluice_manifest_entry *row = &manifest->rows[r.first];
        r.end = r.first + 1;
        if (row->offset && sluice_shard_split(row->path, r.shard) &&
            sluice_has_suffix(r.shard, ".tar")) {
            const size_t len = strlen(r.shard) + 1; /* with the '/' */
            while (r.end < manifest->num_entries &&
                   strncmp(manifest->rows[r.end].path, row->path, len) == 0)
                r.end++;
            status = read_shard(&r, err);
        }
        r.first = r.end;
    }
    if (status == SLUICE_OK)
        status = check_all(&r, err);
    if (status == SLUICE_OK)
        manifest->target_type = r.values.type;
    sluice_target_values_clear(&r.values);
    return status;
}
