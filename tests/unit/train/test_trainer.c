#include "train/trainer_internal.h"

#include "base/clock.h"

#include "support/test.h"
#include "train_support.h"

#include <math.h>

/* What holds for every device, shown on device none, and device none's own pace. */

static struct sluice_train_options none_options(void)
{
    return (struct sluice_train_options){
        .device = "none", .num_classes = 10, .height = 8, .width = 8, .batch_size = 20};
}

static const uint8_t pixels[20 * 8 * 8 * 3];
static const uint32_t labels[20] = {0, 9, 3};

struct counted_gate {
    unsigned num_points, num_without_stream;
    sluice_status status;
};

static sluice_status count_point(void *data, void *stream, struct sluice_err *err)
{
    struct counted_gate *gate = data;
    gate->num_points++;
    gate->num_without_stream += !stream;
    return gate->status ? sluice_fail(err, gate->status, "the gate fails") : SLUICE_OK;
}

TEST(names_the_option_it_refuses)
{
    static const struct {
        const char *word;
        struct sluice_train_options options;
    } cases[] = {
        {"gpu", {.device = "gpu", .num_classes = 10, .batch_size = 1}},
        {"device", {.device = NULL, .num_classes = 10, .batch_size = 1}},
        {"batch_size", {.device = "none", .num_classes = 10}},
        {"num_classes", {.device = "none", .batch_size = 1}},
        {"consume_rate",
         {.device = "none", .num_classes = 10, .batch_size = 1, .consume_rate = -1}},
        {"consume_rate",
         {.device = "none", .num_classes = 10, .batch_size = 1, .consume_rate = NAN}},
        {"rank", {.device = "none", .num_classes = 10, .batch_size = 1, .rank = 1}},
        {"rank",
         {.device = "none", .num_classes = 10, .batch_size = 1, .rank = 2, .world_size = 2}},
        {"gate: world_size is 2",
         {.device = "none",
          .num_classes = 10,
          .batch_size = 1,
          .world_size = 2,
          .gate = {.point = count_point}}},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_trainer *trainer = NULL;
        CHECK_FAILS(SLUICE_E_INVALID, cases[i].word,
                    sluice_trainer_create(&cases[i].options, &trainer, sluice_test_err()));
        CU_ASSERT_PTR_NULL(trainer);
    }
}

TEST(precisions_have_names)
{
    enum sluice_precision precision;
    CU_ASSERT_TRUE_FATAL(sluice_precision_parse("bf16", &precision));
    CU_ASSERT_EQUAL(precision, SLUICE_PRECISION_BF16);
    CU_ASSERT_TRUE_FATAL(sluice_precision_parse("fp32", &precision));
    CU_ASSERT_EQUAL(precision, SLUICE_PRECISION_FP32);
    CU_ASSERT_STRING_EQUAL(sluice_precision_name(SLUICE_PRECISION_TF32), "tf32");
    CU_ASSERT_TRUE_FATAL(sluice_precision_parse(NULL, &precision));
    CU_ASSERT_EQUAL(precision, SLUICE_PRECISION_DEFAULT);
    CU_ASSERT_FALSE(sluice_precision_parse("fp16", &precision));
    CU_ASSERT_FALSE(sluice_precision_parse("", &precision));
}

/* Either the device works or the error says how to get it. */
TEST(a_missing_device_names_its_build_option)
{
    static const struct {
        const char *device, *option;
    } cases[] = {{"cpu", "-DSLUICE_ONEDNN=ON"}, {"cuda", "-DSLUICE_CUDA=ON"}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_train_options options = none_options();
        options.device = cases[i].device;
        options.model = "no such model"; /* a device that is there gets as far as this */
        struct sluice_err err = {{0}};
        struct sluice_trainer *trainer = NULL;
        options.table = train_test_table;
        const sluice_status status = sluice_trainer_create(&options, &trainer, &err);
        const char *wanted = status == SLUICE_E_UNSUPPORTED ? cases[i].option : "no such model";
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, wanted));
        CU_ASSERT_PTR_NULL(trainer);
    }
}

TEST(counts_samples_and_steps_until_collected)
{
    const struct sluice_train_options options = none_options();
    struct sluice_trainer *trainer = train_test_create(&options);
    struct sluice_train_batch batch = {.pixels = pixels, .labels = labels, .n = 20};
    struct sluice_train_totals totals;
    struct sluice_err err = {{0}};
    train_test_require(sluice_trainer_step(trainer, &batch, &err), &err);
    batch.n = 3; /* a short batch */
    train_test_require(sluice_trainer_step(trainer, &batch, &err), &err);
    train_test_require(sluice_trainer_evaluate(trainer, &batch, &err), &err);
    CU_ASSERT_EQUAL(trainer->steps, 2);
    CU_ASSERT_EQUAL(trainer->batches_tracked, 2); /* evaluation only reads running statistics */
    train_test_require(sluice_trainer_collect(trainer, &totals, &err), &err);
    CU_ASSERT_EQUAL(totals.samples, 26);
    CU_ASSERT_EQUAL(totals.steps, 3);
    CU_ASSERT_EQUAL(totals.loss_sum, 0);
    train_test_require(sluice_trainer_collect(trainer, &totals, &err), &err);
    CU_ASSERT_EQUAL(totals.samples, 0);
    sluice_trainer_destroy(trainer);
    sluice_trainer_destroy(NULL);
}

