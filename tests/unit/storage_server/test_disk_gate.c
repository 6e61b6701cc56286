#include "storage_server/data/disk_gate.h"

#include "base/clock.h"
#include "fake_disk.h"
#include "support/test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

/* Linked with --wrap: a clock that stands unless it is moved, and sleep that moves it. */
uint64_t __wrap_sluice_clock_ns(void);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);

static atomic_uint_fast64_t now_ns;
static atomic_uint num_clocks; /* times that somebody asked */
static struct fake_disk disk;
static struct sluice_disk_gate *gate;
static unsigned all, ours; /* bytes */
static atomic_uint num_polls;
static unsigned polls_until_free; /* 0: never */

uint64_t __wrap_sluice_clock_ns(void)
{
    num_clocks++;
    return now_ns;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    (void)left;
    now_ns += (uint64_t)time->tv_nsec;
    if (++num_polls == polls_until_free)
        fake_disk_set(&disk, all, ours, 0);
    return 0;
}

static void advance_ms(unsigned ms)
{
    now_ns += ms * 1000000ull;
}

static void open_gate(void)
{
    disk = fake_disk_create();
    all = ours = polls_until_free = 0;
    num_polls = 0;
    advance_ms(1);
    REQUIRE_OK(sluice_disk_gate_open(disk.root, sluice_test_dir(), &gate, NULL));
}

static void read_of_others(void)
{
    all += 512;
    fake_disk_set(&disk, all, ours, 0);
}

static bool is_whole(size_t bytes)
{
    return bytes == SIZE_MAX;
}

static size_t once(void)
{
    const size_t bytes = sluice_disk_gate_take(gate);
    sluice_disk_gate_give(gate);
    return bytes;
}

/* Takes a turn on a thread of its own, which must not have it before `may_go` is set. */
struct other {
    pthread_t thread;
    atomic_bool may_go;
    bool was_early;
    size_t bytes;
};

static void *other_main(void *arg)
{
    struct other *other = arg;
    other->bytes = sluice_disk_gate_take(gate);
    other->was_early = !atomic_load(&other->may_go);
    sluice_disk_gate_give(gate);
    return NULL;
}

/* Many turns, each alone. */
static atomic_uint num_inside, num_crowded;

static void *crowd_main(void *arg)
{
    for (int i = 0; i < 200; i++) {
        const size_t bytes = sluice_disk_gate_take(gate);
        if (++num_inside != 1 || bytes == SIZE_MAX)
            num_crowded++;
        sched_yield();
        num_inside--;
        sluice_disk_gate_give(gate);
    }
    return arg;
}

static void start(struct other *other)
{
    CU_ASSERT_EQUAL_FATAL(pthread_create(&other->thread, NULL, other_main, other), 0);
}

TEST(all_go_at_once_while_nobody_else_reads)
{
    open_gate();
    for (int i = 0; i < 5; i++)
        CU_ASSERT(is_whole(sluice_disk_gate_take(gate)));
    ours += 4096; /* reads of ours that end meanwhile are nobody else's */
    all += 4096;
    fake_disk_set(&disk, all, ours, 4);
    advance_ms(25);
    CU_ASSERT(is_whole(sluice_disk_gate_take(gate)));
    for (int i = 0; i < 6; i++)
        sluice_disk_gate_give(gate);
    CU_ASSERT_EQUAL(num_polls, 0);
    sluice_disk_gate_close(gate);
    sluice_disk_gate_close(NULL);
}

TEST(one_at_a_time_in_pieces_while_others_read)
{
    open_gate();
    CU_ASSERT(is_whole(sluice_disk_gate_take(gate))); /* goes on while others come */
    read_of_others();
    advance_ms(25);
    struct other first = {0};
    start(&first);
    atomic_store(&first.may_go, true);
    sluice_disk_gate_give(gate);
    pthread_join(first.thread, NULL);
    CU_ASSERT_FALSE(first.was_early);
    CU_ASSERT(first.bytes >= 4096 && first.bytes <= 65536);

    pthread_t threads[3];
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(threads); i++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, crowd_main, NULL), 0);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(threads); i++)
        pthread_join(threads[i], NULL);
    CU_ASSERT_EQUAL(num_crowded, 0);
    sluice_disk_gate_close(gate);
}

