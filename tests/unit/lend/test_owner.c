#include "lend/channel.h"
#include "lend_support.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* A borrower that is connected. */
static struct lend_child borrow(const char *path, int priority, int at_most_ms)
{
    struct lend_child child = lend_child_start(path);
    lend_child_send(&child, LEND_OPEN, priority, at_most_ms);
    const struct lend_reply reply = lend_child_reply(&child);
    CU_ASSERT_EQUAL(reply.status, SLUICE_OK);
    if (reply.status != SLUICE_OK)
        fprintf(stderr, "%s\n", reply.text);
    return child;
}

static uint32_t take(const struct lend_child *child)
{
    const struct lend_reply reply = lend_child_do(child, LEND_TAKE, -1);
    CU_ASSERT_EQUAL(reply.status, SLUICE_OK);
    return reply.ticket;
}

static bool give(const struct lend_child *child, uint32_t ticket)
{
    return lend_child_do(child, LEND_GIVE, (int)ticket).status == 1;
}

static void check_refused(struct lend_child *child, sluice_status status, const char *words)
{
    lend_child_send(child, LEND_OPEN, 0, 0);
    const struct lend_reply reply = lend_child_reply(child);
    CU_ASSERT_EQUAL(reply.status, (int)status);
    CU_ASSERT_PTR_NOT_NULL(strstr(reply.text, words));
    if (!strstr(reply.text, words))
        fprintf(stderr, "%s\n", reply.text);
    lend_child_end(child, 0);
}

TEST(a_point_waits_until_the_borrower_gives)
{
    const char *path = sluice_test_path("point");
    struct sluice_lend *lend = lend_open(path, 600000);
    struct lend_child child = borrow(path, 0, 0);
    CHECK_OK(sluice_lend_point(lend, NULL, sluice_test_err()));
    const uint32_t ticket = take(&child);
    struct lend_point point;
    lend_point_start(&point, lend);
    CU_ASSERT(lend_point_waits(&point));
    CU_ASSERT(give(&child, ticket));
    lend_point_join(&point);
    CU_ASSERT_FALSE(give(&child, ticket));
    const struct sluice_lend_counters counters = lend_counters(lend);
    CU_ASSERT_EQUAL(counters.requests, 1);
    CU_ASSERT_EQUAL(counters.borrowers, 1);
    CU_ASSERT_EQUAL(counters.taken_back, 0);
    CU_ASSERT(counters.lent_ns > 0);
    CU_ASSERT_EQUAL(counters.cost_ns, counters.lent_ns);
    CU_ASSERT_EQUAL(lend_counters(lend).lent_ns, counters.lent_ns);
    lend_child_end(&child, 0);
    sluice_lend_close(lend);
    CU_ASSERT_EQUAL(access(path, F_OK), -1);
}

TEST(what_is_lent_while_the_owner_waits_costs_nothing)
{
    const char *path = sluice_test_path("cost");
    struct sluice_lend *lend = lend_open(path, 600000);
    struct lend_child child = borrow(path, 0, 0);
    sluice_lend_wait_begins(lend);
    give(&child, take(&child));
    CU_ASSERT_EQUAL(lend_counters(lend).cost_ns, 0);
    sluice_lend_wait_ends(lend);
    const struct sluice_lend_counters free = lend_counters(lend);
    CU_ASSERT(free.lent_ns > 0);
    CU_ASSERT_EQUAL(free.cost_ns, 0);
    give(&child, take(&child));
    const struct sluice_lend_counters both = lend_counters(lend);
    CU_ASSERT_EQUAL(both.cost_ns, both.lent_ns - free.lent_ns);
    CU_ASSERT(both.cost_ns > 0);
    lend_child_end(&child, 0);
    sluice_lend_close(lend);
}

