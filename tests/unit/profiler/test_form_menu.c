#include "profiler/form_menu.h"

#include "base/rng.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 10000 };

/* Photographs of many sizes; every hundredth could not be decoded. */
static struct sluice_cost_table make_table(void)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    struct sluice_cost_table table = {calloc(N, sizeof(*table.rows)), N};
    for (size_t i = 0; i < N; i++) {
        struct sluice_sample_cost *row = &table.rows[i];
        row->bytes[0] = 20000 + sluice_rng_below(&rng, 300000);
        for (int k = 1; k < SLUICE_PROFILE_STAGES; k++)
            row->bytes[k] = i % 100 == 0 ? row->bytes[0]
                            : k == 1     ? row->bytes[0] * (3 + sluice_rng_below(&rng, 5))
                            : k < 4      ? 150528
                                         : 602112;
        row->op_s[0] = 1e-4;
        if (i % 100 == 0)
            continue;
        row->op_s[1] = 8e-9 * (double)row->bytes[0] * (0.5 + sluice_rng_double(&rng));
        row->op_s[2] = 1e-3 * sluice_rng_double(&rng);
        for (int k = 3; k < SLUICE_PROFILE_STAGES; k++)
            row->op_s[k] = 5e-5;
    }
    return table;
}

static const struct sluice_rates some_rates[] = {
    {.link_bytes_per_s = 62.5e6,
     .storage_cores = 4,
     .compute_cores = 8,
     .gpu_samples_per_s = INFINITY},
    {.link_bytes_per_s = 1.25e9,
     .storage_cores = 4,
     .compute_cores = 2,
     .gpu_samples_per_s = INFINITY},
    {.link_bytes_per_s = 1.25e9,
     .storage_cores = 1,
     .compute_cores = 16,
     .gpu_samples_per_s = 2000},
    {.link_bytes_per_s = 12.5e6,
     .storage_cores = 32,
     .compute_cores = 8,
     .gpu_samples_per_s = INFINITY},
    {.link_bytes_per_s = 125e6,
     .storage_cores = 2,
     .compute_cores = 2,
     .gpu_samples_per_s = INFINITY},
    {.link_bytes_per_s = INFINITY,
     .storage_cores = 1,
     .compute_cores = 3,
     .gpu_samples_per_s = INFINITY},
};

static void forecasts_plain_splits_like_the_planner(void)
{
    struct sluice_cost_table table = make_table();
    const struct sluice_form_menu menu = sluice_form_menu_init(&table);
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 1);
    uint8_t *split = malloc(N);
    for (size_t i = 0; i < N; i++)
        split[i] = (uint8_t)sluice_rng_below(&rng, SLUICE_PROFILE_STAGES);
    for (size_t r = 0; r < SLUICE_ARRAY_LEN(some_rates); r++) {
        const struct sluice_forecast expected = sluice_plan_forecast(&table, &some_rates[r], split);
        const struct sluice_choice_forecast forecast =
            sluice_form_menu_forecast(&menu, &some_rates[r], split);
        CU_ASSERT_EQUAL(forecast.wire_bytes, expected.wire_bytes);
        CU_ASSERT_EQUAL(forecast.slowest, expected.slowest);
        for (int k = 0; k < SLUICE_NUM_RESOURCES; k++)
            CU_ASSERT_DOUBLE_EQUAL(forecast.busy_s[k], expected.busy_s[k],
                                   1e-9 * (1 + expected.busy_s[k]));
        CU_ASSERT_EQUAL(memcmp(forecast.choices, expected.choices, sizeof(expected.choices)), 0);
    }
    free(split);
    sluice_cost_table_clear(&table);
}

