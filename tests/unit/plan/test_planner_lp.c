#include "plan/planner_lp.h"

#include "support/test.h"

#include <math.h>

/* What holds for every input is in tests/property/test_planner.c. */

static const struct sluice_capacities unlimited = {
    .per_s = {INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY}};

TEST(splits_equal_samples_between_two_resources)
{
    /* Either 3 s of storage CPU or 1 s of compute CPU each: of 8 samples, 2 go to storage. */
    const double cost[2][SLUICE_NUM_RESOURCES] = {
        {[SLUICE_STORAGE_CPU] = 3},
        {[SLUICE_COMPUTE_CPU] = 1},
    };
    struct sluice_menu menus[8];
    for (int i = 0; i < 8; i++)
        sluice_menu_set(&menus[i], 2, cost);
    struct sluice_capacities capacities = unlimited;
    capacities.per_s[SLUICE_STORAGE_CPU] = 1;
    capacities.per_s[SLUICE_COMPUTE_CPU] = 1;
    const struct sluice_menu_source source = sluice_menu_array(menus, 8);
    uint8_t choice[8];
    struct sluice_lp_result result;
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_plan_lp(&source, &capacities, choice, &result, &err));
    int num_storage = 0;
    for (int i = 0; i < 8; i++)
        num_storage += choice[i] == 0;
    CU_ASSERT_EQUAL(num_storage, 2);
    CU_ASSERT_DOUBLE_EQUAL(result.primal_s, 6, 1e-5);
    CU_ASSERT_DOUBLE_EQUAL(result.dual_s, 6, 1e-3);
    CU_ASSERT_DOUBLE_EQUAL(result.busy_s[SLUICE_COMPUTE_CPU], 6, 1e-5);
    CU_ASSERT_DOUBLE_EQUAL(result.dual[SLUICE_STORAGE_CPU], 0.25, 1e-3);
    CU_ASSERT_DOUBLE_EQUAL(result.dual[SLUICE_COMPUTE_CPU], 0.75, 1e-3);
}

/* The same on one machine: x of 8 samples at storage take max(3 x, 8 - x, (8 + 2 x) / cores). */
TEST(both_sides_share_the_cores_of_one_machine)
{
    const double cost[2][SLUICE_NUM_RESOURCES] = {
        {[SLUICE_STORAGE_CPU] = 3},
        {[SLUICE_COMPUTE_CPU] = 0.75, [SLUICE_RECEIVE] = 0.25},
    };
    struct sluice_menu menus[8];
    for (int i = 0; i < 8; i++)
        sluice_menu_set(&menus[i], 2, cost);
    struct sluice_capacities capacities = unlimited;
    capacities.per_s[SLUICE_STORAGE_CPU] = 1;
    capacities.per_s[SLUICE_COMPUTE_CPU] = 0.75;
    const struct sluice_menu_source source = sluice_menu_array(menus, 8);
    static const struct {
        double cores;
        int num_storage;
        double primal_s, dual_s;
        enum sluice_resource slowest;
    } cases[] = {
        {0, 2, 6, 6, SLUICE_STORAGE_CPU},
        {4, 2, 6, 6, SLUICE_STORAGE_CPU},
        {1.5, 1, 7, 48.0 / 7, SLUICE_COMPUTE_CPU},
        {0.5, 0, 16, 16, SLUICE_SHARED_CPU},
    };
    for (size_t k = 0; k < sizeof(cases) / sizeof(*cases); k++) {
        capacities.shared_cores = cases[k].cores;
        uint8_t choice[8];
        struct sluice_lp_result result;
        REQUIRE_OK(sluice_plan_lp(&source, &capacities, choice, &result, NULL));
        int num_storage = 0;
        for (int i = 0; i < 8; i++)
            num_storage += choice[i] == 0;
        CU_ASSERT_EQUAL(num_storage, cases[k].num_storage);
        CU_ASSERT_DOUBLE_EQUAL(result.primal_s, cases[k].primal_s, 1e-3);
        CU_ASSERT_DOUBLE_EQUAL(result.dual_s, cases[k].dual_s, 1e-3);
        if (cases[k].slowest != SLUICE_STORAGE_CPU) /* where that and compute CPU are equal */
            CU_ASSERT_EQUAL(result.slowest, cases[k].slowest);
    }
    capacities.shared_cores = -1;
    struct sluice_lp_result result;
    CHECK_FAILS(SLUICE_E_INVALID, "shared cores",
                sluice_plan_lp(&source, &capacities, NULL, &result, sluice_test_err()));
}

