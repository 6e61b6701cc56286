#include "plan/sizing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Half of what the header promises: the rest is for the planner's gap. */
#define CORES_PRECISION 0.005

/* A resource that is busy for this share of the time is full: plans are rounded to whole samples.
 */
#define NOTHING_LEFT 0.99

#define ROUNDING 1e-9

#define SIZED (1u << SLUICE_NETWORK | 1u << SLUICE_COMPUTE_CPU | 1u << SLUICE_RECEIVE)

/* Plans are made for one loader with its part of the machines. */
struct sizer {
    const struct sluice_form_menu *menu;
    const struct sluice_sizing_ask *ask;
    double limit_s; /* within which a loader needs its samples */
    uint8_t *choice;
    double bound_s; /* of the last plan */
    struct sluice_choice_forecast forecast;
};

static sluice_status init(struct sizer *sizer, const struct sluice_form_menu *menu,
                          const struct sluice_sizing_ask *ask, struct sluice_err *err)
{
    const size_t num_rows = menu->table->num_rows;
    *sizer = (struct sizer){.menu = menu, .ask = ask};
    if (!(ask->samples_per_s > 0) || !isfinite(ask->samples_per_s) || ask->num_loaders == 0 ||
        num_rows == 0)
        return sluice_fail(err, SLUICE_E_INVALID, "nothing can be sized for %zu samples at %g/s",
                           num_rows, ask->samples_per_s);
    sizer->limit_s = (double)num_rows * ask->num_loaders / ask->samples_per_s;
    sizer->choice = malloc(num_rows);
    if (!sizer->choice)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a plan of %zu samples",
                           num_rows);
    return SLUICE_OK;
}

static struct sluice_rates rates_of(const struct sizer *sizer, double storage_cores)
{
    const double loaders = sizer->ask->num_loaders;
    return (struct sluice_rates){
        .link_bytes_per_s = sizer->ask->link_bytes_per_s / loaders,
        .storage_cores = storage_cores / loaders,
        .compute_cores = sizer->ask->compute_cores / loaders,
        .gpu_samples_per_s = INFINITY,
        .disk_bytes_per_s = INFINITY,
    };
}

static sluice_status plan(struct sizer *sizer, double storage_cores, struct sluice_err *err)
{
    const struct sluice_rates rates = rates_of(sizer, storage_cores);
    const sluice_status status =
        sluice_form_menu_plan(sizer->menu, &rates, sizer->choice, &sizer->bound_s, err);
    if (status == SLUICE_OK)
        sizer->forecast = sluice_form_menu_forecast(sizer->menu, &rates, sizer->choice);
    return status;
}

static bool is_met(const struct sizer *sizer)
{
    return sizer->forecast.primal_s <= sizer->limit_s * (1 + ROUNDING);
}

/* The load of the last plan, not divided by capacities. */
static struct sluice_choice_forecast loads_of(const struct sizer *sizer)
{
    const struct sluice_rates units = {.link_bytes_per_s = 1,
                                       .storage_cores = 1,
                                       .compute_cores = 1,
                                       .gpu_samples_per_s = INFINITY,
                                       .disk_bytes_per_s = INFINITY};
    return sluice_form_menu_forecast(sizer->menu, &units, sizer->choice);
}

static double storage_cores_of(const struct sizer *sizer)
{
    return loads_of(sizer).busy_s[SLUICE_STORAGE_CPU] * sizer->ask->num_loaders / sizer->limit_s;
}

/* The last plan's use of resources in an epoch of epoch_s, and the mask of those that are full. */
static struct sluice_sizing sizing_of(const struct sizer *sizer, double storage_cores,
                                      double epoch_s, unsigned sized)
{
    const struct sluice_choice_forecast *forecast = &sizer->forecast, loads = loads_of(sizer);
    const double loaders = sizer->ask->num_loaders;
    struct sluice_sizing sizing = {
        .is_met = is_met(sizer),
        .samples_per_s = (double)sizer->menu->table->num_rows * loaders / forecast->primal_s,
    };
    sizing.storage_cores = sizing.is_met ? storage_cores : 0;
    sizing.compute_cores = loads.busy_s[SLUICE_COMPUTE_CPU] * loaders / epoch_s;
    sizing.link_bytes_per_s = loads.busy_s[SLUICE_NETWORK] * loaders / epoch_s;
    SLUICE_EACH_RESOURCE (r, sized) {
        if (forecast->busy_s[r] >= NOTHING_LEFT * epoch_s)
            sizing.binds |= 1u << r;
    }
    return sizing;
}

