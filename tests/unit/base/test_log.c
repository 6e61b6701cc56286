#include "base/log.h"

#include "support/capture.h"
#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct sluice_test_output output;

static void reset(void)
{
    sluice_log_set_level(SLUICE_LOG_INFO);
    sluice_log_set_program(NULL);
}

TEST(parses_the_four_names_and_nothing_else)
{
    static const struct {
        const char *name;
        enum sluice_log_level level;
    } names[] = {{"error", SLUICE_LOG_ERROR},
                 {"warn", SLUICE_LOG_WARN},
                 {"info", SLUICE_LOG_INFO},
                 {"debug", SLUICE_LOG_DEBUG}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(names); i++) {
        enum sluice_log_level level = i ? SLUICE_LOG_ERROR : SLUICE_LOG_DEBUG;
        CHECK_OK(sluice_log_level_parse(names[i].name, &level, NULL));
        CU_ASSERT_EQUAL(level, names[i].level);
    }
    static const char *const wrong[] = {"", "Info", "warning", "info ", "4"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(wrong); i++) {
        struct sluice_err err = {0};
        enum sluice_log_level level = SLUICE_LOG_DEBUG;
        CU_ASSERT_EQUAL(sluice_log_level_parse(wrong[i], &level, &err), SLUICE_E_INVALID);
        CU_ASSERT_EQUAL(level, SLUICE_LOG_DEBUG);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, wrong[i]));
    }
}

static void keep_text(void *ctx, enum sluice_log_level level, const char *text)
{
    (void)level;
    snprintf(ctx, 64, "%s", text);
}

TEST(a_sink_gets_one_line_that_a_terminal_does_not_obey)
{
    char text[64] = "";
    reset();
    sluice_log_set_sink(keep_text, text);
    sluice_log(SLUICE_LOG_WARN, "%s: gone", "a\nb\x1b[2J\xff");
    sluice_log_set_sink(NULL, NULL);
    CU_ASSERT_STRING_EQUAL(text, "a\\nb\\x1b[2J\\xff: gone");
}

TEST(goes_to_stderr_with_program_and_mark)
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
    CU_ASSERT_STRING_EQUAL(
        output.err, "info: no name yet\nprog error: bad 1\nprog warning: odd\nprog info: fine\n");
    reset();
}

TEST(shows_lines_up_to_the_level)
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

TEST(a_long_line_is_cut_but_ends)
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
    CU_ASSERT_EQUAL(6 + strspn(output.err + 6, "x"), len);
    CU_ASSERT_STRING_EQUAL(output.err + len, "\ninfo: next\n");
}

TEST(stays_one_line_whatever_is_in_it)
{
    reset();
    sluice_log_set_program("prog");
    sluice_test_capture_begin();
    sluice_log(SLUICE_LOG_WARN, "refused %s: %s", "x\nprog: all is well", "\x1b[1A\xff");
    sluice_test_capture_end(&output);
    CU_ASSERT_STRING_EQUAL(output.err, "prog warning: refused x\\nprog: all is well: "
                                       "\\x1b[1A\\xff\n");
    reset();
}

/* What stderr takes, times and all. */
static void read_raw(enum sluice_log_level level, const char *text, char out[4096])
{
    const size_t len = sluice_log_line(out, 4096, level, text);
    CU_ASSERT_EQUAL(strlen(out), len);
}

/* By the clock of the log: time() may lag behind it by a tick. */
static time_t now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec;
}

TEST(text_begins_with_the_time_in_utc)
{
    char line[4096];
    reset();
    sluice_log_set_program("prog");
    const time_t before = now_s();
    read_raw(SLUICE_LOG_WARN, "odd", line);
    struct tm tm = {0};
    const char *rest = strptime(line, "%Y-%m-%dT%H:%M:%S", &tm);
    CU_ASSERT_PTR_NOT_NULL_FATAL(rest);
    const time_t then = timegm(&tm);
    CU_ASSERT(before <= then && then <= now_s());
    CU_ASSERT_STRING_EQUAL(rest + 5, " prog warning: odd\n");
    CU_ASSERT(rest[0] == '.' && rest[4] == 'Z');
    reset();
}