TEST(a_killed_borrower_s_gpu_is_taken_back)
{
    const char *path = sluice_test_path("killed");
    struct sluice_lend *lend = lend_open(path, 600000);
    struct lend_child child = borrow(path, 0, 0);
    take(&child);
    struct lend_point point;
    lend_point_start(&point, lend);
    CU_ASSERT(lend_point_waits(&point));
    lend_child_end(&child, SIGKILL);
    lend_point_join(&point);
    while (lend_counters(lend).borrowers > 0)
        sched_yield();
    CU_ASSERT_EQUAL(lend_counters(lend).taken_back, 1);
    sluice_lend_close(lend);
}

TEST(a_stopped_borrower_s_gpu_is_taken_back_after_the_limit_and_its_late_give_changes_nothing)
{
    const char *path = sluice_test_path("stopped");
    struct sluice_lend *lend = lend_open(path, 600000);
    struct lend_child stopped = borrow(path, 0, 30), other = borrow(path, 0, 0);
    const uint64_t before = sluice_clock_ns();
    const uint32_t ticket = take(&stopped);
    kill(stopped.pid, SIGSTOP);
    CHECK_OK(sluice_lend_point(lend, NULL, sluice_test_err()));
    CU_ASSERT(sluice_clock_ns() - before >= 30000000u);
    CU_ASSERT_EQUAL(lend_counters(lend).taken_back, 1);
    const uint32_t others = take(&other);
    kill(stopped.pid, SIGCONT);
    CU_ASSERT_FALSE(give(&stopped, ticket));
    struct lend_point point;
    lend_point_start(&point, lend);
    CU_ASSERT(lend_point_waits(&point));
    CU_ASSERT(give(&other, others));
    lend_point_join(&point);
    /* It can take again. */
    take(&stopped);
    lend_child_end(&stopped, 0);
    lend_child_end(&other, 0);
    sluice_lend_close(lend);
}

TEST(the_owner_s_limit_holds_if_the_borrower_s_is_longer)
{
    const char *path = sluice_test_path("limit");
    struct sluice_lend *lend = lend_open(path, 20);
    struct lend_child child = borrow(path, 0, 600000);
    const uint32_t ticket = take(&child);
    while (lend_counters(lend).taken_back == 0)
        sched_yield();
    CU_ASSERT_FALSE(give(&child, ticket));
    lend_child_end(&child, 0);
    sluice_lend_close(lend);
}

TEST(a_higher_priority_goes_first)
{
    const char *path = sluice_test_path("priority");
    struct sluice_lend *lend = lend_open(path, 600000);
    struct lend_child low = borrow(path, 1, 0), high = borrow(path, 2, 0),
                      equal = borrow(path, 2, 0);
    const uint32_t ticket = take(&high);
    CU_ASSERT_EQUAL(lend_child_do(&low, LEND_TAKE, 0).status, SLUICE_E_AGAIN);
    CU_ASSERT(give(&equal, take(&equal)));
    lend_child_send(&low, LEND_TAKE, -1, 0);
    CU_ASSERT(give(&high, ticket));
    const struct lend_reply reply = lend_child_reply(&low);
    CU_ASSERT_EQUAL(reply.status, SLUICE_OK);
    /* A lower one that has it holds up nobody. */
    CU_ASSERT(give(&high, take(&high)));
    CU_ASSERT(give(&low, reply.ticket));
    lend_child_end(&low, 0);
    lend_child_end(&high, 0);
    lend_child_end(&equal, 0);
    sluice_lend_close(lend);
}

TEST(a_killed_borrower_of_higher_priority_holds_up_nobody)
{
    const char *path = sluice_test_path("dead_priority");
    struct sluice_lend *lend = lend_open(path, 600000);
    struct lend_child low = borrow(path, 1, 0), high = borrow(path, 2, 0);
    take(&high);
    lend_child_send(&low, LEND_TAKE, -1, 0);
    lend_child_end(&high, SIGKILL);
    CU_ASSERT_EQUAL(lend_child_reply(&low).status, SLUICE_OK);
    lend_child_end(&low, 0);
    sluice_lend_close(lend);
}

