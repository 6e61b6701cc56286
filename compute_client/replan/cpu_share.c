#include "compute_client/replan/cpu_share.h"

#include <math.h>

void sluice_cpu_share_see(struct sluice_cpu_share *share, double price, double used)
{
    share->price = price;
    share->used += share->tuning->ewma_weight * (used - share->used);
}

double sluice_cpu_share_next(struct sluice_cpu_share *share, uint64_t now_ns, double all_cores)
{
    const struct sluice_tuning *tuning = share->tuning;
    if (!(share->price > 0)) {
        share->cores = 0;
        return 0;
    }
    if (share->cores > 0) {
        const double seconds = (double)(now_ns - share->moved_ns) * 1e-9;
        double step = share->last_worth > 0
                          ? tuning->follow_per_s * seconds * log(share->last_worth / share->price)
                          : 0;
        if (!(share->worth > 0)) /* more would not be used */
            step = fmin(step, 0);
        share->cores *= exp(fmin(fmax(step, -tuning->max_share_step), tuning->max_share_step));
    } else {
        share->cores = share->used;
    }
    share->moved_ns = now_ns;
    share->cores = fmin(fmax(share->cores, tuning->least_share * all_cores), all_cores);
    return share->cores;
}

void sluice_cpu_share_planned(struct sluice_cpu_share *share, double cores,
                              const struct sluice_lp_result *result, size_t num_items)
{
    const double seconds = result->primal_s - result->external_s;
    const double dual = result->dual[SLUICE_STORAGE_CPU];
    const double part = seconds > 0 ? result->busy_s[SLUICE_STORAGE_CPU] / seconds : 0;
    if (part < 0.99 || !(dual > 0)) { /* something else is the limit */
        share->cores *= part;
        share->worth = 0;
        return;
    }
    share->worth = dual * seconds / (double)num_items * SLUICE_PRICED_SAMPLES / cores;
    share->last_worth = share->worth;
}
