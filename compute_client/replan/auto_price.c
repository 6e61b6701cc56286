#include "compute_client/replan/auto_price.h"

#include <math.h>

#define FOLLOW 1.0 /* 1/s */

/* However long it was since the last: of the way, and of the natural logarithm of the use. */
#define MOST_GAIN 0.5
#define MOST_STEP 0.3

#define USED_WEIGHT 0.5
#define MOST_WORTH 0x1p30
#define UNUSED 0.99
#define LEAST_USE 0.01 /* of the cores: from nothing no step leads anywhere */

void sluice_auto_price_hear(struct sluice_auto_price *price, const struct sluice_row_seen *rows,
                            size_t num_rows)
{
    uint64_t last_ns = 0;
    for (size_t i = 0; i < num_rows; i++) {
        if (rows[i].arrived_ns >= last_ns) {
            last_ns = rows[i].arrived_ns;
            price->heard = rows[i].storage_price;
        }
    }
}

bool sluice_auto_price_is_followed(const struct sluice_auto_price *price)
{
    return price->heard > SLUICE_RATE_WATCH_PRICED;
}

void sluice_auto_price_see_used(struct sluice_auto_price *price, double cores)
{
    price->used += USED_WEIGHT * (cores - price->used);
}

double sluice_auto_price_next_use(struct sluice_auto_price *price, uint64_t now_ns, double cores)
{
    if (!sluice_auto_price_is_followed(price)) {
        price->use = 0;
        return 0;
    }
    if (price->use > 0) {
        const double seconds = (double)(now_ns - price->moved_ns) * 1e-9;
        const double gain = fmin(FOLLOW * seconds, MOST_GAIN);
        double step = price->last_worth > 0 ? gain * log(price->last_worth / price->heard) : 0;
        if (!(price->worth > 0)) /* there is no use for more */
            step = fmin(step, 0);
        price->use *= exp(fmin(fmax(step, -MOST_STEP), MOST_STEP));
    } else {
        price->use = price->used;
    }
    price->moved_ns = now_ns;
    price->use = fmin(fmax(price->use, LEAST_USE * cores), cores);
    return price->use;
}

void sluice_auto_price_planned(struct sluice_auto_price *price, double cores,
                               const struct sluice_lp_result *result, size_t num_items)
{
    const double seconds = result->primal_s - result->external_s;
    const double part = seconds > 0 ? result->busy_s[SLUICE_STORAGE_CPU] / seconds : 0;
    const double p = result->dual[SLUICE_STORAGE_CPU];
    const double priced_s = seconds / (double)num_items * SLUICE_PRICED_SAMPLES;
    price->worth = fmin(p * priced_s / cores, MOST_WORTH);
    if (part < UNUSED || !(p > 0)) { /* something else is the limit */
        price->use *= part;
        price->worth = 0;
    } else {
        price->last_worth = price->worth;
    }
}