TEST(its_thread_takes_no_signal_from_the_program)
{
    const char *path = sluice_test_path("signals");
    struct sluice_lend *lend = lend_open(path, 600000);
    struct lend_child child = borrow(path, 0, 0); /* the thread runs */
    sigset_t usr1, before;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    CU_ASSERT_EQUAL(pthread_sigmask(SIG_BLOCK, &usr1, &before), 0);
    /* A thread that does not block it would end the process. */
    CU_ASSERT_EQUAL(kill(getpid(), SIGUSR1), 0);
    int number = 0;
    CU_ASSERT_EQUAL(sigwait(&usr1, &number), 0);
    CU_ASSERT_EQUAL(number, SIGUSR1);
    CU_ASSERT_EQUAL(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    lend_child_end(&child, 0);
    sluice_lend_close(lend);
}

TEST(refuses_its_own_process)
{
    const char *path = sluice_test_path("own");
    struct sluice_lend *lend = lend_open(path, 600000);
    struct sluice_borrower *borrower;
    CHECK_FAILS(SLUICE_E_INVALID, "this process lends the GPU itself",
                sluice_borrower_open(&(struct sluice_borrower_options){.path = path}, &borrower,
                                     sluice_test_err()));
    sluice_lend_close(lend);
}

TEST(refuses_a_33rd_borrower_in_words)
{
    const char *path = sluice_test_path("many");
    struct sluice_lend *lend = lend_open(path, 600000);
    struct lend_child children[SLUICE_LEND_SLOTS];
    for (size_t i = 0; i < SLUICE_LEND_SLOTS; i++)
        children[i] = borrow(path, 0, 0);
    CU_ASSERT_EQUAL(lend_counters(lend).borrowers, 32);
    struct lend_child one_more = lend_child_start(path);
    check_refused(&one_more, SLUICE_E_INVALID, "32 borrowers are connected already");
    uint32_t tickets[SLUICE_LEND_SLOTS];
    for (size_t i = 0; i < SLUICE_LEND_SLOTS; i++)
        tickets[i] = take(&children[i]);
    for (size_t i = 0; i < SLUICE_LEND_SLOTS; i++)
        CU_ASSERT(give(&children[i], tickets[i]));
    CHECK_OK(sluice_lend_point(lend, NULL, sluice_test_err()));
    /* A place that is free again is given away. */
    lend_child_end(&children[7], SIGKILL);
    while (lend_counters(lend).borrowers > 31)
        sched_yield();
    children[7] = borrow(path, 0, 0);
    CU_ASSERT(give(&children[7], take(&children[7])));
    for (size_t i = 0; i < SLUICE_LEND_SLOTS; i++)
        lend_child_end(&children[i], 0);
    sluice_lend_close(lend);
}

static bool can_be_other_users(void)
{
    if (geteuid() != 0) {
        puts("skipped: other users need root");
        return false;
    }
    CU_ASSERT_EQUAL(chmod(sluice_test_dir(), 0755), 0);
    return true;
}

TEST(other_users_need_to_be_allowed)
{
    if (!can_be_other_users())
        return;
    const char *path = sluice_test_path("users");
    const uint32_t allowed[] = {12345, 12346};
    struct sluice_lend_options options = {.path = path, .at_most_ms = 600000, .device = -1};
    for (int i = 0; i < 3; i++) {
        options.num_uids = i == 0 ? 0 : 2;
        options.uids = allowed;
        struct sluice_lend *lend;
        REQUIRE_OK(sluice_lend_open(&options, &lend, sluice_test_err()));
        struct lend_child child = lend_child_start(path);
        CU_ASSERT_EQUAL(lend_child_do(&child, LEND_USER, i == 2 ? 12346 : 12347).status, 0);
        if (i < 2) {
            check_refused(&child, SLUICE_E_INVALID,
                          i == 0 ? "may not connect" : "user 12347 may not borrow");
        } else {
            CU_ASSERT_EQUAL(lend_child_do(&child, LEND_OPEN, 0).status, SLUICE_OK);
            CU_ASSERT(give(&child, take(&child)));
            lend_child_end(&child, 0);
        }
        sluice_lend_close(lend);
    }
}

TEST(silent_connections_of_users_that_may_not_borrow_take_no_slot)
{
    if (!can_be_other_users())
        return;
    const char *path = sluice_test_path("strangers");
    const uint32_t allowed = 12345;
    struct sluice_lend *lend;
    REQUIRE_OK(sluice_lend_open(
        &(struct sluice_lend_options){
            .path = path, .uids = &allowed, .num_uids = 1, .at_most_ms = 600000, .device = -1},
        &lend, sluice_test_err()));
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, path);
    int fds[SLUICE_LEND_SLOTS + 8];
    CU_ASSERT_EQUAL(syscall(SYS_setreuid, -1, 12347), 0); /* of this thread alone */
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(fds); i++) {
        fds[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        CU_ASSERT_EQUAL(connect(fds[i], (struct sockaddr *)&address, sizeof(address)), 0);
    }
    CU_ASSERT_EQUAL(syscall(SYS_setreuid, -1, 0), 0);
    struct lend_child child = borrow(path, 0, 0);
    CU_ASSERT(give(&child, take(&child)));
    lend_child_end(&child, 0);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(fds); i++)
        close(fds[i]);
    sluice_lend_close(lend);
}

