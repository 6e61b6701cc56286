#include "plan/choice_fit.h"

#include "base/rng.h"
#include "image/codecs/coding.h"
#include "support/choices.h"
#include "support/test.h"

#include <math.h>

#define F SLUICE_NUM_CHOICE_FEATURES

static struct sluice_sample_facts random_facts(struct sluice_rng *rng, uint8_t coding)
{
    struct sluice_sample_facts facts = {
        .file_bytes = 20000 + sluice_rng_below(rng, 200000),
        .width = 300 + sluice_rng_below(rng, 400),
        .height = 300 + sluice_rng_below(rng, 400),
        .coding = coding,
        .output_size = 224,
    };
    facts.crop.width = 100 + sluice_rng_below(rng, 200);
    facts.crop.height = 100 + sluice_rng_below(rng, 200);
    facts.crop.left = sluice_rng_below(rng, facts.width - facts.crop.width + 1);
    facts.crop.top = sluice_rng_below(rng, facts.height - facts.crop.height + 1);
    return facts;
}

/* What a machine would measure that is `speed` times as slow as the default says, with noise. */
static struct sluice_form_table measure(struct sluice_rng *rng, size_t num_samples, uint8_t coding,
                                        double speed, double noise)
{
    const struct sluice_choice_model truth = sluice_test_model();
    struct sluice_form_table table = {0};
    struct sluice_err err = {0};
    for (size_t i = 0; i < num_samples; i++) {
        const struct sluice_sample_facts facts = random_facts(rng, coding);
        double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
        sluice_choice_model_costs(&truth, &facts, cost);
        for (unsigned c = 0; c < SLUICE_TEST_CHOICES; c++) {
            const double off = 1 + noise * (2 * sluice_rng_double(rng) - 1);
            const struct sluice_form_row row = {
                .index = i,
                .facts = facts,
                .choice = (uint8_t)c,
                .bytes = (uint64_t)(cost[c][SLUICE_NETWORK] - SLUICE_REPLY_BYTES + 0.5),
                .storage_s = speed * off * cost[c][SLUICE_STORAGE_CPU],
                .compute_s = speed * off * cost[c][SLUICE_COMPUTE_CPU],
            };
            REQUIRE_OK(sluice_form_table_add(&table, &row, &err));
        }
    }
    return table;
}

static struct sluice_choice_quality try_on(const struct sluice_form_table *table,
                                           const struct sluice_choice_model *model, unsigned choice,
                                           enum sluice_resource side)
{
    struct sluice_choice_quality quality;
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_choice_model_try(table, NULL, true, model, SLUICE_NUM_FILE_CLASSES, choice,
                                       side, &quality, &err));
    return quality;
}

TEST(finds_weights_that_it_has_no_idea_of)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    struct sluice_weights_fit fit = {0};
    struct sluice_choice_weights truth = {{0}};
    truth.per[SLUICE_CHOICE_PER_SAMPLE] = 1e-4;
    truth.per[SLUICE_CHOICE_PER_BYTE_TO_CROP] = 3e-9;
    truth.per[SLUICE_CHOICE_PER_CROP_PIXEL] = 2e-9;
    double feature[F];
    for (int i = 0; i < 300; i++) {
        const struct sluice_sample_facts facts = random_facts(&rng, SLUICE_CODING_JPEG_420);
        sluice_choice_features(&facts, feature);
        sluice_weights_fit_add(&fit, feature, sluice_choice_predict(&truth, feature));
    }
    sluice_weights_fit_add(&fit, feature, 0); /* none, and none */
    sluice_weights_fit_add(&fit, feature, NAN);
    CU_ASSERT_EQUAL(fit.num_rows, 300);
    const struct sluice_choice_weights found = sluice_weights_fit_solve(&fit, NULL);
    for (int i = 0; i < 100; i++) {
        const struct sluice_sample_facts facts = random_facts(&rng, SLUICE_CODING_JPEG_420);
        sluice_choice_features(&facts, feature);
        const double cost = sluice_choice_predict(&truth, feature);
        CU_ASSERT_DOUBLE_EQUAL(sluice_choice_predict(&found, feature), cost, 1e-3 * cost);
    }
}

