#include "lend_support.h"

#include "support/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct order {
    enum lend_order order;
    int value, limit;
};

static void read_all(int fd, void *to, size_t len)
{
    for (size_t done = 0; done < len;) {
        const ssize_t got = read(fd, (char *)to + done, len - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            _exit(0);
        done += (size_t)got;
    }
}

static void cycle(struct sluice_borrower *borrower)
{
    for (;;) {
        uint32_t ticket;
        if (sluice_borrower_take(borrower, -1, &ticket, NULL) != SLUICE_OK)
            _exit(3);
        sluice_borrower_give(borrower, ticket);
    }
}

/* The child: orders from stdin, replies to stdout. */
static int obey(const char *path)
{
    struct sluice_borrower *borrower = NULL;
    for (;;) {
        struct order o;
        struct lend_reply reply = {0};
        struct sluice_err err = {{0}};
        read_all(STDIN_FILENO, &o, sizeof(o));
        switch (o.order) {
        case LEND_OPEN:
            reply.status = sluice_borrower_open(
                &(struct sluice_borrower_options){path, (uint32_t)o.value, (uint32_t)o.limit},
                &borrower, &err);
            break;
        case LEND_TAKE:
            reply.status = sluice_borrower_take(borrower, o.value, &reply.ticket, &err);
            break;
        case LEND_GIVE:
            reply.status = sluice_borrower_give(borrower, (uint32_t)o.value);
            break;
        case LEND_CLOSE:
            sluice_borrower_close(borrower);
            borrower = NULL;
            break;
        case LEND_CYCLE:
            break;
        case LEND_USER:
            reply.status = setuid((uid_t)o.value) == 0 ? 0 : 1;
            break;
        }
        memcpy(reply.text, err.text, sizeof(reply.text) - 1);
        if (write(STDOUT_FILENO, &reply, sizeof(reply)) != (ssize_t)sizeof(reply))
            return 1;
        if (o.order == LEND_CYCLE)
            cycle(borrower);
    }
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--borrow") == 0)
        return obey(argv[2]);
    signal(SIGPIPE, SIG_IGN);
    return sluice_test_main();
}

struct lend_child lend_child_start(const char *path)
{
    int to[2], from[2];
    CU_ASSERT_EQUAL_FATAL(pipe2(to, O_CLOEXEC) + pipe2(from, O_CLOEXEC), 0);
    const pid_t pid = fork();
    CU_ASSERT_FATAL(pid >= 0);
    if (pid == 0) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        execl("/proc/self/exe", program_invocation_short_name, "--borrow", path, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    return (struct lend_child){pid, to[1], from[0]};
}

void lend_child_send(const struct lend_child *child, enum lend_order order, int value, int limit)
{
    const struct order o = {order, value, limit};
    CU_ASSERT_EQUAL(write(child->to, &o, sizeof(o)), (ssize_t)sizeof(o));
}

struct lend_reply lend_child_reply(const struct lend_child *child)
{
    struct lend_reply reply;
    size_t done = 0;
    while (done < sizeof(reply)) {
        const ssize_t got = read(child->from, (char *)&reply + done, sizeof(reply) - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return (struct lend_reply){.status = -1};
        done += (size_t)got;
    }
    return reply;
}

struct lend_reply lend_child_do(const struct lend_child *child, enum lend_order order, int value)
{
    lend_child_send(child, order, value, 0);
    return lend_child_reply(child);
}

void lend_child_end(struct lend_child *child, int signal)
{
    if (signal)
        kill(child->pid, signal);
    close(child->to);
    close(child->from);
    CU_ASSERT_EQUAL(waitpid(child->pid, NULL, 0), child->pid);
}

struct sluice_lend *lend_open(const char *path, uint32_t at_most_ms)
{
    struct sluice_lend *lend;
    REQUIRE_OK(sluice_lend_open(
        &(struct sluice_lend_options){.path = path, .at_most_ms = at_most_ms, .device = -1}, &lend,
        sluice_test_err()));
    return lend;
}

struct sluice_lend_counters lend_counters(struct sluice_lend *lend)
{
    struct sluice_lend_counters counters;
    sluice_lend_counters(lend, &counters);
    return counters;
}

static void *run_point(void *arg)
{
    struct lend_point *point = arg;
    point->tid = (int)syscall(SYS_gettid);
    CU_ASSERT_EQUAL(sluice_lend_point(point->lend, NULL, NULL), SLUICE_OK);
    point->is_done = 1;
    return NULL;
}

void lend_point_start(struct lend_point *point, struct sluice_lend *lend)
{
    point->lend = lend;
    point->tid = point->is_done = 0;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&point->thread, NULL, run_point, point), 0);
}

bool lend_point_waits(struct lend_point *point)
{
    while (!point->tid)
        sched_yield();
    sluice_test_wait_blocked(point->tid);
    return !point->is_done;
}

void lend_point_join(struct lend_point *point)
{
    CU_ASSERT_EQUAL(pthread_join(point->thread, NULL), 0);
    CU_ASSERT(point->is_done);
}