TEST(stop_lets_every_point_pass_and_nobody_in)
{
    const char *path = sluice_test_path("stop");
    struct sluice_lend *lend = lend_open(path, 600000);
    struct lend_child has = borrow(path, 1, 0), waits = borrow(path, 0, 0);
    const uint32_t ticket = take(&has);
    lend_child_send(&waits, LEND_TAKE, -1, 0);
    struct lend_point point;
    lend_point_start(&point, lend);
    CU_ASSERT(lend_point_waits(&point));
    sluice_lend_stop(lend);
    lend_point_join(&point);
    CHECK_OK(sluice_lend_point(lend, NULL, sluice_test_err()));
    CU_ASSERT_EQUAL(lend_child_reply(&waits).status, SLUICE_E_CLOSED);
    CU_ASSERT_EQUAL(lend_child_do(&waits, LEND_TAKE, 0).status, SLUICE_E_CLOSED);
    CU_ASSERT_FALSE(give(&has, ticket));
    struct lend_child late = lend_child_start(path);
    check_refused(&late, SLUICE_E_NOT_FOUND, "nobody lends");
    CU_ASSERT_EQUAL(lend_counters(lend).taken_back, 0);
    /* Another owner can have the path. */
    struct sluice_lend *next = lend_open(path, 600000);
    sluice_lend_stop(lend);
    sluice_lend_close(lend);
    struct lend_child child = borrow(path, 0, 0);
    CU_ASSERT(give(&child, take(&child)));
    sluice_lend_close(next);
    CU_ASSERT_EQUAL(lend_child_do(&child, LEND_TAKE, -1).status, SLUICE_E_CLOSED);
    lend_child_end(&child, 0);
    lend_child_end(&has, 0);
    lend_child_end(&waits, 0);
}

TEST(close_wakes_who_waits_and_counts_nothing_as_taken_back)
{
    const char *path = sluice_test_path("close");
    struct sluice_lend *lend = lend_open(path, 600000);
    struct lend_child has = borrow(path, 1, 0), waits = borrow(path, 0, 0);
    const uint32_t ticket = take(&has);
    lend_child_send(&waits, LEND_TAKE, -1, 0);
    sluice_lend_close(lend);
    CU_ASSERT_EQUAL(lend_child_reply(&waits).status, SLUICE_E_CLOSED);
    CU_ASSERT_FALSE(give(&has, ticket));
    CU_ASSERT_EQUAL(lend_child_do(&has, LEND_TAKE, -1).status, SLUICE_E_CLOSED);
    lend_child_end(&has, 0);
    lend_child_end(&waits, 0);
    sluice_lend_close(NULL);
}

