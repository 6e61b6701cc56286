#include "base/log.h"

#include "support/capture.h"
#include "support/test.h"

#include <pthread.h>
#include <string.h>

static struct sluice_test_output output;

static void reset(void)
{
    sluice_log_set_level(SLUICE_LOG_INFO);
    sluice_log_set_program(NULL);
}

static void parses_the_four_names_and_nothing_else(void)
{
    static const struct {
        const char *name;
        enum sluice_log_level level;
    } names[] = {{"error", SLUICE_LOG_ERROR},
                 {"warn", SLUICE_LOG_WARN},
                 {"info", SLUICE_LOG_INFO},
                 {"debug", SLUICE_LOG_DEBUG}};
    for (size_t i = 0; i < SLUICE_TEST_COUNT(names); i++) {
        enum sluice_log_level level = i ? SLUICE_LOG_ERROR : SLUICE_LOG_DEBUG;
        CU_ASSERT_EQUAL(sluice_log_level_parse(names[i].name, &level, NULL), SLUICE_OK);
        CU_ASSERT_EQUAL(level, names[i].level);
    }
    static const char *const wrong[] = {"", "Info", "warning", "info ", "4"};
    for (size_t i = 0; i < SLUICE_TEST_COUNT(wrong); i++) {
        struct sluice_err err = {0};
        enum sluice_log_level level = SLUICE_LOG_DEBUG;
        CU_ASSERT_EQUAL(sluice_log_level_parse(wrong[i], &level, &err), SLUICE_E_INVALID);
        CU_ASSERT_EQUAL(level, SLUICE_LOG_DEBUG);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, wrong[i]));
    }
}

static void goes_to_stderr_with_program_and_mark(void)
{
    reset();
    sluice_test_capture_begin();
    sluice_log(SLUICE_LOG_INFO, "no name yet");
    sluice_log_set_program("prog");
    sluice_log(SLUICE_LOG_ERROR, "bad %d", 1);
    sluice_log(SLUICE_LOG_WARN, "odd");
    sluice_log(SLUICE_LOG_INFO, "%s", "fine");
    sluice_test_capture_end(&output);
    CU_ASSERT_STRING_EQUAL(output.out, "");
    CU_ASSERT_STRING_EQUAL(output.err,
                           "no name yet\nprog: error: bad 1\nprog: warning: odd\nprog: fine\n");
    reset();
}

static void shows_lines_up_to_the_level(void)
{
    for (int level = SLUICE_LOG_ERROR; level <= SLUICE_LOG_DEBUG; level++) {
        reset();
        sluice_log_set_level((enum sluice_log_level)level);
        for (int i = SLUICE_LOG_ERROR; i <= SLUICE_LOG_DEBUG; i++) {
            sluice_test_capture_begin();
            sluice_log((enum sluice_log_level)i, "line");
            sluice_test_capture_end(&output);
            CU_ASSERT_EQUAL(output.err[0] != 0, i <= level);
            CU_ASSERT_EQUAL(sluice_log_is_enabled((enum sluice_log_level)i), i <= level);
        }
    }
    reset();
}

static void a_long_line_is_cut_but_ends(void)
{
    char text[5000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    sluice_test_capture_begin();
    sluice_log(SLUICE_LOG_INFO, "%s", text);
    sluice_log(SLUICE_LOG_INFO, "next");
    sluice_test_capture_end(&output);
    const size_t len = strcspn(output.err, "\n");
    CU_ASSERT(len > 500);
    CU_ASSERT_EQUAL(strspn(output.err, "x"), len);
    CU_ASSERT_STRING_EQUAL(output.err + len, "\nnext\n");
}

static void stays_one_line_whatever_is_in_it(void)
{
    reset();
    sluice_log_set_program("prog");
    sluice_test_capture_begin();
    sluice_log(SLUICE_LOG_WARN, "refused %s: %s", "x\nprog: all is well", "\x1b[1A\xff");
    sluice_test_capture_end(&output);
    CU_ASSERT_STRING_EQUAL(output.err, "prog: warning: refused x\\nprog: all is well: "
                                       "\\x1b[1A\\xff\n");
    reset();
}

#define NUM_THREADS 4
#define NUM_LINES 200

static void *log_lines(void *arg)
{
    const char letter = *(const char *)arg;
    char text[41];
    memset(text, letter, 40);
    text[40] = 0;
    for (int i = 0; i < NUM_LINES; i++)
        sluice_log(SLUICE_LOG_INFO, "%s", text);
    return NULL;
}

static void lines_of_threads_never_mix(void)
{
    static const char letters[NUM_THREADS] = {'a', 'b', 'c', 'd'};
    pthread_t threads[NUM_THREADS];
    sluice_test_capture_begin();
    for (int i = 0; i < NUM_THREADS; i++)
        pthread_create(&threads[i], NULL, log_lines, (void *)&letters[i]);
    for (int i = 0; i < NUM_THREADS; i++)
        pthread_join(threads[i], NULL);
    sluice_test_capture_end(&output);

    int num_lines = 0;
    for (const char *p = output.err; *p; num_lines++) {
        const char same[] = {*p, 0};
        CU_ASSERT_EQUAL_FATAL(strspn(p, same), 40);
        CU_ASSERT_EQUAL_FATAL(p[40], '\n');
        p += 41;
    }
    CU_ASSERT_EQUAL(num_lines, NUM_THREADS * NUM_LINES);
}

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(parses_the_four_names_and_nothing_else),
        SLUICE_TEST(goes_to_stderr_with_program_and_mark),
        SLUICE_TEST(shows_lines_up_to_the_level),
        SLUICE_TEST(a_long_line_is_cut_but_ends),
        SLUICE_TEST(stays_one_line_whatever_is_in_it),
        SLUICE_TEST(lines_of_threads_never_mix),
    };
    return sluice_test_run("log", tests, SLUICE_TEST_COUNT(tests));
}
