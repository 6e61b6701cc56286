#include "base/quit.h"

#include "base/clock.h"
#include "support/capture.h"
#include "support/test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

/* Handlers are installed once per process, so every case runs in a child.
 * EXPECT ends the child with the line that failed. */
#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return __LINE__ % 200 + 1;                                                             \
    } while (0)

static struct sluice_test_output output;

static int exit_code_of(int (*fn)(void *ctx), void *ctx)
{
    const int status = sluice_test_child(fn, ctx, &output);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int child_stop(void *ctx)
{
    const int number = *(const int *)ctx;
    EXPECT(sluice_quit_init(NULL) == SLUICE_OK);
    EXPECT(!sluice_quit_requested());
    EXPECT(kill(getpid(), number) == 0);
    EXPECT(sluice_quit_wait(-1) == SLUICE_QUIT_STOP);
    EXPECT(sluice_quit_requested());
    EXPECT(sluice_quit_wait(0) == SLUICE_QUIT_NONE); /* once */
    return 0;
}

TEST(term_and_int_ask_for_a_stop)
{
    int term = SIGTERM, interrupt = SIGINT;
    CU_ASSERT_EQUAL(exit_code_of(child_stop, &term), 0);
    CU_ASSERT_EQUAL(exit_code_of(child_stop, &interrupt), 0);
}

static int child_insist(void *ctx)
{
    const int *numbers = ctx;
    EXPECT(sluice_quit_init(NULL) == SLUICE_OK);
    EXPECT(kill(getpid(), numbers[0]) == 0);
    EXPECT(sluice_quit_wait(-1) == SLUICE_QUIT_STOP);
    EXPECT(kill(getpid(), SIGUSR1) == 0); /* no stop: does not count */
    EXPECT(sluice_quit_wait(-1) == SLUICE_QUIT_REPORT);
    kill(getpid(), numbers[1]);
    sluice_quit_wait(-1);
    return 0; /* not reached */
}

TEST(a_second_one_ends_the_process_by_that_signal)
{
    int numbers[4][2] = {
        {SIGTERM, SIGTERM}, {SIGINT, SIGINT}, {SIGTERM, SIGINT}, {SIGINT, SIGTERM}};
    for (int i = 0; i < 4; i++)
        CU_ASSERT_EQUAL(exit_code_of(child_insist, numbers[i]), 1000 + numbers[i][1]);
}

static int child_hangup(void *ctx)
{
    (void)ctx;
    EXPECT(sluice_quit_init(NULL) == SLUICE_OK);
    for (int i = 0; i < 3; i++) /* never the second one that ends the process */
        EXPECT(raise(SIGHUP) == 0);
    EXPECT(sluice_quit_wait(-1) == SLUICE_QUIT_STOP);
    EXPECT(sluice_quit_wait(0) == SLUICE_QUIT_NONE);
    EXPECT(raise(SIGTERM) == 0); /* the first of its kind: as at the end of a session */
    EXPECT(sluice_quit_signal() == SIGHUP);
    return 0;
}

TEST(a_hangup_asks_for_a_stop_and_is_never_the_second_one)
{
    CU_ASSERT_EQUAL(exit_code_of(child_hangup, NULL), 0);
}

static int child_late_hangup(void *ctx)
{
    (void)ctx;
    EXPECT(sluice_quit_init(NULL) == SLUICE_OK);
    EXPECT(raise(SIGTERM) == 0);
    EXPECT(raise(SIGHUP) == 0);
    EXPECT(sluice_quit_wait(-1) == SLUICE_QUIT_STOP);
    EXPECT(sluice_quit_signal() == SIGTERM);
    return 0;
}

TEST(a_hangup_after_a_stop_changes_nothing)
{
    CU_ASSERT_EQUAL(exit_code_of(child_late_hangup, NULL), 0);
}

static int child_nohup(void *ctx)
{
    (void)ctx;
    EXPECT(signal(SIGHUP, SIG_IGN) != SIG_ERR);
    EXPECT(sluice_quit_init(NULL) == SLUICE_OK);
    EXPECT(raise(SIGHUP) == 0);
    EXPECT(sluice_quit_wait(0) == SLUICE_QUIT_NONE && !sluice_quit_requested());
    return 0;
}

TEST(an_ignored_hangup_stays_ignored)
{
    CU_ASSERT_EQUAL(exit_code_of(child_nohup, NULL), 0);
}

static int child_reread(void *ctx)
{
    if (*(const bool *)ctx)
        EXPECT(signal(SIGHUP, SIG_IGN) != SIG_ERR);
    sluice_quit_on_hangup(SLUICE_QUIT_REREAD);
    EXPECT(sluice_quit_init(NULL) == SLUICE_OK);
    for (int i = 0; i < 3; i++) {
        EXPECT(raise(SIGHUP) == 0);
        EXPECT(sluice_quit_wait(-1) == SLUICE_QUIT_REREAD);
    }
    EXPECT(sluice_quit_wait(0) == SLUICE_QUIT_NONE && !sluice_quit_requested());
    EXPECT(raise(SIGHUP) == 0 && raise(SIGTERM) == 0);
    EXPECT(sluice_quit_wait(-1) == SLUICE_QUIT_STOP && sluice_quit_signal() == SIGTERM);
    EXPECT(sluice_quit_wait(-1) == SLUICE_QUIT_REREAD);
    return 0;
}

TEST(a_hangup_asks_to_read_again_where_that_was_said)
{
    bool is_nohup = false;
    CU_ASSERT_EQUAL(exit_code_of(child_reread, &is_nohup), 0);
    is_nohup = true;
    CU_ASSERT_EQUAL(exit_code_of(child_reread, &is_nohup), 0);
}

static int child_report(void *ctx)
{
    (void)ctx;
    EXPECT(sluice_quit_init(NULL) == SLUICE_OK);
    for (int i = 0; i < 3; i++) {
        EXPECT(kill(getpid(), SIGUSR1) == 0);
        EXPECT(sluice_quit_wait(-1) == SLUICE_QUIT_REPORT);
    }
    EXPECT(sluice_quit_wait(0) == SLUICE_QUIT_NONE);
    EXPECT(!sluice_quit_requested());
    return 0;
}

TEST(usr1_asks_for_a_report_each_time)
{
    CU_ASSERT_EQUAL(exit_code_of(child_report, NULL), 0);
}

static int child_flood(void *ctx)
{
    (void)ctx;
    EXPECT(sluice_quit_init(NULL) == SLUICE_OK);
    /* More than any pipe holds: neither blocks nor loses the stop behind them. */
    for (int i = 0; i < 70000; i++)
        EXPECT(raise(SIGUSR1) == 0);
    EXPECT(sluice_quit_signal() == 0);
    EXPECT(raise(SIGTERM) == 0);
    EXPECT(sluice_quit_signal() == SIGTERM);
    EXPECT(sluice_quit_wait(-1) == SLUICE_QUIT_STOP); /* before the reports */
    EXPECT(sluice_quit_wait(-1) == SLUICE_QUIT_REPORT);
    return 0;
}

TEST(a_stop_comes_before_reports_and_is_never_lost)
{
    CU_ASSERT_EQUAL(exit_code_of(child_flood, NULL), 0);
}

static int child_timeout(void *ctx)
{
    (void)ctx;
    EXPECT(sluice_quit_init(NULL) == SLUICE_OK);
    const uint64_t start_ns = sluice_clock_ns();
    EXPECT(sluice_quit_wait(20) == SLUICE_QUIT_NONE);
    EXPECT(sluice_clock_ns() - start_ns >= 20000000u);
    return 0;
}

TEST(waiting_ends_with_the_timeout)
{
    CU_ASSERT_EQUAL(exit_code_of(child_timeout, NULL), 0);
}

static int child_pipe(void *ctx)
{
    (void)ctx;
    int ends[2];
    EXPECT(sluice_quit_init(NULL) == SLUICE_OK);
    EXPECT(pipe(ends) == 0 && close(ends[0]) == 0);
    EXPECT(write(ends[1], "x", 1) == -1 && errno == EPIPE);
    EXPECT(raise(SIGXFSZ) == 0);
    return 0;
}

TEST(a_broken_pipe_is_an_error_and_no_signal)
{
    CU_ASSERT_EQUAL(exit_code_of(child_pipe, NULL), 0);
}

static _Atomic pid_t waiter_tid;

static void *wait_for_event(void *arg)
{
    atomic_store(&waiter_tid, gettid());
    *(enum sluice_quit_event *)arg = sluice_quit_wait(-1);
    return NULL;
}

static int child_request(void *ctx)
{
    const char how = *(const char *)ctx;
    pthread_t waiter;
    enum sluice_quit_event event = SLUICE_QUIT_NONE;
    EXPECT(sluice_quit_init(NULL) == SLUICE_OK);
    EXPECT(pthread_create(&waiter, NULL, wait_for_event, &event) == 0);
    while (!atomic_load(&waiter_tid))
        sched_yield();
    sluice_test_wait_blocked(atomic_load(&waiter_tid));
    if (how == 'i')
        sluice_quit_request();
    else
        raise(SIGTERM); /* handled here, seen there */
    EXPECT(pthread_join(waiter, NULL) == 0);
    EXPECT(event == SLUICE_QUIT_STOP && sluice_quit_requested());
    return 0;
}

TEST(a_request_from_another_thread_wakes_the_waiting_one)
{
    CU_ASSERT_EQUAL(exit_code_of(child_request, (void *)"inside"), 0);
    CU_ASSERT_EQUAL(exit_code_of(child_request, (void *)"signal"), 0);
}

static int child_inside_then_signal(void *ctx)
{
    (void)ctx;
    EXPECT(sluice_quit_init(NULL) == SLUICE_OK);
    sluice_quit_request();
    EXPECT(raise(SIGTERM) == 0); /* still the first signal */
    EXPECT(sluice_quit_wait(-1) == SLUICE_QUIT_STOP);
    EXPECT(sluice_quit_wait(0) == SLUICE_QUIT_NONE);
    return 0;
}

TEST(a_request_from_inside_is_not_the_first_signal)
{
    CU_ASSERT_EQUAL(exit_code_of(child_inside_then_signal, NULL), 0);
}

static int child_early(void *ctx)
{
    (void)ctx;
    EXPECT(!sluice_quit_requested());
    sluice_quit_request();
    EXPECT(sluice_quit_requested());
    EXPECT(sluice_quit_init(NULL) == SLUICE_OK);
    EXPECT(sluice_quit_wait(-1) == SLUICE_QUIT_STOP);
    return 0;
}

TEST(a_request_before_init_is_kept)
{
    CU_ASSERT_EQUAL(exit_code_of(child_early, NULL), 0);
}

static int child_twice(void *ctx)
{
    (void)ctx;
    struct sluice_err err = {0};
    EXPECT(sluice_quit_init(NULL) == SLUICE_OK);
    EXPECT(sluice_quit_init(&err) == SLUICE_E_INVALID);
    EXPECT(err.text[0] != 0);
    EXPECT(raise(SIGTERM) == 0);
    EXPECT(sluice_quit_wait(-1) == SLUICE_QUIT_STOP);
    return 0;
}

TEST(a_second_init_is_refused_and_changes_nothing)
{
    CU_ASSERT_EQUAL(exit_code_of(child_twice, NULL), 0);
}
