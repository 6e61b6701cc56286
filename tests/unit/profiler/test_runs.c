#include "profiler/runs.h"

#include "support/capture.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *write_file(const char *name, const char *text)
{
    static char path[4096];
    snprintf(path, sizeof(path), "%s/%s", sluice_test_dir(), name);
    FILE *file = fopen(path, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fputs(text, file);
    fclose(file);
    return path;
}

static void read_text(const char *text, struct sluice_runs *runs)
{
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL_FATAL(sluice_runs_read(write_file("runs.jsonl", text), runs, &err), SLUICE_OK);
}

#define EPOCH(mode, epoch, more)                                                                   \
    "{\"mode\":\"" mode "\",\"epoch\":" #epoch ",\"seconds\":2" more "}\n"

static void what_is_missing_is_nan(void)
{
    struct sluice_runs runs = {0};
    read_text("{\"mode\":\"auto\",\"seconds\":1.5}\n"
              "{\"mode\":\"local\",\"seconds\":1,\"loss\":null,\"val_loss\":-1.7e308,"
              "\"stalls\":{\"network\":7}}",
              &runs);
    CU_ASSERT_EQUAL_FATAL(runs.num_items, 2);
    CU_ASSERT_STRING_EQUAL(runs.items[0].mode, "remote_auto"); /* written as it was typed */
    CU_ASSERT_DOUBLE_EQUAL(runs.items[0].seconds, 1.5, 0);
    CU_ASSERT(isnan(runs.items[0].loss) && isnan(runs.items[0].wire_bytes));
    CU_ASSERT(isnan(runs.items[1].val_loss));
    CU_ASSERT(isnan(runs.items[0].epoch) && isnan(runs.items[1].stalls[0]));
    CU_ASSERT_EQUAL(sluice_run_largest_stall(&runs.items[0]), -1);
    CU_ASSERT_STRING_EQUAL(sluice_run_stall_names[sluice_run_largest_stall(&runs.items[1])],
                           "network");
    CU_ASSERT_DOUBLE_EQUAL(runs.items[1].stalls[2], 1, 0); /* a share */
    sluice_runs_clear(&runs);
    sluice_runs_clear(&runs);
}

static void a_line_that_is_no_epoch_is_named_and_passed_over(void)
{
    struct sluice_runs runs = {0};
    struct sluice_test_output output;
    sluice_test_capture_begin();
    read_text(
        "12:00 warning: a line of the log\n\n" EPOCH(
            "local", 0, "") "[1]\n"
                            "{\"mode\":\"local\"}\n{\"mode\":\"local\",\"seconds\":-1}\n"
                            "{\"mode\":\"local\",\"seconds\":1e999}\n{\"mode\":\"local\",\"seco",
        &runs);
    sluice_test_capture_end(&output);
    CU_ASSERT_EQUAL(runs.num_items, 1);
    CU_ASSERT_EQUAL(runs.num_passed_over, 6);
    static const char *const named[] = {"runs.jsonl:1: ", "runs.jsonl:4: ", "runs.jsonl:5: ",
                                        "runs.jsonl:6: ", "runs.jsonl:7: ", "6 lines"};
    for (size_t i = 0; i < SLUICE_TEST_COUNT(named); i++)
        CU_ASSERT_PTR_NOT_NULL(strstr(output.err, named[i]));
    sluice_runs_clear(&runs);
}

static void a_file_without_epochs_is_an_error_with_its_line(void)
{
    static const struct {
        const char *text, *said;
    } cases[] = {{"", "no epochs"}, {"\nnothing\n", "runs.jsonl:2: "}, {"3", "runs.jsonl:1: "}};
    for (size_t i = 0; i < SLUICE_TEST_COUNT(cases); i++) {
        struct sluice_runs runs = {0};
        struct sluice_err err = {0};
        struct sluice_test_output output;
        sluice_test_capture_begin();
        CU_ASSERT_EQUAL(sluice_runs_read(write_file("runs.jsonl", cases[i].text), &runs, &err),
                        SLUICE_E_CORRUPT);
        sluice_test_capture_end(&output);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, cases[i].said));
        sluice_runs_clear(&runs);
    }
    struct sluice_runs runs = {0};
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_runs_read("/nonexistent/x", &runs, &err), SLUICE_E_IO);
}

