#include "storage_server/session/memory_budget.h"

#include "base/rng.h"
#include "storage_server/session/session.h"
#include "support/test.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

static struct sluice_memory_budget *create(uint64_t bytes)
{
    struct sluice_memory_budget *budget;
    const struct sluice_memory_options options = {.bytes = bytes};
    REQUIRE_OK(sluice_memory_budget_create(&options, &budget, NULL));
    return budget;
}

static struct sluice_sessions *sessions;

static struct sluice_memory_holder *open_of(struct sluice_memory_budget *budget, const char *client,
                                            void (*on_room)(void *ctx), void *ctx)
{
    struct sluice_session *session = sluice_session_open(sessions, client);
    struct sluice_memory_holder *holder = sluice_memory_open(budget, session, on_room, ctx);
    sluice_session_unref(session);
    return holder;
}

static bool take(struct sluice_memory_holder *holder, size_t bytes)
{
    return sluice_memory_take(holder, bytes, SLUICE_MEMORY_REPLY);
}

/* Takes pieces of 10 until refused; the sum. */
static size_t take_all(struct sluice_memory_holder *holder)
{
    size_t sum = 0;
    while (take(holder, 10))
        sum += 10;
    return sum;
}

struct waiting {
    sem_t called;
    atomic_uint calls;
};

static void note(void *ctx)
{
    struct waiting *waiting = ctx;
    atomic_fetch_add(&waiting->calls, 1);
    sem_post(&waiting->called);
}

static void await(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0)
        ;
}

TEST(one_client_alone_leaves_a_third_to_others)
{
    struct sluice_memory_budget *budget = create(9000);
    struct sluice_memory_holder *a[8], *b[8];
    size_t held_a[8], held_b[8], of_a = 0, of_b = 0;
    for (int i = 0; i < 8; i++) {
        a[i] = open_of(budget, "a", NULL, NULL);
        of_a += held_a[i] = take_all(a[i]);
    }
    CU_ASSERT(of_a >= 5900 && of_a <= 6000);
    for (int i = 0; i < 8; i++) {
        b[i] = open_of(budget, "b", NULL, NULL);
        of_b += held_b[i] = take_all(b[i]);
    }
    /* Though the first gives nothing back: two thirds of what it left. */
    CU_ASSERT(of_b >= 1900 && of_b <= 2100);
    CU_ASSERT_EQUAL(sluice_memory_stats(budget).used, of_a + of_b);
    for (int i = 0; i < 8; i++) {
        sluice_memory_close(a[i]);
        sluice_memory_give(a[i], held_a[i]); /* a closed stream's buffers come back later */
        sluice_memory_give(b[i], held_b[i]);
        sluice_memory_close(b[i]);
    }
    CU_ASSERT_EQUAL(sluice_memory_stats(budget).used, 0);
    sluice_memory_budget_destroy(budget);
}

TEST(a_stream_leaves_room_to_others_of_its_client)
{
    struct sluice_memory_budget *budget = create(7000);
    struct sluice_memory_holder *first = open_of(budget, "a", NULL, NULL);
    struct sluice_memory_holder *second = open_of(budget, "a", NULL, NULL);
    const size_t of_first = take_all(first), of_second = take_all(second);
    CU_ASSERT(of_first >= 3900 && of_first <= 4100); /* 4/7 */
    CU_ASSERT(of_second > 300);
    sluice_memory_give(first, of_first);
    sluice_memory_give(second, of_second);
    CU_ASSERT_EQUAL(sluice_memory_stats(budget).used, 0);
    sluice_memory_close(first);
    sluice_memory_close(second);
    sluice_memory_budget_destroy(budget);
}

TEST(one_sample_may_always_be_worked_on)
{
    struct sluice_memory_budget *budget = create(1000);
    struct sluice_memory_holder *a = open_of(budget, "a", NULL, NULL);
    CU_ASSERT(take(a, 1000)); /* all, as nobody holds anything */
    CU_ASSERT_FALSE(take(a, 1));
    CU_ASSERT(sluice_memory_could_fit(budget, 1000));
    CU_ASSERT_FALSE(sluice_memory_could_fit(budget, 1001));
    sluice_memory_give(a, 1000);
    CU_ASSERT_FALSE(take(a, 1001));
    CU_ASSERT_EQUAL(sluice_memory_stats(budget).refused, 2);
    CU_ASSERT_EQUAL(sluice_memory_stats(budget).peak, 1000);
    sluice_memory_close(a);
    sluice_memory_budget_destroy(budget);
}

TEST(requests_find_room_where_replies_do_not)
{
    struct sluice_memory_budget *budget = create(10000);
    struct sluice_memory_holder *a = open_of(budget, "a", NULL, NULL);
    struct sluice_memory_holder *b = open_of(budget, "a", NULL, NULL);
    const size_t held = take_all(a), held_too = take_all(b);
    CU_ASSERT_FALSE(take(b, 100));
    size_t asked = 0;
    while (sluice_memory_take(b, 100, SLUICE_MEMORY_REQUEST))
        asked += 100;
    CU_ASSERT(asked >= 1000);
    CU_ASSERT(held + held_too + asked < 9000);
    sluice_memory_give(a, held);
    sluice_memory_give(b, held_too + asked);
    sluice_memory_close(a);
    sluice_memory_close(b);
    sluice_memory_budget_destroy(budget);
}

