#include "plan/sophon.h"

#include "plan/form_menu.h"

#include "base/rng.h"
#include "support/choices.h"
#include "support/test.h"

#include <math.h>

/* SOPHON's rule once more, written from its description with no sorting and no incremental sums:
 * again and again look for the sample that comes next, and add everything up from nothing.  Times
 * in these tables are multiples of 2^-20 s, so that sums are exact in any order. */
static void plan_by_definition(const struct sluice_cost_table *table, double bandwidth, double cpus,
                               uint8_t *split)
{
    const size_t n = table->num_rows;
    bool *seen = calloc(n, sizeof(*seen));
    memset(split, 0, n);
    for (;;) {
        size_t next = n;
        double next_efficiency = -1;
        uint8_t next_stage = 0;
        for (size_t i = 0; i < n; i++) {
            if (seen[i])
                continue;
            const struct sluice_sample_cost *row = &table->rows[i];
            uint64_t least = UINT64_MAX;
            for (unsigned k = 0; k < table->num_stages; k++)
                least = row->bytes[k] < least ? row->bytes[k] : least;
            uint8_t stage = 0;
            while (row->bytes[stage] != least)
                stage++;
            double time = 0;
            for (int k = stage; k >= 1; k--)
                time += row->op_s[k];
            const double saved = (double)(row->bytes[0] - least);
            const double efficiency = saved == 0 ? 0 : saved / time;
            if (efficiency > next_efficiency) {
                next = i;
                next_efficiency = efficiency;
                next_stage = stage;
            }
        }
        if (next == n || next_efficiency == 0)
            break;
        seen[next] = true;
        split[next] = next_stage;
        uint64_t net = 0;
        double storage = 0;
        for (size_t i = 0; i < n; i++) {
            net += table->rows[i].bytes[split[i]];
            for (int k = 1; k <= split[i]; k++)
                storage += table->rows[i].op_s[k];
        }
        if ((double)net / bandwidth < storage / cpus) {
            split[next] = 0;
            break;
        }
    }
    free(seen);
}

static struct sluice_cost_table random_table(struct sluice_rng *rng, size_t n, bool has_ties)
{
    struct sluice_cost_table table = {calloc(n, sizeof(*table.rows)), n,
                                      2 + sluice_rng_below(rng, SLUICE_MAX_STAGES - 1)};
    for (size_t i = 0; i < n; i++) {
        for (unsigned k = 0; k < table.num_stages; k++) {
            table.rows[i].bytes[k] =
                has_ties ? 1 + sluice_rng_below(rng, 4) : 1000 + sluice_rng_below(rng, 1000000);
            table.rows[i].op_s[k] = (1 + sluice_rng_below(rng, has_ties ? 3 : 5000)) * 0x1p-20;
        }
    }
    return table;
}

TEST(sophon_equals_its_definition_on_random_tables)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    uint64_t taken = 0, possible = 0;
    for (int round = 0; round < 400; round++) {
        const size_t n = 1 + sluice_rng_below(&rng, 40);
        struct sluice_cost_table table = random_table(&rng, n, round % 2);
        const struct sluice_rates rates = {
            .link_bytes_per_s = round % 2 ? exp2(sluice_rng_below(&rng, 20))
                                          : 1e6 * (1 + sluice_rng_below(&rng, 2000)),
            .storage_cores = 1 + sluice_rng_below(&rng, 8),
            .compute_cores = 8,
            .gpu_samples_per_s = INFINITY,
        };
        uint8_t plan[40], expected[40];
        struct sluice_err err = {0};
        REQUIRE_OK(sluice_plan_sophon(&table, &rates, plan, &err));
        plan_by_definition(&table, rates.link_bytes_per_s, rates.storage_cores, expected);
        CU_ASSERT_EQUAL(memcmp(plan, expected, n), 0);
        for (size_t i = 0; i < n; i++)
            taken += plan[i] > 0;
        possible += n;
        sluice_cost_table_clear(&table);
    }
    /* The cases must not all be one-sided. */
    CU_ASSERT(taken > possible / 10 && taken < possible * 9 / 10);
}

TEST(the_sample_that_breaks_the_balance_is_not_taken)
{
    /* Two equal samples of 100 bytes that shrink to 10 in one second; 1 byte/s and 1 core: taking
     * one leaves net 110 s >= storage 1 s, both 20 >= 2.  At 50 bytes/s: 2.2 >= 1 holds, 0.4 >= 2
     * does not. */
    struct sluice_sample_cost rows[2] = {
        {.bytes = {100, 200, 10, 10, 40, 40}, .op_s = {0, 0.5, 0.5, 1, 1, 1}},
        {.bytes = {100, 200, 10, 10, 40, 40}, .op_s = {0, 0.5, 0.5, 1, 1, 1}},
    };
    const struct sluice_cost_table table = {rows, 2, SLUICE_TEST_SPLITS};
    struct sluice_rates rates = {.link_bytes_per_s = 1,
                                 .storage_cores = 1,
                                 .compute_cores = 1,
                                 .gpu_samples_per_s = INFINITY};
    uint8_t plan[2];
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_plan_sophon(&table, &rates, plan, &err));
    CU_ASSERT(plan[0] == 2 && plan[1] == 2); /* of equal stages the earliest */
    rates.link_bytes_per_s = 50;
    REQUIRE_OK(sluice_plan_sophon(&table, &rates, plan, &err));
    CU_ASSERT(plan[0] == 2 && plan[1] == 0); /* of equal samples the lower index */
    rates.storage_cores = INFINITY;
    REQUIRE_OK(sluice_plan_sophon(&table, &rates, plan, &err));
    CU_ASSERT(plan[0] == 2 && plan[1] == 2);
}

