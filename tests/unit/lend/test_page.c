#include "lend/page.h"

#include "base/clock.h"
#include "support/test.h"

static union {
    struct sluice_lend_page page;
    char bytes[SLUICE_LEND_PAGE_BYTES];
} memory;
static struct sluice_lend_page *const page = &memory.page;

/* Slot `slot` has this priority and the generation that is returned. */
static uint32_t begin(unsigned slot, uint32_t priority)
{
    return sluice_lend_page_assign(page, slot, priority);
}

static void reset(void)
{
    memset(&memory, 0, sizeof(memory));
    sluice_lend_page_init(page);
    sluice_lend_page_set_gate(page, SLUICE_LEND_OPEN);
}

static sluice_status take(unsigned slot, uint32_t generation)
{
    return sluice_lend_page_take(page, slot, generation, sluice_clock_ns());
}

static uint64_t num_waits(void)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < SLUICE_LEND_WAIT_BUCKETS; i++)
        sum += page->waits[i];
    return sum;
}

TEST(take_sets_the_bit_and_give_clears_it)
{
    reset();
    const uint32_t generation = begin(5, 0);
    CHECK_OK(take(5, generation));
    CU_ASSERT_EQUAL(page->mask, 1u << 5);
    CU_ASSERT_EQUAL(num_waits(), 1);
    CU_ASSERT(sluice_lend_page_lent_ns(page, sluice_clock_ns() + 1) > 0);
    CU_ASSERT(sluice_lend_page_give(page, 5, generation));
    CU_ASSERT_EQUAL(page->mask, 0);
    CHECK_OK(take(5, generation + 1));
    CU_ASSERT(sluice_lend_page_give(page, 5, generation + 1));
}

TEST(waits_are_counted_and_summed)
{
    reset();
    const uint32_t generation = begin(5, 0);
    const uint64_t wait_ns = 3000000;
    CHECK_OK(sluice_lend_page_take(page, 5, generation, sluice_clock_ns() - wait_ns));
    CU_ASSERT_EQUAL(num_waits(), 1);
    CU_ASSERT(page->waited_ns >= wait_ns);
    CU_ASSERT(sluice_lend_page_give(page, 5, generation));
}

TEST(a_late_give_changes_nothing)
{
    reset();
    const uint32_t generation = begin(1, 0);
    CHECK_OK(take(1, generation));
    CU_ASSERT(sluice_lend_page_take_back(page, 1, sluice_lend_page_request(page, 1)));
    CHECK_OK(take(1, generation + 1)); /* the next request */
    CU_ASSERT_FALSE(sluice_lend_page_give(page, 1, generation));
    CU_ASSERT_EQUAL(page->mask, 2);
    CU_ASSERT(sluice_lend_page_give(page, 1, generation + 1));
    CU_ASSERT_FALSE(sluice_lend_page_give(page, 1, generation + 1));
}
