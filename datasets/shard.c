#include "datasets/shard.h"

#include <string.h>

bool sluice_shard_split(const char *path, char object[SLUICE_MAX_PATH_BYTES])
{
    const char *found = strstr(path, ".tar/");
    const size_t len = found ? (size_t)(found - path) + 4 : 0;
    if (!found || len >= SLUICE_MAX_PATH_BYTES)
        return false;
    memcpy(object, path, len);
    object[len] = '\0';
    return true;
}