TEST(each_step_and_evaluation_stops_once_at_the_gate)
{
    struct counted_gate gate = {0};
    struct sluice_train_options options = none_options();
    options.gate = (struct sluice_train_gate){count_point, &gate};
    struct sluice_trainer *trainer = train_test_create(&options);
    struct sluice_train_batch batch = {.pixels = pixels, .labels = labels, .n = 20};
    struct sluice_err err = {{0}};
    train_test_require(sluice_trainer_step(trainer, &batch, &err), &err);
    CU_ASSERT_EQUAL(gate.num_points, 1);
    train_test_require(sluice_trainer_evaluate(trainer, &batch, &err), &err);
    CU_ASSERT_EQUAL(gate.num_points, 2);
    CU_ASSERT_EQUAL(gate.num_without_stream, 2);

    gate.status = SLUICE_E_INTERNAL;
    CHECK_FAILS(SLUICE_E_INTERNAL, "the gate fails",
                sluice_trainer_step(trainer, &batch, sluice_test_err()));
    CU_ASSERT_EQUAL(trainer->steps, 1);
    sluice_trainer_destroy(trainer);
}

TEST(refuses_a_label_out_of_range_and_names_the_sample)
{
    const struct sluice_train_options options = none_options();
    struct sluice_trainer *trainer = train_test_create(&options);
    const uint32_t bad[3] = {0, 9, 10};
    const struct sluice_train_batch batch = {.pixels = pixels, .labels = bad, .n = 3};
    CHECK_FAILS(SLUICE_E_INVALID, "sample 2",
                sluice_trainer_step(trainer, &batch, sluice_test_err()));
    CHECK_SAYS("label 10");
    CU_ASSERT_EQUAL(sluice_trainer_evaluate(trainer, &batch, NULL), SLUICE_E_INVALID);
    struct sluice_train_totals totals;
    train_test_require(sluice_trainer_collect(trainer, &totals, sluice_test_err()),
                       sluice_test_err());
    CU_ASSERT_EQUAL(totals.samples, 0);
    sluice_trainer_destroy(trainer);
}

TEST(refuses_an_empty_and_an_oversized_batch)
{
    const struct sluice_train_options options = none_options();
    struct sluice_trainer *trainer = train_test_create(&options);
    struct sluice_train_batch batch = {.pixels = pixels, .labels = labels, .n = 0};
    CU_ASSERT_EQUAL(sluice_trainer_step(trainer, &batch, NULL), SLUICE_E_INVALID);
    batch.n = 21;
    CU_ASSERT_EQUAL(sluice_trainer_step(trainer, &batch, NULL), SLUICE_E_INVALID);
    sluice_trainer_destroy(trainer);
}

TEST(a_rank_may_step_without_rows)
{
    struct sluice_train_options options = none_options();
    options.rank = 1;
    options.world_size = 2;
    struct sluice_trainer *trainer = train_test_create(&options);
    struct sluice_train_batch batch = {.n = 0};
    struct sluice_train_totals totals;
    struct sluice_err err = {{0}};
    train_test_require(sluice_trainer_step(trainer, &batch, &err), &err);
    CHECK_FAILS(SLUICE_E_INVALID, "1 to 20 fit",
                sluice_trainer_evaluate(trainer, &batch, sluice_test_err()));
    batch = (struct sluice_train_batch){.pixels = pixels, .labels = labels, .n = 20};
    train_test_require(sluice_trainer_step(trainer, &batch, &err), &err);
    CU_ASSERT_EQUAL(trainer->steps, 2);
    CU_ASSERT_EQUAL(trainer->batches_tracked, 1); /* running statistics saw one */
    train_test_require(sluice_trainer_collect(trainer, &totals, &err), &err);
    CU_ASSERT_EQUAL(totals.steps, 2);
    CU_ASSERT_EQUAL(totals.samples, 20);
    sluice_trainer_destroy(trainer);
}

TEST(cpu_does_not_join_ranks)
{
    struct sluice_train_options options = none_options();
    options.device = "cpu";
    options.table = train_test_table;
    options.world_size = 2;
    options.rendezvous = "a run";
    struct sluice_trainer *trainer = NULL;
    struct sluice_err err = {{0}};
    const sluice_status status = sluice_trainer_create(&options, &trainer, &err);
    if (status != SLUICE_E_UNSUPPORTED) { /* this build has the device */
        CU_ASSERT_EQUAL(status, SLUICE_E_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "device cpu: ranks are not joined"));
    }
    CU_ASSERT_PTR_NULL(trainer);
}

