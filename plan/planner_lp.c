#include "plan/planner_lp.h"

#include "plan/cheapest.h"
#include "plan/mixture.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NUM_LOADS SLUICE_NUM_LOADS
#define MAX_PASSES 400

/* Duals are first found on a part of the samples: this many, then 16 times as many, and so on. */
#define FIRST_PART 4096
#define PART_GROWTH 16

/* Where the search ends: the mixture of plans is this close to the bound. */
#define PART_TOLERANCE 1e-4
#define WHOLE_TOLERANCE 3e-5
#define ROUNDED_TOLERANCE 1e-4 /* nothing to repair */

struct sluice_capacities sluice_capacities_of(const struct sluice_rates *rates)
{
    return (struct sluice_capacities){
        .per_s =
            {
                [SLUICE_DISK] = rates->disk_bytes_per_s > 0 ? rates->disk_bytes_per_s : 1,
                [SLUICE_STORAGE_CPU] = rates->storage_cores,
                [SLUICE_NETWORK] = rates->link_bytes_per_s,
                [SLUICE_RECEIVE] = 1,
                [SLUICE_COMPUTE_CPU] = rates->compute_cores,
                [SLUICE_PCIE] = rates->pcie_bytes_per_s > 0 ? rates->pcie_bytes_per_s : INFINITY,
                [SLUICE_GPU] = rates->gpu_samples_per_s > 0 ? 1 : rates->gpu_samples_per_s,
            },
        .shared_cores = rates->shared_cores,
    };
}

/* --- one pass over the samples --- */

struct problem {
    const struct sluice_menu_source *source;
    struct sluice_menu *scratch;       /* SLUICE_MENU_BLOCK */
    double per_unit_s[NUM_LOADS];      /* 1 / capacity; 0: left out of the search */
    double external_cost_s[NUM_LOADS]; /* of a unit, from outside */
};

/* The loads that no choice changes.  They are in every plan's time and in no decision: they would
 * only hide what the choices do to the rest. */
struct given {
    bool has_shared_cpu; /* else SLUICE_SHARED_CPU is left out, whatever the menus say */
    unsigned num_loads;
    unsigned char load[NUM_LOADS];
};

/* Whether all choices load the same. */
static bool is_alike(const struct sluice_menu *menu, unsigned load)
{
    const uint16_t first = menu->share[0][load][0];
    const uint16_t four[SLUICE_MENU_GROUP] = {first, first, first, first};
    bool is_alike = true;
    for (unsigned g = 0; is_alike && g < sluice_menu_num_groups(menu->num_choices); g++)
        is_alike = memcmp(menu->share[g][load], four, sizeof(four)) == 0;
    return is_alike;
}

/* Keeps the loads that all choices of each menu load equally. */
static void keep_given(struct given *given, const struct sluice_menu_source *source,
                       const struct sluice_menu *menus, size_t num_menus)
{
    for (size_t i = 0; i < num_menus; i++) {
        for (unsigned k = 0; k < given->num_loads; k++) {
            if (given->load[k] == SLUICE_SHARED_CPU && !given->has_shared_cpu)
                continue;
            if (!is_alike(sluice_menu_at(source, menus, i), given->load[k]))
                given->load[k--] = given->load[--given->num_loads];
        }
    }
}

static bool is_given(const struct given *given, int load)
{
    return memchr(given->load, load, given->num_loads) != NULL;
}

static void weights_at(const struct problem *problem, const double dual[NUM_LOADS],
                       float weight[NUM_LOADS])
{
    double w[NUM_LOADS], most = 0;
    for (int r = 0; r < NUM_LOADS; r++) {
        w[r] = dual[r] * problem->per_unit_s[r] + problem->external_cost_s[r];
        most = w[r] > most ? w[r] : most;
    }
    /* Only ratios matter; near 1 they are far from the ends of a float's range. */
    for (int r = 0; r < NUM_LOADS; r++)
        weight[r] = most > 0 ? (float)(w[r] / most) : 0;
}

