#include "compute_client/replan/cost_correction.h"

#include "support/choices.h"
#include "support/test.h"

#include <math.h>

#define CROP SLUICE_TEST_JPEG_CROP
#define STORAGE SLUICE_STORAGE_CPU
#define COMPUTE SLUICE_COMPUTE_CPU
#define BYTES SLUICE_NETWORK

static const struct sluice_tuning *tuning;
static struct sluice_choice_model model;
static struct sluice_sample_facts facts;
static double plain[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES]; /* by the model */
static const struct sluice_transport_cost no_transport;

/* Rows of a choice that take so many times what the model says. */
static void learn(struct sluice_cost_correction *costs, unsigned choice, int num_rows,
                  double storage, double compute, double bytes)
{
    const double seen[SLUICE_NUM_RESOURCES] = {
        [STORAGE] = storage * plain[choice][SLUICE_STORAGE_CPU],
        [COMPUTE] = compute * plain[choice][SLUICE_COMPUTE_CPU],
        [BYTES] = bytes * plain[choice][SLUICE_NETWORK],
    };
    for (int i = 0; i < num_rows; i++) {
        sluice_cost_correction_learn(costs, choice, &facts, seen, 110000);
        sluice_cost_correction_settle(costs);
    }
}

TEST(nothing_seen_is_the_model_and_the_transport)
{
    const struct sluice_transport_cost transport = {.storage_s_per_sample = 1e-3,
                                                    .storage_s_per_job = 2e-3,
                                                    .storage_s_per_byte = 3e-9,
                                                    .compute_s_per_sample = 4e-3,
                                                    .compute_s_per_byte = 5e-9};
    const struct sluice_cost_correction costs =
        sluice_cost_correction_init(&model, &transport, tuning);
    double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
    sluice_cost_correction_costs(&costs, &facts, cost);
    for (unsigned c = 0; c < SLUICE_TEST_CHOICES; c++) {
        const double bytes = plain[c][SLUICE_NETWORK];
        const bool is_job = c != 0 && c != SLUICE_TEST_JPEG_ROWS;
        CU_ASSERT_EQUAL(cost[c][SLUICE_NETWORK], bytes);
        CU_ASSERT_DOUBLE_EQUAL(
            cost[c][SLUICE_STORAGE_CPU],
            plain[c][SLUICE_STORAGE_CPU] + 1e-3 + (is_job ? 2e-3 : 0) + 3e-9 * bytes, 1e-12);
        CU_ASSERT_DOUBLE_EQUAL(cost[c][SLUICE_COMPUTE_CPU],
                               plain[c][SLUICE_COMPUTE_CPU] + 4e-3 + 5e-9 * bytes, 1e-12);
        CU_ASSERT_EQUAL(cost[c][SLUICE_GPU], plain[c][SLUICE_GPU]);
    }
}

TEST(a_factor_goes_to_what_is_seen_and_forgets)
{
    struct sluice_cost_correction costs =
        sluice_cost_correction_init(&model, &no_transport, tuning);
    learn(&costs, CROP, 400, 3, 2, 1.25);
    CU_ASSERT_DOUBLE_EQUAL(costs.factor[CROP][STORAGE], 3, 0.15);
    CU_ASSERT_DOUBLE_EQUAL(costs.factor[CROP][COMPUTE], 2, 0.1);
    CU_ASSERT_DOUBLE_EQUAL(costs.factor[CROP][BYTES], 1.25, 0.03);
    double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
    sluice_cost_correction_costs(&costs, &facts, cost);
    CU_ASSERT_DOUBLE_EQUAL(cost[CROP][SLUICE_STORAGE_CPU],
                           costs.factor[CROP][STORAGE] * plain[CROP][SLUICE_STORAGE_CPU], 1e-12);
    learn(&costs, CROP, 8000, 1, 1, 1);
    CU_ASSERT_DOUBLE_EQUAL(costs.factor[CROP][STORAGE], 1, 0.02);
}

/* However many rows come in an interval, it is one of the last eight or so. */
TEST(an_interval_does_not_make_the_factor)
{
    struct sluice_cost_correction costs =
        sluice_cost_correction_init(&model, &no_transport, tuning);
    double of_one = 0;
    for (int interval = 0; interval < 40; interval++) {
        const double times = interval < 20 ? 1 : 2;
        const double seen[SLUICE_NUM_RESOURCES] = {
            [STORAGE] = times * plain[CROP][SLUICE_STORAGE_CPU],
            [COMPUTE] = times * plain[CROP][SLUICE_COMPUTE_CPU],
            [BYTES] = plain[CROP][SLUICE_NETWORK],
        };
        for (int i = 0; i < 3000; i++)
            sluice_cost_correction_learn(&costs, CROP, &facts, seen, 110000);
        sluice_cost_correction_settle(&costs);
        if (interval == 20)
            of_one = costs.factor[CROP][COMPUTE];
    }
    CU_ASSERT(of_one > 1.05 && of_one < 1.2);
    CU_ASSERT_DOUBLE_EQUAL(costs.factor[CROP][COMPUTE], 2, 0.1);
}

