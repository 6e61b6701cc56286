#include "compute_client/replan/auto_state.h"

#include "base/compiler.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LOOK_CHANGE 0.05
#define NAMED_CHANGE 0.1

/* A resource is the limit, or close to it, from this share of the time of the slowest on; and one
 * with a price is (SLUICE_AUTO_PRICED). */
#define NEAR_LIMIT 0.9

/* Prices of storage CPU that are small beside this, over the number of its cores, are alike. */
#define PRICE_SCALE 0.2

struct sluice_auto_state sluice_auto_state_of(const struct sluice_rate_watch *watch,
                                              const struct sluice_auto_costs *costs,
                                              double storage_price)
{
    struct sluice_auto_state state;
    memcpy(state.of, watch->per_s, sizeof(watch->per_s));
    memcpy(state.of + SLUICE_NUM_RESOURCES, costs->factor, sizeof(costs->factor));
    state.of[SLUICE_AUTO_STATE_PRICE] =
        storage_price + PRICE_SCALE / watch->per_s[SLUICE_STORAGE_CPU];
    state.of[SLUICE_AUTO_STATE_READ] = costs->read_factor;
    return state;
}

double sluice_auto_slowest_s(const double load[SLUICE_NUM_RESOURCES],
                             const struct sluice_capacities *capacities,
                             enum sluice_resource *slowest)
{
    double slowest_s = 0;
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++) {
        const double busy_s = load[r] / capacities->per_s[r];
        if (!(busy_s > slowest_s))
            continue;
        slowest_s = busy_s;
        if (slowest)
            *slowest = (enum sluice_resource)r;
    }
    return slowest_s;
}

static double change_of(double before, double now)
{
    if (before == now)
        return 0;
    if (!isfinite(before) || !isfinite(now) || !(before > 0) || !(now > 0))
        return INFINITY;
    return fabs(log(now / before));
}

static enum sluice_resource side_of(size_t at)
{
    return (enum sluice_resource)((at - SLUICE_NUM_RESOURCES) % SLUICE_NUM_RESOURCES);
}

static unsigned choice_of(size_t at)
{
    return (unsigned)((at - SLUICE_NUM_RESOURCES) / SLUICE_NUM_RESOURCES);
}

static enum sluice_resource load_of(size_t at)
{
    if (at < SLUICE_NUM_RESOURCES)
        return (enum sluice_resource)at;
    if (at == SLUICE_AUTO_STATE_READ)
        return SLUICE_DISK;
    return at == SLUICE_AUTO_STATE_PRICE ? SLUICE_STORAGE_CPU : side_of(at);
}

/* Whether it matters that of[at] moved. */
static bool counts(const struct sluice_auto_burden *burden,
                   const struct sluice_capacities *capacities, size_t at, double before, double now)
{
    const enum sluice_resource r = load_of(at);
    if (at == SLUICE_AUTO_STATE_PRICE || burden->price[r] > SLUICE_AUTO_PRICED)
        return true;
    const bool is_factor = at >= SLUICE_NUM_RESOURCES;
    const double load = burden->load[r] * (is_factor ? fmax(1, now / before) : 1);
    return load > 0 && load / capacities->per_s[r] >=
                           NEAR_LIMIT * sluice_auto_slowest_s(burden->load, capacities, NULL);
}

bool sluice_auto_state_has_moved(const struct sluice_auto_state *before,
                                 const struct sluice_auto_state *now,
                                 const struct sluice_auto_burden *burden,
                                 const struct sluice_capacities *capacities)
{
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(now->of); i++) {
        if (change_of(before->of[i], now->of[i]) >= LOOK_CHANGE &&
            counts(burden, capacities, i, before->of[i], now->of[i]))
            return true;
    }
    return false;
}

/* --- words --- */

struct text {
    char *chars;
    size_t size;
};

static void SLUICE_PRINTF(2, 3) append(const struct text *text, const char *fmt, ...)
{
    const size_t used = strlen(text->chars);
    va_list args;
    va_start(args, fmt);
    vsnprintf(text->chars + used, text->size - used, fmt, args);
    va_end(args);
}

