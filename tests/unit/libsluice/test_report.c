#include "compute_client/api/report.h"

#include "support/test.h"

#include <jansson.h>

#include <math.h>

static struct sluice_manifest *manifest;

static json_t *to_json(const struct sluice_epoch_report *report)
{
    char *text = NULL;
    REQUIRE_OK(sluice_report_json(report, &text, NULL));
    CU_ASSERT_PTR_NULL(strchr(text, '\n'));
    json_t *object = json_loads(text, 0, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(object);
    free(text);
    return object;
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    CU_ASSERT_TRUE(json_is_number(value));
    return json_number_value(value);
}

static struct sluice_epoch_stats sample_stats(void)
{
    struct sluice_epoch_stats stats = {
        .samples = 400,
        .errors = 1,
        .reduced = 3,
        .wire_bytes = 19606400,
        .stall_ns = {[SLUICE_STORAGE_CPU] = 200000000,
                     [SLUICE_NETWORK] = 400000000,
                     [SLUICE_COMPUTE_CPU] = 100000000,
                     [SLUICE_GPU] = 300000000},
        .digest = "00112233445566778899aabbccddeeff",
        .num_named = 1,
    };
    stats.choices[0][SLUICE_FORM_RAW] = 21;
    stats.choices[3][SLUICE_FORM_U8] = 379;
    stats.named[0] = (struct sluice_prefetcher_error){
        .sample_id = 1, .status = SLUICE_E_CORRUPT, .text = "it is cut"};
    return stats;
}

TEST(padded_rows_are_told_where_there_are_some)
{
    struct sluice_epoch_stats stats = sample_stats();
    const struct sluice_epoch_report report = {
        .mode = SLUICE_MODE_LOCAL, .seconds = 2, .stats = &stats, .manifest = manifest};
    char text[1000], *json = NULL;
    CU_ASSERT_PTR_NULL(strstr(sluice_report_summary(&report).line[0], "padded"));
    stats.padded = 7;
    stats.errors = 0;
    sluice_report_text(&report, text, sizeof(text));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, ", padded 7"));
    CU_ASSERT_PTR_NOT_NULL(
        strstr(sluice_report_summary(&report).line[0], "400 samples (7 padded) in 2.00 s"));
    REQUIRE_OK(sluice_report_json(&report, &json, NULL));
    CU_ASSERT_PTR_NOT_NULL(strstr(json, "\"padded\":7"));
    free(json);
}

TEST(what_was_lent_is_told_while_the_gpu_is_lent)
{
    struct sluice_epoch_stats stats = sample_stats();
    struct sluice_lend_counters lent = {
        .requests = 12, .lent_ns = 80000000, .cost_ns = 20000000, .taken_back = 1};
    lent.waits[0] = 12;
    stats.errors = 0; /* or there is no room for it */
    struct sluice_epoch_report report = {
        .mode = SLUICE_MODE_LOCAL, .seconds = 2, .stats = &stats, .manifest = manifest};
    json_t *o = to_json(&report);
    CU_ASSERT_PTR_NULL(json_object_get(o, "lend"));
    json_decref(o);
    CU_ASSERT_PTR_NULL(strstr(sluice_report_summary(&report).line[0], "lent"));

    report.lent = &lent;
    o = to_json(&report);
    const json_t *lend = json_object_get(o, "lend");
    CU_ASSERT_EQUAL(json_object_size(lend), 6);
    CU_ASSERT_EQUAL(number(lend, "requests"), 12);
    CU_ASSERT_DOUBLE_EQUAL(number(lend, "lent_ms"), 80, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(number(lend, "cost_ms"), 20, 1e-9);
    CU_ASSERT_EQUAL(number(lend, "taken_back"), 1);
    CU_ASSERT(number(lend, "wait_p50_ms") <= number(lend, "wait_p99_ms"));
    CU_ASSERT(number(lend, "wait_p99_ms") <= 0.001);
    json_decref(o);
    CU_ASSERT_PTR_NOT_NULL(strstr(sluice_report_summary(&report).line[0], ", lent 4%, limited by"));
    char text[1000];
    sluice_report_text(&report, text, sizeof(text));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, ", lent 4.0% in 12 requests, taken back 1"));
    report.has_val = true; /* what was lent in the evaluation is among it */
    report.val_seconds = 2;
    CU_ASSERT_PTR_NOT_NULL(strstr(sluice_report_summary(&report).line[0], ", lent 2%,"));
}