TEST(a_sample_that_saves_nothing_stays_raw)
{
    struct sluice_sample_cost rows[1] = {{.bytes = {10, 20, 10, 10, 40, 40}}};
    const struct sluice_cost_table table = {rows, 1, SLUICE_TEST_SPLITS};
    const struct sluice_rates rates = {
        .link_bytes_per_s = 1, .storage_cores = 1, .compute_cores = 1, .gpu_samples_per_s = 1};
    uint8_t plan[1] = {9};
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_plan_sophon(&table, &rates, plan, &err));
    CU_ASSERT_EQUAL(plan[0], 0);
}

TEST(refuses_a_rate_that_is_not_positive)
{
    const struct sluice_cost_table table = {0};
    const struct sluice_rates good = {
        .link_bytes_per_s = 1, .storage_cores = 1, .compute_cores = 1, .gpu_samples_per_s = 1};
    for (int which = 0; which < 4; which++) {
        struct sluice_rates rates = good;
        (&rates.link_bytes_per_s)[which] = which % 2 ? 0 : NAN;
        uint8_t plan[1] = {9};
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(sluice_plan_sophon(&table, &rates, plan, &err), SLUICE_E_INVALID);
        CU_ASSERT(err.text[0] != 0);
        CU_ASSERT_EQUAL(plan[0], 9);
    }
}

TEST(forecast_adds_up)
{
    struct sluice_sample_cost rows[2] = {
        {.bytes = {100, 200, 50, 50, 200, 200}, .op_s = {1, 2, 3, 4, 5, 6}},
        {.bytes = {10, 200, 50, 50, 200, 200}, .op_s = {1, 2, 3, 4, 5, 6}},
    };
    const struct sluice_cost_table table = {rows, 2, SLUICE_TEST_SPLITS};
    const struct sluice_rates rates = {
        .link_bytes_per_s = 10, .storage_cores = 2, .compute_cores = 4, .gpu_samples_per_s = 0.5};
    const uint8_t plan[2] = {2, 0};
    const struct sluice_form_menu menu = sluice_form_menu_init(&table, sluice_test_choices());
    const struct sluice_choice_forecast forecast = sluice_form_menu_forecast(&menu, &rates, plan);
    CU_ASSERT_EQUAL(forecast.wire_bytes, 60);
    CU_ASSERT_DOUBLE_EQUAL(forecast.busy_s[SLUICE_DISK], 2, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(forecast.busy_s[SLUICE_STORAGE_CPU], 2.5, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(forecast.busy_s[SLUICE_NETWORK], 6, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(forecast.busy_s[SLUICE_COMPUTE_CPU], 35.0 / 4, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(forecast.busy_s[SLUICE_GPU], 4, 1e-12);
    CU_ASSERT_EQUAL(forecast.slowest, SLUICE_COMPUTE_CPU);
    CU_ASSERT_DOUBLE_EQUAL(forecast.primal_s, 35.0 / 4, 1e-12);
    CU_ASSERT(forecast.choices[0] == 1 && forecast.choices[2] == 1);
}

/* The totals that the published OpenImages sizes give (40,000 images). */
TEST(published_openimages_sizes_give_the_published_bytes)
{
    const char *path = sluice_test_data("openimages_prep_sizes.csv");
    if (!path) {
        printf("  (no openimages_prep_sizes.csv here: not checked) ");
        return;
    }
    struct sluice_cost_table table = {0};
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_cost_table_read_sizes(path, sluice_test_pipeline(), &table, &err));
    CU_ASSERT_EQUAL_FATAL(table.num_rows, 40000);
    sluice_cost_table_model_times(&table, sluice_test_pipeline());
    const struct sluice_rates ample = {.link_bytes_per_s = 62.5e6,
                                       .storage_cores = 1e9,
                                       .compute_cores = 1,
                                       .gpu_samples_per_s = INFINITY};
    uint8_t *plan = malloc(table.num_rows);
    const struct {
        int split;
        double gigabytes;
    } expected[] = {{0, 12.68}, {5, 24.08}, {3, 6.02}, {-1, 5.56}};
    for (int i = 0; i < 4; i++) {
        if (expected[i].split < 0)
            CHECK_OK(sluice_plan_sophon(&table, &ample, plan, &err));
        else
            memset(plan, expected[i].split, table.num_rows);
        const struct sluice_form_menu menu = sluice_form_menu_init(&table, sluice_test_choices());
        const struct sluice_choice_forecast forecast =
            sluice_form_menu_forecast(&menu, &ample, plan);
        CU_ASSERT_DOUBLE_EQUAL((double)forecast.wire_bytes / 1e9, expected[i].gigabytes, 0.006);
    }
    free(plan);
    sluice_cost_table_clear(&table);
}
