#include "compute_client/replan/backpressure.h"

#include "plan/choice_cost.h"

#include <math.h>

struct weighted {
    double sum, weight;
};

static void add(struct weighted *mean, double value, double weight)
{
    mean->sum += weight * value;
    mean->weight += weight;
}

void sluice_backpressure_see(struct sluice_backpressure *backpressure,
                             const struct sluice_row_seen *rows, size_t num_rows)
{
    const struct sluice_tuning *tuning = backpressure->tuning;
    struct weighted storage = {0}, link = {0}, away = {0};
    for (size_t i = 0; i < num_rows; i++) {
        const struct sluice_row_seen *row = &rows[i];
        if (row->status != SLUICE_OK || row->arrived_ns <= row->requested_ns)
            continue;
        const double away_s = 1e-9 * (double)(row->arrived_ns - row->requested_ns);
        const double stored_s = fmin(1e-9 * (double)row->storage_ns, away_s);
        const double storage_cpu_s = 1e-9 * (double)row->storage_cpu_ns;
        if (storage_cpu_s >= tuning->least_work_s)
            add(&storage, stored_s / away_s, storage_cpu_s * away_s);
        add(&link, 1 - stored_s / away_s, (double)row->payload_bytes * away_s);
        add(&away, away_s, 1e-9 * (double)row->compute_cpu_ns);
    }
    const struct {
        double *mean;
        const struct weighted *seen;
    } means[] = {{&backpressure->storage_share, &storage},
                 {&backpressure->link_share, &link},
                 {&backpressure->away_s, &away}};
    for (size_t k = 0; k < 3; k++) {
        const double weight = backpressure->has_seen ? tuning->ewma_weight : 1;
        if (means[k].seen->weight > 0)
            *means[k].mean +=
                weight * (means[k].seen->sum / means[k].seen->weight - *means[k].mean);
    }
    backpressure->has_seen |= link.weight > 0;
}

void sluice_backpressure_factors(const struct sluice_backpressure *backpressure,
                                 const struct sluice_expected *under_way,
                                 const double dual[SLUICE_NUM_RESOURCES],
                                 const double per_s[SLUICE_NUM_RESOURCES],
                                 double factor[SLUICE_NUM_RESOURCES])
{
    const double queue_s[SLUICE_NUM_RESOURCES] = {
        [SLUICE_STORAGE_CPU] =
            backpressure->storage_share * under_way->storage_s / per_s[SLUICE_STORAGE_CPU],
        [SLUICE_NETWORK] = backpressure->link_share * under_way->bytes / per_s[SLUICE_NETWORK],
        [SLUICE_COMPUTE_CPU] =
            under_way->compute_s / per_s[SLUICE_COMPUTE_CPU] - backpressure->away_s,
    };
    unsigned limits = 0;
    int num_limits = 0;
    double sum_s = 0;
    SLUICE_EACH_RESOURCE (r, SLUICE_MODELLED_BY_SAMPLE) {
        if (dual[r] < backpressure->tuning->limit_dual)
            continue;
        limits |= 1u << r;
        num_limits++;
        sum_s += queue_s[r];
    }
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
        factor[r] = 1;
    if (!backpressure->has_seen || num_limits < 2)
        return;
    SLUICE_EACH_RESOURCE (r, limits)
        factor[r] = exp(backpressure->tuning->gain_per_s * (queue_s[r] - sum_s / num_limits));
}