TEST(waits_for_the_gpus_decoder_are_told_where_there_are_some)
{
    struct sluice_epoch_stats stats = sample_stats();
    const struct sluice_epoch_report report = {
        .mode = SLUICE_MODE_AUTO, .seconds = 2, .stats = &stats, .manifest = manifest};
    char text[1000];
    sluice_report_text(&report, text, sizeof(text));
    CU_ASSERT_PTR_NULL(strstr(text, " gpu "));
    stats.stall_ns[SLUICE_STALL_GPU] = 800000000;
    sluice_report_text(&report, text, sizeof(text));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "bound by gpu,"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, " gpu 40%"));
    json_t *o = to_json(&report);
    CU_ASSERT_DOUBLE_EQUAL(number(json_object_get(o, "stalls"), "gpu"), 0.4, 1e-9);
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(o, "bound_by")), "gpu");
    json_decref(o);
}

TEST(the_json_has_the_keys_that_checks_read)
{
    const struct sluice_epoch_stats stats = sample_stats();
    const struct sluice_epoch_report report = {
        .epoch = 3,
        .mode = SLUICE_MODE_AUTO,
        .seconds = 2,
        .stats = &stats,
        .manifest = manifest,
        .has_loss = true,
        .totals =
            {.samples = 400, .loss_sum = 600, .top1 = 100, .top5 = 300, .is_deterministic = true},
        .has_val = true,
        .val = {.samples = 10, .loss_sum = 5, .top1 = 4, .top5 = 8},
    };
    json_t *o = to_json(&report);
    CU_ASSERT_EQUAL(number(o, "epoch"), 3);
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(o, "mode")), "remote_auto");
    CU_ASSERT_EQUAL(number(o, "samples"), 400);
    CU_ASSERT_DOUBLE_EQUAL(number(o, "seconds"), 2, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(number(o, "samples_per_s"), 200, 1e-9);
    CU_ASSERT_EQUAL(number(o, "wire_bytes"), 19606400);
    CU_ASSERT_DOUBLE_EQUAL(number(o, "bytes_per_sample"), 49016, 1e-6);
    const json_t *choices = json_object_get(o, "choices");
    CU_ASSERT_EQUAL(json_object_size(choices), 2);
    CU_ASSERT_EQUAL(number(choices, "raw@0"), 21);
    CU_ASSERT_EQUAL(number(choices, "u8@3"), 379);
    const json_t *stalls = json_object_get(o, "stalls");
    CU_ASSERT_DOUBLE_EQUAL(number(stalls, "disk"), 0, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(number(stalls, "storage_cpu"), 0.1, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(number(stalls, "network"), 0.2, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(number(stalls, "compute_cpu"), 0.05, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(number(stalls, "gpu"), 0, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(number(stalls, "trainer"), 0.15, 1e-9);
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(o, "bound_by")), "network");
    CU_ASSERT_DOUBLE_EQUAL(number(o, "loss"), 1.5, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(number(o, "top1"), 0.25, 1e-9);
    CU_ASSERT_TRUE(json_is_true(json_object_get(o, "deterministic")));
    CU_ASSERT_EQUAL(number(o, "errors"), 1);
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(o, "digest")), stats.digest);
    CU_ASSERT_DOUBLE_EQUAL(number(o, "val_loss"), 0.5, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(number(o, "val_top1"), 0.4, 1e-9);
    const json_t *named = json_array_get(json_object_get(o, "error_samples"), 0);
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(named, "path")), "a/\xc3\xa4.png");
    json_decref(o);
}

TEST(what_there_is_not_is_null)
{
    struct sluice_epoch_stats stats = {0};
    stats.num_named = 1;
    stats.named[0] = (struct sluice_prefetcher_error){.sample_id = 0, .status = SLUICE_E_IO};
    const struct sluice_epoch_report report = {.stats = &stats, .manifest = manifest};
    json_t *o = to_json(&report);
    CU_ASSERT_TRUE(json_is_null(json_object_get(o, "loss")));
    CU_ASSERT_TRUE(json_is_null(json_object_get(o, "top1")));
    CU_ASSERT_TRUE(json_is_null(json_object_get(o, "deterministic")));
    CU_ASSERT_TRUE(json_is_null(json_object_get(o, "digest")));
    CU_ASSERT_PTR_NULL(json_object_get(o, "val_loss"));
    CU_ASSERT_EQUAL(number(o, "samples_per_s"), 0);
    CU_ASSERT_EQUAL(number(o, "bytes_per_sample"), 0);
    /* A path that is no UTF-8 is null, and the object whole. */
    const json_t *named = json_array_get(json_object_get(o, "error_samples"), 0);
    CU_ASSERT_TRUE(json_is_null(json_object_get(named, "path")));
    CU_ASSERT_EQUAL(number(named, "sample"), 0);
    json_decref(o);
}

TEST(a_plan_says_what_it_took)
{
    const struct sluice_epoch_stats stats = sample_stats();
    const struct sluice_plan_stats plan = {
        .replans = 2,
        .looks = 8,
        .solves = 4,
        .first_s = 0.01,
        .looks_s = 0.008,
        .choices_s = 0.002,
        .rates = {.link_bytes_per_s = 125e6,
                  .storage_cores = 4,
                  .compute_cores = 7.5,
                  .gpu_samples_per_s = INFINITY,
                  .pcie_bytes_per_s = 24e9},
    };
    struct sluice_epoch_report report = {
        .stats = &stats, .manifest = manifest, .plan = &plan, .cpu_s = 2};
    json_t *o = to_json(&report);
    CU_ASSERT_EQUAL(number(o, "replans"), 2);
    const json_t *cpu = json_object_get(o, "plan_cpu");
    CU_ASSERT_EQUAL(number(cpu, "looks"), 8);
    CU_ASSERT_EQUAL(number(cpu, "solves"), 4);
    CU_ASSERT_DOUBLE_EQUAL(number(cpu, "first_us"), 10000, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(number(cpu, "look_us"), 1000, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(number(cpu, "choice_us"), 5, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(number(cpu, "share"), 0.01, 1e-9);
    const json_t *rates = json_object_get(o, "rates");
    CU_ASSERT_EQUAL(number(rates, "link_bytes_per_s"), 125e6);
    CU_ASSERT_EQUAL(number(rates, "storage_cores"), 4);
    CU_ASSERT_EQUAL(number(rates, "compute_cores"), 7.5);
    CU_ASSERT_EQUAL(number(rates, "pcie_bytes_per_s"), 24e9);
    CU_ASSERT_TRUE(json_is_null(json_object_get(rates, "disk_bytes_per_s")));
    CU_ASSERT_TRUE(json_is_null(json_object_get(rates, "trainer_samples_per_s")));
    json_decref(o);
    report.plan = NULL;
    o = to_json(&report);
    CU_ASSERT_EQUAL(number(o, "replans"), 0);
    CU_ASSERT_PTR_NULL(json_object_get(o, "plan_cpu"));
    CU_ASSERT_PTR_NULL(json_object_get(o, "rates"));
    json_decref(o);
}

TEST(the_json_names_the_mode_as_it_was_typed)
{
    const struct sluice_epoch_stats stats = sample_stats();
    struct sluice_epoch_report report = {.mode = SLUICE_MODE_SOPHON,
                                         .mode_name = "remote_smartoff",
                                         .seconds = 2,
                                         .stats = &stats,
                                         .manifest = manifest};
    json_t *o = to_json(&report);
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(o, "mode")), "remote_smartoff");
    json_decref(o);
    report.mode_name = NULL;
    o = to_json(&report);
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(o, "mode")), "remote_sophon");
    json_decref(o);
}

