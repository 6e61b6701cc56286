#include "base/queue.h"

#include "base/clock.h"
#include "base/rng.h"
#include "support/capture.h"
#include "support/test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static int things[64];

static struct sluice_queue *new_queue(size_t capacity)
{
    struct sluice_queue *queue = NULL;
    CU_ASSERT_EQUAL_FATAL(sluice_queue_create(capacity, &queue, NULL), SLUICE_OK);
    return queue;
}

static void first_in_first_out_around_the_end(void)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    for (size_t capacity = 1; capacity <= 5; capacity++) {
        struct sluice_queue *queue = new_queue(capacity);
        size_t in = 0, out = 0;
        for (int i = 0; i < 2000; i++) {
            if (sluice_rng_below(&rng, 2)) {
                const sluice_status status = sluice_queue_try_push(queue, &things[in % 64]);
                CU_ASSERT_EQUAL(status, in - out < capacity ? SLUICE_OK : SLUICE_E_AGAIN);
                in += status == SLUICE_OK;
            } else {
                void *item = &rng;
                const sluice_status status = sluice_queue_pop(queue, 0, &item);
                CU_ASSERT_EQUAL(status, out < in ? SLUICE_OK : SLUICE_E_AGAIN);
                CU_ASSERT_PTR_EQUAL(item, out < in ? (void *)&things[out % 64] : (void *)&rng);
                out += status == SLUICE_OK;
            }
            CU_ASSERT_EQUAL(sluice_queue_depth(queue), in - out);
        }
        sluice_queue_destroy(queue);
    }
}

static void null_is_an_item_too(void)
{
    struct sluice_queue *queue = new_queue(1);
    void *item = queue;
    CU_ASSERT_EQUAL(sluice_queue_push(queue, NULL), SLUICE_OK);
    CU_ASSERT_EQUAL(sluice_queue_pop(queue, -1, &item), SLUICE_OK);
    CU_ASSERT_PTR_NULL(item);
    sluice_queue_destroy(queue);
}

static void pop_gives_up_after_the_timeout(void)
{
    struct sluice_queue *queue = new_queue(1);
    void *item = queue;
    const uint64_t start_ns = sluice_clock_ns();
    CU_ASSERT_EQUAL(sluice_queue_pop(queue, 20, &item), SLUICE_E_AGAIN);
    const uint64_t waited_ns = sluice_clock_ns() - start_ns;
    CU_ASSERT(waited_ns >= 20000000u);
    CU_ASSERT_PTR_EQUAL(item, queue);
    sluice_queue_destroy(queue);
}

struct side {
    pthread_t thread;
    struct sluice_queue *queue;
    _Atomic pid_t tid;
    int timeout_ms;
    sluice_status status;
    void *item;
    atomic_bool *is_room; /* read when push returns */
    bool saw_room;
};

static void *pop_one(void *arg)
{
    struct side *my = arg;
    atomic_store(&my->tid, gettid());
    my->status = sluice_queue_pop(my->queue, my->timeout_ms, &my->item);
    return NULL;
}

static void *push_one(void *arg)
{
    struct side *my = arg;
    atomic_store(&my->tid, gettid());
    my->status = sluice_queue_push(my->queue, my->item);
    my->saw_room = my->is_room && atomic_load(my->is_room);
    return NULL;
}

static void start_and_wait_blocked(struct side *side, void *(*fn)(void *))
{
    CU_ASSERT_EQUAL_FATAL(pthread_create(&side->thread, NULL, fn, side), 0);
    while (!atomic_load(&side->tid))
        sched_yield();
    sluice_test_wait_blocked(atomic_load(&side->tid));
}

static void pop_waits_for_an_item(void)
{
    static const int timeouts_ms[] = {-1, 60000};
    for (size_t i = 0; i < SLUICE_TEST_COUNT(timeouts_ms); i++) {
        struct sluice_queue *queue = new_queue(1);
        struct side side = {.queue = queue, .timeout_ms = timeouts_ms[i]};
        start_and_wait_blocked(&side, pop_one);
        CU_ASSERT_EQUAL(sluice_queue_push(queue, &things[1]), SLUICE_OK);
        pthread_join(side.thread, NULL);
        CU_ASSERT_EQUAL(side.status, SLUICE_OK);
        CU_ASSERT_PTR_EQUAL(side.item, &things[1]);
        sluice_queue_destroy(queue);
    }
}