TEST(no_weight_is_negative_and_the_sum_is_right)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 1);
    for (int round = 0; round < 20; round++) {
        struct sluice_weights_fit fit = {0};
        double sum = 0, predicted = 0, features[40][F];
        for (int i = 0; i < 40; i++) {
            const struct sluice_sample_facts facts = random_facts(&rng, SLUICE_CODING_JPEG_444);
            sluice_choice_features(&facts, features[i]);
            /* Falls with the file's size, which no weight can say. */
            const double measured =
                1e-3 * (0.1 + sluice_rng_double(&rng)) * 1e5 / (double)facts.file_bytes;
            sluice_weights_fit_add(&fit, features[i], measured);
            sum += measured;
        }
        const struct sluice_choice_weights found = sluice_weights_fit_solve(&fit, NULL);
        for (int f = 0; f < F; f++)
            CU_ASSERT(found.per[f] >= 0 && isfinite(found.per[f]));
        for (int i = 0; i < 40; i++)
            predicted += sluice_choice_predict(&found, features[i]);
        CU_ASSERT_DOUBLE_EQUAL(predicted, sum, 1e-9 * sum);
    }
}

TEST(learns_a_machine_from_many_samples)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 2);
    const uint8_t codings[] = {SLUICE_CODING_JPEG_420, SLUICE_CODING_PNG,
                               SLUICE_CODING_JPEG_444 | SLUICE_CODING_PROGRESSIVE};
    const struct sluice_choice_model prior = sluice_test_model();
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(codings); i++) {
        struct sluice_form_table table = measure(&rng, 200, codings[i], 2.5, 0.1);
        struct sluice_choice_model model;
        struct sluice_err err = {0};
        REQUIRE_OK(sluice_choice_model_fit(&table, NULL, &prior, &model, &err));
        struct sluice_form_table others = measure(&rng, 200, codings[i], 2.5, 0);
        for (unsigned c = 0; c < SLUICE_TEST_CHOICES; c++) {
            SLUICE_EACH_RESOURCE (side, SLUICE_MODELLED_BY_SAMPLE) {
                const struct sluice_choice_quality quality = try_on(&others, &model, c, side);
                CU_ASSERT_EQUAL(quality.num_rows, 200);
                CU_ASSERT(quality.median < 0.04);
                CU_ASSERT(quality.p90 < 0.10);
                CU_ASSERT(fabs(quality.sum) < 0.04);
            }
        }
        sluice_form_table_clear(&table);
        sluice_form_table_clear(&others);
    }
}

/* What a plan goes by after `offload_profile run` and `fit`, which read the measurements from a file. */
TEST(a_table_that_was_written_and_read_fits_as_before)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 4);
    struct sluice_form_table table = measure(&rng, 60, SLUICE_CODING_JPEG_420, 2, 0.02), read;
    for (size_t i = 0; i < table.num_rows; i++) { /* views that cost a nanosecond a pixel */
        const struct sluice_form_row *first = &table.rows[i - i % SLUICE_TEST_CHOICES];
        struct sluice_form_row *row = &table.rows[i];
        row->facts.view_pixels =
            row == first ? 300000 + sluice_rng_below(&rng, 2000000) : first->facts.view_pixels;
        row->compute_s += 1e-9 * (double)row->facts.view_pixels;
    }
    REQUIRE_OK(sluice_form_table_write(sluice_test_dir(), sluice_test_choices(), &table, NULL));
    REQUIRE_OK(sluice_form_table_read(sluice_test_dir(), sluice_test_choices(), &read, NULL));
    const struct sluice_choice_model prior = sluice_test_model();
    struct sluice_choice_model before, after;
    REQUIRE_OK(sluice_choice_model_fit(&table, NULL, &prior, &before, NULL));
    REQUIRE_OK(sluice_choice_model_fit(&read, NULL, &prior, &after, NULL));
    for (unsigned c = 0; c < SLUICE_TEST_CHOICES; c++) {
        const struct sluice_choice_quality a = try_on(&table, &before, c, SLUICE_COMPUTE_CPU),
                                           b = try_on(&table, &after, c, SLUICE_COMPUTE_CPU);
        CU_ASSERT(b.median < 0.1);
        CU_ASSERT_DOUBLE_EQUAL(a.median, b.median, 1e-3);
        CU_ASSERT_DOUBLE_EQUAL(a.sum, b.sum, 1e-3);
    }
    sluice_form_table_clear(&table);
    sluice_form_table_clear(&read);
}