TEST(the_text_is_one_line_of_what_matters)
{
    const struct sluice_epoch_stats stats = sample_stats();
    const struct sluice_epoch_report report = {
        .epoch = 3,
        .mode = SLUICE_MODE_PILOFF,
        .seconds = 2,
        .stats = &stats,
        .manifest = manifest,
    };
    char text[1024];
    sluice_report_text(&report, text, sizeof(text));
    static const char *const parts[] = {"epoch 3",     "remote_piloff",
                                        "400 samples", "200.0 samples/s",
                                        "19.61 MB",    "raw@0 21",
                                        "u8@3 379",    "network 20%",
                                        "errors 1",    "digest 00112233445566778899aabbccddeeff"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        CU_ASSERT_PTR_NOT_NULL(strstr(text, parts[i]));
    CU_ASSERT_PTR_NULL(strchr(text, '\n'));
    CU_ASSERT_PTR_NULL(strstr(text, "loss"));
    /* Cut, not overrun. */
    memset(text, 'x', sizeof(text));
    sluice_report_text(&report, text, 20);
    CU_ASSERT_EQUAL(strlen(text), 19);
    CU_ASSERT_EQUAL(text[20], 'x');
}

TEST(says_what_the_gpu_decoded)
{
    struct sluice_epoch_stats stats = sample_stats();
    stats.on_gpu[SLUICE_FORM_RAW] = 20;
    const struct sluice_epoch_report report = {
        .mode = SLUICE_MODE_PILOFF, .seconds = 2, .stats = &stats, .manifest = manifest};
    json_t *o = to_json(&report);
    const json_t *choices = json_object_get(o, "choices");
    CU_ASSERT_EQUAL(number(choices, "raw@0"), 1);
    CU_ASSERT_EQUAL(number(choices, "raw@0+gpu"), 20);
    CU_ASSERT_EQUAL(number(choices, "u8@3"), 379);
    json_decref(o);
    char text[1024];
    sluice_report_text(&report, text, sizeof(text));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, ", raw@0 1, raw@0+gpu 20, u8@3 379,"));
    CU_ASSERT_STRING_EQUAL(sluice_report_summary(&report).line[1],
                           "   pixels 95% raw 5% +gpu 5%  digest 00112233445566778899aabbccddeeff");
}