/* 100 samples at 1,000 a second take 0.1 s at least, however they are cut. */
TEST(none_consumes_at_its_rate)
{
    struct sluice_train_options options = none_options();
    options.consume_rate = 1000;
    struct sluice_trainer *trainer = train_test_create(&options);
    const struct sluice_train_batch batch = {.pixels = pixels, .labels = labels, .n = 20};
    struct sluice_train_totals totals;
    struct sluice_err err = {{0}};
    const uint64_t start_ns = sluice_clock_ns();
    for (int i = 0; i < 5; i++)
        train_test_require(sluice_trainer_step(trainer, &batch, &err), &err);
    train_test_require(sluice_trainer_collect(trainer, &totals, &err), &err);
    CU_ASSERT(sluice_clock_ns() - start_ns >= 100000000u);
    CU_ASSERT_EQUAL(totals.samples, 100);
    sluice_trainer_destroy(trainer);
}

/* As on a GPU: the batch is free again, and progress is told, while the step still runs (here: for
 * longer than ctest's limit). */
TEST(none_returns_before_its_step_is_done)
{
    struct sluice_train_options options = none_options();
    options.consume_rate = 0.02;
    struct sluice_trainer *trainer = train_test_create(&options);
    const struct sluice_train_batch batch = {.pixels = pixels, .labels = labels, .n = 20};
    struct sluice_err err = {{0}};
    train_test_require(sluice_trainer_step(trainer, &batch, &err), &err);
    struct sluice_train_totals totals = {0};
    train_test_require(sluice_trainer_progress(trainer, &totals, &err), &err);
    CU_ASSERT_EQUAL(totals.samples, 20);
    sluice_trainer_destroy(trainer);
}

TEST(host_memory_is_aligned_to_64_bytes)
{
    const struct sluice_train_options options = none_options();
    struct sluice_trainer *trainer = train_test_create(&options);
    struct sluice_err err = {{0}};
    void *memory = NULL;
    train_test_require(sluice_trainer_host_alloc(trainer, 1000, &memory, &err), &err);
    CU_ASSERT_EQUAL((uintptr_t)memory % 64, 0);
    memset(memory, 1, 1000);
    sluice_trainer_host_free(trainer, memory);
    sluice_trainer_host_free(trainer, NULL);
    sluice_trainer_destroy(trainer);
}

TEST(nothing_is_uploaded_to_no_device)
{
    const struct sluice_train_options options = none_options();
    struct sluice_trainer *trainer = train_test_create(&options);
    double bytes_per_s = 0;
    CHECK_OK(sluice_trainer_measure_upload(trainer, &bytes_per_s, NULL));
    CU_ASSERT_EQUAL(bytes_per_s, INFINITY);
    sluice_trainer_destroy(trainer);
}

TEST(none_takes_rows_anywhere_and_does_not_look)
{
    const struct sluice_train_options options = none_options();
    struct sluice_trainer *trainer = train_test_create(&options);
    CU_ASSERT_EQUAL(sluice_trainer_device(trainer), -1);
    CU_ASSERT_PTR_NULL(sluice_trainer_stream(trainer));
    const struct sluice_train_batch batch = {
        .pixels = NULL, .labels = labels, .n = 20, .is_on_device = true};
    struct sluice_err err = {{0}};
    train_test_require(sluice_trainer_step(trainer, &batch, &err), &err);
    train_test_require(sluice_trainer_evaluate(trainer, &batch, &err), &err);
    struct sluice_train_totals totals = {0};
    train_test_require(sluice_trainer_collect(trainer, &totals, &err), &err);
    CU_ASSERT_EQUAL(totals.samples, 40);
    sluice_trainer_destroy(trainer);
}

TEST(none_has_no_model_to_save_or_load)
{
    const struct sluice_train_options options = none_options();
    struct sluice_trainer *trainer = train_test_create(&options);
    CU_ASSERT_EQUAL(sluice_trainer_num_params(trainer), 0);
    CU_ASSERT_EQUAL(sluice_trainer_save(trainer, "/nowhere/x", "", NULL), SLUICE_E_UNSUPPORTED);
    CU_ASSERT_EQUAL(sluice_trainer_load(trainer, "/nowhere/x", NULL, NULL), SLUICE_E_UNSUPPORTED);
    CU_ASSERT_EQUAL(sluice_trainer_get_param(trainer, 0, NULL, NULL), SLUICE_E_INVALID);
    sluice_trainer_destroy(trainer);
}

int main(void)
{
    train_test_fill_table();
    return sluice_test_main();
}