static void add_loads(const struct problem *problem, uint64_t first, size_t num_menus,
                      const float weight[NUM_LOADS], double units[NUM_LOADS], struct given *given)
{
    const struct sluice_menu_source *source = problem->source;
    const struct sluice_menu *menus = sluice_menus_get(source, first, num_menus, problem->scratch);
    if (given)
        keep_given(given, source, menus, num_menus);
    uint8_t choice[SLUICE_MENU_BLOCK];
    sluice_choose_cheapest(menus, source->stride, num_menus, weight, choice);
    for (size_t i = 0; i < num_menus; i++) {
        const struct sluice_menu *menu = sluice_menu_at(source, menus, i);
        for (int r = 0; r < NUM_LOADS; r++)
            units[r] += sluice_menu_cost(menu, r, choice[i]);
    }
}

static double external_of(const struct problem *problem, const double units[NUM_LOADS])
{
    double sum_s = 0;
    for (int r = 0; r < NUM_LOADS; r++)
        sum_s += units[r] * problem->external_cost_s[r];
    return sum_s;
}

/* Fills cut->load_s for cut->dual, from one sample in `stride`, scaled up.  *given, unless it is
 * NULL, keeps what these samples agree with. */
static void evaluate(const struct problem *problem, uint64_t stride, struct sluice_cut *cut,
                     struct given *given)
{
    const uint64_t n = problem->source->num_samples;
    float weight[NUM_LOADS];
    weights_at(problem, cut->dual, weight);

    double units[NUM_LOADS] = {0};
    double scale = 1;
    if (stride == 1) {
        for (uint64_t i = 0; i < n; i += SLUICE_MENU_BLOCK) {
            const size_t count = n - i < SLUICE_MENU_BLOCK ? (size_t)(n - i) : SLUICE_MENU_BLOCK;
            add_loads(problem, i, count, weight, units, given);
        }
    } else {
        const uint64_t num_taken = n / stride;
        for (uint64_t i = 0; i < num_taken; i++) {
            /* Anywhere in its stride, so that no period of the data can hide. */
            const uint64_t at = i * stride + (i * 0x9e3779b97f4a7c15u >> 32) % stride;
            add_loads(problem, at, 1, weight, units, given);
        }
        scale = (double)n / (double)num_taken;
    }
    const double external_s = external_of(problem, units) * scale;
    for (int r = 0; r < NUM_LOADS; r++)
        cut->load_s[r] = units[r] * scale * problem->per_unit_s[r] + external_s;
    cut->is_estimate = stride != 1;
}

static double value_at(const struct sluice_cut *cut, const double dual[NUM_LOADS])
{
    double value = 0;
    for (int r = 0; r < NUM_LOADS; r++)
        value += cut->load_s[r] * dual[r];
    return value;
}

/* --- the search for the duals --- */

struct search {
    struct sluice_cut cuts[SLUICE_MAX_CUTS];
    unsigned num_cuts;
    double best_s; /* highest D so far, of this stride */
    double best_dual[NUM_LOADS];
    unsigned num_passes;
    struct sluice_mixture mixture; /* of the last step */
};

/* Makes room by dropping the plane that is highest above the best duals and not in use. */
static struct sluice_cut *add_cut(struct search *search)
{
    if (search->num_cuts < SLUICE_MAX_CUTS)
        return &search->cuts[search->num_cuts++];
    unsigned drop = 0;
    double highest = -1;
    for (unsigned k = 0; k < search->num_cuts; k++) {
        const double value = value_at(&search->cuts[k], search->best_dual);
        if (search->mixture.part[k] == 0 && value > highest) {
            highest = value;
            drop = k;
        }
    }
    return &search->cuts[drop];
}

