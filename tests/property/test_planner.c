/* The plan over all resources: the promises that hold for every input, on inputs of every sort,
 * and against all plans there are where those can be counted. */
#include "plan/planner_lp.h"

#include "property/planner_cases.h"
#include "support/test.h"

#include <math.h>

/* Sums are taken in another order here. */
#define ROUNDING 1e-9

/* Few choices, or as many as there is room for. */
static unsigned choices_of(int round)
{
    return round % 4 == 3 ? SLUICE_MENU_CHOICES : PLANNER_CHOICES;
}

static uint16_t *share_of(struct sluice_menu *menu, int load, unsigned choice)
{
    return &menu->share[choice / SLUICE_MENU_GROUP][load][choice % SLUICE_MENU_GROUP];
}

/* A case, every other one with prices from outside, every third one on one machine. */
static void make_case(struct sluice_rng *rng, int round, size_t n, unsigned num_choices,
                      struct sluice_menu *menus, struct sluice_capacities *capacities)
{
    planner_make_case(rng, round % PLANNER_NUM_KINDS, n, num_choices, menus, capacities);
    if (round / PLANNER_NUM_KINDS % 2)
        planner_make_prices(rng, capacities);
    if (round / PLANNER_NUM_KINDS % 3 == 2)
        planner_make_shared(rng, capacities);
}

static struct sluice_lp_result plan(const struct sluice_menu *menus, size_t n,
                                    const struct sluice_capacities *capacities, uint8_t *choice)
{
    const struct sluice_menu_source source = sluice_menu_array(menus, n);
    struct sluice_lp_result result = {0};
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_plan_lp(&source, capacities, choice, &result, &err));
    return result;
}

TEST(primal_is_the_plan_and_dual_is_below_it)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    struct sluice_menu *menus = malloc(1000 * sizeof(*menus));
    uint8_t choice[1000];
    for (int round = 0; round < 30 * PLANNER_NUM_KINDS; round++) {
        const size_t n = 1 + sluice_rng_below(&rng, 1000);
        struct sluice_capacities capacities;
        make_case(&rng, round, n, choices_of(round), menus, &capacities);
        const struct sluice_lp_result result = plan(menus, n, &capacities, choice);
        const double cost_s = planner_cost_of(menus, n, &capacities, choice);
        CU_ASSERT(fabs(result.primal_s - cost_s) <= ROUNDING * cost_s);
        CU_ASSERT(fabs(result.busy_s[result.slowest] + result.external_s - cost_s) <=
                  ROUNDING * cost_s);
        CU_ASSERT(result.dual_s <= cost_s);
        CU_ASSERT(result.gap >= 0);
        /* No plan is below the bound, so none of a hundred others is. */
        for (unsigned other = 0; other < 100; other++) {
            for (size_t i = 0; i < n; i++)
                choice[i] = (uint8_t)(other < menus[0].num_choices
                                          ? other
                                          : sluice_rng_below(&rng, menus[0].num_choices));
            CU_ASSERT(result.dual_s <= planner_cost_of(menus, n, &capacities, choice));
        }
        double sum = 0;
        for (int r = 0; r < SLUICE_NUM_LOADS; r++) {
            CU_ASSERT(result.dual[r] >= 0);
            sum += result.dual[r];
        }
        CU_ASSERT_DOUBLE_EQUAL(sum, 1, 1e-9);
    }
    free(menus);
}

