#include "datasets/shards/shard.h"

#include <string.h>

/* The length of the shard's own path; 0: no shard, or the path is too long. */
static size_t shard_len(const char *path)
{
    for (const char *slash = path; (slash = strchr(slash, '/')); slash++) {
        const size_t len = (size_t)(slash - path);
        if (len >= 4 && (memcmp(slash - 4, ".tar", 4) == 0 || memcmp(slash - 4, ".mds", 4) == 0 ||
                         memcmp(slash - 4, ".bin", 4) == 0))
            return len < SLUICE_MAX_PATH_BYTES ? len : 0;
    }
    return 0;
}

bool sluice_shard_split(const char *path, char object[SLUICE_MAX_PATH_BYTES])
{
    const size_t len = shard_len(path);
    if (len == 0)
        return false;
    memcpy(object, path, len);
    object[len] = '\0';
    return true;
}

bool sluice_is_shard_name(const char *name)
{
    const size_t len = strlen(name);
    return len > 4 && (strcmp(name + len - 4, ".tar") == 0 || strcmp(name + len - 4, ".mds") == 0);
}

const char *sluice_shard_unpacked(const char *path, uint64_t offset,
                                  char room[SLUICE_MAX_PATH_BYTES])
{
    const size_t len = offset ? shard_len(path) : 0;
    if (len == 0 || strlen(path) >= SLUICE_MAX_PATH_BYTES)
        return path;
    size_t folder = len;
    while (folder > 0 && path[folder - 1] != '/')
        folder--;
    memcpy(room, path, folder);
    strcpy(room + folder, path + len + 1);
    return room;
}

sluice_status sluice_shard_read(const char *root, const char *path, uint64_t offset, uint64_t bytes,
                                size_t max_bytes, struct sluice_buf_pool *pool,
                                struct sluice_buf **file, struct stat *st, struct sluice_err *err)
{
    char shard[SLUICE_MAX_PATH_BYTES], full[SLUICE_MAX_PATH_BYTES];
    const bool is_member = offset && sluice_shard_split(path, shard);
    const sluice_status status = sluice_path_in(root, is_member ? shard : path, full, err);
    if (status != SLUICE_OK)
        return status;
    return is_member ? sluice_file_read_range(full, offset, bytes, max_bytes, pool, file, st, err)
                     : sluice_file_read_stat(full, max_bytes, pool, file, st, err);
}
