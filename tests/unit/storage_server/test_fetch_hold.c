#include "base/clock.h"
#include "base/cond.h"
#include "storage_server/fetch/stream.h"
#include "support/test.h"

#define S UINT64_C(1000000000)

/* Far longer than a test may take. */
#define HOLD_NS (10000 * S)

/* How long the timer may take before the test fails: far above what the slowest machine needs. */
#define PATIENCE_NS (60 * S)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t called;
static struct sluice_fetch_stream *due[2]; /* under the lock, in the order of the calls */
static unsigned num_due;

/* As a stream does whose replies go then. */
static void on_due(struct sluice_fetch_stream *s)
{
    pthread_mutex_lock(&s->lock);
    s->is_held = false;
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_lock(&lock);
    if (num_due < SLUICE_ARRAY_LEN(due))
        due[num_due] = s;
    num_due++;
    pthread_cond_signal(&called);
    pthread_mutex_unlock(&lock);
}

static bool await_due(unsigned count)
{
    const uint64_t until_ns = sluice_clock_ns() + PATIENCE_NS;
    bool has_time = true;
    pthread_mutex_lock(&lock);
    while (num_due < count && has_time)
        has_time = sluice_cond_wait_until(&called, &lock, until_ns);
    const bool is_there = num_due >= count;
    pthread_mutex_unlock(&lock);
    return is_there;
}

static void begin(struct sluice_fetch *fetch)
{
    num_due = 0;
    pthread_mutex_init(&fetch->lock, NULL);
    fetch->advance = on_due;
    fetch->options.hold_ns = HOLD_NS;
    REQUIRE_OK(sluice_fetch_hold_open(fetch, NULL));
}

static void add(struct sluice_fetch *fetch, struct sluice_fetch_stream *s, uint64_t ready_since_ns)
{
    pthread_mutex_init(&s->lock, NULL);
    atomic_init(&s->refs, 1);
    s->is_held = true;
    s->ready_since_ns = ready_since_ns;
    pthread_mutex_lock(&fetch->lock);
    s->next = fetch->streams;
    fetch->streams = s;
    pthread_mutex_unlock(&fetch->lock);
}

static void end(struct sluice_fetch *fetch)
{
    sluice_fetch_hold_close(fetch);
    for (struct sluice_fetch_stream *s = fetch->streams; s; s = s->next) {
        CU_ASSERT_EQUAL(atomic_load(&s->refs), 1);
        pthread_mutex_destroy(&s->lock);
    }
    pthread_mutex_destroy(&fetch->lock);
}

/* Counted from when they were ready, not from when the timer heard of them. */
TEST(replies_are_held_for_one_hold)
{
    struct sluice_fetch fetch = {0};
    struct sluice_fetch_stream s = {0};
    begin(&fetch);
    add(&fetch, &s, sluice_clock_ns() - HOLD_NS);
    sluice_fetch_hold(&fetch);
    CU_ASSERT(await_due(1));
    CU_ASSERT_PTR_EQUAL(due[0], &s);
    end(&fetch);
}

TEST(each_stream_is_due_at_its_own_time)
{
    struct sluice_fetch fetch = {0};
    struct sluice_fetch_stream soon = {0}, late = {0};
    begin(&fetch);
    add(&fetch, &soon, sluice_clock_ns() - HOLD_NS);
    add(&fetch, &late, sluice_clock_ns());
    sluice_fetch_hold(&fetch);
    CU_ASSERT(await_due(1));
    end(&fetch);
    CU_ASSERT_EQUAL(num_due, 1);
    CU_ASSERT_PTR_EQUAL(due[0], &soon);
    CU_ASSERT(late.is_held);
    CU_ASSERT(fetch.is_holding);
}

int main(void)
{
    sluice_cond_init(&called);
    return sluice_test_main();
}