TEST(other_choices_follow_on_the_same_resource_but_for_bytes)
{
    struct sluice_cost_correction costs =
        sluice_cost_correction_init(&model, &no_transport, tuning);
    learn(&costs, CROP, 400, 3, 2, 1.25);
    CU_ASSERT_DOUBLE_EQUAL(costs.factor[3][STORAGE], 3, 0.2);
    CU_ASSERT_DOUBLE_EQUAL(costs.factor[0][COMPUTE], 2, 0.1);
    CU_ASSERT_EQUAL(costs.factor[SLUICE_TEST_U8_PACKED][BYTES], 1);
    /* A choice that rows say something else of has its own factor. */
    learn(&costs, 3, 1000, 1, 2, 1);
    CU_ASSERT_DOUBLE_EQUAL(costs.factor[3][STORAGE], 1, 0.1);
    CU_ASSERT_DOUBLE_EQUAL(costs.factor[CROP][STORAGE], 3, 0.2);
}

/* Handing out a file is next to nothing in the model, and a clock's reading in a row. */
TEST(what_is_no_work_teaches_nothing)
{
    CU_ASSERT_FATAL(plain[0][SLUICE_STORAGE_CPU] < tuning->least_work_s);
    struct sluice_cost_correction costs =
        sluice_cost_correction_init(&model, &no_transport, tuning);
    learn(&costs, 0, 5000, 40, 1, 1);
    for (unsigned c = 0; c < SLUICE_TEST_CHOICES; c++)
        CU_ASSERT_EQUAL(costs.factor[c][STORAGE], 1);
}

/* What the storage node's workers take includes reading the file, which is transport already. */
TEST(reading_is_not_counted_twice)
{
    const double read_s = plain[CROP][SLUICE_STORAGE_CPU];
    const struct sluice_transport_cost transport = {.storage_s_per_sample = read_s};
    struct sluice_cost_correction costs = sluice_cost_correction_init(&model, &transport, tuning);
    learn(&costs, CROP, 400, 2, 1, 1);
    CU_ASSERT_DOUBLE_EQUAL(costs.factor[CROP][STORAGE], 1, 1e-9);
}

TEST(neither_one_outlier_nor_many_carry_a_factor_away)
{
    struct sluice_cost_correction costs =
        sluice_cost_correction_init(&model, &no_transport, tuning);
    learn(&costs, CROP, 100, 1, 1, 1);
    learn(&costs, CROP, 1, 1e6, 1e6, 1e6);
    SLUICE_EACH_RESOURCE (s, SLUICE_MODELLED)
        CU_ASSERT(costs.factor[CROP][s] < 1.03);
    learn(&costs, CROP, 20000, 1e6, 1e6, 1e6);
    CU_ASSERT(costs.factor[CROP][STORAGE] > 4 && costs.factor[CROP][STORAGE] <= 16);
    CU_ASSERT(costs.factor[CROP][COMPUTE] > 4 && costs.factor[CROP][COMPUTE] <= 16);
    CU_ASSERT(costs.factor[CROP][BYTES] <= 4);
}

static double disk_of(const struct sluice_cost_correction *costs,
                      const struct sluice_sample_facts *of, unsigned choice)
{
    double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
    sluice_cost_correction_costs(costs, of, cost);
    return cost[choice][SLUICE_DISK];
}

