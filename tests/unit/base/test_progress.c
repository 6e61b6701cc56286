#include "base/progress.h"

#include "base/clock.h"
#include "base/log.h"
#include "support/capture.h"
#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

static struct sluice_test_output output;

/* Linked with --wrap: a clock that stands unless it is moved. */
uint64_t __wrap_sluice_clock_ns(void);

static uint64_t now_ns = 1000000000;

uint64_t __wrap_sluice_clock_ns(void)
{
    return now_ns;
}

TEST(progress_is_a_plain_line_every_few_seconds)
{
    struct sluice_progress progress;
    sluice_log_set_program(NULL);
    sluice_test_capture_begin();
    sluice_progress_start(&progress, "copying", 200);
    for (uint64_t i = 0; i < 100; i++)
        sluice_progress_update(&progress, i, NULL);
    now_ns += 10000000000u;
    sluice_progress_update(&progress, 100, "3 errors");
    sluice_progress_update(&progress, 101, NULL); /* too soon */
    sluice_progress_end(&progress, 200);
    sluice_test_capture_end(&output);
    CU_ASSERT_STRING_EQUAL(output.out, "");
    const char *second = strchr(output.err, '\n');
    CU_ASSERT_PTR_NOT_NULL_FATAL(second);
    CU_ASSERT_EQUAL(strncmp(output.err, "info: copying: 100/200 (50%), ", 30), 0);
    CU_ASSERT_EQUAL(strncmp(output.err + 30, "10/s, 0:10 left, 3 errors\n", 26), 0);
    CU_ASSERT_STRING_EQUAL(second, "\ninfo: copying: 200/200 in 10.0 s\n");
    CU_ASSERT_PTR_NULL(strchr(output.err, '\r'));
}

TEST(more_than_was_expected_is_not_more_than_all)
{
    struct sluice_progress progress;
    sluice_test_capture_begin();
    sluice_progress_start(&progress, "copying", 200);
    now_ns += 10000000000u;
    sluice_progress_update(&progress, 300, NULL);
    sluice_progress_end(&progress, 300);
    sluice_test_capture_end(&output);
    CU_ASSERT_PTR_NOT_NULL(strstr(output.err, "300/200 (100%)"));
}

TEST(progress_of_unknown_length_has_no_share)
{
    struct sluice_progress progress;
    sluice_test_capture_begin();
    sluice_progress_start(&progress, "reading", 0);
    now_ns += 10000000000u;
    sluice_progress_update(&progress, 50, "");
    sluice_progress_end(&progress, 60);
    sluice_test_capture_end(&output);
    CU_ASSERT_EQUAL(strncmp(output.err, "info: reading: 50, ", 19), 0);
    CU_ASSERT_PTR_NULL(strchr(output.err, '%'));
    CU_ASSERT_PTR_NULL(strstr(output.err, "left"));
    CU_ASSERT_PTR_NOT_NULL(strstr(output.err, "\ninfo: reading: 60 in 10.0 s\n"));
}

TEST(progress_is_silent_below_info)
{
    struct sluice_progress progress;
    sluice_log_set_level(SLUICE_LOG_WARN);
    sluice_test_capture_begin();
    sluice_progress_start(&progress, "copying", 200);
    now_ns += 10000000000u;
    sluice_progress_update(&progress, 100, NULL);
    sluice_progress_end(&progress, 200);
    sluice_test_capture_end(&output);
    sluice_log_set_level(SLUICE_LOG_INFO);
    CU_ASSERT_STRING_EQUAL(output.err, "");
}

TEST(progress_rewrites_its_line_on_a_terminal)
{
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) {
        /* As in a chroot without /dev/pts. */
        printf("(left out: there is no pseudo terminal: %s) ", strerror(errno));
        return;
    }
    const int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
    CU_ASSERT_FATAL(terminal >= 0);
    struct sluice_progress progress;
    sluice_test_capture_begin();
    dup2(terminal, STDERR_FILENO);
    setenv("TERM", "xterm", 1);
    const struct winsize size = {.ws_col = 48};
    ioctl(terminal, TIOCSWINSZ, &size);
    sluice_progress_start(&progress, "copying", 4);
    sluice_progress_update(&progress, 1, NULL); /* too soon */
    now_ns += 1000000000u;
    sluice_progress_update(&progress, 2, NULL);
    now_ns += 1000000000u;
    sluice_progress_update(&progress, 3, "ein überlanger Name, der nicht auf den Schirm paßt");
    sluice_progress_end(&progress, 4);
    sluice_test_capture_end(&output);

    /* The terminal hands the bytes over in pieces; the line's end is the last. */
    char text[1024] = "";
    size_t len = 0;
    while (!strchr(text, '\n')) {
        const ssize_t got = read(master, text + len, sizeof(text) - 1 - len);
        CU_ASSERT_FATAL(got > 0);
        len += (size_t)got;
        text[len] = 0;
    }
    CU_ASSERT_EQUAL(strncmp(text, "\rcopying: 2/4 (50%), ", 21), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\x1b[K\rcopying: 3/4 (75%), "));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, ", ein überl\x1b[K")); /* 47 columns */
    CU_ASSERT_PTR_NOT_NULL(strstr(text, " info: copying: 4/4 in "));
    CU_ASSERT_PTR_NULL(strstr(text, "1/4"));
    CU_ASSERT_PTR_EQUAL(strchr(text, '\n'), text + len - 1);
    close(terminal);
    close(master);
}
