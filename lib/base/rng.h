#ifndef SLUICE_BASE_RNG_H
#define SLUICE_BASE_RNG_H

#include <stdint.h>

/* Random numbers that are a pure function of their purpose.
 *
 * Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel Random Numbers: As Easy as 1, 2, 3", SC'11):
 * a block cipher over a counter.  The key is the seed; the counter names the sample, the epoch, the
 * op and the block within the op.  So every node computes the same draws, and none is sent.
 *
 * Threads: pure functions and a value of the caller's. */

void sluice_philox4x32_10(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);

/* A stream of draws for one (seed, epoch, sample, op). */
struct sluice_rng {
    uint32_t key[2];
    uint32_t counter[4]; /* sample low, sample high, epoch, op << 16 | block */
    uint32_t block[4];
    unsigned used; /* words of `block` handed out; 4: the next draw makes a block */
};

/* op < 65,536; a stream has 65,536 blocks of four words, then it repeats. */
struct sluice_rng sluice_rng_init(uint64_t seed, uint32_t epoch, uint64_t sample_id, uint32_t op);

uint32_t sluice_rng_u32(struct sluice_rng *rng);

/* Uniform in [0, 1) with 53 bits, from two words (the first gives the upper bits). */
double sluice_rng_double(struct sluice_rng *rng);

/* Uniform in [0, bound), bound >= 1, without bias (Lemire, "Fast Random Integer
 * Generation in an Interval", 2019; 64-bit product, rejection). */
uint32_t sluice_rng_below(struct sluice_rng *rng, uint32_t bound);

#endif