TEST(a_piece_waits_for_others_but_not_for_ever)
{
    open_gate();
    read_of_others();
    advance_ms(25);
    CU_ASSERT_FALSE(is_whole(once()));

    fake_disk_set(&disk, all, ours, 2);
    polls_until_free = 7;
    num_polls = 0;
    CU_ASSERT_FALSE(is_whole(once()));
    CU_ASSERT_EQUAL(num_polls, 7);

    fake_disk_set(&disk, all, ours, 2);
    polls_until_free = 0;
    const uint64_t from_ns = now_ns;
    CU_ASSERT_FALSE(is_whole(once()));
    CU_ASSERT(now_ns - from_ns >= 10000000 && now_ns - from_ns <= 40000000);
    sluice_disk_gate_close(gate);
}

TEST(once_others_are_gone_all_go_at_once_again)
{
    open_gate();
    read_of_others();
    advance_ms(25);
    CU_ASSERT_FALSE(is_whole(once()));
    advance_ms(600);
    read_of_others(); /* twice a second is enough to come first */
    CU_ASSERT_FALSE(is_whole(once()));
    advance_ms(600);
    CU_ASSERT_FALSE(is_whole(once()));
    advance_ms(600);
    CU_ASSERT(is_whole(once()));
    CU_ASSERT(is_whole(sluice_disk_gate_take(gate)));
    CU_ASSERT(is_whole(sluice_disk_gate_take(gate)));
    sluice_disk_gate_give(gate);
    sluice_disk_gate_give(gate);
    sluice_disk_gate_close(gate);
}

/* What others read behind what we wait for shows only at such a moment. */
TEST(a_moment_of_quiet_shows_little_reads)
{
    open_gate();
    ours = 1 << 20;
    all = 512;
    fake_disk_set(&disk, all, ours, 8);
    CU_ASSERT(is_whole(sluice_disk_gate_take(gate)));
    advance_ms(50);
    CU_ASSERT(is_whole(sluice_disk_gate_take(gate)));
    sluice_disk_gate_give(gate);
    advance_ms(60);
    struct other other = {0};
    start(&other); /* waits for the first */
    all += ours;
    fake_disk_set(&disk, all, ours, 0);
    atomic_store(&other.may_go, true);
    sluice_disk_gate_give(gate);
    pthread_join(other.thread, NULL);
    CU_ASSERT_FALSE(other.was_early);
    CU_ASSERT_FALSE(is_whole(other.bytes));
    sluice_disk_gate_close(gate);
}

/* Whether a read polls the disk before it goes. */
static bool polls(void)
{
    num_polls = 0;
    polls_until_free = 1;
    sluice_test_put_text(disk.folder, "inflight", "1 0\n"); /* an exact poll waits for it */
    (void)once();
    return num_polls > 0;
}

/* The first read after so many ms that polls, in steps of 10 ms. */
static unsigned ms_until_a_poll(void)
{
    unsigned ms = 0;
    do {
        advance_ms(10);
        ms += 10;
    } while (!polls() && ms < 5000);
    return ms;
}

/* One that takes so many ms keeps the next one waiting. */
static void wait_for_quiet_ms(unsigned ms)
{
    CU_ASSERT(is_whole(sluice_disk_gate_take(gate)));
    advance_ms(1000);
    num_clocks = 0;
    struct other other = {.may_go = true};
    start(&other);
    while (num_clocks == 0) /* it asks for the time, and then waits */
        sched_yield();
    advance_ms(ms);
    sluice_disk_gate_give(gate);
    pthread_join(other.thread, NULL);
    CU_ASSERT(is_whole(other.bytes));
}

TEST(moments_of_quiet_are_rare_where_they_cost_much)
{
    open_gate();
    CU_ASSERT_EQUAL(ms_until_a_poll(), 100);
    CU_ASSERT_EQUAL(ms_until_a_poll(), 100);
    wait_for_quiet_ms(8);
    CU_ASSERT_EQUAL(ms_until_a_poll(), 400);
    wait_for_quiet_ms(500);
    CU_ASSERT_EQUAL(ms_until_a_poll(), 1000);
    CU_ASSERT_EQUAL(ms_until_a_poll(), 100); /* nobody had to wait this time */
    sluice_disk_gate_close(gate);
}

TEST(no_disk_is_an_error)
{
    struct sluice_disk_gate *none = NULL;
    const char *nowhere = sluice_test_path("nowhere");
    CU_ASSERT_EQUAL(sluice_disk_gate_open(nowhere, sluice_test_dir(), &none, NULL),
                    SLUICE_E_UNSUPPORTED);
    CU_ASSERT_PTR_NULL(none);
}