TEST(few_samples_move_the_prior_to_the_machines_speed)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 3);
    struct sluice_form_table few = measure(&rng, 2, SLUICE_CODING_JPEG_420, 3, 0.02);
    struct sluice_form_table others = measure(&rng, 100, SLUICE_CODING_JPEG_420, 3, 0);
    /* Choices that were not measured, and files of another class, follow. */
    size_t kept = 0;
    for (size_t i = 0; i < few.num_rows; i++) {
        if (few.rows[i].choice == 0 || few.rows[i].choice == 3)
            few.rows[kept++] = few.rows[i];
    }
    few.num_rows = kept;
    const struct sluice_choice_model prior = sluice_test_model();
    struct sluice_choice_model model;
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_choice_model_fit(&few, NULL, &prior, &model, &err));
    struct sluice_form_table pngs = measure(&rng, 100, SLUICE_CODING_PNG, 3, 0);
    for (unsigned c = 0; c < SLUICE_TEST_CHOICES; c++) {
        SLUICE_EACH_RESOURCE (side, SLUICE_MODELLED_BY_SAMPLE & ~(1u << SLUICE_NETWORK)) {
            CU_ASSERT(try_on(&others, &model, c, side).median < 0.1);
            CU_ASSERT(try_on(&pngs, &model, c, side).median < 0.1);
        }
        CU_ASSERT(try_on(&others, &model, c, SLUICE_NETWORK).median < 0.01);
    }
    sluice_form_table_clear(&few);
    sluice_form_table_clear(&others);
    sluice_form_table_clear(&pngs);
}

TEST(a_side_that_was_not_measured_keeps_the_prior)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 4);
    struct sluice_form_table table = measure(&rng, 20, SLUICE_CODING_JPEG_420, 3, 0);
    for (size_t i = 0; i < table.num_rows; i++)
        table.rows[i].storage_s = NAN;
    const struct sluice_choice_model prior = sluice_test_model();
    struct sluice_choice_model model;
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_choice_model_fit(&table, NULL, &prior, &model, &err));
    for (int file_class = 0; file_class < SLUICE_NUM_FILE_CLASSES; file_class++) {
        for (int c = 0; c < SLUICE_TEST_CHOICES; c++) {
            for (int f = 0; f < F; f++)
                CU_ASSERT_EQUAL(model.weights[file_class][c][SLUICE_STORAGE_CPU].per[f],
                                prior.weights[file_class][c][SLUICE_STORAGE_CPU].per[f]);
        }
    }
    sluice_form_table_clear(&table);
}

/* By one factor, for what the GPU decodes of the rows: cut files of those that it covers. */
TEST(the_gpus_time_is_brought_to_what_was_measured)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 5);
    const struct sluice_choice_model before =
        sluice_choice_model_default(sluice_test_gpu_choices());
    struct sluice_choice_model model = before;
    struct sluice_form_table table = {0};
    double sum_s = 0, num_decoded = 0;
    for (size_t i = 0; i < 60; i++) {
        const bool is_covered = i % 3 > 0;
        const struct sluice_form_row row = {
            .facts = random_facts(&rng, is_covered ? SLUICE_CODING_JPEG_420 : SLUICE_CODING_PNG),
            .choice = (uint8_t)(sluice_rng_below(&rng, SLUICE_TEST_GPU_CHOICES)),
        };
        double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
        sluice_choice_model_costs(&before, &row.facts, cost);
        sum_s += cost[row.choice][SLUICE_GPU];
        num_decoded += is_covered && row.choice >= SLUICE_TEST_CHOICES;
        REQUIRE_OK(sluice_form_table_add(&table, &row, NULL));
    }
    CU_ASSERT_FATAL(num_decoded > 0);
    sluice_choice_model_set_decode(&model, &table, 5 * sum_s / num_decoded);
    for (int k = 0; k < SLUICE_NUM_FILE_CLASSES; k++) {
        for (unsigned c = 0; c < SLUICE_TEST_GPU_CHOICES; c++) {
            SLUICE_EACH_RESOURCE (side, SLUICE_MODELLED) {
                for (int f = 0; f < F; f++) {
                    const double was = before.weights[k][c][side].per[f];
                    CU_ASSERT_DOUBLE_EQUAL(model.weights[k][c][side].per[f],
                                           side == SLUICE_GPU ? 5 * was : was, 1e-9 * was);
                }
            }
        }
    }
    const double set =
        model.weights[0][SLUICE_TEST_RAW_ON_GPU][SLUICE_GPU].per[SLUICE_CHOICE_PER_CROP_BYTE];
    sluice_choice_model_set_decode(&model, &table, NAN);
    sluice_choice_model_set_decode(&model, &table, 0);
    table.num_rows = 0;
    sluice_choice_model_set_decode(&model, &table, 1);
    CU_ASSERT_EQUAL(
        model.weights[0][SLUICE_TEST_RAW_ON_GPU][SLUICE_GPU].per[SLUICE_CHOICE_PER_CROP_BYTE], set);
    sluice_form_table_clear(&table);
}

