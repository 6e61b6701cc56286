#ifndef SLUICE_METRICS_HISTOGRAM_H
#define SLUICE_METRICS_HISTOGRAM_H

#include <stdint.h>

/* How long things took, counted in fixed buckets from 100 us to a minute, 2 to 2.5 times apart:
 * fine enough to tell a quantile within that factor.
 *
 * An entry costs a comparison for each bucket that it is above (18 at most) and two additions: some
 * 10 ns, small against a sample's 100 us and more.
 *
 * Threads: whoever holds a histogram locks it. */

#define SLUICE_HISTOGRAM_BUCKETS 18

/* Upper bounds, inclusive, ascending. */
extern const uint64_t sluice_histogram_bounds_ns[SLUICE_HISTOGRAM_BUCKETS];

/* {0} is an empty one. */
struct sluice_histogram {
    uint64_t counts[SLUICE_HISTOGRAM_BUCKETS + 1]; /* the last: above every bound */
    uint64_t sum_ns;
};

void sluice_histogram_add(struct sluice_histogram *histogram, uint64_t ns);

#endif
