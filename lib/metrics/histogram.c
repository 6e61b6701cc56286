#include "metrics/histogram.h"

#include <stddef.h>

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define S UINT64_C(1000000000)

const uint64_t sluice_histogram_bounds_ns[SLUICE_HISTOGRAM_BUCKETS] = {
    100 * US, 250 * US, 500 * US, 1 * MS, 5 * MS / 2, 5 * MS, 10 * MS, 25 * MS, 50 * MS,
    100 * MS, 250 * MS, 500 * MS, 1 * S,  5 * S / 2,  5 * S,  10 * S,  25 * S,  60 * S,
};

void sluice_histogram_add(struct sluice_histogram *histogram, uint64_t ns)
{
    size_t bucket = 0;
    while (bucket < SLUICE_HISTOGRAM_BUCKETS && ns > sluice_histogram_bounds_ns[bucket])
        bucket++;
    histogram->counts[bucket]++;
    histogram->sum_ns += ns;
}
