#include "base/cond.h"

#include "base/clock.h"
#include "support/test.h"

struct door {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_open;
    uint64_t until_ns;
};

static void door_init(struct door *door, uint64_t until_ns)
{
    *door = (struct door){.until_ns = until_ns};
    pthread_mutex_init(&door->lock, NULL);
    sluice_cond_init(&door->changed);
}

static void door_destroy(struct door *door)
{
    pthread_cond_destroy(&door->changed);
    pthread_mutex_destroy(&door->lock);
}

/* Whether it was opened in time. */
static bool wait_open(struct door *door)
{
    bool has_time = true;
    pthread_mutex_lock(&door->lock);
    while (has_time && !door->is_open)
        has_time = sluice_cond_wait_until(&door->changed, &door->lock, door->until_ns);
    const bool is_open = door->is_open;
    pthread_mutex_unlock(&door->lock);
    return is_open;
}

TEST(waits_until_the_deadline_and_not_less)
{
    struct door door;
    door_init(&door, sluice_clock_ns() + 2000000u);
    CU_ASSERT_FALSE(wait_open(&door));
    CU_ASSERT(sluice_clock_ns() >= door.until_ns);
    CU_ASSERT_FALSE(wait_open(&door)); /* it is past */
    door.until_ns = 0;
    CU_ASSERT_FALSE(wait_open(&door));
    door_destroy(&door);
}

static void *open_door(void *arg)
{
    struct door *door = arg;
    pthread_mutex_lock(&door->lock);
    door->is_open = true;
    pthread_cond_broadcast(&door->changed);
    pthread_mutex_unlock(&door->lock);
    return NULL;
}

TEST(a_change_ends_it_before_a_deadline_or_without_one)
{
    const uint64_t far_ns = sluice_clock_ns() + 3600 * UINT64_C(1000000000);
    const uint64_t until_ns[] = {far_ns, UINT64_MAX};
    for (int i = 0; i < 2; i++) {
        struct door door;
        door_init(&door, until_ns[i]);
        pthread_t thread;
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, open_door, &door), 0);
        CU_ASSERT(wait_open(&door));
        pthread_join(thread, NULL);
        CU_ASSERT(sluice_clock_ns() < far_ns);
        door_destroy(&door);
    }
}