static void push_waits_for_room(void)
{
    struct sluice_queue *queue = new_queue(1);
    atomic_bool is_room = false;
    struct side side = {.queue = queue, .item = &things[2], .is_room = &is_room};
    void *item = NULL;
    CU_ASSERT_EQUAL(sluice_queue_push(queue, &things[1]), SLUICE_OK);
    start_and_wait_blocked(&side, push_one);
    atomic_store(&is_room, true);
    CU_ASSERT_EQUAL(sluice_queue_pop(queue, 0, &item), SLUICE_OK);
    CU_ASSERT_PTR_EQUAL(item, &things[1]);
    pthread_join(side.thread, NULL);
    CU_ASSERT_EQUAL(side.status, SLUICE_OK);
    CU_ASSERT_TRUE(side.saw_room);
    CU_ASSERT_EQUAL(sluice_queue_pop(queue, -1, &item), SLUICE_OK);
    CU_ASSERT_PTR_EQUAL(item, &things[2]);
    sluice_queue_destroy(queue);
}

static void a_closed_queue_refuses_but_gives_what_is_inside(void)
{
    struct sluice_queue *queue = new_queue(3);
    void *item = NULL;
    CU_ASSERT_EQUAL(sluice_queue_push(queue, &things[0]), SLUICE_OK);
    CU_ASSERT_EQUAL(sluice_queue_push(queue, &things[1]), SLUICE_OK);
    sluice_queue_close(queue);
    sluice_queue_close(queue);
    CU_ASSERT_EQUAL(sluice_queue_push(queue, &things[2]), SLUICE_E_CLOSED);
    CU_ASSERT_EQUAL(sluice_queue_try_push(queue, &things[2]), SLUICE_E_CLOSED);
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(sluice_queue_pop(queue, -1, &item), SLUICE_OK);
        CU_ASSERT_PTR_EQUAL(item, &things[i]);
    }
    item = queue;
    CU_ASSERT_EQUAL(sluice_queue_pop(queue, -1, &item), SLUICE_E_CLOSED);
    CU_ASSERT_EQUAL(sluice_queue_pop(queue, 0, &item), SLUICE_E_CLOSED);
    CU_ASSERT_PTR_EQUAL(item, queue);
    sluice_queue_destroy(queue);
}

static void close_wakes_everyone_who_waits(void)
{
    enum { NUM_SIDES = 3 };
    for (int pushes = 0; pushes < 2; pushes++) {
        struct sluice_queue *queue = new_queue(1);
        struct side sides[NUM_SIDES];
        if (pushes)
            CU_ASSERT_EQUAL(sluice_queue_push(queue, &things[0]), SLUICE_OK);
        for (int i = 0; i < NUM_SIDES; i++) {
            sides[i] =
                (struct side){.queue = queue, .item = &things[1], .timeout_ms = i ? -1 : 60000};
            start_and_wait_blocked(&sides[i], pushes ? push_one : pop_one);
        }
        sluice_queue_close(queue);
        for (int i = 0; i < NUM_SIDES; i++) {
            pthread_join(sides[i].thread, NULL);
            CU_ASSERT_EQUAL(sides[i].status, SLUICE_E_CLOSED);
        }
        CU_ASSERT_EQUAL(sluice_queue_depth(queue), pushes ? 1 : 0);
        sluice_queue_destroy(queue);
    }
}

enum { NUM_PUSHERS = 3, NUM_POPPERS = 3, NUM_ITEMS = 400 };

struct item {
    int pusher, number;
    atomic_int num_popped;
};

struct crowd {
    struct sluice_queue *queue;
    struct item items[NUM_PUSHERS][NUM_ITEMS];
    bool was_accepted[NUM_PUSHERS][NUM_ITEMS];
    atomic_int next_pusher, num_popped, num_out_of_order;
};

static void *crowd_push(void *arg)
{
    struct crowd *crowd = arg;
    const int me = atomic_fetch_add(&crowd->next_pusher, 1);
    for (int i = 0; i < NUM_ITEMS; i++) {
        struct item *item = &crowd->items[me][i];
        *item = (struct item){.pusher = me, .number = i};
        const sluice_status status = i % 3 ? sluice_queue_push(crowd->queue, item)
                                           : sluice_queue_try_push(crowd->queue, item);
        crowd->was_accepted[me][i] = status == SLUICE_OK;
    }
    return NULL;
}