TEST(disk_time_is_brought_to_what_was_measured)
{
    struct sluice_choice_model model = sluice_test_model();
    const struct sluice_choice_model before = model;
    struct sluice_sample_cost rows[20] = {{.width = 0}};
    struct sluice_cost_table table = {.rows = rows, .num_rows = 20};
    for (size_t i = 0; i < 20; i++)
        rows[i].bytes[0] = 50000 + 5000 * i;
    sluice_choice_model_set_disk(&model, &table, 0); /* all from memory */
    CU_ASSERT_EQUAL(model.disk_s_per_sample, 0);
    CU_ASSERT_EQUAL(model.disk_s_per_byte, 0);
    model = before;
    rows[0].op_s[0] = (double)NAN;
    sluice_choice_model_set_disk(&model, &table, 0);
    rows[0].op_s[0] = -1;
    sluice_choice_model_set_disk(&model, &table, 0);
    sluice_choice_model_set_disk(&model, &(struct sluice_cost_table){0}, 0);
    CU_ASSERT_EQUAL(model.disk_s_per_sample, before.disk_s_per_sample);
    CU_ASSERT_EQUAL(model.disk_s_per_byte, before.disk_s_per_byte);
    double bytes[2] = {0, 0};
    for (size_t i = 0; i < 20; i++) {
        rows[i].op_s[0] = 0.05;
        bytes[0] += (double)rows[i].bytes[0];
        bytes[1] += sluice_cost_table_is_sampled(i, 20, 10) ? (double)rows[i].bytes[0] : 0;
    }
    sluice_choice_model_set_disk(&model, &table, 0);
    CU_ASSERT_DOUBLE_EQUAL(20 * model.disk_s_per_sample + bytes[0] * model.disk_s_per_byte, 1,
                           1e-9);
    /* Rows that were not measured say nothing. */
    model = before;
    for (size_t i = 0; i < 20; i++)
        rows[i].op_s[0] = sluice_cost_table_is_sampled(i, 20, 10) ? 0.05 : 7;
    sluice_choice_model_set_disk(&model, &table, 10);
    CU_ASSERT_DOUBLE_EQUAL(10 * model.disk_s_per_sample + bytes[1] * model.disk_s_per_byte, 0.5,
                           1e-9);
}

TEST(fits_to_those_rows_alone_that_are_named)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 5);
    struct sluice_form_table table = measure(&rng, 40, SLUICE_CODING_JPEG_420, 1, 0);
    bool is_used[40 * SLUICE_TEST_CHOICES];
    for (size_t i = 0; i < table.num_rows; i++) {
        is_used[i] = i < table.num_rows / 2;
        if (!is_used[i])
            table.rows[i].compute_s *= 100;
    }
    const struct sluice_choice_model prior = sluice_test_model();
    struct sluice_choice_model model;
    struct sluice_choice_quality used, held_out;
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_choice_model_fit(&table, is_used, &prior, &model, &err));
    REQUIRE_OK(sluice_choice_model_try(&table, is_used, true, &model, SLUICE_CLASS_WINDOW, 0,
                                       SLUICE_COMPUTE_CPU, &used, &err));
    REQUIRE_OK(sluice_choice_model_try(&table, is_used, false, &model, SLUICE_CLASS_WINDOW, 0,
                                       SLUICE_COMPUTE_CPU, &held_out, &err));
    CU_ASSERT_EQUAL(used.num_rows, 20);
    CU_ASSERT_EQUAL(held_out.num_rows, 20);
    CU_ASSERT(used.median < 0.01);
    CU_ASSERT_DOUBLE_EQUAL(held_out.median, 0.99, 0.01);
    memset(is_used, 0, sizeof(is_used));
    CU_ASSERT_EQUAL(sluice_choice_model_fit(&table, is_used, &prior, &model, &err),
                    SLUICE_E_INVALID);
    sluice_form_table_clear(&table);
}
