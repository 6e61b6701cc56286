#include "lend/page.h"
#include "lend_support.h"

#include "base/clock.h"
#include "base/rng.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Borrowers that are killed or stopped at any point of a request: the owner's points pass, and the
 * next borrower gets the GPU. */

static void check_all_is_well(struct sluice_lend *lend, const struct lend_child *other)
{
    CHECK_OK(sluice_lend_point(lend, NULL, sluice_test_err()));
    const struct lend_reply reply = lend_child_do(other, LEND_TAKE, -1);
    CU_ASSERT_EQUAL(reply.status, SLUICE_OK);
    /* Slow machines may need longer than the limit. */
    (void)lend_child_do(other, LEND_GIVE, (int)reply.ticket);
    CHECK_OK(sluice_lend_point(lend, NULL, sluice_test_err()));
}

TEST(borrowers_killed_at_random_leave_the_gpu_to_the_owner)
{
    enum { NUM_AT_ONCE = 3 };
    const char *path = sluice_test_path("random");
    struct sluice_lend *lend = lend_open(path, 600000);
    struct lend_child other = lend_child_start(path), children[NUM_AT_ONCE];
    CU_ASSERT_EQUAL(lend_child_do(&other, LEND_OPEN, 0).status, SLUICE_OK);
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    const unsigned num_kills = sluice_test_is_long() ? 1002 : 90;
    for (unsigned round = 0; round < num_kills / NUM_AT_ONCE; round++) {
        for (unsigned i = 0; i < NUM_AT_ONCE; i++) {
            children[i] = lend_child_start(path);
            CU_ASSERT_EQUAL(lend_child_do(&children[i], LEND_OPEN, (int)i).status, SLUICE_OK);
            CU_ASSERT_EQUAL(lend_child_do(&children[i], LEND_CYCLE, 0).status, 0);
        }
        for (unsigned i = 0; i < NUM_AT_ONCE; i++) {
            const uint64_t until = sluice_clock_ns() + sluice_rng_below(&rng, 400000);
            while (sluice_clock_ns() < until)
                CHECK_OK(sluice_lend_point(lend, NULL, sluice_test_err()));
            lend_child_end(&children[i], SIGKILL);
        }
        check_all_is_well(lend, &other);
    }
    while (lend_counters(lend).borrowers > 1)
        sched_yield();
    const struct sluice_lend_counters counters = lend_counters(lend);
    printf("%u kills, %llu requests, %llu of them taken back\n", num_kills,
           (unsigned long long)counters.requests, (unsigned long long)counters.taken_back);
    CU_ASSERT(counters.requests >= num_kills / NUM_AT_ONCE);
    lend_child_end(&other, 0);
    sluice_lend_close(lend);
}

#ifdef __x86_64__

/* A borrower that this process executes instruction by instruction, from before its take. */
struct stepped {
    pid_t pid;
    uintptr_t page; /* its address there */
    struct sluice_lend_page seen;
};

static bool is_stopped(pid_t pid)
{
    int status;
    return waitpid(pid, &status, 0) == pid && WIFSTOPPED(status);
}

static bool read_page(struct stepped *s, struct sluice_lend_page *page)
{
    const struct iovec to = {page, sizeof(*page)}, from = {(void *)s->page, sizeof(*page)};
    return process_vm_readv(s->pid, &to, 1, &from, 1, 0) == (ssize_t)sizeof(*page);
}

/* The mapping of the memfd, in /proc/PID/maps. */
static uintptr_t find_page(pid_t pid)
{
    char path[64], line[512];
    unsigned long long start = 0;
    snprintf(path, sizeof(path), "/proc/%d/maps", pid);
    FILE *maps = fopen(path, "r");
    while (maps && fgets(line, sizeof(line), maps))
        if (strstr(line, "memfd:sluice-lend") && sscanf(line, "%llx", &start) == 1)
            break;
    if (maps)
        fclose(maps);
    return (uintptr_t)start;
}

/* False: this machine does not let processes be traced. */
static bool start_stepped(const char *path, struct stepped *s)
{
    s->pid = fork();
    CU_ASSERT_FATAL(s->pid >= 0);
    if (s->pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(77);
        struct sluice_borrower *borrower;
        uint32_t ticket;
        if (sluice_borrower_open(&(struct sluice_borrower_options){.path = path, .priority = 5},
                                 &borrower, NULL) != SLUICE_OK)
            _exit(1);
        raise(SIGSTOP);
        if (sluice_borrower_take(borrower, 0, &ticket, NULL) == SLUICE_OK)
            sluice_borrower_give(borrower, ticket);
        _exit(0);
    }
    if (!is_stopped(s->pid))
        return false;
    s->page = find_page(s->pid);
    CU_ASSERT_FATAL(s->page != 0);
    return true;
}