/* Evaluates `cut` at its duals; true if the bound rose. */
static bool probe(const struct problem *problem, uint64_t stride, struct search *search,
                  struct sluice_cut *cut, struct given *given)
{
    evaluate(problem, stride, cut, given);
    if (stride == 1)
        search->num_passes++;
    const double value_s = value_at(cut, cut->dual);
    if (value_s <= search->best_s)
        return false;
    search->best_s = value_s;
    memcpy(search->best_dual, cut->dual, sizeof(search->best_dual));
    return true;
}

/* False: a load that was left out does depend on choices; *given has those that do not, and the
 * search must start again. */
static bool search_duals(const struct problem *problem, uint64_t stride, double tolerance,
                         struct search *search, struct given *given)
{
    const unsigned num_given = given->num_loads;
    /* The bound of a part says nothing about the whole: only its duals and its planes, as
     * estimates, are of use. */
    search->best_s = -1;
    for (unsigned k = 0; k < search->num_cuts; k++)
        search->cuts[k].is_estimate = true;
    struct sluice_cut *cut = add_cut(search);
    memcpy(cut->dual, search->best_dual, sizeof(cut->dual));
    probe(problem, stride, search, cut, given);
    if (given->num_loads < num_given)
        return false;
    cut->is_estimate = false;

    double inward = 0.5; /* how far to stay on the side of the best duals */
    for (int pass = 0; pass < MAX_PASSES; pass++) {
        struct sluice_mixture *mixture = &search->mixture;
        sluice_mixture_solve(search->cuts, search->num_cuts, true, mixture);
        struct sluice_cut *heaviest = NULL;
        double most = 1e-9;
        for (unsigned k = 0; k < search->num_cuts; k++) {
            if (search->cuts[k].is_estimate && mixture->part[k] > most) {
                most = mixture->part[k];
                heaviest = &search->cuts[k];
            }
        }
        if (heaviest) { /* an estimate that matters: see what it is */
            probe(problem, stride, search, heaviest, NULL);
            heaviest->is_estimate = false;
            continue;
        }
        if (mixture->worst_s - search->best_s <= tolerance * search->best_s)
            break;
        cut = add_cut(search);
        for (int r = 0; r < NUM_LOADS; r++)
            cut->dual[r] = inward * search->best_dual[r] + (1 - inward) * mixture->dual[r];
        const bool is_better = probe(problem, stride, search, cut, NULL);
        cut->is_estimate = false;
        /* A plane that does not reach the mixture's duals leaves them where they are: go there. */
        const bool cuts_off =
            value_at(cut, mixture->dual) < mixture->worst_s * (1 - tolerance / 16);
        if (!is_better && !cuts_off) {
            if (inward == 0)
                break; /* the limit of double */
            inward = 0;
        } else {
            inward = 0.5;
        }
    }
    /* Estimates left at the end of the passes are not part of a plan. */
    sluice_mixture_solve(search->cuts, search->num_cuts, false, &search->mixture);
    return true;
}

/* Leaves the given loads out, and starts with equal duals of the others. */
static void begin_search(struct problem *problem, const double capacity[NUM_LOADS],
                         const struct given *given, struct search *search)
{
    const unsigned num_searched = NUM_LOADS - given->num_loads;
    search->num_cuts = 0;
    for (int r = 0; r < NUM_LOADS; r++) {
        const bool is_left_out = is_given(given, r);
        problem->per_unit_s[r] = is_left_out ? 0 : 1 / capacity[r];
        search->best_dual[r] = num_searched == 0 ? 1.0 / NUM_LOADS
                               : is_left_out     ? 0
                                                 : 1.0 / num_searched;
    }
}

/* The given loads are guessed from the first samples, so that no pass is spent on that alone, and
 * checked in the first pass over each part and over the whole. */