TEST(dual_is_what_its_prices_say)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 1);
    struct sluice_menu *menus = malloc(3000 * sizeof(*menus));
    uint8_t choice[3000];
    for (int round = 0; round < 5 * PLANNER_NUM_KINDS; round++) {
        struct sluice_capacities capacities;
        make_case(&rng, round, 3000, choices_of(round), menus, &capacities);
        const struct sluice_lp_result result = plan(menus, 3000, &capacities, choice);
        double bound_s = 0;
        for (size_t i = 0; i < 3000; i++) {
            double least = INFINITY;
            for (unsigned c = 0; c < choices_of(round); c++) {
                double cost = 0;
                for (int r = 0; r < SLUICE_NUM_LOADS; r++) {
                    const double external_cost_s =
                        r == SLUICE_SHARED_CPU ? 0 : capacities.external_cost_s[r];
                    cost +=
                        (result.dual[r] / planner_capacity_of(&capacities, r) + external_cost_s) *
                        sluice_menu_cost(&menus[i], r, c);
                }
                least = fmin(least, cost);
            }
            bound_s += least;
        }
        CU_ASSERT(result.dual_s <= bound_s);
        CU_ASSERT(result.dual_s >= bound_s * (1 - (menus[0].num_choices > 16 ? 2e-5 : 1e-5)));
    }
    free(menus);
}

TEST(is_close_to_the_best_of_all_plans)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 2);
    double sum_excess = 0;
    int num_cases = 0;
    for (int round = 0; round < 20 * PLANNER_NUM_KINDS; round++) {
        const size_t n = 1 + sluice_rng_below(&rng, 4);
        struct sluice_menu menus[4];
        struct sluice_capacities capacities;
        make_case(&rng, round, n, PLANNER_CHOICES, menus, &capacities);
        uint8_t choice[4];
        const struct sluice_lp_result result = plan(menus, n, &capacities, choice);
        double best_s = INFINITY;
        const unsigned num_plans = (unsigned)pow(PLANNER_CHOICES, (double)n);
        for (unsigned code = 0; code < num_plans; code++) {
            unsigned digits = code;
            for (size_t i = 0; i < n; i++, digits /= PLANNER_CHOICES)
                choice[i] = (uint8_t)(digits % PLANNER_CHOICES);
            best_s = fmin(best_s, planner_cost_of(menus, n, &capacities, choice));
        }
        CU_ASSERT(result.dual_s <= best_s);
        CU_ASSERT(result.primal_s >= best_s * (1 - ROUNDING));
        if (best_s > 0) {
            sum_excess += result.primal_s / best_s - 1;
            num_cases++;
        }
    }
    /* So few samples cannot be planned as if they could be divided, but nearly. */
    CU_ASSERT(sum_excess / num_cases < 0.10);
}

TEST(closes_the_gap_at_10000_samples)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 3);
    enum { N = 10000 };
    struct sluice_menu *menus = malloc(N * sizeof(*menus));
    uint8_t *choice = malloc(N);
    for (int round = 0; round < 2 * (PLANNER_NUM_KINDS - 1); round++) {
        struct sluice_capacities capacities;
        planner_make_case(&rng, round % (PLANNER_NUM_KINDS - 1), N, PLANNER_CHOICES, menus,
                          &capacities);
        if (round >= PLANNER_NUM_KINDS - 1)
            planner_make_prices(&rng, &capacities);
        CU_ASSERT(plan(menus, N, &capacities, choice).gap < 1e-3);
        CU_ASSERT(plan(menus, N, &capacities, NULL).gap < 1e-3);
    }
    free(choice);
    free(menus);
}

TEST(more_capacity_or_more_choice_is_never_worse)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 4);
    enum { N = 500 };
    struct sluice_menu *menus = malloc(N * sizeof(*menus));
    uint8_t choice[N];
    for (int round = 0; round < 20 * PLANNER_NUM_KINDS; round++) {
        struct sluice_capacities capacities;
        make_case(&rng, round, N, PLANNER_CHOICES, menus, &capacities);
        const struct sluice_lp_result before = plan(menus, N, &capacities, choice);
        struct sluice_capacities more = capacities;
        more.per_s[sluice_rng_below(&rng, SLUICE_NUM_RESOURCES)] *= 1 + sluice_rng_double(&rng);
        const struct sluice_lp_result after = plan(menus, N, &more, choice);
        CU_ASSERT(after.dual_s <= before.primal_s);
        /* And what is proven moves with what can be proven. */
        CU_ASSERT(after.dual_s <= before.dual_s * (1 + 5e-5));
        /* Without the last choice of every sample. */
        for (size_t i = 0; i < N; i++) {
            for (int r = 0; r < SLUICE_NUM_LOADS; r++)
                *share_of(&menus[i], r, PLANNER_CHOICES - 1) = *share_of(&menus[i], r, 0);
        }
        const struct sluice_lp_result fewer = plan(menus, N, &capacities, choice);
        CU_ASSERT(before.dual_s <= fewer.dual_s * (1 + 5e-5));
    }
    free(menus);
}

