#include "compute_client/auto_queues.h"

#include "base/compiler.h"
#include "compute_client/auto_costs.h"

#include <math.h>

/* For each second that a queue is longer than the mean; and at most, as a logarithm. */
#define GAIN 3.0
#define MOST_LEAN 0.3

/* A resource is a limit from this part of the prices on. */
#define PRICED 0.01

/* Of what was seen last, in the mean. */
#define SEEN_WEIGHT 0.5

static void blend(double *mean, double sum, double weight, bool is_first)
{
    if (weight > 0)
        *mean += (is_first ? 1 : SEEN_WEIGHT) * (sum / weight - *mean);
}

void sluice_auto_queues_see(struct sluice_auto_queues *queues, const struct sluice_row_seen *rows,
                            size_t num_rows)
{
    double away_bytes = 0, link_bytes = 0, away_cpu = 0, storage_cpu = 0, compute_s = 0, cpu_s = 0;
    for (size_t i = 0; i < num_rows; i++) {
        const struct sluice_row_seen *row = &rows[i];
        if (row->status != SLUICE_OK || row->arrived_ns <= row->requested_ns)
            continue;
        const double away_s = 1e-9 * (double)(row->arrived_ns - row->requested_ns);
        const double storage_s = fmin(1e-9 * (double)row->storage_ns, away_s);
        const double worked_s = 1e-9 * (double)row->storage_cpu_ns;
        if (worked_s >= SLUICE_LEAST_LEARNT_S) {
            storage_cpu += worked_s * storage_s;
            away_cpu += worked_s * away_s;
        }
        link_bytes += (double)row->payload_bytes * (away_s - storage_s);
        away_bytes += (double)row->payload_bytes * away_s;
        compute_s += (double)row->compute_cpu_ns * away_s;
        cpu_s += (double)row->compute_cpu_ns;
    }
    const bool is_first = !queues->has_seen;
    queues->has_seen |= away_bytes > 0;
    blend(&queues->storage_part, storage_cpu, away_cpu, is_first);
    blend(&queues->link_part, link_bytes, away_bytes, is_first);
    blend(&queues->compute_away_s, compute_s, cpu_s, is_first);
}

void sluice_auto_queues_lean(const struct sluice_auto_queues *queues,
                             const struct sluice_expected *under_way,
                             const double price[SLUICE_NUM_LOADS],
                             const double per_s[SLUICE_NUM_LOADS], double by[SLUICE_NUM_LOADS])
{
    const struct {
        enum sluice_load load;
        double queue_s;
    } watched[] = {
        {SLUICE_LOAD_STORAGE_CPU,
         queues->storage_part * under_way->storage_s / per_s[SLUICE_LOAD_STORAGE_CPU]},
        {SLUICE_LOAD_NET_DOWN, queues->link_part * under_way->bytes / per_s[SLUICE_LOAD_NET_DOWN]},
        {SLUICE_LOAD_COMPUTE_CPU,
         under_way->compute_s / per_s[SLUICE_LOAD_COMPUTE_CPU] - queues->compute_away_s},
    };
    for (int r = 0; r < SLUICE_NUM_LOADS; r++)
        by[r] = 1;
    double sum_s = 0;
    int num_limits = 0;
    for (size_t k = 0; k < SLUICE_ARRAY_LEN(watched); k++) {
        if (price[watched[k].load] < PRICED)
            continue;
        sum_s += watched[k].queue_s;
        num_limits++;
    }
    if (!queues->has_seen || num_limits < 2)
        return;
    for (size_t k = 0; k < SLUICE_ARRAY_LEN(watched); k++) {
        if (price[watched[k].load] < PRICED)
            continue;
        const double lean = GAIN * (watched[k].queue_s - sum_s / num_limits);
        by[watched[k].load] = exp(fmin(fmax(lean, -MOST_LEAN), MOST_LEAN));
    }
}