TEST(who_waits_is_called_once_there_is_room)
{
    struct sluice_memory_budget *budget = create(1000);
    struct waiting waiting = {0};
    sem_init(&waiting.called, 0, 0);
    struct sluice_memory_holder *a = open_of(budget, "a", NULL, NULL);
    struct sluice_memory_holder *b = open_of(budget, "b", note, &waiting);
    CU_ASSERT_FALSE(sluice_memory_wait(b, 500)); /* it fits */
    CU_ASSERT(take(a, 900));
    CU_ASSERT_FALSE(take(b, 500));
    CU_ASSERT(sluice_memory_wait(b, 500));
    CU_ASSERT_EQUAL(sluice_memory_stats(budget).num_waiting, 1);
    sluice_memory_give(a, 300); /* not enough */
    sluice_memory_give(a, 200);
    await(&waiting.called);
    CU_ASSERT(take(b, 500));
    /* A wait that is taken back is not answered. */
    CU_ASSERT(sluice_memory_wait(b, 500));
    CU_ASSERT(sluice_memory_forget(b));
    CU_ASSERT_FALSE(sluice_memory_forget(b));
    sluice_memory_give(a, 400);
    sluice_memory_give(b, 500);
    /* The end calls who still waits, and then everything fits. */
    CU_ASSERT(take(a, 1000));
    CU_ASSERT(sluice_memory_wait(b, 1));
    sluice_memory_budget_close(budget);
    CU_ASSERT_EQUAL(atomic_load(&waiting.calls), 2);
    CU_ASSERT_FALSE(sluice_memory_wait(b, 1));
    CU_ASSERT(take(b, 1));
    sluice_memory_give(b, 1);
    sluice_memory_close(b);
    sluice_memory_close(a);
    sluice_memory_give_hook(a, 400);
    sluice_memory_budget_destroy(budget);
    sluice_memory_give_hook(a, 600); /* a buffer that the transport had */
    sem_destroy(&waiting.called);
}

/* Many threads, each a stream of one of three clients, take and give back at random and wait when
 * they must; a checker's sum never passes the budget. */
#define NUM_THREADS 12
#define ROUNDS 3000
#define ALL 100000

struct stream {
    struct sluice_memory_budget *budget;
    struct waiting waiting;
    struct sluice_memory_holder *holder;
    pthread_t thread;
    unsigned index;
    uint64_t seed;
};

static atomic_long sum_taken, most_taken;

static void *stream_main(void *ctx)
{
    struct stream *s = ctx;
    struct sluice_rng rng = sluice_rng_init(s->seed, s->index, 0, 0);
    char name[8];
    snprintf(name, sizeof(name), "%u", s->index % 3);
    sem_init(&s->waiting.called, 0, 0);
    s->holder = open_of(s->budget, name, note, &s->waiting);
    size_t held[8] = {0};
    for (int i = 0; i < ROUNDS; i++) {
        size_t *slot = &held[sluice_rng_below(&rng, 8)];
        atomic_fetch_sub(&sum_taken, (long)*slot); /* before it is given, so never too large */
        sluice_memory_give(s->holder, *slot);
        *slot = 1 + sluice_rng_below(&rng, i % 100 ? 9000 : ALL);
        while (!take(s->holder, *slot)) {
            /* A large piece may wait for this thread's own small ones. */
            for (int k = 0; k < 8; k++) {
                if (&held[k] != slot) {
                    atomic_fetch_sub(&sum_taken, (long)held[k]);
                    sluice_memory_give(s->holder, held[k]);
                    held[k] = 0;
                }
            }
            if (sluice_memory_wait(s->holder, *slot))
                await(&s->waiting.called);
        }
        const long now = atomic_fetch_add(&sum_taken, (long)*slot) + (long)*slot;
        for (long most = atomic_load(&most_taken);
             now > most && !atomic_compare_exchange_weak(&most_taken, &most, now);)
            ;
    }
    for (int k = 0; k < 8; k++) {
        atomic_fetch_sub(&sum_taken, (long)held[k]);
        sluice_memory_give(s->holder, held[k]);
    }
    sluice_memory_close(s->holder);
    sem_destroy(&s->waiting.called);
    return NULL;
}

