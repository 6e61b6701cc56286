#include "host/disk_clock.h"

#include "base/clock.h"
#include "support/test.h"

#include <pthread.h>
#include <time.h>

/* What a disk does to a thread. */
static void sleep_ms(unsigned ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000l}, NULL);
}

TEST(a_read_alone_keeps_the_disk_busy_all_its_time)
{
    struct sluice_disk_clock clock = SLUICE_DISK_CLOCK_INITIALIZER;
    for (int i = 0; i < 3; i++) {
        struct sluice_disk_read read;
        const uint64_t before = sluice_clock_ns();
        sluice_disk_clock_start(&clock, &read);
        sleep_ms(1);
        const struct sluice_disk_time time = sluice_disk_clock_stop(&clock, &read);
        CU_ASSERT(time.wait_ns >= 1000000 && time.wait_ns <= sluice_clock_ns() - before);
        CU_ASSERT_DOUBLE_EQUAL(time.busy_ns, time.wait_ns, 2);
    }
}

TEST(what_comes_from_memory_costs_the_disk_nothing)
{
    struct sluice_disk_clock clock = SLUICE_DISK_CLOCK_INITIALIZER;
    struct sluice_disk_read read;
    sluice_disk_clock_start(&clock, &read);
    for (const uint64_t start = sluice_thread_cpu_ns(); sluice_thread_cpu_ns() - start < 2000000;)
        continue;
    const struct sluice_disk_time time = sluice_disk_clock_stop(&clock, &read);
    CU_ASSERT_EQUAL(time.wait_ns, 0);
    CU_ASSERT_EQUAL(time.busy_ns, 0);
}

TEST(the_parts_of_reads_that_overlap_add_up_to_the_busy_time)
{
    struct sluice_disk_clock clock = SLUICE_DISK_CLOCK_INITIALIZER;
    struct sluice_disk_read first, second;
    sluice_disk_clock_start(&clock, &first);
    sleep_ms(1);
    sluice_disk_clock_start(&clock, &second);
    sleep_ms(1);
    const struct sluice_disk_time a = sluice_disk_clock_stop(&clock, &first);
    sleep_ms(2);
    const struct sluice_disk_time b = sluice_disk_clock_stop(&clock, &second);
    CU_ASSERT(a.wait_ns > a.busy_ns && b.wait_ns > b.busy_ns);
    const uint64_t busy_ns = second.start_ns + b.wait_ns - first.start_ns;
    CU_ASSERT_DOUBLE_EQUAL(a.busy_ns + b.busy_ns, busy_ns, 4);
    const uint64_t both_ns = first.start_ns + a.wait_ns - second.start_ns;
    CU_ASSERT_DOUBLE_EQUAL(a.wait_ns - a.busy_ns, both_ns / 2.0, 4);
}

#define NUM_THREADS 4
#define NUM_READS 20

static struct sluice_disk_clock shared = SLUICE_DISK_CLOCK_INITIALIZER;
static uint64_t busy_ns[NUM_THREADS];

static void *read_often(void *ctx)
{
    uint64_t *sum = ctx;
    for (int i = 0; i < NUM_READS; i++) {
        struct sluice_disk_read read;
        sluice_disk_clock_start(&shared, &read);
        sleep_ms(1);
        *sum += sluice_disk_clock_stop(&shared, &read).busy_ns;
    }
    return NULL;
}

TEST(threads_share_one_clock)
{
    pthread_t threads[NUM_THREADS];
    const uint64_t start = sluice_clock_ns();
    for (int i = 0; i < NUM_THREADS; i++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, read_often, &busy_ns[i]), 0);
    uint64_t sum = 0;
    for (int i = 0; i < NUM_THREADS; i++) {
        pthread_join(threads[i], NULL);
        sum += busy_ns[i];
    }
    /* Each slept as long by itself; together they were busy no longer than the clock ran. */
    CU_ASSERT(sum >= (uint64_t)NUM_READS * 1000000);
    CU_ASSERT(sum <= sluice_clock_ns() - start);
    CU_ASSERT_EQUAL(shared.num_reads, 0);
}
