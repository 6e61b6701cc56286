#include "store/hedging.h"

#include "store/tuning.h"

#include <stdlib.h>
#include <string.h>

#define US UINT64_C(1000) /* ns */

/* Too few say nothing of one in a hundred. */
#define MIN_NOTED 100

/* A sort of 512 numbers takes some 20 us. */
#define NOTED_AT_A_TIME 32

struct sluice_hedging sluice_hedging_init(void)
{
    return (struct sluice_hedging){.after_ns = UINT64_MAX};
}

void sluice_hedging_count(struct sluice_hedging *hedging)
{
    if (hedging->saved < STORE_MAX_HEDGES_SAVED)
        hedging->saved += STORE_HEDGE_RATIO;
}

static int by_value(const void *a, const void *b)
{
    const uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
    return one < other ? -1 : one > other;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t find_after_ns(const struct sluice_hedging *hedging)
{
    uint32_t sorted[SLUICE_HEDGING_WINDOW];
    const size_t num =
        hedging->num_noted < SLUICE_HEDGING_WINDOW ? hedging->num_noted : SLUICE_HEDGING_WINDOW;
    memcpy(sorted, hedging->took_us, num * sizeof(sorted[0]));
    qsort(sorted, num, sizeof(sorted[0]), by_value);
    const uint64_t p50 = sorted[num / 2], p90 = sorted[num * 90 / 100],
                   p99 = sorted[num * 99 / 100];
    const uint64_t after_us = p99 < 3 * p90 ? p99 : 3 * p90;
    return larger(larger(after_us, 2 * p50) * US, STORE_HEDGE_FLOOR_MS * 1000 * US);
}

void sluice_hedging_note(struct sluice_hedging *hedging, uint64_t took_ns)
{
    const uint64_t took_us = took_ns / US;
    hedging->took_us[hedging->num_noted++ % SLUICE_HEDGING_WINDOW] =
        took_us < UINT32_MAX ? (uint32_t)took_us : UINT32_MAX;
    /* The ring stays full where the counter would begin anew. */
    if (hedging->num_noted == 2u * SLUICE_HEDGING_WINDOW)
        hedging->num_noted = SLUICE_HEDGING_WINDOW;
    hedging->num_new++;
    if (hedging->num_noted >= MIN_NOTED &&
        (hedging->num_new >= NOTED_AT_A_TIME || hedging->after_ns == UINT64_MAX)) {
        hedging->after_ns = find_after_ns(hedging);
        hedging->num_new = 0;
    }
}

uint64_t sluice_hedging_after_ns(const struct sluice_hedging *hedging)
{
    return hedging->saved >= 1 ? hedging->after_ns : UINT64_MAX;
}

void sluice_hedging_spend(struct sluice_hedging *hedging)
{
    hedging->saved -= 1;
}
