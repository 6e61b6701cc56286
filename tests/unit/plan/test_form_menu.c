#include "plan/form_menu.h"

#include "base/rng.h"
#include "plan/choice_cost.h"
#include "support/choices.h"
#include "support/test.h"

#include <math.h>

enum { N = 10000 };

/* Photographs of many sizes; every hundredth could not be decoded. */
static struct sluice_cost_table make_table(void)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    struct sluice_cost_table table = {calloc(N, sizeof(*table.rows)), N, SLUICE_TEST_SPLITS};
    for (size_t i = 0; i < N; i++) {
        struct sluice_sample_cost *row = &table.rows[i];
        row->bytes[0] = 20000 + sluice_rng_below(&rng, 300000);
        for (int k = 1; k < SLUICE_TEST_SPLITS; k++)
            row->bytes[k] = i % 100 == 0 ? row->bytes[0]
                            : k == 1     ? row->bytes[0] * (3 + sluice_rng_below(&rng, 5))
                            : k < 4      ? 150528
                                         : 602112;
        row->op_s[0] = 1e-4;
        if (i % 100 == 0)
            continue;
        row->op_s[1] = 8e-9 * (double)row->bytes[0] * (0.5 + sluice_rng_double(&rng));
        row->op_s[2] = 1e-3 * sluice_rng_double(&rng);
        for (int k = 3; k < SLUICE_TEST_SPLITS; k++)
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

/* The definition: what each split leaves to either node, added up. */
static void add_up(const struct sluice_cost_table *table, const uint8_t *split,
                   double sum[SLUICE_NUM_RESOURCES])
{
    for (size_t i = 0; i < table->num_rows; i++) {
        const struct sluice_sample_cost *row = &table->rows[i];
        for (unsigned op = 1; op < SLUICE_TEST_SPLITS; op++)
            sum[op <= split[i] ? SLUICE_STORAGE_CPU : SLUICE_COMPUTE_CPU] += row->op_s[op];
        sum[SLUICE_DISK] += row->op_s[0];
        sum[SLUICE_NETWORK] += (double)row->bytes[split[i]];
        sum[SLUICE_GPU]++; /* a step */
    }
}

TEST(forecasts_plain_splits_by_adding_up)
{
    struct sluice_cost_table table = make_table();
    const struct sluice_form_menu menu = sluice_form_menu_init(&table, sluice_test_choices());
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 1);
    uint8_t *split = malloc(N);
    for (size_t i = 0; i < N; i++)
        split[i] = (uint8_t)sluice_rng_below(&rng, SLUICE_TEST_SPLITS);
    for (size_t r = 0; r < SLUICE_ARRAY_LEN(some_rates); r++) {
        double sum[SLUICE_NUM_RESOURCES] = {0};
        add_up(&table, split, sum);
        const double expected[SLUICE_NUM_RESOURCES] = {
            [SLUICE_DISK] = sum[SLUICE_DISK],
            [SLUICE_STORAGE_CPU] = sum[SLUICE_STORAGE_CPU] / some_rates[r].storage_cores,
            [SLUICE_NETWORK] = sum[SLUICE_NETWORK] / some_rates[r].link_bytes_per_s,
            [SLUICE_COMPUTE_CPU] = sum[SLUICE_COMPUTE_CPU] / some_rates[r].compute_cores,
            [SLUICE_GPU] = sum[SLUICE_GPU] / some_rates[r].gpu_samples_per_s,
        };
        const struct sluice_choice_forecast forecast =
            sluice_form_menu_forecast(&menu, &some_rates[r], split);
        CU_ASSERT_EQUAL(forecast.wire_bytes, (uint64_t)sum[SLUICE_NETWORK]);
        for (int k = 0; k < SLUICE_NUM_RESOURCES; k++)
            CU_ASSERT_DOUBLE_EQUAL(forecast.busy_s[k], expected[k], 1e-9 * (1 + expected[k]));
        for (int k = 0; k < SLUICE_NUM_RESOURCES; k++)
            CU_ASSERT(expected[k] <= expected[forecast.slowest] + 1e-9);
    }
    free(split);
    sluice_cost_table_clear(&table);
}

