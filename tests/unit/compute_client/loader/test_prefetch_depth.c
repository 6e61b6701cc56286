#include "compute_client/loader/batch/prefetch_depth.h"

#include "support/test.h"

#include <math.h>

#define MS UINT64_C(1000000)

/* Batches of `size` every `every_ns`, for `ns`. */
static uint64_t take(struct sluice_prefetch_depth *depth, size_t size, uint64_t from_ns,
                     uint64_t every_ns, uint64_t ns)
{
    uint64_t now = from_ns;
    while (now < from_ns + ns) {
        now += every_ns;
        sluice_prefetch_depth_see(depth, size, now);
    }
    return now;
}

TEST(a_slow_trainer_has_the_least)
{
    struct sluice_prefetch_depth depth = {.least = 768, .most = 3328};
    CU_ASSERT_EQUAL(sluice_prefetch_depth_items(&depth), 768);
    take(&depth, 256, 5 * MS, 128 * MS, 4000 * MS); /* 2,000/s */
    CU_ASSERT_EQUAL(sluice_prefetch_depth_items(&depth), 768);
}

TEST(a_fast_one_has_what_it_takes_in_a_quarter_of_a_second)
{
    struct sluice_prefetch_depth depth = {.least = 96, .most = 100000};
    uint64_t now = take(&depth, 32, 1, 4 * MS, 5000 * MS); /* 8,000/s */
    CU_ASSERT_DOUBLE_EQUAL((double)sluice_prefetch_depth_items(&depth), 2000, 32);
    /* However large the batches are. */
    now = take(&depth, 800, now, 100 * MS, 5000 * MS);
    CU_ASSERT_DOUBLE_EQUAL((double)sluice_prefetch_depth_items(&depth), 2000, 250);
    /* It follows what the trainer does ... */
    now = take(&depth, 32, now, 16 * MS, 5000 * MS);
    CU_ASSERT_DOUBLE_EQUAL((double)sluice_prefetch_depth_items(&depth), 500, 32);
    /* ... and a moment in which nothing could be taken is not held against it. */
    now += 100 * MS;
    sluice_prefetch_depth_see(&depth, 32, now);
    CU_ASSERT(sluice_prefetch_depth_items(&depth) >= 400);
}

TEST(never_more_than_there_is_room_for)
{
    struct sluice_prefetch_depth depth = {.least = 768, .most = 1024};
    take(&depth, 256, 1, 1 * MS, 2000 * MS);
    CU_ASSERT_EQUAL(sluice_prefetch_depth_items(&depth), 1024);
    /* At one instant, too. */
    for (int i = 0; i < 1000; i++)
        sluice_prefetch_depth_see(&depth, 256, 2002 * MS);
    CU_ASSERT_EQUAL(sluice_prefetch_depth_items(&depth), 1024);
    CU_ASSERT(isfinite(depth.per_s));
    /* Much later it is as at first. */
    sluice_prefetch_depth_see(&depth, 256, 3600000 * MS);
    CU_ASSERT_EQUAL(sluice_prefetch_depth_items(&depth), 768);
}
