#include "compute_client/replan/auto_queues.h"

#include "base/compiler.h"
#include "compute_client/replan/auto_costs.h"
#include "compute_client/replan/auto_state.h"

#include <math.h>

/* For each second that a queue is longer than the mean; and at most, as a logarithm. */
#define GAIN 3.0
#define MOST_LEAN 0.3

/* Of what was seen last, in the mean. */
#define SEEN_WEIGHT 0.5

struct share {
    double part, all;
};

static void blend(double *mean, const struct share *seen, bool is_first)
{
    if (seen->all > 0)
        *mean += (is_first ? 1 : SEEN_WEIGHT) * (seen->part / seen->all - *mean);
}

void sluice_auto_queues_see(struct sluice_auto_queues *queues, const struct sluice_row_seen *rows,
                            size_t num_rows)
{
    struct share storage = {0}, link = {0}, compute = {0};
    for (size_t i = 0; i < num_rows; i++) {
        const struct sluice_row_seen *row = &rows[i];
        if (row->status != SLUICE_OK || row->arrived_ns <= row->requested_ns)
            continue;
        const double away_s = 1e-9 * (double)(row->arrived_ns - row->requested_ns);
        const double stored_s = fmin(1e-9 * (double)row->storage_ns, away_s);
        const double storage_cpu_s = 1e-9 * (double)row->storage_cpu_ns;
        const double compute_cpu_s = 1e-9 * (double)row->compute_cpu_ns;
        const double bytes = (double)row->payload_bytes;
        if (storage_cpu_s >= SLUICE_LEAST_LEARNT_S) {
            storage.part += storage_cpu_s * stored_s;
            storage.all += storage_cpu_s * away_s;
        }
        link.part += bytes * (away_s - stored_s);
        link.all += bytes * away_s;
        compute.part += compute_cpu_s * away_s;
        compute.all += compute_cpu_s;
    }
    const bool is_first = !queues->has_seen;
    queues->has_seen |= link.all > 0;
    blend(&queues->storage_part, &storage, is_first);
    blend(&queues->link_part, &link, is_first);
    blend(&queues->compute_away_s, &compute, is_first);
}

void sluice_auto_queues_lean(const struct sluice_auto_queues *queues,
                             const struct sluice_expected *under_way,
                             const double price[SLUICE_NUM_RESOURCES],
                             const double per_s[SLUICE_NUM_RESOURCES],
                             double by[SLUICE_NUM_RESOURCES])
{
    const struct {
        enum sluice_resource load;
        double queue_s;
    } watched[] = {
        {SLUICE_STORAGE_CPU,
         queues->storage_part * under_way->storage_s / per_s[SLUICE_STORAGE_CPU]},
        {SLUICE_NETWORK, queues->link_part * under_way->bytes / per_s[SLUICE_NETWORK]},
        {SLUICE_COMPUTE_CPU,
         under_way->compute_s / per_s[SLUICE_COMPUTE_CPU] - queues->compute_away_s},
    };
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
        by[r] = 1;
    double sum_s = 0;
    int num_limits = 0;
    for (size_t k = 0; k < SLUICE_ARRAY_LEN(watched); k++) {
        if (price[watched[k].load] < SLUICE_AUTO_PRICED)
            continue;
        sum_s += watched[k].queue_s;
        num_limits++;
    }
    if (!queues->has_seen || num_limits < 2)
        return;
    for (size_t k = 0; k < SLUICE_ARRAY_LEN(watched); k++) {
        if (price[watched[k].load] < SLUICE_AUTO_PRICED)
            continue;
        const double lean = GAIN * (watched[k].queue_s - sum_s / num_limits);
        by[watched[k].load] = exp(fmin(fmax(lean, -MOST_LEAN), MOST_LEAN));
    }
}
