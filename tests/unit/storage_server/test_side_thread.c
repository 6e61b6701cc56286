#include "storage_server/side_thread.h"

#include "base/clock.h"
#include "base/cond.h"
#include "support/test.h"

#include <errno.h>

#define S UINT64_C(1000000000)

/* Far longer than a test may take. */
#define FAR_NS (10000 * S)

static bool is_refused;
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main)(void *ctx),
                          void *ctx);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main)(void *ctx),
                          void *ctx);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main)(void *ctx),
                          void *ctx)
{
    return is_refused ? EAGAIN : __real_pthread_create(thread, attr, main, ctx);
}

struct counter {
    pthread_mutex_t lock;
    pthread_cond_t counted;
    uint64_t pause_ns; /* between two counts */
    unsigned count;
    bool has_ended;
    struct sluice_side_thread thread;
};

static void *count_main(void *ctx)
{
    struct counter *counter = ctx;
    pthread_mutex_lock(&counter->lock);
    do {
        counter->count++;
        pthread_cond_signal(&counter->counted);
    } while (sluice_side_thread_sleep(&counter->thread, sluice_clock_ns() + counter->pause_ns));
    counter->has_ended = true;
    pthread_mutex_unlock(&counter->lock);
    return NULL;
}

static void begin(struct counter *counter, uint64_t pause_ns)
{
    *counter = (struct counter){.pause_ns = pause_ns};
    pthread_mutex_init(&counter->lock, NULL);
    sluice_cond_init(&counter->counted);
    REQUIRE_OK(sluice_side_thread_open(&counter->thread, &counter->lock, count_main, counter,
                                       "the counter", NULL));
}

static void await_count(struct counter *counter, unsigned count)
{
    pthread_mutex_lock(&counter->lock);
    while (counter->count < count)
        pthread_cond_wait(&counter->counted, &counter->lock);
    pthread_mutex_unlock(&counter->lock);
}

static void end(struct counter *counter)
{
    pthread_cond_destroy(&counter->counted);
    pthread_mutex_destroy(&counter->lock);
}

TEST(it_works_again_when_its_time_has_come)
{
    struct counter counter;
    begin(&counter, 1000);
    await_count(&counter, 10);
    sluice_side_thread_clear(&counter.thread);
    CU_ASSERT_TRUE(counter.has_ended);
    end(&counter);
}

/* Nor does a change that is none of its business end its sleep. */
TEST(a_sleep_ends_when_it_is_to_stop_and_by_no_other_change)
{
    struct counter counter;
    begin(&counter, FAR_NS);
    await_count(&counter, 1);
    for (unsigned i = 0; i < 100; i++) {
        pthread_mutex_lock(&counter.lock);
        pthread_cond_signal(&counter.thread.changed);
        pthread_mutex_unlock(&counter.lock);
    }
    sluice_side_thread_stop(&counter.thread);
    CU_ASSERT_TRUE(counter.has_ended);
    CU_ASSERT_EQUAL(counter.count, 1);
    pthread_mutex_lock(&counter.lock); /* the lock is there until the module's own end */
    pthread_mutex_unlock(&counter.lock);
    sluice_side_thread_stop(&counter.thread);
    sluice_side_thread_clear(&counter.thread);
    sluice_side_thread_clear(&counter.thread);
    end(&counter);
}

TEST(a_thread_that_cannot_start_is_named_and_leaves_nothing)
{
    struct counter counter = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct sluice_err err = {0};
    is_refused = true;
    CU_ASSERT_EQUAL(sluice_side_thread_open(&counter.thread, &counter.lock, count_main, &counter,
                                            "the counter", &err),
                    SLUICE_E_IO);
    is_refused = false;
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "cannot start the counter: "));
    CU_ASSERT_EQUAL(counter.count, 0);
    sluice_side_thread_clear(&counter.thread);
}

TEST(what_was_never_opened_may_be_cleared)
{
    struct sluice_side_thread thread = {.is_running = false};
    sluice_side_thread_stop(&thread);
    sluice_side_thread_clear(&thread);
}