TEST(plan_is_near_its_bound_and_no_worse_than_any_other)
{
    struct sluice_cost_table table = make_table();
    uint8_t *choice = malloc(N);
    for (int forms = 0; forms < 4; forms++) {
        struct sluice_form_menu menu = sluice_form_menu_init(&table, sluice_test_choices());
        menu.has_choice[SLUICE_TEST_JPEG_CROP] = forms & 1;
        menu.has_choice[SLUICE_TEST_U8_PACKED] = forms & 2;
        for (size_t r = 0; r < SLUICE_ARRAY_LEN(some_rates); r++) {
            const struct sluice_rates *rates = &some_rates[r];
            double bound_s = 0;
            struct sluice_err err = {0};
            REQUIRE_OK(sluice_form_menu_plan(&menu, rates, choice, &bound_s, &err));
            const struct sluice_choice_forecast plan =
                sluice_form_menu_forecast(&menu, rates, choice);
            CU_ASSERT(plan.primal_s >= bound_s);
            CU_ASSERT(plan.primal_s <= bound_s * 1.001);
            for (unsigned c = 0; c < SLUICE_TEST_CHOICES; c++)
                CU_ASSERT(menu.has_choice[c] || plan.choices[c] == 0);
            CHECK_OK(sluice_plan_sophon(&table, rates, choice, &err));
            CU_ASSERT(bound_s <= sluice_form_menu_forecast(&menu, rates, choice).primal_s);
            for (int c = 0; c < SLUICE_TEST_CHOICES; c++) {
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

static const struct sluice_rates one = {
    .link_bytes_per_s = 1, .storage_cores = 1, .compute_cores = 1, .gpu_samples_per_s = 1};

/* Rows know nothing of cut files and packed pixels: these cost as much of the row's own decoding as
 * they do of the default model's. */
TEST(rows_lend_the_other_forms_their_speed)
{
    struct sluice_sample_cost row = {.bytes = {108906, 562500, 150528, 150528, 602112, 602112},
                                     .op_s = {1e-4, 640e-6, 459e-6, 0, 100e-6, 50e-6},
                                     .width = 500,
                                     .height = 375};
    struct sluice_sample_facts facts = {
        .file_bytes = 108906,
        .width = 500,
        .height = 375,
        .output_size = 224,
        .crop = {.top = 9, .left = 30, .height = 200, .width = 300}};
    const struct sluice_cost_table table = {&row, 1, SLUICE_TEST_SPLITS};
    struct sluice_form_menu menu = sluice_form_menu_init(&table, sluice_test_choices());
    menu.facts = &facts;
    const struct sluice_choice_model preset = sluice_test_model();
    double model[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
    sluice_choice_model_costs(&preset, &facts, model);
    enum { S = SLUICE_STORAGE_CPU, C = SLUICE_COMPUTE_CPU, NET = SLUICE_NETWORK };
    const double speed = (640e-6 + 459e-6) / model[0][C];

    uint8_t choice = SLUICE_TEST_JPEG_CROP;
    struct sluice_choice_forecast forecast = sluice_form_menu_forecast(&menu, &one, &choice);
    CU_ASSERT_DOUBLE_EQUAL((double)forecast.wire_bytes, 108906 * model[choice][NET] / model[0][NET],
                           1);
    CU_ASSERT_DOUBLE_EQUAL(forecast.busy_s[SLUICE_STORAGE_CPU],
                           speed * (model[choice][S] - model[0][S]), 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(forecast.busy_s[SLUICE_COMPUTE_CPU], speed * model[choice][C] + 150e-6,
                           1e-9);
    choice = SLUICE_TEST_U8_PACKED;
    forecast = sluice_form_menu_forecast(&menu, &one, &choice);
    CU_ASSERT_DOUBLE_EQUAL((double)forecast.wire_bytes, 150528 * model[choice][NET] / model[3][NET],
                           1);
    CU_ASSERT_DOUBLE_EQUAL(forecast.busy_s[SLUICE_STORAGE_CPU],
                           (640 + 459) * 1e-6 + speed * (model[choice][S] - model[3][S]), 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(forecast.busy_s[SLUICE_COMPUTE_CPU],
                           150e-6 + speed * (model[choice][C] - model[3][C]), 1e-9);

    /* Without facts the crop is a typical one: some half of the file. */
    menu.facts = NULL;
    choice = SLUICE_TEST_JPEG_CROP;
    forecast = sluice_form_menu_forecast(&menu, &one, &choice);
    CU_ASSERT(forecast.wire_bytes > 40000 && forecast.wire_bytes < 60000);
}

TEST(a_model_takes_the_place_of_the_rows)
{
    struct sluice_sample_cost rows[2] = {
        {.bytes = {50000, 562500, 150528, 150528, 602112, 602112}, .op_s = {1, 1, 1, 1, 1, 1}},
        {.bytes = {60000, 562500, 150528, 150528, 602112, 602112}, .op_s = {1, 1, 1, 1, 1, 1}},
    };
    struct sluice_sample_facts facts[2];
    struct sluice_choice_model model = sluice_test_model();
    double expected[SLUICE_NUM_RESOURCES] = {0};
    const uint8_t choice[2] = {SLUICE_TEST_JPEG_CROP, 3};
    for (int i = 0; i < 2; i++) {
        facts[i] = (struct sluice_sample_facts){.file_bytes = rows[i].bytes[0],
                                                .width = 500,
                                                .height = 375,
                                                .output_size = 224,
                                                .crop = {.height = 100, .width = 200}};
        double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
        sluice_choice_model_costs(&model, &facts[i], cost);
        for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
            expected[r] += cost[choice[i]][r];
    }
    const struct sluice_cost_table table = {rows, 2, SLUICE_TEST_SPLITS};
    struct sluice_form_menu menu = sluice_form_menu_init(&table, sluice_test_choices());
    menu.facts = facts;
    menu.model = &model;
    struct sluice_rates rates = one;
    rates.pcie_bytes_per_s = 1000;
    const struct sluice_choice_forecast forecast = sluice_form_menu_forecast(&menu, &rates, choice);
    CU_ASSERT_EQUAL(forecast.wire_bytes, (uint64_t)expected[SLUICE_NETWORK]);
    CU_ASSERT_DOUBLE_EQUAL(forecast.busy_s[SLUICE_DISK], expected[SLUICE_DISK], 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(forecast.busy_s[SLUICE_STORAGE_CPU], expected[SLUICE_STORAGE_CPU],
                           1e-12);
    CU_ASSERT_DOUBLE_EQUAL(forecast.busy_s[SLUICE_COMPUTE_CPU], expected[SLUICE_COMPUTE_CPU],
                           1e-12);
    CU_ASSERT_DOUBLE_EQUAL(forecast.busy_s[SLUICE_PCIE], 2 * 150528 / 1000., 1e-9);
}

/* Batches that all take as long, one after the other, through what feeds the GPU and then the GPU.
 */
static double two_stages_s(double fed_s, double gpu_s, unsigned num_batches)
{
    double fed_at_s = 0, trained_at_s = 0;
    for (unsigned b = 0; b < num_batches; b++) {
        fed_at_s += fed_s / num_batches;
        trained_at_s = fmax(fed_at_s, trained_at_s) + gpu_s / num_batches;
    }
    return trained_at_s;
}

TEST(an_epoch_takes_one_batch_more_of_the_faster_side)
{
    static const double gpu_s[] = {0, 1, 3, 8};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(gpu_s); i++) {
        for (unsigned batches = 1; batches < 12; batches++) {
            const struct sluice_choice_forecast forecast = {
                .busy_s = {[SLUICE_STORAGE_CPU] = 2, [SLUICE_NETWORK] = 3, [SLUICE_GPU] = gpu_s[i]},
                .primal_s = fmax(3, gpu_s[i])};
            const double fill_s = sluice_choice_forecast_fill_s(&forecast, 100 * batches, 100);
            CU_ASSERT_DOUBLE_EQUAL(forecast.primal_s + fill_s, two_stages_s(3, gpu_s[i], batches),
                                   1e-9);
        }
    }
    const struct sluice_choice_forecast both = {.busy_s = {[SLUICE_DISK] = 2, [SLUICE_GPU] = 1}};
    CU_ASSERT_DOUBLE_EQUAL(sluice_choice_forecast_fill_s(&both, 10, 256), 1, 1e-9);
}

/* By the model, and by the rows, whose disk time is of the whole file. */
TEST(with_an_index_the_disk_reads_what_the_crop_needs)
{
    struct sluice_sample_cost row = {.bytes = {110000, 562500, 150528, 150528, 602112, 602112},
                                     .op_s = {2e-3, 640e-6, 459e-6, 0, 100e-6, 50e-6}};
    struct sluice_sample_facts facts = {.file_bytes = 110000,
                                        .width = 500,
                                        .height = 375,
                                        .output_size = 224,
                                        .crop = {.top = 90, .height = 100, .width = 200}};
    struct sluice_choice_model model = sluice_test_model();
    const struct sluice_cost_table table = {&row, 1, SLUICE_TEST_SPLITS};
    for (int has_model = 0; has_model < 2; has_model++) {
        struct sluice_form_menu menu = sluice_form_menu_init(&table, sluice_test_choices());
        for (unsigned c = 0; c < SLUICE_TEST_CHOICES; c++)
            menu.has_choice[c] = true;
        menu.facts = &facts;
        menu.model = has_model ? &model : NULL;
        double disk_s[2][SLUICE_MAX_CHOICES];
        for (int has_index = 0; has_index < 2; has_index++) {
            menu.has_jpeg_index = has_index;
            for (unsigned c = 0; c < SLUICE_TEST_CHOICES; c++) {
                const uint8_t choice = (uint8_t)c;
                disk_s[has_index][c] = sluice_form_menu_forecast(&menu, &one, &choice).busy_s[0];
            }
        }
        /* A disk takes as long for a byte of any file, and for finding it. */
        model.has_jpeg_index = true;
        const double per_byte = model.disk_s_per_byte, whole_s = model.disk_s_per_sample;
        for (unsigned c = 0; c < SLUICE_TEST_CHOICES; c++) {
            const double read = sluice_choice_read_bytes(&model, &facts, c);
            const double share = (whole_s + per_byte * read) / (whole_s + per_byte * 110000);
            CU_ASSERT(c > 1 ? share < 0.7 : share == 1);
            CU_ASSERT_EQUAL(disk_s[0][c], disk_s[0][0]);
            CU_ASSERT_DOUBLE_EQUAL(disk_s[1][c], share * disk_s[0][0], 1e-12);
        }
        model.has_jpeg_index = false;
        /* Where the disk is the limit that decides. */
        const struct sluice_rates rates = {.link_bytes_per_s = INFINITY,
                                           .storage_cores = 1e3,
                                           .compute_cores = 1e6,
                                           .gpu_samples_per_s = INFINITY};
        uint8_t choice = 77;
        double bound_s;
        menu.has_jpeg_index = true;
        REQUIRE_OK(sluice_form_menu_plan(&menu, &rates, &choice, &bound_s, NULL));
        CU_ASSERT(choice > 1);
        CU_ASSERT(bound_s < 0.7 * disk_s[0][0]);
        menu.has_jpeg_index = false;
        REQUIRE_OK(sluice_form_menu_plan(&menu, &rates, &choice, &bound_s, NULL));
        CU_ASSERT_EQUAL(choice, 0);
    }
}

TEST(a_sample_that_was_never_decoded_is_its_file)
{
    struct sluice_sample_cost row = {.bytes = {1000, 1000, 1000, 1000, 1000, 1000}};
    const struct sluice_cost_table table = {&row, 1, SLUICE_TEST_SPLITS};
    const struct sluice_choice_model model = sluice_test_model();
    for (int with_model = 0; with_model < 2; with_model++) {
        struct sluice_form_menu menu = sluice_form_menu_init(&table, sluice_test_choices());
        menu.model = with_model ? &model : NULL;
        for (unsigned c = SLUICE_TEST_SPLITS; c < SLUICE_TEST_CHOICES; c++) {
            const uint8_t choice = (uint8_t)c;
            const struct sluice_choice_forecast forecast =
                sluice_form_menu_forecast(&menu, &one, &choice);
            CU_ASSERT_EQUAL(forecast.wire_bytes, 1000);
            CU_ASSERT_EQUAL(forecast.busy_s[SLUICE_STORAGE_CPU], 0);
        }
    }
}

TEST(pcie_is_the_limit_where_it_is_slowest)
{
    struct sluice_cost_table table = make_table();
    const struct sluice_form_menu menu = sluice_form_menu_init(&table, sluice_test_choices());
    uint8_t *choice = calloc(N, 1);
    struct sluice_rates rates = {.link_bytes_per_s = 1e12,
                                 .storage_cores = 1e3,
                                 .compute_cores = 1e3,
                                 .gpu_samples_per_s = 1e9};
    CU_ASSERT_EQUAL(sluice_form_menu_forecast(&menu, &rates, choice).busy_s[SLUICE_PCIE], 0);
    rates.pcie_bytes_per_s = 1e6;
    const struct sluice_choice_forecast forecast = sluice_form_menu_forecast(&menu, &rates, choice);
    CU_ASSERT_EQUAL(forecast.slowest, SLUICE_PCIE);
    CU_ASSERT_EQUAL(forecast.primal_s, forecast.busy_s[SLUICE_PCIE]);
    free(choice);
    sluice_cost_table_clear(&table);
}

TEST(adds_the_transport_and_floats_where_asked_to)
{
    struct sluice_sample_cost row = {.bytes = {100000, 562500, 150528, 150528, 602112, 602112},
                                     .op_s = {1e-4, 600e-6, 400e-6, 0, 100e-6, 50e-6},
                                     .width = 500,
                                     .height = 375};
    const struct sluice_sample_facts facts = {.file_bytes = 100000,
                                              .width = 500,
                                              .height = 375,
                                              .output_size = 224,
                                              .crop = {.height = 200, .width = 300}};
    const struct sluice_cost_table table = {&row, 1, SLUICE_TEST_SPLITS};
    const struct sluice_transport_cost transport = sluice_transport_cost_default();
    const struct sluice_choice_model preset = sluice_test_model();
    double model[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
    sluice_choice_model_costs(&preset, &facts, model);
    for (int with_model = 0; with_model < 2; with_model++) {
        struct sluice_form_menu menu = sluice_form_menu_init(&table, sluice_test_choices());
        menu.facts = &facts;
        menu.model = with_model ? &preset : NULL;
        for (unsigned c = 0; c < SLUICE_TEST_CHOICES; c++) {
            const uint8_t choice = (uint8_t)c;
            menu.transport = NULL;
            const struct sluice_choice_forecast ops =
                sluice_form_menu_forecast(&menu, &one, &choice);
            menu.transport = &transport;
            const struct sluice_choice_forecast all =
                sluice_form_menu_forecast(&menu, &one, &choice);
            double cost[SLUICE_NUM_RESOURCES] = {[SLUICE_NETWORK] = (double)ops.wire_bytes};
            sluice_transport_cost_add(&transport, sluice_choice_is_preprocessed(menu.choices.at[c]),
                                      cost);
            if ((choice == 4 || choice == 5) && !with_model) /* whose weights have it */
                cost[SLUICE_COMPUTE_CPU] +=
                    1000e-6 / model[0][SLUICE_COMPUTE_CPU] * model[choice][SLUICE_COMPUTE_CPU];
            CU_ASSERT_EQUAL(all.wire_bytes, ops.wire_bytes);
            CU_ASSERT_DOUBLE_EQUAL(all.busy_s[SLUICE_STORAGE_CPU] - ops.busy_s[SLUICE_STORAGE_CPU],
                                   cost[SLUICE_STORAGE_CPU], 1e-8);
            CU_ASSERT_DOUBLE_EQUAL(all.busy_s[SLUICE_COMPUTE_CPU] - ops.busy_s[SLUICE_COMPUTE_CPU],
                                   cost[SLUICE_COMPUTE_CPU], 1e-8);
            CU_ASSERT_EQUAL(ops.busy_s[SLUICE_RECEIVE], 0);
            CU_ASSERT_DOUBLE_EQUAL(all.busy_s[SLUICE_RECEIVE], cost[SLUICE_RECEIVE], 1e-8);
        }
    }
}

/* With cores and a link without end, what one thread receives is the limit, and fewer bytes help.
 */
TEST(a_plan_sends_less_where_the_receiving_thread_is_the_limit)
{
    struct sluice_cost_table table = make_table();
    const struct sluice_transport_cost transport = {.receive_s_per_sample = 1e-6,
                                                    .receive_s_per_byte = 1e-9};
    struct sluice_form_menu menu = sluice_form_menu_init(&table, sluice_test_choices());
    menu.has_choice[SLUICE_TEST_JPEG_CROP] = true;
    menu.transport = &transport;
    const struct sluice_rates rates = {.link_bytes_per_s = INFINITY,
                                       .storage_cores = 1e6,
                                       .compute_cores = 1e6,
                                       .gpu_samples_per_s = INFINITY};
    uint8_t *choice = calloc(N, 1);
    const struct sluice_choice_forecast files = sluice_form_menu_forecast(&menu, &rates, choice);
    CU_ASSERT_EQUAL(files.slowest, SLUICE_RECEIVE);
    double bound_s = 0;
    CHECK_OK(sluice_form_menu_plan(&menu, &rates, choice, &bound_s, NULL));
    const struct sluice_choice_forecast plan = sluice_form_menu_forecast(&menu, &rates, choice);
    CU_ASSERT_DOUBLE_EQUAL(plan.busy_s[SLUICE_RECEIVE], N * 1e-6 + 1e-9 * (double)plan.wire_bytes,
                           1e-9);
    CU_ASSERT(plan.wire_bytes < files.wire_bytes && plan.primal_s < files.primal_s);
    CU_ASSERT(plan.primal_s >= bound_s);
    free(choice);
    sluice_cost_table_clear(&table);
}

/* A GPU is used as far as it makes the slowest resource faster, its own training step counted. */
TEST(the_gpu_decodes_what_its_step_leaves_it)
{
    struct sluice_cost_table table = make_table();
    struct sluice_form_menu menu = sluice_form_menu_init(&table, sluice_test_gpu_choices());
    const struct sluice_choice_model model = sluice_choice_model_default(sluice_test_gpu_choices());
    const struct sluice_transport_cost transport = sluice_transport_cost_default();
    menu.has_choice[SLUICE_TEST_JPEG_CROP] = true;
    menu.transport = &transport;
    uint8_t *choice = malloc(N), *by_cpu = malloc(N);
    const uint64_t decodable = N - N / 100;
    for (int has_model = 0; has_model < 2; has_model++) {
        menu.model = has_model ? &model : NULL;
        double step_s = 0, cpu_s = 0;
        /* Which the GPU could decode all of, has no time for, and could decode a part of. */
        for (int k = 0; k < 3; k++) {
            struct sluice_rates rates = {.link_bytes_per_s = 3e9,
                                         .storage_cores = 2,
                                         .compute_cores = 0.5,
                                         .gpu_samples_per_s = k == 0 ? INFINITY : 1 / step_s};
            double bound_s = 0, cpu_bound_s = 0;
            menu.has_choice[SLUICE_TEST_CUT_ON_GPU] = menu.has_choice[SLUICE_TEST_RAW_ON_GPU] =
                false;
            REQUIRE_OK(sluice_form_menu_plan(&menu, &rates, by_cpu, &cpu_bound_s, NULL));
            const struct sluice_choice_forecast cpu =
                sluice_form_menu_forecast(&menu, &rates, by_cpu);
            menu.has_choice[SLUICE_TEST_CUT_ON_GPU] = menu.has_choice[SLUICE_TEST_RAW_ON_GPU] =
                true;
            REQUIRE_OK(sluice_form_menu_plan(&menu, &rates, choice, &bound_s, NULL));
            const struct sluice_choice_forecast plan =
                sluice_form_menu_forecast(&menu, &rates, choice);
            const uint64_t on_gpu =
                plan.choices[SLUICE_TEST_CUT_ON_GPU] + plan.choices[SLUICE_TEST_RAW_ON_GPU];
            CU_ASSERT(bound_s <= plan.primal_s && plan.primal_s <= 1.001 * bound_s);
            CU_ASSERT(bound_s <= cpu.primal_s && bound_s <= cpu_bound_s * (1 + 1e-6));
            if (k == 0) { /* of no step: all that is cheapest here */
                CU_ASSERT(plan.primal_s < 0.8 * cpu.primal_s);
                CU_ASSERT(on_gpu > 0.95 * decodable);
                cpu_s = cpu.primal_s;
                step_s = 1.01 * cpu_s / N; /* CPUs just keep up */
            } else if (k == 1) {
                CU_ASSERT(cpu.slowest == SLUICE_GPU && plan.slowest == SLUICE_GPU);
                CU_ASSERT_EQUAL(on_gpu, 0);
                CU_ASSERT_EQUAL(memcmp(choice, by_cpu, N), 0);
                CU_ASSERT_DOUBLE_EQUAL(plan.primal_s, N * step_s, 1e-9);
                step_s = 0.97 * cpu_s / N; /* just not */
            } else {
                CU_ASSERT(cpu.slowest != SLUICE_GPU && plan.primal_s < cpu.primal_s);
                CU_ASSERT(on_gpu > 0 && on_gpu < decodable / 4);
                CU_ASSERT_DOUBLE_EQUAL(plan.busy_s[SLUICE_GPU], plan.primal_s,
                                       0.002 * plan.primal_s);
            }
        }
    }
    free(choice);
    free(by_cpu);
    sluice_cost_table_clear(&table);
}

TEST(the_time_to_decode_can_be_anothers)
{
    struct sluice_cost_table table = make_table();
    struct sluice_form_menu menu = sluice_form_menu_init(&table, sluice_test_gpu_choices());
    const double usual_s = sluice_form_menu_decode_s(&menu);
    CU_ASSERT(usual_s > 1e-6 && usual_s < 30e-6);
    uint8_t *choice = malloc(N);
    memset(choice, SLUICE_TEST_RAW_ON_GPU, N);
    struct sluice_rates rates = {.link_bytes_per_s = 1e12,
                                 .storage_cores = 1e3,
                                 .compute_cores = 1e3,
                                 .gpu_samples_per_s = INFINITY};
    double busy_s = sluice_form_menu_forecast(&menu, &rates, choice).busy_s[SLUICE_GPU];
    /* Every hundredth is none that can be decoded. */
    CU_ASSERT_DOUBLE_EQUAL(busy_s, usual_s * 0.99 * N, 1e-9);
    menu.decode_factor = 3;
    rates.gpu_samples_per_s = 1000;
    CU_ASSERT_DOUBLE_EQUAL(sluice_form_menu_decode_s(&menu), 3 * usual_s, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(sluice_form_menu_forecast(&menu, &rates, choice).busy_s[SLUICE_GPU],
                           3 * busy_s + N / 1000., 1e-9);
    menu.choices = *sluice_test_choices();
    CU_ASSERT_EQUAL(sluice_form_menu_decode_s(&menu), 0);
    free(choice);
    sluice_cost_table_clear(&table);
}

/* Few samples, all plans there are. */
TEST(with_a_gpu_it_is_close_to_the_best_of_all_plans)
{
    enum { FEW = 4 };
    struct sluice_cost_table table = make_table();
    table.num_rows = FEW;
    struct sluice_sample_cost *first = table.rows;
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 2);
    double sum_excess = 0;
    enum { ROUNDS = 24 };
    for (int round = 0; round < ROUNDS; round++) {
        table.rows = first + 1 + FEW * round;
        struct sluice_form_menu menu = sluice_form_menu_init(&table, sluice_test_gpu_choices());
        for (unsigned c = 0; c < SLUICE_TEST_GPU_CHOICES; c++)
            menu.has_choice[c] = true;
        const struct sluice_rates rates = {
            .link_bytes_per_s = 1e7 * exp2(6 * sluice_rng_double(&rng)),
            .storage_cores = exp2(4 * sluice_rng_double(&rng) - 3),
            .compute_cores = exp2(4 * sluice_rng_double(&rng) - 3),
            .gpu_samples_per_s = round % 4 ? 300 * exp2(6 * sluice_rng_double(&rng)) : INFINITY,
            .pcie_bytes_per_s = round % 3 ? 0 : 1e8 * exp2(4 * sluice_rng_double(&rng)),
        };
        uint8_t choice[FEW];
        double bound_s, best_s = INFINITY;
        REQUIRE_OK(sluice_form_menu_plan(&menu, &rates, choice, &bound_s, NULL));
        const double plan_s = sluice_form_menu_forecast(&menu, &rates, choice).primal_s;
        for (unsigned code = 0; code < (unsigned)pow(SLUICE_TEST_GPU_CHOICES, FEW); code++) {
            unsigned digits = code;
            for (size_t i = 0; i < FEW; i++, digits /= SLUICE_TEST_GPU_CHOICES)
                choice[i] = (uint8_t)(digits % SLUICE_TEST_GPU_CHOICES);
            best_s = fmin(best_s, sluice_form_menu_forecast(&menu, &rates, choice).primal_s);
        }
        CU_ASSERT(bound_s <= best_s);
        CU_ASSERT(plan_s >= best_s * (1 - 1e-9));
        sum_excess += plan_s / best_s - 1;
    }
    CU_ASSERT(sum_excess / ROUNDS < 0.1);
    table.rows = first;
    sluice_cost_table_clear(&table);
}

TEST(refuses_a_rate_that_is_not_positive)
{
    struct sluice_sample_cost row = {.bytes = {1, 1, 1, 1, 1, 1}};
    const struct sluice_cost_table table = {&row, 1, SLUICE_TEST_SPLITS};
    const struct sluice_form_menu menu = sluice_form_menu_init(&table, sluice_test_choices());
    const struct sluice_rates rates = {
        .link_bytes_per_s = 1, .storage_cores = 0, .compute_cores = 1, .gpu_samples_per_s = 1};
    uint8_t choice = 9;
    double bound_s = 7;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_form_menu_plan(&menu, &rates, &choice, &bound_s, &err),
                    SLUICE_E_INVALID);
    CU_ASSERT(strstr(err.text, "storage_cpu") != NULL);
    CU_ASSERT(choice == 9 && bound_s == 7);
    const struct sluice_rates stopped = {
        .link_bytes_per_s = 1, .storage_cores = 1, .compute_cores = 1, .gpu_samples_per_s = 0};
    memset(&err, 0, sizeof(err));
    CU_ASSERT_EQUAL(sluice_form_menu_plan(&menu, &stopped, &choice, &bound_s, &err),
                    SLUICE_E_INVALID);
    CU_ASSERT(strstr(err.text, "gpu") != NULL);
}