static void search_all(struct problem *problem, const double capacity[NUM_LOADS],
                       struct search *search, struct given *given)
{
    const struct sluice_menu_source *source = problem->source;
    const uint64_t n = source->num_samples;
    const size_t count = n < SLUICE_MENU_BLOCK ? (size_t)n : SLUICE_MENU_BLOCK;
    if (count > 0)
        keep_given(given, source, sluice_menus_get(source, 0, count, problem->scratch), count);
    uint64_t first_stride = 1;
    while (n / first_stride / PART_GROWTH >= FIRST_PART)
        first_stride *= PART_GROWTH;

    uint64_t stride = first_stride;
    begin_search(problem, capacity, given, search);
    while (stride > 0) {
        const double tolerance = stride > 1 ? PART_TOLERANCE : WHOLE_TOLERANCE;
        if (search_duals(problem, stride, tolerance, search, given)) {
            stride /= PART_GROWTH;
        } else {
            begin_search(problem, capacity, given, search);
            stride = first_stride;
        }
    }
}

/* --- from a mixture to a plan --- */

static void make_dual_plan(const struct problem *problem, const struct search *search,
                           struct sluice_dual_plan *plan)
{
    double mixed_s[NUM_LOADS] = {0};
    memset(plan, 0, sizeof(*plan));
    double sum = 0;
    for (unsigned k = 0; k < search->num_cuts; k++) {
        const double part = search->mixture.part[k];
        if (part <= 1e-12 || plan->num_duals == NUM_LOADS + 1)
            continue;
        weights_at(problem, search->cuts[k].dual, plan->weight[plan->num_duals]);
        plan->part[plan->num_duals++] = part;
        sum += part;
        for (int r = 0; r < NUM_LOADS; r++)
            mixed_s[r] += part * search->cuts[k].load_s[r];
    }
    for (unsigned k = 0; k < plan->num_duals; k++)
        plan->part[k] /= sum;
    for (int r = 0; r < NUM_LOADS; r++) {
        /* A resource with time to spare may take an error for the sake of the others, unless it
         * is paid for. */
        const bool is_tight = mixed_s[r] > 0.99 * search->mixture.worst_s;
        plan->scale[r] =
            problem->per_unit_s[r] * (is_tight ? 1 : 0x1p-10) + problem->external_cost_s[r];
    }
}

unsigned sluice_dual_plan_choose(const struct sluice_dual_plan *plan,
                                 struct sluice_dual_balance *balance,
                                 const struct sluice_menu *menu)
{
    uint8_t wanted[NUM_LOADS + 1] = {0};
    bool is_agreed = true;
    for (unsigned k = 0; k < plan->num_duals; k++) {
        sluice_choose_cheapest(menu, 0, 1, plan->weight[k], &wanted[k]);
        is_agreed = is_agreed && wanted[k] == wanted[0];
    }
    if (is_agreed)
        return wanted[0];

    /* The load by the mixture plus the error carried from earlier samples; then the choice that
     * leaves the smallest error. */
    double due[NUM_LOADS];
    for (int r = 0; r < NUM_LOADS; r++) {
        due[r] = balance->error[r];
        for (unsigned k = 0; k < plan->num_duals; k++)
            due[r] += plan->part[k] * sluice_menu_cost(menu, r, wanted[k]);
    }
    unsigned best = wanted[0];
    double least = INFINITY;
    for (unsigned k = 0; k < plan->num_duals; k++) {
        double owed = 0;
        for (int r = 0; r < NUM_LOADS; r++) {
            const double error = plan->scale[r] * (due[r] - sluice_menu_cost(menu, r, wanted[k]));
            owed += error * error;
        }
        if (owed < least) {
            least = owed;
            best = wanted[k];
        }
    }
    for (int r = 0; r < NUM_LOADS; r++)
        balance->error[r] = due[r] - sluice_menu_cost(menu, r, best);
    return best;
}