static double load_of(const struct sluice_menu *menus, size_t n, enum sluice_resource load,
                      const uint8_t *choice)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += sluice_menu_cost(&menus[i], load, choice[i]);
    return sum;
}

/* Of the exact optima the dearer one never loads more.  Two plans g above their bounds may, by at
 * most g / (the rise of the price): add what either proves of the other. */
TEST(a_higher_price_never_loads_more)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 6);
    enum { N = 500 };
    struct sluice_menu *menus = malloc(N * sizeof(*menus));
    uint8_t choice[N];
    for (int round = 0; round < 20 * PLANNER_NUM_KINDS; round++) {
        struct sluice_capacities capacities;
        make_case(&rng, round, N, PLANNER_CHOICES, menus, &capacities);
        const enum sluice_resource load =
            (enum sluice_resource)sluice_rng_below(&rng, SLUICE_NUM_RESOURCES);
        double least = 0;
        for (size_t i = 0; i < N; i++) {
            double of_sample = INFINITY;
            for (unsigned c = 0; c < PLANNER_CHOICES; c++)
                of_sample = fmin(of_sample, sluice_menu_cost(&menus[i], load, c));
            least += of_sample;
        }
        double before = 0, excess_s = 0;
        for (int step = 0; step < 5; step++) {
            if (step)
                capacities.external_cost_s[load] =
                    step == 4 ? 1e6 : (capacities.external_cost_s[load] + 0.1) * 2;
            const struct sluice_lp_result result = plan(menus, N, &capacities, choice);
            const double after = load_of(menus, N, load, choice);
            const double more_excess_s = result.primal_s - result.dual_s;
            if (step) {
                const double rise_s = step == 4 ? 1e5 : 0.1; /* at least */
                CU_ASSERT(after <= before + (excess_s + more_excess_s) / rise_s);
            }
            before = after;
            excess_s = more_excess_s;
        }
        /* What cannot be avoided is left, but for a share's rounding of the menu. */
        CU_ASSERT(before <= least * 1.001 + 1e-3);
    }
    free(menus);
}

/* Every plan takes as long, and yet they are not the same: what is left of the others is as much as
 * if the limit were not there. */
TEST(what_no_choice_changes_does_not_hide_the_rest)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 6);
    enum { N = 10000 };
    struct sluice_menu *menus = malloc(N * sizeof(*menus));
    uint8_t *choice = malloc(N), *without = malloc(N);
    for (int round = 0; round < 6; round++) {
        struct sluice_capacities capacities;
        const size_t n = round % 2 ? N : 1 + sluice_rng_below(&rng, 200);
        planner_make_case(&rng, PLANNER_KIND_GIVEN, n, PLANNER_CHOICES, menus, &capacities);
        capacities.per_s[PLANNER_GIVEN] = 1;
        capacities.per_s[SLUICE_STORAGE_CPU] = 3;
        const struct sluice_lp_result result = plan(menus, n, &capacities, choice);
        CU_ASSERT_EQUAL(result.slowest, PLANNER_GIVEN);
        CU_ASSERT_EQUAL(result.dual[PLANNER_GIVEN], 1);
        CU_ASSERT(result.gap < 1e-5);
        CU_ASSERT_EQUAL(result.busy_s[PLANNER_GIVEN], result.primal_s);

        capacities.per_s[PLANNER_GIVEN] = capacities.per_s[SLUICE_DISK] = INFINITY;
        const struct sluice_lp_result rest = plan(menus, n, &capacities, without);
        CU_ASSERT_EQUAL(memcmp(choice, without, n), 0);
        CU_ASSERT(rest.primal_s < result.primal_s);
        CU_ASSERT(round % 2 == 0 || rest.gap < 1e-3);
        for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
            CU_ASSERT(r == PLANNER_GIVEN || r == SLUICE_DISK || result.busy_s[r] == rest.busy_s[r]);
    }
    free(choice);
    free(without);
    free(menus);
}