TEST(idle_lends_what_the_owner_waited)
{
    const char *path = sluice_test_path("idle");
    struct sluice_lend *lend;
    REQUIRE_OK(sluice_lend_open(
        &(struct sluice_lend_options){
            .path = path, .at_most_ms = 600000, .device = -1, .when = SLUICE_LEND_IDLE},
        &lend, sluice_test_err()));
    struct lend_child child = borrow(path, 0, 0);
    CU_ASSERT_EQUAL(lend_child_do(&child, LEND_TAKE, 30).status, SLUICE_E_AGAIN);
    sluice_lend_wait_begins(lend);
    const uint32_t ticket = take(&child);
    sluice_lend_wait_ends(lend);
    CU_ASSERT(give(&child, ticket));
    lend_child_end(&child, 0);
    sluice_lend_close(lend);
}

TEST(a_connection_that_says_nonsense_is_ended)
{
    const char *path = sluice_test_path("nonsense");
    struct sluice_lend *lend = lend_open(path, 600000);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, path);
    for (int i = 0; i < 60; i++) { /* more than there are places */
        const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        CU_ASSERT_EQUAL(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        CU_ASSERT_EQUAL(send(fd, "nonsense", 8, MSG_NOSIGNAL), 8);
        struct sluice_lend_answer answer;
        CU_ASSERT_EQUAL(recv(fd, &answer, sizeof(answer), 0), (ssize_t)sizeof(answer));
        CU_ASSERT_EQUAL(answer.status, SLUICE_E_CORRUPT);
        CU_ASSERT_EQUAL(recv(fd, &answer, sizeof(answer), 0), 0);
        close(fd);
    }
    CU_ASSERT_EQUAL(lend_counters(lend).borrowers, 0);
    sluice_lend_close(lend);
}

/* Connects, sends more than its hello, and when that has ended its connection, sets another's bit. */
static void misbehave(const char *path)
{
    const struct sluice_lend_hello hello = {SLUICE_LEND_MAGIC, SLUICE_LEND_VERSION, 0, 0};
    struct sluice_lend_page *page;
    int fd;
    unsigned slot;
    uint32_t generation;
    char byte = 0;
    if (sluice_lend_connect(path, &hello, &fd, &page, &slot, &generation, NULL) != SLUICE_OK)
        _exit(1);
    if (send(fd, &byte, 1, MSG_NOSIGNAL) != 1 ||
        (recv(fd, &byte, 1, 0) != 0 && errno != ECONNRESET))
        _exit(2);
    atomic_fetch_or(&page->mask, 1u << (slot + 1));
    _exit(0);
}

TEST(what_is_written_by_who_is_not_connected_any_more_is_cleared)
{
    const char *path = sluice_test_path("misbehaves");
    struct sluice_lend *lend = lend_open(path, 600000);
    const pid_t child = fork();
    CU_ASSERT_FATAL(child >= 0);
    if (child == 0)
        misbehave(path);
    int status;
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    CU_ASSERT_EQUAL(status, 0);
    CHECK_OK(sluice_lend_point(lend, NULL, sluice_test_err()));
    sluice_lend_close(lend);
}

TEST(silent_connections_leave_room_for_borrowers)
{
    const char *path = sluice_test_path("silent");
    struct sluice_lend *lend = lend_open(path, 600000);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, path);
    int fds[10];
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(fds); i++) {
        fds[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        CU_ASSERT_EQUAL(connect(fds[i], (struct sockaddr *)&address, sizeof(address)), 0);
    }
    struct lend_child child = borrow(path, 0, 0);
    CU_ASSERT(give(&child, take(&child)));
    lend_child_end(&child, 0);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(fds); i++)
        close(fds[i]);
    sluice_lend_close(lend);
}

