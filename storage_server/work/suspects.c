#include "storage_server/work/suspects.h"

#include "base/hash.h"
#include "storage_server/tuning.h"

#include <stddef.h>
#include <string.h>

static uint64_t hash_of(const char *path)
{
    return sluice_hash64(path, strlen(path));
}

unsigned sluice_suspects_add(struct sluice_suspects *suspects, const char *path, uint64_t now_ns)
{
    const uint64_t hash = hash_of(path);
    size_t row = 0;
    for (size_t i = 0; i < SLUICE_SUSPECTS; i++) {
        if (suspects->rows[i].deaths && suspects->rows[i].hash == hash) {
            row = i;
            break;
        }
        if (suspects->rows[i].at_ns < suspects->rows[row].at_ns) /* a free one is the oldest */
            row = i;
    }
    if (suspects->rows[row].hash != hash ||
        now_ns - suspects->rows[row].at_ns >= SUSPECTS_FORGET_NS) {
        suspects->rows[row].hash = hash;
        suspects->rows[row].deaths = 0;
    }
    suspects->rows[row].at_ns = now_ns;
    return ++suspects->rows[row].deaths;
}

unsigned sluice_suspects_deaths(const struct sluice_suspects *suspects, const char *path,
                                uint64_t now_ns)
{
    const uint64_t hash = hash_of(path);
    for (size_t i = 0; i < SLUICE_SUSPECTS; i++) {
        if (suspects->rows[i].hash == hash && now_ns - suspects->rows[i].at_ns < SUSPECTS_FORGET_NS)
            return suspects->rows[i].deaths;
    }
    return 0;
}
