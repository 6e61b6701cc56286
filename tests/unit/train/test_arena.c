#include "train/arena.h"

#include "support/test.h"

#include <stdint.h>
#include <stdlib.h>

#define MAX_ITEMS 40
#define NUM_STEPS 24

static uint64_t state;

/* SplitMix64. */
static unsigned draw(unsigned below)
{
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (unsigned)((z ^ (z >> 31)) % below);
}

static size_t rounded(size_t bytes, size_t alignment)
{
    return (bytes + alignment - 1) / alignment * alignment;
}

/* Byte by byte and step by step, no two items are in one place. */
static int shares_a_byte(const struct sluice_arena_item *items, size_t n, size_t total)
{
    unsigned char *owners = malloc(total ? total : 1);
    int shares = 0;
    for (unsigned step = 0; step < NUM_STEPS; step++) {
        memset(owners, 0, total);
        for (size_t i = 0; i < n; i++) {
            if (step < items[i].first || step > items[i].last)
                continue;
            for (size_t k = 0; k < items[i].bytes; k++)
                shares |= items[i].offset + k >= total || owners[items[i].offset + k]++ > 0;
        }
    }
    free(owners);
    return shares;
}

/* No plan is smaller: the most bytes that are in use at one step. */
static size_t lower_bound(const struct sluice_arena_item *items, size_t n, size_t alignment)
{
    size_t most = 0;
    for (unsigned step = 0; step < NUM_STEPS; step++) {
        size_t sum = 0;
        for (size_t i = 0; i < n; i++) {
            if (step >= items[i].first && step <= items[i].last)
                sum += rounded(items[i].bytes, alignment);
        }
        most = sum > most ? sum : most;
    }
    return most;
}

static size_t draw_items(struct sluice_arena_item *items)
{
    const size_t n = draw(MAX_ITEMS + 1);
    const unsigned most_bytes = 1 + draw(400), longest = 1 + draw(NUM_STEPS);
    for (size_t i = 0; i < n; i++) {
        const unsigned first = draw(NUM_STEPS), last = first + draw(longest);
        items[i] = (struct sluice_arena_item){
            .bytes = draw(8) ? draw(most_bytes) : 0,
            .first = first,
            .last = last < NUM_STEPS ? last : NUM_STEPS - 1,
            .offset = 12345,
            .next = 678,
        };
    }
    return n;
}

TEST(items_that_live_at_once_share_no_byte)
{
    state = sluice_test_seed();
    double worst = 1;
    for (int round = 0; round < 3000; round++) {
        struct sluice_arena_item items[MAX_ITEMS];
        const size_t n = draw_items(items), alignment = (size_t)1 << draw(8);
        const size_t total = sluice_arena_plan(items, n, alignment);
        size_t sum = 0;
        for (size_t i = 0; i < n; i++) {
            sum += rounded(items[i].bytes, alignment);
            CU_ASSERT_EQUAL(items[i].offset % alignment, 0);
            if (!items[i].bytes)
                CU_ASSERT_EQUAL(items[i].offset, 0);
        }
        const size_t least = lower_bound(items, n, alignment);
        CU_ASSERT(!shares_a_byte(items, n, total));
        CU_ASSERT(total <= sum && total >= least);
        if (least && (double)total / (double)least > worst)
            worst = (double)total / (double)least;
    }
    printf("at worst %.3f of the lower bound ", worst);
}

TEST(items_one_after_the_other_share_all)
{
    struct sluice_arena_item items[] = {{.bytes = 100, .first = 0, .last = 0},
                                        {.bytes = 64, .first = 1, .last = 3},
                                        {.bytes = 7, .first = 4, .last = 9}};
    CU_ASSERT_EQUAL(sluice_arena_plan(items, 3, 64), 128);
    for (int i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(items[i].offset, 0);
}

/*     bytes   0         100    160   210  250
 *     step 0  | A       | B    | C   | D  |
 *     step 1  |         | B    | E   | D  |     E has gaps of 100 and 50 bytes */
TEST(an_item_takes_the_smallest_gap_that_holds_it)
{
    struct sluice_arena_item items[] = {{.bytes = 100, .first = 0, .last = 0},
                                        {.bytes = 60, .first = 0, .last = 1},
                                        {.bytes = 50, .first = 0, .last = 0},
                                        {.bytes = 40, .first = 0, .last = 1},
                                        {.bytes = 30, .first = 1, .last = 1}};
    static const size_t wanted[] = {0, 100, 160, 210, 160};
    CU_ASSERT_EQUAL(sluice_arena_plan(items, 5, 1), 250);
    for (int i = 0; i < 5; i++)
        CU_ASSERT_EQUAL(items[i].offset, wanted[i]);
}

TEST(no_items_need_no_bytes)
{
    struct sluice_arena_item item = {.bytes = 0, .first = 3, .last = 5, .offset = 77};
    CU_ASSERT_EQUAL(sluice_arena_plan(NULL, 0, 64), 0);
    CU_ASSERT_EQUAL(sluice_arena_plan(&item, 1, 64), 0);
    CU_ASSERT_EQUAL(item.offset, 0);
}