static void a_run_ends_where_the_next_epoch_does_not_follow(void)
{
    struct sluice_runs runs = {0};
    read_text(EPOCH("local", 0, ",\"val_seconds\":1") EPOCH("local", 1, "")
                  EPOCH("local", 1, ",\"evaluate\":true") EPOCH("local", 2, "")
                      EPOCH("local", 0, "") EPOCH("remote_auto", 1, ""),
              &runs);
    static const size_t of[] = {0, 0, 0, 0, 1, 2};
    static const double from[] = {0, 3, 5, 7, 0, 0};
    CU_ASSERT_EQUAL_FATAL(runs.num_items, SLUICE_TEST_COUNT(of));
    CU_ASSERT_EQUAL(runs.num_runs, 3);
    for (size_t i = 0; i < SLUICE_TEST_COUNT(of); i++) {
        CU_ASSERT_EQUAL(runs.items[i].run, of[i]);
        CU_ASSERT_DOUBLE_EQUAL(runs.items[i].from_s, from[i], 1e-9);
    }
    read_text(EPOCH("remote_auto", 2, ""), &runs); /* another file, another run */
    CU_ASSERT_EQUAL(runs.num_runs, 4);
    CU_ASSERT_EQUAL(runs.items[6].run, 3);
    CU_ASSERT_EQUAL(runs.items[6].file, 1);
    sluice_runs_clear(&runs);
}

#define SUM(digest, bytes) ",\"samples\":9,\"digest\":\"" digest "\",\"wire_bytes\":" #bytes

static void epochs_are_compared_with_those_of_the_same_samples(void)
{
    struct sluice_runs runs = {0};
    read_text(EPOCH("remote_nooff", 0, SUM("aa", 100)) EPOCH("remote_auto", 0, SUM("aa", 40))
                  EPOCH("remote_alloff", 0, SUM("bb", 400)),
              &runs);
    read_text(EPOCH("remote_auto", 0, SUM("cc", 7)), &runs);
    static const int is_equal[] = {1, 1, 0, -1};
    static const bool is_comparable[] = {true, true, false, false};
    for (size_t i = 0; i < SLUICE_TEST_COUNT(is_equal); i++) {
        CU_ASSERT_EQUAL(sluice_runs_digest_is_equal(&runs, i), is_equal[i]);
        CU_ASSERT_EQUAL(sluice_runs_is_comparable(&runs, i), is_comparable[i]);
    }
    CU_ASSERT_DOUBLE_EQUAL(sluice_runs_baseline_bytes(&runs, 1), 100, 0);
    CU_ASSERT(isnan(sluice_runs_baseline_bytes(&runs, 3)));
    sluice_runs_clear(&runs);
    /* Where no two modes are known to have delivered the same, all may be compared. */
    read_text(EPOCH("remote_nooff", 0, SUM("aa", 100)) EPOCH("remote_auto", 0, SUM("bb", 40)),
              &runs);
    CU_ASSERT(sluice_runs_is_comparable(&runs, 0) && sluice_runs_is_comparable(&runs, 1));
    sluice_runs_clear(&runs);
}

static void waits_are_seconds(void)
{
    struct sluice_runs runs = {0};
    read_text(EPOCH("local", 0, ",\"stalls\":{\"disk\":0.25,\"gpu\":0.125,\"trainer\":0.5}")
                  EPOCH("local", 1, ""),
              &runs);
    double waits[SLUICE_RUN_STALLS] = {0};
    CU_ASSERT_DOUBLE_EQUAL(sluice_run_add_waits(&runs.items[0], waits), 2, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(sluice_run_add_waits(&runs.items[1], waits), 0, 0);
    CU_ASSERT_DOUBLE_EQUAL(waits[0], 0.5, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(waits[4], 0.25, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(waits[5], 1, 1e-9);
    sluice_runs_clear(&runs);
}

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(what_is_missing_is_nan),
        SLUICE_TEST(a_line_that_is_no_epoch_is_named_and_passed_over),
        SLUICE_TEST(a_file_without_epochs_is_an_error_with_its_line),
        SLUICE_TEST(a_run_ends_where_the_next_epoch_does_not_follow),
        SLUICE_TEST(epochs_are_compared_with_those_of_the_same_samples),
        SLUICE_TEST(waits_are_seconds),
    };
    return sluice_test_run("runs", tests, SLUICE_TEST_COUNT(tests));
}