/* *choice gets the plan, unless it is NULL; units[] its loads. */
static void round_plan(const struct problem *problem, const struct sluice_dual_plan *plan,
                       uint8_t *choice, double units[NUM_LOADS])
{
    const struct sluice_menu_source *source = problem->source;
    const uint64_t n = source->num_samples;
    struct sluice_dual_balance balance = {0};
    memset(units, 0, NUM_LOADS * sizeof(*units));
    for (uint64_t i = 0; i < n; i += SLUICE_MENU_BLOCK) {
        const size_t count = n - i < SLUICE_MENU_BLOCK ? (size_t)(n - i) : SLUICE_MENU_BLOCK;
        const struct sluice_menu *menus = sluice_menus_get(source, i, count, problem->scratch);
        for (size_t j = 0; j < count; j++) {
            const struct sluice_menu *menu = sluice_menu_at(source, menus, j);
            const unsigned c = sluice_dual_plan_choose(plan, &balance, menu);
            if (choice)
                choice[i + j] = (uint8_t)c;
            for (int r = 0; r < NUM_LOADS; r++)
                units[r] += sluice_menu_cost(menu, r, c);
        }
    }
}

/* How far the loads are above the bound, squared and summed: falls when a change helps one
 * resource without hurting another as much, even while the slowest stays where it is. */
static double excess_of(const double busy_s[NUM_LOADS], double bound_s)
{
    double excess = 0;
    for (int r = 0; r < NUM_LOADS; r++) {
        const double over = busy_s[r] - bound_s;
        excess += over > 0 ? over * over : 0;
    }
    return excess;
}

/* Local search: repeats the change of one sample that helps most. */
static void repair(const struct problem *problem, double bound_s, uint8_t *choice,
                   double busy_s[NUM_LOADS], double *external_s)
{
    enum { MAX_CHANGES = 64 };
    const double good_enough_s = bound_s * (1 + ROUNDED_TOLERANCE);
    const uint64_t n = problem->source->num_samples;
    uint64_t samples_left = 1u << 22; /* about a tenth of a second */
    for (int change = 0; change < MAX_CHANGES; change++) {
        if (sluice_slowest_of(busy_s) + *external_s <= good_enough_s || samples_left < n)
            return;
        samples_left -= n;
        double least = excess_of(busy_s, bound_s - *external_s) * (1 - 1e-9);
        uint64_t best = n;
        unsigned best_choice = 0;
        double best_busy_s[NUM_LOADS], best_external_s = 0;
        for (uint64_t i = 0; i < n; i++) {
            /* One at a time: choice[] and menus stay side by side. */
            const struct sluice_menu *menu =
                sluice_menus_get(problem->source, i, 1, problem->scratch);
            for (unsigned c = 0; c < menu->num_choices; c++) {
                if (c == choice[i])
                    continue;
                double after_s[NUM_LOADS], after_external_s = *external_s;
                for (int r = 0; r < NUM_LOADS; r++) {
                    const double units =
                        sluice_menu_cost(menu, r, c) - sluice_menu_cost(menu, r, choice[i]);
                    after_s[r] = busy_s[r] + problem->per_unit_s[r] * units;
                    after_external_s += problem->external_cost_s[r] * units;
                }
                const double excess = excess_of(after_s, bound_s - after_external_s);
                if (excess < least) {
                    least = excess;
                    best = i;
                    best_choice = c;
                    memcpy(best_busy_s, after_s, sizeof(best_busy_s));
                    best_external_s = after_external_s;
                }
            }
        }
        if (best == n)
            return;
        choice[best] = (uint8_t)best_choice;
        memcpy(busy_s, best_busy_s, sizeof(best_busy_s));
        *external_s = best_external_s;
    }
}

/* --- all of it --- */