TEST(what_is_read_follows_what_was)
{
    struct sluice_sample_facts middle = facts;
    middle.crop.top = 140;
    middle.crop.height = 100;
    struct sluice_choice_model indexed = model;
    indexed.has_jpeg_index = true;
    struct sluice_cost_correction costs =
        sluice_cost_correction_init(&indexed, &no_transport, tuning);
    const double part = sluice_choice_read_bytes(&indexed, &middle, CROP);
    CU_ASSERT_FATAL(part < 60000);
    CU_ASSERT_EQUAL(disk_of(&costs, &middle, 0), 110000);
    CU_ASSERT_EQUAL(disk_of(&costs, &middle, CROP), part);
    /* Whole files say nothing of parts. */
    const double seen[SLUICE_NUM_RESOURCES] = {0};
    sluice_cost_correction_learn(&costs, 0, &middle, seen, 110000);
    sluice_cost_correction_settle(&costs);
    CU_ASSERT_EQUAL(disk_of(&costs, &middle, CROP), part);
    /* Parts say it of all choices. */
    for (int i = 0; i < 400; i++)
        sluice_cost_correction_learn(&costs, CROP, &middle, seen, 1.2 * part);
    sluice_cost_correction_settle(&costs);
    CU_ASSERT_DOUBLE_EQUAL(disk_of(&costs, &middle, CROP), 1.2 * part, 0.02 * part);
    CU_ASSERT_EQUAL(disk_of(&costs, &middle, 3), disk_of(&costs, &middle, CROP));
    CU_ASSERT_EQUAL(disk_of(&costs, &middle, 0), 110000);
    /* There is no index after all; and no more than a file is counted on. */
    for (int i = 0; i < 20000; i++)
        sluice_cost_correction_learn(&costs, CROP, &middle, seen, 1.3 * 110000);
    sluice_cost_correction_settle(&costs);
    CU_ASSERT_EQUAL(disk_of(&costs, &middle, CROP), 110000);
    /* Without one nothing is expected to be read in part, and nothing learnt of it. */
    costs = sluice_cost_correction_init(&model, &no_transport, tuning);
    sluice_cost_correction_learn(&costs, CROP, &middle, seen, part);
    sluice_cost_correction_settle(&costs);
    CU_ASSERT_EQUAL(disk_of(&costs, &middle, CROP), 110000);
    CU_ASSERT_EQUAL(costs.read_factor, 1);
}

/* What is told of many samples at once is one factor for all that the GPU decodes. */
TEST(the_gpu_has_one_factor_from_what_it_decoded)
{
    const struct sluice_choice_model with_gpu =
        sluice_choice_model_default(sluice_test_gpu_choices());
    struct sluice_cost_correction costs =
        sluice_cost_correction_init(&with_gpu, &no_transport, tuning);
    double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
    sluice_choice_model_costs(&with_gpu, &facts, cost);
    const double decode_s = cost[SLUICE_TEST_CUT_ON_GPU][SLUICE_GPU];
    /* Before a row says what was to be decoded, seconds say nothing. */
    sluice_cost_correction_learn_decoded(&costs, 1000, 1);
    sluice_cost_correction_settle(&costs);
    CU_ASSERT_EQUAL(costs.factor[SLUICE_TEST_CUT_ON_GPU][SLUICE_GPU], 1);
    for (int i = 0; i < 20; i++) {
        for (int k = 0; k < 100; k++) {
            sluice_cost_correction_learn(&costs, SLUICE_TEST_CUT_ON_GPU, &facts,
                                         cost[SLUICE_TEST_CUT_ON_GPU], 110000);
            /* A row that CPUs decode is none of it. */
            sluice_cost_correction_learn(&costs, CROP, &facts, cost[CROP], 110000);
        }
        sluice_cost_correction_learn_decoded(&costs, 100, 100 * 10 * decode_s);
        sluice_cost_correction_settle(&costs);
    }
    CU_ASSERT_DOUBLE_EQUAL(costs.factor[SLUICE_TEST_CUT_ON_GPU][SLUICE_GPU], 10, 0.3);
    CU_ASSERT_EQUAL(costs.factor[SLUICE_TEST_RAW_ON_GPU][SLUICE_GPU],
                    costs.factor[SLUICE_TEST_CUT_ON_GPU][SLUICE_GPU]);
    CU_ASSERT_DOUBLE_EQUAL(costs.factor[SLUICE_TEST_CUT_ON_GPU][SLUICE_COMPUTE_CPU], 1, 0.01);
    double corrected[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
    sluice_cost_correction_costs(&costs, &facts, corrected);
    CU_ASSERT_DOUBLE_EQUAL(corrected[SLUICE_TEST_RAW_ON_GPU][SLUICE_GPU], 10 * decode_s,
                           0.3 * decode_s);
    CU_ASSERT_EQUAL(corrected[CROP][SLUICE_GPU], 0);
    for (int i = 0; i < 200; i++) { /* and goes back, from whatever was said of it */
        sluice_cost_correction_learn_decoded(&costs, 100, i ? 100 * decode_s : INFINITY);
        sluice_cost_correction_settle(&costs);
    }
    CU_ASSERT_DOUBLE_EQUAL(costs.factor[SLUICE_TEST_CUT_ON_GPU][SLUICE_GPU], 1, 0.05);
}

int main(void)
{
    struct sluice_pipeline *pipeline = NULL;
    if (sluice_pipeline_parse(
            "decode,random_resized_crop=224,hflip=0.5,to_tensor,normalize=imagenet", &pipeline,
            NULL) != SLUICE_OK)
        return 1;
    const struct sluice_draw_key key = {.seed = 1};
    facts = sluice_sample_facts_make(pipeline, 110000, 500, 375, 0, &key);
    tuning = sluice_tuning_default();
    model = sluice_test_model();
    sluice_choice_model_costs(&model, &facts, plain);
    const int failed = sluice_test_main();
    sluice_pipeline_destroy(pipeline);
    return failed;
}