static void *crowd_pop(void *arg)
{
    struct crowd *crowd = arg;
    int last[NUM_PUSHERS] = {-1, -1, -1};
    for (int i = 0;; i++) {
        void *popped = NULL;
        const sluice_status status = sluice_queue_pop(crowd->queue, i % 4 - 1, &popped);
        if (status == SLUICE_E_CLOSED)
            return NULL;
        if (status != SLUICE_OK)
            continue;
        struct item *item = popped;
        atomic_fetch_add(&item->num_popped, 1);
        atomic_fetch_add(&crowd->num_popped, 1);
        if (item->number <= last[item->pusher])
            atomic_fetch_add(&crowd->num_out_of_order, 1);
        last[item->pusher] = item->number;
    }
}

static void every_accepted_item_comes_out_once_whenever_it_is_closed(void)
{
    static struct crowd crowd;
    for (int round = 0; round < 20; round++) {
        pthread_t pushers[NUM_PUSHERS], poppers[NUM_POPPERS];
        memset(&crowd, 0, sizeof(crowd));
        crowd.queue = new_queue(1 + (size_t)round % 4);
        for (int i = 0; i < NUM_PUSHERS; i++)
            CU_ASSERT_EQUAL_FATAL(pthread_create(&pushers[i], NULL, crowd_push, &crowd), 0);
        for (int i = 0; i < NUM_POPPERS; i++)
            CU_ASSERT_EQUAL_FATAL(pthread_create(&poppers[i], NULL, crowd_pop, &crowd), 0);
        /* At the start, in the middle, and (last round) never before all is pushed. */
        const bool is_last = round == 19;
        while (!is_last && atomic_load(&crowd.num_popped) < round * 25)
            sched_yield();
        if (!is_last)
            sluice_queue_close(crowd.queue);
        for (int i = 0; i < NUM_PUSHERS; i++)
            pthread_join(pushers[i], NULL);
        sluice_queue_close(crowd.queue);
        for (int i = 0; i < NUM_POPPERS; i++)
            pthread_join(poppers[i], NULL);

        CU_ASSERT_EQUAL(sluice_queue_depth(crowd.queue), 0);
        CU_ASSERT_EQUAL(crowd.num_out_of_order, 0);
        for (int i = 0; i < NUM_PUSHERS; i++) {
            for (int k = 0; k < NUM_ITEMS; k++) {
                CU_ASSERT_EQUAL(crowd.items[i][k].num_popped, crowd.was_accepted[i][k] ? 1 : 0);
                CU_ASSERT(!is_last || k % 3 == 0 || crowd.was_accepted[i][k]);
            }
        }
        sluice_queue_destroy(crowd.queue);
    }
}

static void refuses_no_capacity_and_too_much(void)
{
    struct sluice_queue *queue = NULL;
    CU_ASSERT_EQUAL(sluice_queue_create(0, &queue, NULL), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_queue_create(SIZE_MAX, &queue, NULL), SLUICE_E_NO_MEMORY);
    CU_ASSERT_EQUAL(sluice_queue_create(SIZE_MAX / sizeof(void *), &queue, NULL),
                    SLUICE_E_NO_MEMORY);
    CU_ASSERT_PTR_NULL(queue);
    sluice_queue_destroy(NULL);
}

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(first_in_first_out_around_the_end),
        SLUICE_TEST(null_is_an_item_too),
        SLUICE_TEST(pop_gives_up_after_the_timeout),
        SLUICE_TEST(pop_waits_for_an_item),
        SLUICE_TEST(push_waits_for_room),
        SLUICE_TEST(a_closed_queue_refuses_but_gives_what_is_inside),
        SLUICE_TEST(close_wakes_everyone_who_waits),
        SLUICE_TEST(every_accepted_item_comes_out_once_whenever_it_is_closed),
        SLUICE_TEST(refuses_no_capacity_and_too_much),
    };
    return sluice_test_run("queue", tests, SLUICE_TEST_COUNT(tests));
}