static void plan_is_near_its_bound_and_no_worse_than_any_other(void)
{
    struct sluice_cost_table table = make_table();
    uint8_t *choice = malloc(N);
    for (int forms = 0; forms < 4; forms++) {
        struct sluice_form_menu menu = sluice_form_menu_init(&table);
        menu.has_choice[SLUICE_CHOICE_JPEG_CROP] = forms & 1;
        menu.has_choice[SLUICE_CHOICE_U8_PACKED] = forms & 2;
        for (size_t r = 0; r < SLUICE_ARRAY_LEN(some_rates); r++) {
            const struct sluice_rates *rates = &some_rates[r];
            double bound_s = 0;
            struct sluice_err err = {0};
            CU_ASSERT_EQUAL_FATAL(sluice_form_menu_plan(&menu, rates, choice, &bound_s, &err),
                                  SLUICE_OK);
            const struct sluice_choice_forecast plan =
                sluice_form_menu_forecast(&menu, rates, choice);
            CU_ASSERT(plan.primal_s >= bound_s);
            CU_ASSERT(plan.primal_s <= bound_s * 1.001);
            for (unsigned c = 0; c < SLUICE_NUM_CHOICES; c++)
                CU_ASSERT(menu.has_choice[c] || plan.choices[c] == 0);
            CU_ASSERT_EQUAL(sluice_plan_sophon(&table, rates, choice, &err), SLUICE_OK);
            CU_ASSERT(bound_s <= sluice_form_menu_forecast(&menu, rates, choice).primal_s);
            for (int c = 0; c < SLUICE_NUM_CHOICES; c++) {
                if (!menu.has_choice[c])
                    continue;
                memset(choice, c, N);
                CU_ASSERT(bound_s <= sluice_form_menu_forecast(&menu, rates, choice).primal_s);
            }
        }
    }
    free(choice);
    sluice_cost_table_clear(&table);
}

