#include "borrow.h"
#include "lend_support.h"
#include "support/capture.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Most tests here have an owner in a child process and the borrower in this one. */

struct owner {
    pid_t pid;
    int to; /* its stdin: it ends when that is closed */
};

static void run_owner(const char *path, int go, int ready)
{
    struct sluice_lend *lend;
    char byte = 0;
    if (sluice_lend_open(
            &(struct sluice_lend_options){.path = path, .at_most_ms = 600000, .device = -1}, &lend,
            NULL) != SLUICE_OK)
        _exit(1);
    if (write(ready, &byte, 1) != 1 || read(go, &byte, 1) < 0)
        _exit(1);
    sluice_lend_close(lend);
    _exit(0);
}

static struct owner owner_start(const char *path)
{
    int go[2], ready[2];
    CU_ASSERT_EQUAL_FATAL(pipe2(go, O_CLOEXEC) + pipe2(ready, O_CLOEXEC), 0);
    const pid_t pid = fork();
    CU_ASSERT_FATAL(pid >= 0);
    if (pid == 0) {
        close(go[1]);
        run_owner(path, go[0], ready[1]);
    }
    char byte;
    CU_ASSERT_EQUAL(read(ready[0], &byte, 1), 1);
    close(go[0]);
    close(ready[0]);
    close(ready[1]);
    return (struct owner){pid, go[1]};
}

static void owner_end(struct owner *owner, int signal)
{
    int status;
    if (signal)
        kill(owner->pid, signal);
    close(owner->to);
    CU_ASSERT_EQUAL(waitpid(owner->pid, &status, 0), owner->pid);
    CU_ASSERT(signal || status == 0);
}

TEST(takes_and_gives_with_a_ticket)
{
    const char *path = sluice_test_path("ticket");
    struct owner owner = owner_start(path);
    struct sluice_borrower *borrower = borrow(path);
    uint32_t first, second;
    REQUIRE_OK(sluice_borrower_take(borrower, -1, &first, sluice_test_err()));
    CU_ASSERT_FALSE(sluice_borrower_give(borrower, first + 1));
    CU_ASSERT(sluice_borrower_give(borrower, first));
    CU_ASSERT_FALSE(sluice_borrower_give(borrower, first));
    REQUIRE_OK(sluice_borrower_take(borrower, 0, &second, sluice_test_err()));
    CU_ASSERT_NOT_EQUAL(first, second);
    CU_ASSERT_FALSE(sluice_borrower_give(borrower, first));
    CU_ASSERT(sluice_borrower_give(borrower, second));
    sluice_borrower_close(borrower);
    owner_end(&owner, 0);
}

struct thread {
    struct sluice_borrower *borrower;
    _Atomic int *num_inside;
    int num_times;
};

static void *take_often(void *arg)
{
    const struct thread *thread = arg;
    for (int i = 0; i < thread->num_times; i++) {
        uint32_t ticket;
        REQUIRE_OK(sluice_borrower_take(thread->borrower, -1, &ticket, NULL));
        CU_ASSERT_EQUAL(++*thread->num_inside, 1);
        --*thread->num_inside;
        CU_ASSERT(sluice_borrower_give(thread->borrower, ticket));
    }
    return NULL;
}

TEST(threads_of_a_borrower_have_it_one_after_the_other)
{
    const char *path = sluice_test_path("threads");
    struct owner owner = owner_start(path);
    _Atomic int num_inside = 0;
    struct thread thread = {borrow(path), &num_inside, 2000};
    pthread_t threads[4];
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(threads); i++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, take_often, &thread), 0);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(threads); i++)
        pthread_join(threads[i], NULL);
    uint32_t ticket, other;
    REQUIRE_OK(sluice_borrower_take(thread.borrower, -1, &ticket, sluice_test_err()));
    CHECK_FAILS(SLUICE_E_AGAIN, "another thread",
                sluice_borrower_take(thread.borrower, 1, &other, sluice_test_err()));
    CU_ASSERT(sluice_borrower_give(thread.borrower, ticket));
    sluice_borrower_close(thread.borrower);
    owner_end(&owner, 0);
}

