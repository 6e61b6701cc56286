#include "base/clock.h"

#include "support/test.h"

#include <pthread.h>
#include <time.h>

static uint64_t system_ns(clockid_t id)
{
    struct timespec ts;
    clock_gettime(id, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

TEST(is_the_monotonic_clock_in_nanoseconds)
{
    for (int i = 0; i < 1000; i++) {
        const uint64_t before = system_ns(CLOCK_MONOTONIC);
        const uint64_t ours = sluice_clock_ns();
        CU_ASSERT(ours >= before && ours <= system_ns(CLOCK_MONOTONIC));
    }
}

static void *burn(void *arg)
{
    uint64_t *spent_ns = arg;
    const uint64_t start = sluice_thread_cpu_ns();
    do {
        *spent_ns = sluice_thread_cpu_ns() - start;
    } while (*spent_ns < 20000000u);
    return NULL;
}

TEST(thread_time_counts_the_calling_thread_alone)
{
    uint64_t theirs = 0;
    pthread_t thread;
    const uint64_t before = sluice_thread_cpu_ns();
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, burn, &theirs), 0);
    pthread_join(thread, NULL);
    const uint64_t ours = sluice_thread_cpu_ns() - before;
    CU_ASSERT(theirs >= 20000000u);
    CU_ASSERT(ours < theirs);
}

TEST(thread_time_is_the_systems)
{
    const uint64_t before = system_ns(CLOCK_THREAD_CPUTIME_ID);
    const uint64_t ours = sluice_thread_cpu_ns();
    CU_ASSERT(ours >= before && ours <= system_ns(CLOCK_THREAD_CPUTIME_ID));
}

TEST(process_time_counts_every_thread)
{
    uint64_t theirs = 0;
    pthread_t thread;
    const uint64_t before = sluice_process_cpu_ns();
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, burn, &theirs), 0);
    pthread_join(thread, NULL);
    CU_ASSERT(sluice_process_cpu_ns() - before >= theirs);
}

TEST(work_of_other_processes_counts)
{
    const uint64_t thread_ns = sluice_thread_cpu_ns(), process_ns = sluice_process_cpu_ns();
    sluice_clock_add_cpu_ns(UINT64_C(5000000000000));
    CU_ASSERT(sluice_thread_cpu_ns() - thread_ns >= UINT64_C(5000000000000));
    CU_ASSERT(sluice_process_cpu_ns() - process_ns >= UINT64_C(5000000000000));
    uint64_t theirs = 0;
    pthread_t thread; /* of the calling thread alone */
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, burn, &theirs), 0);
    pthread_join(thread, NULL);
    CU_ASSERT(theirs < UINT64_C(5000000000000));
}

TEST(sleeps_until_a_moment_and_not_for_one_that_is_past)
{
    const uint64_t until_ns = sluice_clock_ns() + 2000000u;
    sluice_clock_sleep_until(until_ns);
    CU_ASSERT(sluice_clock_ns() >= until_ns);
    sluice_clock_sleep_until(until_ns);
    sluice_clock_sleep_until(0);
}

TEST(a_moment_has_seconds_and_the_rest)
{
    const struct timespec moment = sluice_clock_timespec(3000000007u);
    CU_ASSERT_EQUAL(moment.tv_sec, 3);
    CU_ASSERT_EQUAL(moment.tv_nsec, 7);
}