/* The least number of storage cores that any plan needs: with next to no cores available, the
 * planner minimises their use above all. */
static sluice_status find_least(struct sizer *sizer, double enough, double *least,
                                struct sluice_err *err)
{
    const sluice_status status = plan(sizer, enough * 1e-6, err);
    if (status == SLUICE_OK)
        *least = fmax(storage_cores_of(sizer), enough * 1e-6);
    return status;
}

/* Bisection over the logarithm, because more cores are never slower.  The load of the plan for any
 * number of cores is an upper bound of the answer, apart from the planner's gap. */
static sluice_status find_storage(struct sizer *sizer, struct sluice_sizing *sizing,
                                  struct sluice_err *err)
{
    sluice_status status = plan(sizer, INFINITY, err);
    if (status != SLUICE_OK)
        return status;
    if (!is_met(sizer)) {
        *sizing = sizing_of(sizer, 0, sizer->forecast.primal_s, SIZED);
        return SLUICE_OK;
    }
    double enough = storage_cores_of(sizer), too_few = 0;
    if (enough <= 0) {
        *sizing = sizing_of(sizer, 0, sizer->limit_s, SIZED);
        return SLUICE_OK;
    }
    status = find_least(sizer, enough, &too_few, err);
    if (status != SLUICE_OK)
        return status;
    too_few *= 1 - CORES_PRECISION;
    for (double cores = enough; status == SLUICE_OK;) {
        status = plan(sizer, cores, err);
        if (status != SLUICE_OK)
            break;
        if (is_met(sizer)) {
            *sizing = sizing_of(sizer, cores, sizer->limit_s, SIZED);
            enough = cores;
        } else {
            too_few = cores;
            enough = fmax(enough, cores * (1 + CORES_PRECISION));
        }
        if (sizing->is_met && enough <= too_few * (1 + CORES_PRECISION))
            break;
        cores = sizing->is_met ? sqrt(enough) * sqrt(too_few) : enough;
    }
    return status;
}

sluice_status sluice_size_storage(const struct sluice_form_menu *menu,
                                  const struct sluice_sizing_ask *ask, struct sluice_sizing *sizing,
                                  struct sluice_err *err)
{
    struct sizer sizer;
    sluice_status status = init(&sizer, menu, ask, err);
    *sizing = (struct sluice_sizing){0};
    if (status == SLUICE_OK)
        status = find_storage(&sizer, sizing, err);
    free(sizer.choice);
    return status;
}

sluice_status sluice_size_rate(const struct sluice_form_menu *menu,
                               const struct sluice_sizing_ask *ask, double storage_cores,
                               struct sluice_sizing *sizing, struct sluice_err *err)
{
    struct sizer sizer;
    sluice_status status = init(&sizer, menu, ask, err);
    if (status == SLUICE_OK)
        status = plan(&sizer, storage_cores, err);
    if (status == SLUICE_OK)
        *sizing = sizing_of(&sizer, storage_cores, sizer.forecast.primal_s,
                            SIZED | 1u << SLUICE_STORAGE_CPU);
    free(sizer.choice);
    return status;
}

sluice_status sluice_size_choice(const struct sluice_form_menu *menu,
                                 const struct sluice_sizing_ask *ask, unsigned choice,
                                 struct sluice_sizing *sizing, struct sluice_err *err)
{
    struct sizer sizer;
    const sluice_status status = init(&sizer, menu, ask, err);
    if (status == SLUICE_OK) {
        const struct sluice_rates rates = rates_of(&sizer, INFINITY);
        memset(sizer.choice, (int)choice, menu->table->num_rows);
        sizer.forecast = sluice_form_menu_forecast(menu, &rates, sizer.choice);
        *sizing = sizing_of(&sizer, storage_cores_of(&sizer),
                            is_met(&sizer) ? sizer.limit_s : sizer.forecast.primal_s, SIZED);
    }
    free(sizer.choice);
    return status;
}