TEST(json_is_one_object_a_line_whatever_is_in_it)
{
    char line[4096];
    reset();
    sluice_log_set_program("prog");
    sluice_log_set_format(SLUICE_LOG_JSON);
    read_raw(SLUICE_LOG_ERROR, "say \"a\\b\"\n\x01\xff \xc3\xa9", line);
    sluice_log_set_format(SLUICE_LOG_TEXT);
    CU_ASSERT_EQUAL(strncmp(line, "{\"time\":\"2", 10), 0);
    const char *rest = strstr(line, "\"level\"");
    CU_ASSERT_PTR_NOT_NULL_FATAL(rest);
    CU_ASSERT_STRING_EQUAL(rest, "\"level\":\"error\",\"program\":\"prog\",\"message\":"
                                 "\"say \\\"a\\\\b\\\"\\\\n\\\\x01\\\\xff \xc3\xa9\"}\n");
    enum sluice_log_format format = SLUICE_LOG_JSON;
    CHECK_FAILS(SLUICE_E_INVALID, "'xml'",
                sluice_log_format_parse("xml", &format, sluice_test_err()));
    CU_ASSERT_EQUAL(format, SLUICE_LOG_JSON);
    reset();
}

TEST(no_status_line_where_nobody_looks_on)
{
    reset();
    sluice_test_capture_begin();
    CU_ASSERT_FALSE(sluice_log_has_terminal());
    sluice_log_set_status("half done");
    sluice_log(SLUICE_LOG_INFO, "line");
    sluice_log_set_status(NULL);
    sluice_test_capture_end(&output);
    CU_ASSERT_STRING_EQUAL(output.err, "info: line\n");
}

/* Runs `child` with a terminal as its stderr, and returns what it showed. */
static size_t show_on(bool is_dumb, void (*child)(void), char *text, size_t room)
{
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) {
        /* As in a chroot without /dev/pts. */
        printf("(left out: there is no pseudo terminal: %s) ", strerror(errno));
        return 0;
    }
    const int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    CU_ASSERT_FATAL(slave >= 0);
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(slave, STDERR_FILENO);
        setenv("TERM", is_dumb ? "dumb" : "xterm", 1);
        child();
        _exit(0);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    CU_ASSERT_EQUAL(status, 0);
    /* The terminal passes its output on in pieces; the end follows the last one. */
    close(slave);
    size_t total = 0;
    ssize_t len;
    while (total < room - 1 && (len = read(master, text + total, room - 1 - total)) > 0)
        total += (size_t)len;
    text[total] = '\0';
    close(master);
    return total;
}

static size_t show(void (*child)(void), char *text, size_t room)
{
    return show_on(false, child, text, room);
}

static void log_over_a_status(void)
{
    sluice_log_set_status("one");
    sluice_log(SLUICE_LOG_WARN, "a line");
    sluice_log_set_status("t\nwo");
    sluice_log_set_status(NULL);
    sluice_log_set_status(NULL);
    sluice_log(SLUICE_LOG_INFO, "the end");
}

TEST(a_dumb_terminal_gets_lines_and_nothing_else)
{
    char text[4096];
    reset();
    if (show_on(true, log_over_a_status, text, sizeof(text)) == 0)
        return;
    CU_ASSERT_PTR_NULL(strchr(text, '\x1b'));
    CU_ASSERT_PTR_NULL(strstr(text, "one"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "warning: a line\r\n"));
}

TEST(lines_go_above_the_status)
{
    char text[4096], times[2][9] = {{0}};
    reset();
    if (show(log_over_a_status, text, sizeof(text)) == 0)
        return;
    /* The terminal adds \r before each \n. */
    const int got = sscanf(
        text,
        "\rone\x1b[K\r\x1b[K%8s warning: a line\r\none\rt\\nwo\x1b[K\r\x1b[K%8s info: the end",
        times[0], times[1]);
    CU_ASSERT_EQUAL(got, 2);
    CU_ASSERT_EQUAL(times[0][2], ':');
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "warning: a line\r\none\rt\\nwo\x1b[K\r\x1b[K"));
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

TEST(lines_of_threads_never_mix)
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
        CU_ASSERT_EQUAL_FATAL(strncmp(p, "info: ", 6), 0);
        p += 6;
        const char same[] = {*p, 0};
        CU_ASSERT_EQUAL_FATAL(strspn(p, same), 40);
        CU_ASSERT_EQUAL_FATAL(p[40], '\n');
        p += 41;
    }
    CU_ASSERT_EQUAL(num_lines, NUM_THREADS * NUM_LINES);
}