static sluice_status check_capacities(const struct sluice_capacities *capacities,
                                      struct sluice_err *err)
{
    if (!(capacities->shared_cores >= 0))
        return sluice_fail(err, SLUICE_E_INVALID, "the shared cores must be at least 0, not %g",
                           capacities->shared_cores);
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++) {
        if (!(capacities->per_s[r] > 0))
            return sluice_fail(err, SLUICE_E_INVALID, "the capacity of %s must be above 0, not %g",
                               sluice_resource_name((enum sluice_resource)r), capacities->per_s[r]);
        if (!(capacities->external_cost_s[r] >= 0 && isfinite(capacities->external_cost_s[r])))
            return sluice_fail(err, SLUICE_E_INVALID,
                               "the external cost of %s must be finite and at least 0, not %g",
                               sluice_resource_name((enum sluice_resource)r),
                               capacities->external_cost_s[r]);
    }
    return SLUICE_OK;
}

sluice_status sluice_plan_lp(const struct sluice_menu_source *source,
                             const struct sluice_capacities *capacities, uint8_t *choice,
                             struct sluice_lp_result *result, struct sluice_err *err)
{
    const sluice_status status = check_capacities(capacities, err);
    if (status != SLUICE_OK)
        return status;
    struct search *search = calloc(1, sizeof(*search));
    struct problem problem = {.source = source,
                              .scratch = malloc(SLUICE_MENU_BLOCK * sizeof(*problem.scratch))};
    if (!search || !problem.scratch) {
        free(search);
        free(problem.scratch);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to plan");
    }
    bool has_external_costs = false;
    struct given given = {.has_shared_cpu = capacities->shared_cores > 0};
    double capacity[NUM_LOADS] = {[SLUICE_SHARED_CPU] =
                                      given.has_shared_cpu ? capacities->shared_cores : INFINITY};
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++) {
        capacity[r] = capacities->per_s[r];
        problem.external_cost_s[r] = capacities->external_cost_s[r];
        has_external_costs |= capacities->external_cost_s[r] > 0;
    }
    /* With external costs, how far it is worth to unburden the rest depends on the time that
     * is given. */
    for (unsigned r = 0; r < NUM_LOADS; r++) {
        if (!has_external_costs || (r == SLUICE_SHARED_CPU && !given.has_shared_cpu))
            given.load[given.num_loads++] = (unsigned char)r;
    }
    search_all(&problem, capacity, search, &given);

    const double slack =
        source->num_choices <= SLUICE_FEW_CHOICES ? SLUICE_SLACK_OF_FEW : SLUICE_SLACK_OF_MANY;
    struct sluice_lp_result made = {0};
    double units[NUM_LOADS];
    make_dual_plan(&problem, search, &made.plan);
    round_plan(&problem, &made.plan, choice, units);
    made.external_s = external_of(&problem, units);
    for (int r = 0; r < NUM_LOADS; r++)
        made.busy_s[r] = units[r] * problem.per_unit_s[r];
    made.num_passes = search->num_passes + 1;
    made.dual_s = search->best_s > 0 ? search->best_s * (1 - slack) : 0;
    if (choice)
        repair(&problem, made.dual_s, choice, made.busy_s, &made.external_s);
    memcpy(made.dual, search->best_dual, sizeof(made.dual));
    for (int r = 0; r < NUM_LOADS; r++) {
        if (!is_given(&given, r))
            continue;
        made.busy_s[r] = units[r] / capacity[r];
        if (made.busy_s[r] * (1 - slack) > made.dual_s) {
            made.dual_s = made.busy_s[r] * (1 - slack);
            memset(made.dual, 0, sizeof(made.dual));
            made.dual[r] = 1;
        }
    }
    for (int r = 0; r < NUM_LOADS; r++) {
        if (made.busy_s[r] > made.primal_s) {
            made.primal_s = made.busy_s[r];
            made.slowest = (enum sluice_resource)r;
        }
    }
    made.primal_s += made.external_s;
    made.gap = made.dual_s > 0 ? made.primal_s / made.dual_s - 1 : 0;
    *result = made;
    free(search);
    free(problem.scratch);
    return SLUICE_OK;
}
