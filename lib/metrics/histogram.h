#ifndef SLUICE_METRICS_HISTOGRAM_H
#define SLUICE_METRICS_HISTOGRAM_H

#include <stdint.h>

/* A histogram of durations with fixed buckets from 100 us to a minute, 2 to 2.5 times apart, so
 * that quantiles are known within that factor.
 *
 * An entry costs a comparison for each bucket below it (18 at most) and two additions: about 10 ns,
 * small compared with a sample's 100 us and more.
 *
 * Threads: the caller locks a histogram. */

#define SLUICE_HISTOGRAM_BUCKETS 18

/* Upper bounds, inclusive, ascending. */
extern const uint64_t sluice_histogram_bounds_ns[SLUICE_HISTOGRAM_BUCKETS];

/* {0} is empty. */
struct sluice_histogram {
    uint64_t counts[SLUICE_HISTOGRAM_BUCKETS + 1]; /* the last: above every bound */
    uint64_t sum_ns;
};

void sluice_histogram_add(struct sluice_histogram *histogram, uint64_t ns);

#endif
