#include "storage_server/work/core_watch.h"

#include "base/clock.h"
#include "support/test.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>

#define NEVER (UINT64_MAX / 2)

/* The clock runs, and the test puts it forward (--wrap). */
static atomic_uint_fast64_t skipped_ns;
uint64_t __real_sluice_clock_ns(void);
uint64_t __wrap_sluice_clock_ns(void);
uint64_t __wrap_sluice_clock_ns(void)
{
    return __real_sluice_clock_ns() + atomic_load(&skipped_ns);
}

/* Counts up.  Each reading says that it began and waits to be let go. */
struct source {
    sem_t has_begun, may_end;
    double cores;
    pthread_t thread; /* that read last */
};

static void await(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0)
        ;
}

static double read_source(void *ctx)
{
    struct source *source = ctx;
    sem_post(&source->has_begun);
    await(&source->may_end);
    source->thread = pthread_self();
    return ++source->cores;
}

/* The first reading is let go, which open() waits for. */
static struct sluice_core_watch *open_watch(struct source *source, uint64_t max_age_ns)
{
    struct sluice_core_watch *watch = NULL;
    *source = (struct source){0};
    sem_init(&source->has_begun, 0, 0);
    sem_init(&source->may_end, 0, 1);
    REQUIRE_OK(sluice_core_watch_open(read_source, source, max_age_ns, &watch, NULL));
    await(&source->has_begun);
    return watch;
}

/* A reading that has begun ends. */
static void close_watch(struct source *source, struct sluice_core_watch *watch)
{
    sem_post(&source->may_end);
    sluice_core_watch_close(watch);
    sem_destroy(&source->has_begun);
    sem_destroy(&source->may_end);
}

/* While the clock is the system's: the first test. */
TEST(it_is_read_anew_though_nobody_asks)
{
    struct source source;
    struct sluice_core_watch *watch = open_watch(&source, 1000000);
    for (int i = 0; i < 2; i++) {
        await(&source.has_begun);
        sem_post(&source.may_end);
    }
    close_watch(&source, watch);
    CU_ASSERT(source.cores >= 3);
}

TEST(the_number_is_known_from_the_beginning)
{
    struct source source;
    struct sluice_core_watch *watch = open_watch(&source, NEVER);
    CU_ASSERT_EQUAL(sluice_core_watch_get(watch), 1);
    close_watch(&source, watch);
    sluice_core_watch_close(NULL);
}

TEST(who_asks_does_not_wait_for_the_reading)
{
    struct source source;
    struct sluice_core_watch *watch = open_watch(&source, NEVER);
    for (int i = 1; i <= 3; i++) {
        atomic_fetch_add(&skipped_ns, 60000000); /* no longer fresh */
        CU_ASSERT_EQUAL(sluice_core_watch_get(watch), i);
        await(&source.has_begun);
        CU_ASSERT_EQUAL(sluice_core_watch_get(watch), i); /* while it is read */
        sem_post(&source.may_end);
        while (sluice_core_watch_get(watch) == i)
            sched_yield();
        CU_ASSERT_EQUAL(sluice_core_watch_get(watch), i + 1);
        CU_ASSERT_FALSE(pthread_equal(source.thread, pthread_self()));
    }
    close_watch(&source, watch);
}