TEST(a_forked_child_of_the_owner_has_no_part_in_it)
{
    const char *path = sluice_test_path("fork");
    struct sluice_lend *lend = lend_open(path, 600000);
    struct lend_child child = borrow(path, 0, 0);
    const uint32_t ticket = take(&child);
    const pid_t forked = fork();
    CU_ASSERT_FATAL(forked >= 0);
    if (forked == 0) {
        struct sluice_lend_counters counters;
        sluice_lend_counters(lend, &counters);
        bool is_right =
            sluice_lend_point(lend, NULL, NULL) == SLUICE_E_INVALID && counters.requests == 0;
        sluice_lend_wait_begins(lend);
        sluice_lend_stop(lend);
        sluice_lend_close(lend);
        _exit(is_right && access(path, F_OK) == 0 ? 0 : 1);
    }
    int status;
    CU_ASSERT_EQUAL(waitpid(forked, &status, 0), forked);
    CU_ASSERT_EQUAL(status, 0);
    CU_ASSERT(give(&child, ticket));
    CU_ASSERT(give(&child, take(&child)));
    lend_child_end(&child, 0);
    sluice_lend_close(lend);
}

TEST(the_example_borrows)
{
    const char *program = getenv("SLUICE_LEND_EXAMPLE");
    if (!program) {
        puts("skipped: SLUICE_LEND_EXAMPLE names the program");
        return;
    }
    const char *path = sluice_test_path("example");
    struct sluice_lend *lend = lend_open(path, 600000);
    char command[1024], line[256] = "";
    snprintf(command, sizeof(command), "'%s' '%s' 5 1", program, path);
    FILE *output = popen(command, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(output);
    CU_ASSERT_PTR_NOT_NULL(fgets(line, sizeof(line), output));
    CU_ASSERT_EQUAL(pclose(output), 0);
    CU_ASSERT_EQUAL(strncmp(line, "5 requests, ", 12), 0);
    const struct sluice_lend_counters counters = lend_counters(lend);
    CU_ASSERT_EQUAL(counters.requests, 5);
    CU_ASSERT(counters.lent_ns >= 5000000);
    sluice_lend_close(lend);
}

static int failed_threads;
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *arg)
{
    if (failed_threads > 0) {
        failed_threads--;
        return EAGAIN;
    }
    return __real_pthread_create(thread, attributes, run, arg);
}

/* The lowest free descriptor: the same before and after if none is lost in between. */
static int next_fd(void)
{
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(fd);
    return fd;
}

static void limit_descriptors(rlim_t most)
{
    struct rlimit limit;
    CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = most;
    CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

TEST(without_a_thread_or_descriptors_it_does_not_open_and_leaves_nothing)
{
    const struct sluice_lend_options options = {.path = sluice_test_path("short"), .device = -1};
    const int first = next_fd();
    struct sluice_lend *lend = NULL;
    failed_threads = 1;
    CHECK_FAILS(SLUICE_E_NO_MEMORY, "no thread",
                sluice_lend_open(&options, &lend, sluice_test_err()));
    CU_ASSERT_EQUAL(next_fd(), first);
    CU_ASSERT_EQUAL(access(options.path, F_OK), -1);
    struct rlimit limit;
    CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_NOFILE, &limit), 0);
    for (rlim_t more = 0; more < 3; more++) { /* an eventfd, the page, the socket */
        limit_descriptors((rlim_t)first + more);
        CHECK_FAILS(SLUICE_E_IO, "Too many open files",
                    sluice_lend_open(&options, &lend, sluice_test_err()));
        limit_descriptors(limit.rlim_cur);
        CU_ASSERT_EQUAL(next_fd(), first);
        CU_ASSERT_EQUAL(access(options.path, F_OK), -1);
    }
    CU_ASSERT_PTR_NULL(lend);
    REQUIRE_OK(sluice_lend_open(&options, &lend, sluice_test_err()));
    sluice_lend_close(lend);
    CU_ASSERT_EQUAL(next_fd(), first);
}