TEST(a_load_that_no_choice_avoids_counts)
{
    const double cost[2][SLUICE_NUM_RESOURCES] = {{[SLUICE_DISK] = 5, [SLUICE_NETWORK] = 1},
                                                  {[SLUICE_DISK] = 5, [SLUICE_RECEIVE] = 1}};
    struct sluice_menu menu;
    sluice_menu_set(&menu, 2, cost);
    const struct sluice_capacities capacities = {.per_s = {2, 1, 1, 1, 1, 1, 1}};
    const struct sluice_menu_source source = sluice_menu_array(&menu, 1);
    uint8_t choice;
    struct sluice_lp_result result;
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_plan_lp(&source, &capacities, &choice, &result, &err));
    CU_ASSERT_DOUBLE_EQUAL(result.primal_s, 2.5, 1e-5);
    CU_ASSERT_DOUBLE_EQUAL(result.dual_s, 2.5, 1e-3);
    CU_ASSERT_EQUAL(result.slowest, SLUICE_DISK);
}

/* All alike but the last, which alone has a choice on the disk; a wrong one takes as long as a
 * thousand of the others. */
static void make_all_but_the_last_alike(void *context, uint64_t first, size_t count,
                                        struct sluice_menu *scratch)
{
    const uint64_t last = *(const uint64_t *)context - 1;
    static const double alike[2][SLUICE_NUM_RESOURCES] = {
        {[SLUICE_DISK] = 1, [SLUICE_NETWORK] = 1},
        {[SLUICE_DISK] = 1, [SLUICE_COMPUTE_CPU] = 1},
    };
    for (size_t i = 0; i < count; i++)
        sluice_menu_set(&scratch[i], 2, alike);
    if (last - first < count) {
        const double n = (double)(last + 1);
        const double other[2][SLUICE_NUM_RESOURCES] = {
            {[SLUICE_DISK] = n},
            {[SLUICE_NETWORK] = n / 256},
        };
        sluice_menu_set(&scratch[last - first], 2, other);
    }
}

TEST(what_one_sample_has_a_choice_on_is_not_given)
{
    /* One block; several; a part of them first. */
    static const uint64_t counts[] = {200, 1000, 70000};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(counts); i++) {
        uint64_t n = counts[i];
        const struct sluice_menu_source source = {.num_samples = n,
                                                  .num_choices = 2,
                                                  .stride = sizeof(struct sluice_menu),
                                                  .get = make_all_but_the_last_alike,
                                                  .context = &n};
        const struct sluice_capacities one = {.per_s = {1, 1, 1, 1, 1, 1, 1}};
        struct sluice_lp_result result;
        REQUIRE_OK(sluice_plan_lp(&source, &one, NULL, &result, NULL));
        CU_ASSERT_DOUBLE_EQUAL(result.busy_s[SLUICE_DISK], (double)n - 1, 1e-4 * (double)n);
        CU_ASSERT_DOUBLE_EQUAL(result.primal_s, (double)n - 1, 1e-4 * (double)n);
        CU_ASSERT(result.gap < 1e-4);
    }
}

TEST(nothing_to_do_takes_no_time)
{
    struct sluice_menu menus[2];
    const double cost[2][SLUICE_NUM_RESOURCES] = {{1, 1, 1, 1, 1, 1, 1}, {0}};
    sluice_menu_set(&menus[0], 2, cost);
    sluice_menu_set(&menus[1], 2, cost);
    const struct sluice_capacities one = {.per_s = {1, 1, 1, 1, 1, 1, 1}};
    const struct {
        size_t num_samples;
        const struct sluice_capacities *capacities;
    } cases[] = {{0, &one}, {2, &one}, {2, &unlimited}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        const struct sluice_menu_source source = sluice_menu_array(menus, cases[i].num_samples);
        uint8_t choice[2];
        struct sluice_lp_result result;
        struct sluice_err err = {0};
        REQUIRE_OK(sluice_plan_lp(&source, cases[i].capacities, choice, &result, &err));
        CU_ASSERT_EQUAL(result.primal_s, 0);
        CU_ASSERT_EQUAL(result.dual_s, 0);
        CU_ASSERT_EQUAL(result.gap, 0);
    }
}

