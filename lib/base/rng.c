#include "base/rng.h"

#define PHILOX_M0 0xD2511F53u
#define PHILOX_M1 0xCD9E8D57u
#define PHILOX_W0 0x9E3779B9u
#define PHILOX_W1 0xBB67AE85u

void sluice_philox4x32_10(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k0 = key[0], k1 = key[1];
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];

    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)PHILOX_M0 * c0;
        const uint64_t p1 = (uint64_t)PHILOX_M1 * c2;
        const uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        const uint32_t n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c0 = n0;
        c1 = (uint32_t)p1;
        c2 = n2;
        c3 = (uint32_t)p0;
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

struct sluice_rng sluice_rng_init(uint64_t seed, uint32_t epoch, uint64_t sample_id, uint32_t op)
{
    return (struct sluice_rng){
        .key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
        .counter = {(uint32_t)sample_id, (uint32_t)(sample_id >> 32), epoch, op << 16},
        .used = 4,
    };
}

uint32_t sluice_rng_u32(struct sluice_rng *rng)
{
    if (rng->used == 4) {
        sluice_philox4x32_10(rng->key, rng->counter, rng->block);
        rng->counter[3] = (rng->counter[3] & 0xFFFF0000u) | ((rng->counter[3] + 1) & 0xFFFFu);
        rng->used = 0;
    }
    return rng->block[rng->used++];
}

double sluice_rng_double(struct sluice_rng *rng)
{
    const uint64_t high = sluice_rng_u32(rng);
    const uint64_t low = sluice_rng_u32(rng);
    return (double)((high << 32 | low) >> 11) * 0x1p-53;
}

uint32_t sluice_rng_below(struct sluice_rng *rng, uint32_t bound)
{
    uint64_t product = (uint64_t)sluice_rng_u32(rng) * bound;
    if ((uint32_t)product < bound) {
        const uint32_t threshold = -bound % bound;
        while ((uint32_t)product < threshold)
            product = (uint64_t)sluice_rng_u32(rng) * bound;
    }
    return (uint32_t)(product >> 32);
}
