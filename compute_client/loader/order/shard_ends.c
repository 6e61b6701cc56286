#include "compute_client/loader/order/shard_ends.h"

#include "base/array.h"
#include "base/file.h"
#include "datasets/shards/shard.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the path that name its shard, or its folder. */
static size_t shard_len(const char *path)
{
    assert(path);
    char shard[SLUICE_MAX_PATH_BYTES];
    if (sluice_shard_split(path, shard))
        return strlen(shard);
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) : 0;
}

sluice_status sluice_shard_ends(const struct sluice_manifest *manifest, const uint32_t *ids,
                                size_t num_ids, uint32_t **out, size_t *num, struct sluice_err *err)
{
    uint32_t *ends = NULL;
    size_t count = 0, capacity = 0, len = 0;
    const char *path = NULL; /* of the position before */
    for (size_t i = 0; i <= num_ids; i++) {
        size_t next_len = 0;
        const char *next = NULL;
        if (i < num_ids) {
            next = sluice_manifest_at(manifest, ids[i]).path;
            next_len = shard_len(next);
        }
        const bool is_same = path && next && len == next_len && memcmp(path, next, len) == 0;
        if (i > 0 && !is_same) {
            if (!sluice_array_reserve(&ends, &capacity, count + 1, sizeof(*ends))) {
                free(ends);
                return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a list of shards");
            }
            ends[count++] = (uint32_t)i;
        }
        path = next;
        len = next_len;
    }
    *out = ends;
    *num = count;
    return SLUICE_OK;
}