/* In what a take and a give write. */
static bool is_same(const struct sluice_lend_page *a, const struct sluice_lend_page *b)
{
    bool is_same = a->mask == b->mask && a->lent_ns == b->lent_ns &&
                   a->lent_since_ns == b->lent_since_ns && a->waited_ns == b->waited_ns;
    for (unsigned i = 0; i < SLUICE_LEND_WAIT_BUCKETS; i++)
        is_same &= a->waits[i] == b->waits[i];
    for (unsigned i = 0; i < SLUICE_LEND_SLOTS; i++)
        is_same &= a->slots[i].state == b->slots[i].state &&
                   a->slots[i].looked_ns == b->slots[i].looked_ns;
    return is_same;
}

/* Until it has written to the page.  False: it has ended. */
static bool step_to_next_write(struct stepped *s)
{
    struct sluice_lend_page page;
    CU_ASSERT(read_page(s, &s->seen));
    for (;;) {
        if (ptrace(PTRACE_SINGLESTEP, s->pid, NULL, NULL) != 0 || !is_stopped(s->pid))
            return false;
        if (!read_page(s, &page))
            return false;
        if (!is_same(&page, &s->seen))
            return true;
    }
}

/* After each write of a request, one borrower is killed, and another stopped for longer than the
 * owner allows, and then continued. */
TEST(borrowers_killed_or_stopped_after_any_write_leave_the_gpu_to_the_owner)
{
    unsigned num_writes = 0;
    for (bool has_ended = false; !has_ended; num_writes++)
        for (int is_kill = 0; is_kill < 2 && !has_ended; is_kill++) {
            const char *path = sluice_test_path("stepped");
            struct sluice_lend *lend = lend_open(path, is_kill ? 600000 : 20);
            struct stepped s;
            if (!start_stepped(path, &s)) {
                puts("skipped: processes cannot be traced here");
                sluice_lend_close(lend);
                return;
            }
            struct lend_child other = lend_child_start(path);
            CU_ASSERT_EQUAL(lend_child_do(&other, LEND_OPEN, 0).status, SLUICE_OK);
            for (unsigned i = 0; i < num_writes && !has_ended; i++)
                has_ended = !step_to_next_write(&s);
            if (is_kill && !has_ended) {
                kill(s.pid, SIGKILL);
                waitpid(s.pid, NULL, 0);
            }
            check_all_is_well(lend, &other);
            if (!is_kill && !has_ended) {
                CU_ASSERT_EQUAL(ptrace(PTRACE_DETACH, s.pid, NULL, NULL), 0);
                CU_ASSERT_EQUAL(waitpid(s.pid, NULL, 0), s.pid);
                check_all_is_well(lend, &other);
            }
            lend_child_end(&other, 0);
            sluice_lend_close(lend);
        }
    printf("%u writes\n", num_writes - 1);
    CU_ASSERT(num_writes - 1 >= 6);
}

/* After the owner stopped lending, a borrower in the middle of a request goes on by one write, which may
 * be to the mask, and is stopped there; later it is killed. */
TEST(after_stop_points_pass_whatever_a_borrower_still_writes)
{
    unsigned num_writes = 0;
    for (bool has_ended = false; !has_ended; num_writes++) {
        const char *path = sluice_test_path("after_stop");
        struct sluice_lend *lend = lend_open(path, 600000);
        struct stepped s;
        if (!start_stepped(path, &s)) {
            puts("skipped: processes cannot be traced here");
            sluice_lend_close(lend);
            return;
        }
        for (unsigned i = 0; i < num_writes && !has_ended; i++)
            has_ended = !step_to_next_write(&s);
        sluice_lend_stop(lend);
        CHECK_OK(sluice_lend_point(lend, NULL, sluice_test_err()));
        if (!has_ended && step_to_next_write(&s)) {
            CHECK_OK(sluice_lend_point(lend, NULL, sluice_test_err()));
            kill(s.pid, SIGKILL);
            waitpid(s.pid, NULL, 0);
            CHECK_OK(sluice_lend_point(lend, NULL, sluice_test_err()));
        }
        sluice_lend_close(lend);
    }
    CU_ASSERT(num_writes - 1 >= 6);
}

#endif
