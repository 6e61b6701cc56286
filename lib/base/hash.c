#include "base/hash.h"

#define XXH_STATIC_LINKING_ONLY /* for the size of XXH3_state_t */
#include <xxhash.h>
#ifdef SLUICE_HAS_XXH_DISPATCH
#include <xxh_x86dispatch.h> /* the same names, by AVX2 or AVX-512 where the CPU has them */
#endif

#include <stdio.h>

uint64_t sluice_hash64(const void *data, size_t len)
{
    return XXH3_64bits(data, len);
}

struct sluice_hash128 sluice_hash128(const void *data, size_t len)
{
    const XXH128_hash_t hash = XXH3_128bits(data, len);
    return (struct sluice_hash128){.high = hash.high64, .low = hash.low64};
}

void sluice_hash128_hex(struct sluice_hash128 hash, char out[33])
{
    snprintf(out, 33, "%016llx%016llx", (unsigned long long)hash.high,
             (unsigned long long)hash.low);
}

void sluice_hash128_bytes(struct sluice_hash128 hash, uint8_t out[16])
{
    for (int i = 0; i < 8; i++) {
        out[i] = (uint8_t)(hash.high >> (56 - 8 * i));
        out[8 + i] = (uint8_t)(hash.low >> (56 - 8 * i));
    }
}

/* The library's state is the struct; the name keeps xxhash.h out of our header. */
static XXH3_state_t *state_of(struct sluice_hasher *hasher)
{
    return (XXH3_state_t *)(void *)hasher;
}

struct sluice_hasher *sluice_hasher_create(void)
{
    XXH3_state_t *state = XXH3_createState();
    if (state)
        XXH3_128bits_reset(state);
    return (struct sluice_hasher *)(void *)state;
}

void sluice_hasher_destroy(struct sluice_hasher *hasher)
{
    if (hasher)
        XXH3_freeState(state_of(hasher));
}

void sluice_hasher_reset(struct sluice_hasher *hasher)
{
    XXH3_128bits_reset(state_of(hasher));
}

void sluice_hasher_update(struct sluice_hasher *hasher, const void *data, size_t len)
{
    XXH3_128bits_update(state_of(hasher), data, len);
}

struct sluice_hash128 sluice_hasher_digest(const struct sluice_hasher *hasher)
{
    const XXH128_hash_t hash = XXH3_128bits_digest((const XXH3_state_t *)(const void *)hasher);
    return (struct sluice_hash128){.high = hash.high64, .low = hash.low64};
}

_Static_assert(sizeof(XXH3_state_t) <= sizeof(struct sluice_hasher64) &&
                   _Alignof(struct sluice_hasher64) % _Alignof(XXH3_state_t) == 0,
               "struct sluice_hasher64 holds the library's state");

static XXH3_state_t *state64_of(struct sluice_hasher64 *hasher)
{
    return (XXH3_state_t *)(void *)hasher->state;
}

void sluice_hasher64_init(struct sluice_hasher64 *hasher)
{
    XXH3_INITSTATE(state64_of(hasher));
    XXH3_64bits_reset(state64_of(hasher));
}

void sluice_hasher64_update(struct sluice_hasher64 *hasher, const void *data, size_t len)
{
    XXH3_64bits_update(state64_of(hasher), data, len);
}

uint64_t sluice_hasher64_digest(const struct sluice_hasher64 *hasher)
{
    return XXH3_64bits_digest((const XXH3_state_t *)(const void *)hasher->state);
}