/* One sample in many that has a choice there is enough for the resource to count again. */
TEST(one_sample_with_a_choice_is_seen)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 7);
    enum { N = 70000 };
    struct sluice_menu *menus = malloc(N * sizeof(*menus));
    uint8_t *choice = malloc(N);
    struct sluice_capacities capacities;
    planner_make_case(&rng, PLANNER_KIND_GIVEN, N, PLANNER_CHOICES, menus, &capacities);
    capacities.per_s[PLANNER_GIVEN] = 1;
    const struct sluice_lp_result before = plan(menus, N, &capacities, choice);
    struct sluice_menu *odd = &menus[N - 1 - sluice_rng_below(&rng, N / 2)];
    const unsigned free_choice = choice[odd - menus] == 9 ? 8 : 9;
    *share_of(odd, PLANNER_GIVEN, free_choice) = 0;
    const struct sluice_lp_result after = plan(menus, N, &capacities, choice);
    CU_ASSERT_EQUAL(choice[odd - menus], free_choice);
    CU_ASSERT(after.primal_s < before.primal_s);
    CU_ASSERT(after.gap < 1e-3);
    free(choice);
    free(menus);
}

/* A source that makes its menus anew, and counts what is asked of it. */
struct remade {
    const struct sluice_menu *menus;
    size_t largest;
};

static void remake(void *context, uint64_t first, size_t count, struct sluice_menu *scratch)
{
    struct remade *remade = context;
    remade->largest = count > remade->largest ? count : remade->largest;
    memcpy(scratch, remade->menus + first, count * sizeof(*scratch));
}

TEST(streaming_gives_the_same_plan_and_its_choices_later)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 5);
    enum { N = 70000 }; /* enough for the search to begin on a part */
    struct sluice_menu *menus = malloc(N * sizeof(*menus));
    uint8_t *choice = malloc(N);
    for (int kind = 0; kind < PLANNER_NUM_KINDS; kind += 3) {
        struct sluice_capacities capacities;
        planner_make_case(&rng, kind, N, PLANNER_CHOICES, menus, &capacities);
        if (kind)
            planner_make_prices(&rng, &capacities);
        struct remade remade = {.menus = menus};
        const struct sluice_menu_source source = {.num_samples = N,
                                                  .num_choices = PLANNER_CHOICES,
                                                  .stride = sizeof(*menus),
                                                  .get = remake,
                                                  .context = &remade};
        struct sluice_lp_result streamed = {0};
        struct sluice_err err = {0};
        CHECK_OK(sluice_plan_lp(&source, &capacities, NULL, &streamed, &err));
        CU_ASSERT(remade.largest <= SLUICE_MENU_BLOCK);
        const struct sluice_lp_result at_once = plan(menus, N, &capacities, NULL);
        CU_ASSERT_EQUAL(streamed.primal_s, at_once.primal_s);
        CU_ASSERT_EQUAL(streamed.dual_s, at_once.dual_s);
        CU_ASSERT_EQUAL(streamed.num_passes, at_once.num_passes);
        for (int r = 0; r < SLUICE_NUM_RESOURCES; r++) {
            CU_ASSERT_EQUAL(streamed.dual[r], at_once.dual[r]);
            CU_ASSERT_EQUAL(streamed.busy_s[r], at_once.busy_s[r]);
        }

        struct sluice_dual_balance balance = {0};
        for (size_t i = 0; i < N; i++)
            choice[i] = (uint8_t)sluice_dual_plan_choose(&streamed.plan, &balance, &menus[i]);
        const double cost_s = planner_cost_of(menus, N, &capacities, choice);
        CU_ASSERT(fabs(streamed.primal_s - cost_s) <= ROUNDING * cost_s);
    }
    free(choice);
    free(menus);
}