static void models_a_cut_file_and_packed_pixels(void)
{
    struct sluice_sample_cost rows[2] = {
        {.bytes = {108906, 600000, 150528, 150528, 602112, 602112},
         .op_s = {1e-4, 640e-6, 459e-6, 0, 100e-6, 50e-6}},
        {.bytes = {1000, 1000, 1000, 1000, 1000, 1000}}, /* could not be decoded */
    };
    const struct sluice_rates rates = {
        .link_bytes_per_s = 1, .storage_cores = 1, .compute_cores = 1, .gpu_samples_per_s = 1};
    struct sluice_cost_table table = {rows, 1};
    const struct sluice_form_menu menu = sluice_form_menu_init(&table);
    uint8_t choice[2] = {SLUICE_CHOICE_JPEG_CROP, SLUICE_CHOICE_U8_PACKED};
    struct sluice_choice_forecast forecast = sluice_form_menu_forecast(&menu, &rates, choice);
    CU_ASSERT_EQUAL(forecast.wire_bytes, 48914);
    CU_ASSERT_DOUBLE_EQUAL(forecast.busy_s[SLUICE_STORAGE_CPU], 319e-6, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(forecast.busy_s[SLUICE_COMPUTE_CPU], (460 + 459 + 150) * 1e-6, 1e-9);
    choice[0] = SLUICE_CHOICE_U8_PACKED;
    forecast = sluice_form_menu_forecast(&menu, &rates, choice);
    CU_ASSERT_EQUAL(forecast.wire_bytes, 63885);
    CU_ASSERT_DOUBLE_EQUAL(forecast.busy_s[SLUICE_STORAGE_CPU], (640 + 459 + 311) * 1e-6, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(forecast.busy_s[SLUICE_COMPUTE_CPU], (150 + 213) * 1e-6, 1e-9);

    table.rows = &rows[1];
    forecast = sluice_form_menu_forecast(&menu, &rates, choice);
    CU_ASSERT_EQUAL(forecast.wire_bytes, 1000);
    CU_ASSERT_EQUAL(forecast.busy_s[SLUICE_STORAGE_CPU], 0);
}

static void adds_the_transport_and_floats_where_asked_to(void)
{
    struct sluice_sample_cost row = {.bytes = {100000, 600000, 150528, 150528, 602112, 602112},
                                     .op_s = {1e-4, 600e-6, 400e-6, 0, 100e-6, 50e-6}};
    const struct sluice_rates rates = {
        .link_bytes_per_s = 1, .storage_cores = 1, .compute_cores = 1, .gpu_samples_per_s = 1};
    const struct sluice_cost_table table = {&row, 1};
    const struct sluice_transport_cost transport = sluice_transport_cost_default();
    struct sluice_form_menu menu = sluice_form_menu_init(&table);
    for (uint8_t choice = 0; choice < SLUICE_NUM_CHOICES; choice++) {
        menu.transport = NULL;
        const struct sluice_choice_forecast ops = sluice_form_menu_forecast(&menu, &rates, &choice);
        menu.transport = &transport;
        const struct sluice_choice_forecast all = sluice_form_menu_forecast(&menu, &rates, &choice);
        double cost[SLUICE_NUM_LOADS] = {[SLUICE_LOAD_NET_DOWN] = (double)ops.wire_bytes};
        sluice_transport_cost_add(&transport, choice, cost);
        if (choice == 4 || choice == 5)
            cost[SLUICE_LOAD_COMPUTE_CPU] += 421e-6;
        CU_ASSERT_EQUAL(all.wire_bytes, ops.wire_bytes);
        CU_ASSERT_DOUBLE_EQUAL(all.busy_s[SLUICE_STORAGE_CPU] - ops.busy_s[SLUICE_STORAGE_CPU],
                               cost[SLUICE_LOAD_STORAGE_CPU], 1e-9);
        CU_ASSERT_DOUBLE_EQUAL(all.busy_s[SLUICE_COMPUTE_CPU] - ops.busy_s[SLUICE_COMPUTE_CPU],
                               cost[SLUICE_LOAD_COMPUTE_CPU], 1e-9);
    }
}

static void names_its_choices(void)
{
    CU_ASSERT_STRING_EQUAL(sluice_form_menu_name(0), "raw@0");
    CU_ASSERT_STRING_EQUAL(sluice_form_menu_name(5), "f32@5");
    CU_ASSERT_STRING_EQUAL(sluice_form_menu_name(SLUICE_CHOICE_JPEG_CROP), "jpeg_crop@0");
    for (unsigned c = 0; c < SLUICE_NUM_CHOICES; c++)
        CU_ASSERT_EQUAL(strchr(sluice_form_menu_name(c), '@')[1],
                        (char)('0' + sluice_form_menu_split(c)));
}

static void refuses_a_rate_that_is_not_positive(void)
{
    struct sluice_sample_cost row = {.bytes = {1, 1, 1, 1, 1, 1}};
    const struct sluice_cost_table table = {&row, 1};
    const struct sluice_form_menu menu = sluice_form_menu_init(&table);
    const struct sluice_rates rates = {
        .link_bytes_per_s = 1, .storage_cores = 0, .compute_cores = 1, .gpu_samples_per_s = 1};
    uint8_t choice = 9;
    double bound_s = 7;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_form_menu_plan(&menu, &rates, &choice, &bound_s, &err),
                    SLUICE_E_INVALID);
    CU_ASSERT(strstr(err.text, "storage_cpu") != NULL);
    CU_ASSERT(choice == 9 && bound_s == 7);
}

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(forecasts_plain_splits_like_the_planner),
        SLUICE_TEST(plan_is_near_its_bound_and_no_worse_than_any_other),
        SLUICE_TEST(models_a_cut_file_and_packed_pixels),
        SLUICE_TEST(adds_the_transport_and_floats_where_asked_to),
        SLUICE_TEST(names_its_choices),
        SLUICE_TEST(refuses_a_rate_that_is_not_positive),
    };
    return sluice_test_run("form_menu", tests, SLUICE_TEST_COUNT(tests));
}