/* By the load's name; nothing is written. */
static void expect_refused(const struct sluice_capacities *capacities, int load)
{
    struct sluice_menu menu = {0};
    const struct sluice_menu_source source = sluice_menu_array(&menu, 1);
    uint8_t choice = 9;
    struct sluice_lp_result result = {.primal_s = 7};
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_plan_lp(&source, capacities, &choice, &result, &err), SLUICE_E_INVALID);
    CU_ASSERT(strstr(err.text, sluice_resource_name((enum sluice_resource)load)) != NULL);
    CU_ASSERT(choice == 9 && result.primal_s == 7);
}

TEST(refuses_a_capacity_that_is_not_positive)
{
    static const double bad[] = {0, -1, NAN};
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++) {
        struct sluice_capacities capacities = unlimited;
        capacities.per_s[r] = bad[r % 3];
        expect_refused(&capacities, r);
    }
}

TEST(a_price_from_outside_moves_the_plan)
{
    /* 1 s of storage CPU or 2 MB over a link of 1 MB/s: left alone, two thirds of the samples go
     * to storage; a second of storage CPU saves up to 2 s of the link. */
    const double cost[2][SLUICE_NUM_RESOURCES] = {
        {[SLUICE_STORAGE_CPU] = 1},
        {[SLUICE_NETWORK] = 2e6},
    };
    enum { N = 9 };
    struct sluice_menu menus[N];
    for (int i = 0; i < N; i++)
        sluice_menu_set(&menus[i], 2, cost);
    struct sluice_capacities capacities = unlimited;
    capacities.per_s[SLUICE_STORAGE_CPU] = 1;
    capacities.per_s[SLUICE_NETWORK] = 1e6;
    const struct sluice_menu_source source = sluice_menu_array(menus, N);
    static const struct {
        double external_cost_s;
        int num_storage;
        double primal_s, external_s;
    } cases[] = {{0, 6, 6, 0}, {1.5, 6, 15, 9}, {2.5, 0, 18, 0}};
    for (size_t k = 0; k < SLUICE_ARRAY_LEN(cases); k++) {
        capacities.external_cost_s[SLUICE_STORAGE_CPU] = cases[k].external_cost_s;
        uint8_t choice[N];
        struct sluice_lp_result result;
        struct sluice_err err = {0};
        REQUIRE_OK(sluice_plan_lp(&source, &capacities, choice, &result, &err));
        int num_storage = 0;
        for (int i = 0; i < N; i++)
            num_storage += choice[i] == 0;
        CU_ASSERT_EQUAL(num_storage, cases[k].num_storage);
        CU_ASSERT_DOUBLE_EQUAL(result.primal_s, cases[k].primal_s, 1e-4);
        CU_ASSERT_DOUBLE_EQUAL(result.dual_s, cases[k].primal_s, 1e-3);
        CU_ASSERT_DOUBLE_EQUAL(result.external_s, cases[k].external_s, 1e-4);
    }
}

TEST(refuses_a_price_that_is_none)
{
    static const double bad[] = {-1, NAN, INFINITY};
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++) {
        struct sluice_capacities capacities = unlimited;
        capacities.external_cost_s[r] = bad[r % 3];
        expect_refused(&capacities, r);
    }
}

TEST(capacities_are_what_the_rates_say)
{
    struct sluice_rates rates = {
        .link_bytes_per_s = 1e6, .storage_cores = 2, .compute_cores = 3, .gpu_samples_per_s = 400};
    struct sluice_capacities capacities = sluice_capacities_of(&rates);
    const double expected[SLUICE_NUM_RESOURCES] = {1, 2, 1e6, 1, 3, INFINITY, 1};
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
        CU_ASSERT(capacities.per_s[r] == expected[r] && capacities.external_cost_s[r] == 0);
    rates.disk_bytes_per_s = 5e7;
    rates.pcie_bytes_per_s = 6e9;
    capacities = sluice_capacities_of(&rates);
    CU_ASSERT(capacities.per_s[SLUICE_DISK] == 5e7 && capacities.per_s[SLUICE_PCIE] == 6e9);
    CU_ASSERT_EQUAL(sluice_rates_step_s(&rates), 0.0025);
    rates.gpu_samples_per_s = INFINITY;
    CU_ASSERT_EQUAL(sluice_rates_step_s(&rates), 0);
    rates.gpu_samples_per_s = 0;
    CU_ASSERT_EQUAL(sluice_capacities_of(&rates).per_s[SLUICE_GPU], 0);
    CU_ASSERT_EQUAL(sluice_rates_step_s(&rates), 1e9);
}