static const struct {
    double scale;
    const char *name;
} units[SLUICE_NUM_RESOURCES] = {
    [SLUICE_DISK] = {1e-6, "MB/s"},      [SLUICE_NETWORK] = {8e-6, "Mbit/s"},
    [SLUICE_STORAGE_CPU] = {1, "cores"}, [SLUICE_COMPUTE_CPU] = {1, "cores"},
    [SLUICE_GPU] = {1, "samples/s"},
};

static void name_change(const struct text *text, size_t at, const struct sluice_choices *choices,
                        const struct sluice_auto_state *before, const struct sluice_auto_state *now)
{
    const char *comma = text->chars[0] ? ", " : "";
    const double was = before->of[at], is = now->of[at];
    if (at < SLUICE_NUM_RESOURCES) {
        append(text, "%s%s %.3g -> %.3g %s", comma, sluice_resource_name((enum sluice_resource)at),
               was * units[at].scale, is * units[at].scale, units[at].name);
    } else if (at == SLUICE_AUTO_STATE_PRICE) {
        append(text, "%sprice of storage CPU %.3g -> %.3g", comma,
               was - PRICE_SCALE / before->of[SLUICE_STORAGE_CPU],
               is - PRICE_SCALE / now->of[SLUICE_STORAGE_CPU]);
    } else if (at == SLUICE_AUTO_STATE_READ) {
        append(text, "%sread of files x%.2f -> x%.2f", comma, was, is);
    } else {
        append(text, "%s%s of %s x%.2f -> x%.2f", comma, sluice_modelled_name(side_of(at)),
               sluice_choice_name(choices->at[choice_of(at)]), was, is);
    }
}

/* change[] gets how far each moved that counts; the index of the largest. */
static size_t find_changes(const struct sluice_auto_state *before,
                           const struct sluice_auto_state *now,
                           const struct sluice_auto_burden *burden_before,
                           const struct sluice_auto_burden *burden_now,
                           const struct sluice_capacities *capacities,
                           const struct sluice_auto_costs *costs,
                           double change[SLUICE_AUTO_NUM_STATES])
{
    size_t most = 0;
    for (size_t i = 0; i < SLUICE_AUTO_NUM_STATES; i++) {
        const double was = before->of[i];
        change[i] = change_of(was, now->of[i]);
        bool is_told = counts(burden_before, capacities, i, was, now->of[i]) ||
                       counts(burden_now, capacities, i, was, now->of[i]);
        if (i == SLUICE_AUTO_STATE_PRICE) /* the cores are in it, for scale */
            is_told = change_of(before->of[SLUICE_STORAGE_CPU], now->of[SLUICE_STORAGE_CPU]) <
                      LOOK_CHANGE;
        else if (i >= SLUICE_NUM_RESOURCES &&
                 i < SLUICE_AUTO_STATE_PRICE) /* what no row has shown follows from what others have
                                               */
            is_told &= costs->corrections[choice_of(i)][side_of(i)].rows > 0;
        if (!is_told)
            change[i] = 0;
        if (change[i] > change[most])
            most = i;
    }
    return most;
}

size_t sluice_auto_state_moved_most(const struct sluice_auto_state *before,
                                    const struct sluice_auto_state *now,
                                    const struct sluice_auto_burden *burden_before,
                                    const struct sluice_auto_burden *burden_now,
                                    const struct sluice_capacities *capacities,
                                    const struct sluice_auto_costs *costs)
{
    double change[SLUICE_AUTO_NUM_STATES];
    return find_changes(before, now, burden_before, burden_now, capacities, costs, change);
}

void sluice_auto_state_reason(const struct sluice_auto_state *before,
                              const struct sluice_auto_state *now,
                              const struct sluice_auto_burden *burden_before,
                              const struct sluice_auto_burden *burden_now,
                              const struct sluice_capacities *capacities,
                              const struct sluice_auto_costs *costs, char *chars, size_t size)
{
    const struct text text = {chars, size};
    double change[SLUICE_AUTO_NUM_STATES];
    chars[0] = '\0';
    const size_t most =
        find_changes(before, now, burden_before, burden_now, capacities, costs, change);
    name_change(&text, most, &costs->model.choices, before, now);
    for (size_t i = 0; i < SLUICE_AUTO_NUM_STATES; i++) {
        if (i != most && change[i] >= NAMED_CHANGE)
            name_change(&text, i, &costs->model.choices, before, now);
    }
}
