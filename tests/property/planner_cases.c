#include "property/planner_cases.h"

#include <math.h>
#include <string.h>

void planner_make_case(struct sluice_rng *rng, int kind, size_t num_samples, unsigned num_choices,
                       struct sluice_menu *menus, struct sluice_capacities *capacities)
{
    enum { LOADS = SLUICE_NUM_RESOURCES };
    const int num = (int)num_choices;
    double base[SLUICE_MENU_CHOICES][LOADS];
    for (int c = 0; c < num; c++) {
        for (int r = 0; r < LOADS; r++)
            base[c][r] = exp2(sluice_rng_double(rng) * 6);
    }
    *capacities = (struct sluice_capacities){0};
    for (int r = 0; r < LOADS; r++) {
        capacities->per_s[r] = exp2(sluice_rng_double(rng) * 4 - 2);
        if (kind != 5 && sluice_rng_below(rng, 6) == 0)
            capacities->per_s[r] = INFINITY;
    }
    for (size_t i = 0; i < num_samples; i++) {
        double cost[SLUICE_MENU_CHOICES][LOADS];
        const double size = exp2(4 * sluice_rng_double(rng));
        for (int c = 0; c < num; c++) {
            for (int r = 0; r < LOADS; r++) {
                const double u = sluice_rng_double(rng);
                switch (kind) {
                case 0:
                    cost[c][r] = u;
                    break;
                case 1:
                    cost[c][r] = base[c][r] * size;
                    break;
                case 2:
                    cost[c][r] = base[c][r];
                    break;
                case 3:
                    cost[c][r] = base[c][r] * size * (0.5 + u);
                    break;
                case 4:
                    cost[c][r] = u < 0.5 ? 0 : exp2(10 * u);
                    break;
                case 5:
                    cost[c][r] = r == 2 ? u : 1e-9 * u;
                    break;
                case 6:
                    cost[c][r] = c % LOADS == r ? base[c][r] * (0.9 + 0.2 * u) : 0;
                    break;
                case 7:
                    cost[c][r] = r == PLANNER_GIVEN ? 1e4 * size
                                 : r == SLUICE_DISK ? size
                                                    : base[c][r] * (0.5 + u);
                    break;
                default:
                    cost[c][r] = i == 0 ? (double)num_samples * (1 + u) : u;
                }
            }
        }
        const unsigned num_own = kind == 2 ? num_choices : 1 + sluice_rng_below(rng, num_choices);
        for (unsigned c = num_own; c < num_choices; c++)
            memcpy(cost[c], cost[0], sizeof(cost[0]));
        sluice_menu_set(&menus[i], num_choices, (const double(*)[LOADS])cost);
    }
}

void planner_make_prices(struct sluice_rng *rng, struct sluice_capacities *capacities)
{
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++) {
        const double external_cost_s = exp2(sluice_rng_double(rng) * 14 - 10);
        capacities->external_cost_s[r] = sluice_rng_below(rng, 3) ? 0 : external_cost_s;
    }
}

void planner_make_shared(struct sluice_rng *rng, struct sluice_capacities *capacities)
{
    const double cores =
        capacities->per_s[SLUICE_STORAGE_CPU] + capacities->per_s[SLUICE_COMPUTE_CPU];
    capacities->shared_cores = (isfinite(cores) ? cores : 4) * (0.3 + 0.7 * sluice_rng_double(rng));
}

double planner_capacity_of(const struct sluice_capacities *capacities, int load)
{
    if (load != SLUICE_SHARED_CPU)
        return capacities->per_s[load];
    return capacities->shared_cores > 0 ? capacities->shared_cores : INFINITY;
}

double planner_cost_of(const struct sluice_menu *menus, size_t num_samples,
                       const struct sluice_capacities *capacities, const uint8_t *choice)
{
    double slowest_s = 0, external_s = 0;
    for (int r = 0; r < SLUICE_NUM_LOADS; r++) {
        double sum = 0;
        for (size_t i = num_samples; i-- > 0;)
            sum += sluice_menu_cost(&menus[i], r, choice[i]);
        slowest_s = fmax(slowest_s, sum / planner_capacity_of(capacities, r));
        external_s += r == SLUICE_SHARED_CPU ? 0 : sum * capacities->external_cost_s[r];
    }
    return slowest_s + external_s;
}