static struct sluice_report_summary summary_of(const struct sluice_epoch_report *report)
{
    const struct sluice_report_summary summary = sluice_report_summary(report);
    for (int i = 0; i < 2; i++) {
        CU_ASSERT(strlen(summary.line[i]) <= 80);
        CU_ASSERT_PTR_NULL(strchr(summary.line[i], '\n'));
        CU_ASSERT_PTR_NULL(strstr(summary.line[i], "inf"));
        CU_ASSERT_PTR_NULL(strstr(summary.line[i], "nan"));
    }
    return summary;
}

TEST(the_summary_is_two_lines_of_what_matters)
{
    struct sluice_epoch_stats stats = sample_stats();
    stats.errors = 0;
    struct sluice_epoch_report report = {
        .epoch = 3,
        .mode = SLUICE_MODE_PILOFF,
        .seconds = 2,
        .stats = &stats,
        .manifest = manifest,
    };
    struct sluice_report_summary summary = summary_of(&report);
    CU_ASSERT_STRING_EQUAL(
        summary.line[0],
        "epoch 3: 400 samples in 2.00 s, 200 samples/s, 19.6 MB, limited by network");
    CU_ASSERT_STRING_EQUAL(summary.line[1],
                           "   pixels 95% raw 5%  digest 00112233445566778899aabbccddeeff");
    report.mode = SLUICE_MODE_LOCAL;
    stats.wire_bytes = 0;
    stats.errors = 1;
    summary = summary_of(&report);
    CU_ASSERT_STRING_EQUAL(
        summary.line[0],
        "epoch 3 local: 400 samples in 2.00 s, 200 samples/s, 1 error, limited by network");
}

TEST(the_digest_and_the_val_loss_stay_whatever_else_there_is)
{
    const struct sluice_epoch_stats stats = sample_stats();
    const struct sluice_epoch_report report = {
        .epoch = 12345,
        .mode = SLUICE_MODE_PILOFF,
        .seconds = 123456,
        .stats = &stats,
        .manifest = manifest,
        .has_loss = true,
        .totals = {.samples = 400, .loss_sum = 926, .top1 = 164},
        .has_val = true,
        .val = {.samples = 100, .loss_sum = 220, .top1 = 43},
        .retries = 20,
        .hash_errors = 40,
    };
    const struct sluice_report_summary summary = summary_of(&report);
    CU_ASSERT_PTR_NOT_NULL(strstr(summary.line[0], "1 error"));
    CU_ASSERT_STRING_EQUAL(
        summary.line[1],
        "   loss 2.315  val 2.200, top1 43.0%  digest 00112233445566778899aabbccddeeff");
}

TEST(a_summary_of_nothing_has_no_numbers_that_are_none)
{
    const struct sluice_epoch_stats stats = {0};
    const struct sluice_epoch_report report = {
        .stats = &stats, .manifest = manifest, .is_evaluation = true, .has_loss = true};
    const struct sluice_report_summary summary = summary_of(&report);
    CU_ASSERT_EQUAL(strncmp(summary.line[0], "evaluation at epoch 0", 21), 0);
}

int main(void)
{
    static const struct sluice_manifest_entry entries[] = {
        {.path = "a/\x80.png"},
        {.path = "a/\xc3\xa4.png"},
    };
    static const char *const classes[] = {"a"};
    if (sluice_manifest_create(entries, 2, classes, 1, &manifest, NULL) != SLUICE_OK)
        return 1;
    const int failed = sluice_test_main();
    sluice_manifest_destroy(manifest);
    return failed;
}