TEST(a_borrower_that_comes_while_descriptors_are_short_is_accepted_later)
{
    const char *path = sluice_test_path("crowd");
    struct sluice_lend *lend = lend_open(path, 600000);
    struct lend_child child = lend_child_start(path);
    char stat[64], text[256];
    snprintf(stat, sizeof(stat), "/proc/%d/stat", child.pid);
    const int fd = open(stat, O_RDONLY | O_CLOEXEC);
    const int first = next_fd();
    struct rlimit limit;
    CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_NOFILE, &limit), 0);
    CU_ASSERT_EQUAL(lend_child_do(&child, LEND_CLOSE, 0).status, 0); /* it has begun */
    limit_descriptors((rlim_t)first);
    lend_child_send(&child, LEND_OPEN, 0, 0);
    /* It waits for the answer, or for its order still. */
    for (int num_asleep = 0; num_asleep < 20; sched_yield()) {
        const ssize_t len = pread(fd, text, sizeof(text) - 1, 0);
        text[len > 0 ? len : 0] = 0;
        const char *end = strrchr(text, ')');
        num_asleep += end && end[2] == 'S';
    }
    limit_descriptors(limit.rlim_cur);
    CU_ASSERT_EQUAL(lend_child_reply(&child).status, SLUICE_OK);
    close(fd);
    lend_child_end(&child, 0);
    sluice_lend_close(lend);
}

TEST(wrong_options_are_named)
{
    struct sluice_lend *lend = NULL;
    struct sluice_lend_options options = {.device = -1};
    CHECK_FAILS(SLUICE_E_INVALID, "path", sluice_lend_open(&options, &lend, sluice_test_err()));
    options.path = sluice_test_path("options");
    options.when = SLUICE_LEND_SHARE;
    for (int i = 0; i < 3; i++) {
        options.share = (double[]){0, 1, -0.5}[i];
        CHECK_FAILS(SLUICE_E_INVALID, "share",
                    sluice_lend_open(&options, &lend, sluice_test_err()));
    }
    options.when = (enum sluice_lend_when)7;
    CHECK_FAILS(SLUICE_E_INVALID, "7", sluice_lend_open(&options, &lend, sluice_test_err()));
    options.when = SLUICE_LEND_ALWAYS;
    options.device = -2;
    CHECK_FAILS(SLUICE_E_INVALID, "-2", sluice_lend_open(&options, &lend, sluice_test_err()));
    options.device = -1;
    options.path = "/nowhere/at/all";
    CHECK_FAILS(SLUICE_E_IO, "/nowhere/at/all",
                sluice_lend_open(&options, &lend, sluice_test_err()));
    CU_ASSERT_PTR_NULL(lend);
}

TEST(waits_are_interpolated_within_a_bucket)
{
    struct sluice_lend_counters counters = {.requests = 0};
    CU_ASSERT_EQUAL(sluice_lend_wait_ms(&counters, 0.5), 0);
    counters.requests = counters.waits[11] = 4; /* 1024 to 2048 us */
    CU_ASSERT_DOUBLE_EQUAL(sluice_lend_wait_ms(&counters, 0.5), 1.536, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(sluice_lend_wait_ms(&counters, 1), 2.048, 1e-9);
    counters.waits[0] = 4;
    counters.requests = 8;
    CU_ASSERT_DOUBLE_EQUAL(sluice_lend_wait_ms(&counters, 0.25), 0.0005, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(sluice_lend_wait_ms(&counters, 0.75), 1.536, 1e-9);
}