TEST(a_killed_owner_is_found_at_the_next_take)
{
    const char *path = sluice_test_path("killed");
    struct owner owner = owner_start(path);
    struct sluice_borrower *borrower = borrow(path);
    uint32_t ticket;
    REQUIRE_OK(sluice_borrower_take(borrower, -1, &ticket, sluice_test_err()));
    CU_ASSERT(sluice_borrower_give(borrower, ticket));
    owner_end(&owner, SIGKILL);
    CHECK_FAILS(SLUICE_E_CLOSED, "has ended",
                sluice_borrower_take(borrower, -1, &ticket, sluice_test_err()));
    sluice_borrower_close(borrower);
    /* Another owner at the path is no trouble. */
    owner = owner_start(path);
    borrower = borrow(path);
    REQUIRE_OK(sluice_borrower_take(borrower, -1, &ticket, sluice_test_err()));
    sluice_borrower_close(borrower); /* gives */
    owner_end(&owner, 0);
}

struct waiter {
    struct sluice_borrower *borrower;
    _Atomic int tid;
    sluice_status status;
};

static void *wait_for_it(void *arg)
{
    struct waiter *waiter = arg;
    uint32_t ticket;
    waiter->tid = (int)syscall(SYS_gettid);
    waiter->status = sluice_borrower_take(waiter->borrower, -1, &ticket, NULL);
    return NULL;
}

TEST(a_wait_ends_when_the_owner_is_killed)
{
    const char *path = sluice_test_path("killed_meanwhile");
    struct owner owner = owner_start(path);
    struct sluice_borrower *high;
    REQUIRE_OK(sluice_borrower_open(&(struct sluice_borrower_options){.path = path, .priority = 1},
                                    &high, sluice_test_err()));
    uint32_t ticket;
    REQUIRE_OK(sluice_borrower_take(high, -1, &ticket, sluice_test_err()));
    struct waiter waiter = {.borrower = borrow(path)};
    pthread_t thread;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, wait_for_it, &waiter), 0);
    while (!waiter.tid)
        sched_yield();
    sluice_test_wait_blocked(waiter.tid);
    owner_end(&owner, SIGKILL);
    pthread_join(thread, NULL);
    CU_ASSERT_EQUAL(waiter.status, SLUICE_E_CLOSED);
    sluice_borrower_close(waiter.borrower);
    sluice_borrower_close(high);
}

TEST(nobody_lends_at_a_path_without_an_owner)
{
    CHECK_FAILS(SLUICE_E_NOT_FOUND, "nobody lends", try_to_borrow(sluice_test_path("nothing")));
    const char *path = sluice_test_path("dead");
    struct owner owner = owner_start(path);
    owner_end(&owner, SIGKILL);
    CHECK_FAILS(SLUICE_E_NOT_FOUND, "nobody lends", try_to_borrow(path));
    struct sluice_borrower *borrower;
    CHECK_FAILS(SLUICE_E_INVALID, "path",
                sluice_borrower_open(&(struct sluice_borrower_options){.path = NULL}, &borrower,
                                     sluice_test_err()));
    char longest[200];
    memset(longest, 'x', sizeof(longest));
    longest[199] = 0;
    CHECK_FAILS(SLUICE_E_INVALID, "1 to 107", try_to_borrow(longest));
}

TEST(after_fork_the_child_cannot_take)
{
    const char *path = sluice_test_path("fork");
    struct owner owner = owner_start(path);
    struct sluice_borrower *borrower = borrow(path);
    uint32_t ticket;
    REQUIRE_OK(sluice_borrower_take(borrower, -1, &ticket, sluice_test_err()));
    const pid_t child = fork();
    CU_ASSERT_FATAL(child >= 0);
    if (child == 0) {
        uint32_t mine;
        const bool is_right = sluice_borrower_take(borrower, 0, &mine, NULL) == SLUICE_E_INVALID &&
                              !sluice_borrower_give(borrower, ticket);
        sluice_borrower_close(borrower);
        _exit(is_right ? 0 : 1);
    }
    int status;
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    CU_ASSERT_EQUAL(status, 0);
    CU_ASSERT(sluice_borrower_give(borrower, ticket)); /* the child's close was not ours */
    sluice_borrower_close(borrower);
    owner_end(&owner, 0);
}