TEST(threads_never_hold_more_than_the_budget_and_all_get_their_turn)
{
    struct sluice_memory_budget *budget = create(ALL);
    struct stream streams[NUM_THREADS] = {0};
    for (unsigned i = 0; i < NUM_THREADS; i++) {
        streams[i].budget = budget;
        streams[i].index = i;
        streams[i].seed = sluice_test_seed();
        CU_ASSERT_EQUAL_FATAL(pthread_create(&streams[i].thread, NULL, stream_main, &streams[i]),
                              0);
    }
    for (unsigned i = 0; i < NUM_THREADS; i++)
        pthread_join(streams[i].thread, NULL);
    const struct sluice_memory_stats stats = sluice_memory_stats(budget);
    CU_ASSERT_EQUAL(stats.used, 0);
    CU_ASSERT_EQUAL(stats.num_waiting, 0);
    CU_ASSERT(stats.peak <= ALL);
    CU_ASSERT(atomic_load(&most_taken) <= ALL);
    CU_ASSERT(stats.refused > 0); /* else nothing was tested */
    sluice_memory_budget_destroy(budget);
}

/* What the process is said to take. */
static atomic_uint_fast64_t said_resident;
static sem_t was_read;
static atomic_uint trims;

static uint64_t read_resident(void)
{
    sem_post(&was_read);
    return atomic_load(&said_resident);
}

static void trim(void *ctx)
{
    (void)ctx;
    atomic_fetch_add(&trims, 1);
}

TEST(nothing_is_taken_while_the_process_is_too_large)
{
    struct sluice_memory_budget *budget;
    sem_init(&was_read, 0, 0);
    atomic_store(&said_resident, 5001);
    const struct sluice_memory_options options = {
        .bytes = 1000, .most_resident = 5000, .resident = read_resident, .trim = trim};
    REQUIRE_OK(sluice_memory_budget_create(&options, &budget, NULL));
    struct waiting waiting = {0};
    sem_init(&waiting.called, 0, 0);
    struct sluice_memory_holder *a = open_of(budget, "a", note, &waiting);
    CU_ASSERT(take(a, 300));    /* the thread looks from here on */
    for (int i = 0; i < 4; i++) /* the third read comes after the first was heeded */
        await(&was_read);
    CU_ASSERT_FALSE(take(a, 1));
    CU_ASSERT(atomic_load(&trims) > 0);
    CU_ASSERT(sluice_memory_wait(a, 1));
    atomic_store(&said_resident, 1000);
    await(&waiting.called);
    CU_ASSERT(take(a, 1));
    sluice_memory_give(a, 301);
    sluice_memory_close(a);
    sluice_memory_budget_destroy(budget);
    sem_destroy(&waiting.called);
    sem_destroy(&was_read);
}

TEST(a_process_far_beyond_its_size_is_told_after_a_trim)
{
    struct sluice_memory_budget *budget;
    sem_init(&was_read, 0, 0);
    const struct sluice_memory_options options = {
        .bytes = 1000, .most_resident = 5000, .resident = read_resident, .trim = trim};
    REQUIRE_OK(sluice_memory_budget_create(&options, &budget, NULL));
    atomic_store(&trims, 0);
    atomic_store(&said_resident, 5250);
    CU_ASSERT_FALSE(sluice_memory_is_beyond(budget));
    CU_ASSERT_EQUAL(atomic_load(&trims), 0);
    atomic_store(&said_resident, 5251);
    CU_ASSERT(sluice_memory_is_beyond(budget));
    CU_ASSERT_EQUAL(atomic_load(&trims), 1);
    sluice_memory_budget_shift(budget, 1);
    CU_ASSERT_FALSE(sluice_memory_is_beyond(budget));
    sluice_memory_budget_destroy(budget);
    sem_destroy(&was_read);
}

TEST(the_limit_moves_with_what_the_process_itself_holds)
{
    struct sluice_memory_budget *budget;
    sem_init(&was_read, 0, 0);
    atomic_store(&said_resident, 6000);
    const struct sluice_memory_options options = {
        .bytes = 1000, .most_resident = 5000, .resident = read_resident, .trim = trim};
    REQUIRE_OK(sluice_memory_budget_create(&options, &budget, NULL));
    struct waiting waiting = {0};
    sem_init(&waiting.called, 0, 0);
    struct sluice_memory_holder *a = open_of(budget, "a", note, &waiting);
    CU_ASSERT(take(a, 300));
    for (int i = 0; i < 4; i++)
        await(&was_read);
    CU_ASSERT_FALSE(take(a, 1));
    CU_ASSERT(sluice_memory_wait(a, 1));
    sluice_memory_budget_shift(budget, 1000);
    await(&waiting.called);
    CU_ASSERT(take(a, 1));
    sluice_memory_budget_shift(budget, -1000);
    while (sem_trywait(&was_read) == 0)
        continue;
    for (int i = 0; i < 4; i++)
        await(&was_read);
    CU_ASSERT_FALSE(take(a, 1));
    sluice_memory_give(a, 301);
    sluice_memory_close(a);
    sluice_memory_budget_destroy(budget);
    sem_destroy(&waiting.called);
    sem_destroy(&was_read);
}

int main(void)
{
    if (sluice_sessions_create(&sessions, NULL) != SLUICE_OK)
        return 1;
    const int result = sluice_test_main();
    sluice_sessions_destroy(sessions);
    return result;
}
