#include "lend/page.h"

#include "base/clock.h"
#include "support/test.h"

#include <pthread.h>
#include <sched.h>

static union {
    struct sluice_lend_page page;
    char bytes[SLUICE_LEND_PAGE_BYTES];
} memory;
static struct sluice_lend_page *const page = &memory.page;

/* States, as page.c writes them. */
enum { IDLE, WAITS, HAS };

static uint32_t state_of(uint32_t generation, uint32_t state)
{
    return generation << 2 | state;
}

/* An open page. */
static void reset(void)
{
    memset(&memory, 0, sizeof(memory));
    sluice_lend_page_init(page);
    sluice_lend_page_admit(page, SLUICE_LEND_OPEN);
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
    for (unsigned slot = 0; slot < SLUICE_LEND_SLOTS; slot++) {
        const uint32_t generation = sluice_lend_page_assign(page, slot, 0);
        CHECK_OK(take(slot, generation));
        CU_ASSERT_EQUAL(page->mask, 1u << slot);
        CU_ASSERT_EQUAL(num_waits(), 2 * slot + 1);
        CU_ASSERT(sluice_lend_page_give(page, slot, generation));
        CU_ASSERT_EQUAL(page->mask, 0);
        CHECK_OK(take(slot, generation + 1));
        CU_ASSERT(sluice_lend_page_give(page, slot, generation + 1));
    }
}

TEST(waits_are_counted_and_summed)
{
    reset();
    const uint32_t generation = sluice_lend_page_assign(page, 5, 0);
    const uint64_t wait_ns = 3000000;
    CHECK_OK(sluice_lend_page_take(page, 5, generation, sluice_clock_ns() - wait_ns));
    CU_ASSERT_EQUAL(num_waits(), 1);
    CU_ASSERT(page->waited_ns >= wait_ns);
    CU_ASSERT(sluice_lend_page_give(page, 5, generation));
}

TEST(a_late_give_changes_nothing)
{
    reset();
    const uint32_t generation = sluice_lend_page_assign(page, 1, 0);
    CHECK_OK(take(1, generation));
    const uint32_t request = sluice_lend_page_request(page, 1);
    CU_ASSERT(sluice_lend_page_take_back(page, 1, request));
    CU_ASSERT_FALSE(sluice_lend_page_take_back(page, 1, request));
    CU_ASSERT_EQUAL(page->mask, 0);
    CHECK_OK(take(1, generation + 1)); /* the next request */
    CU_ASSERT_FALSE(sluice_lend_page_give(page, 1, generation));
    CU_ASSERT_EQUAL(page->mask, 2);
    CU_ASSERT(sluice_lend_page_give(page, 1, generation + 1));
    CU_ASSERT_FALSE(sluice_lend_page_give(page, 1, generation + 1));
}

TEST(a_borrower_whose_slot_went_to_another_cannot_take)
{
    reset();
    const uint32_t first = sluice_lend_page_assign(page, 3, 0);
    const uint32_t second = sluice_lend_page_assign(page, 3, 0);
    CU_ASSERT_EQUAL(take(3, first), SLUICE_E_CLOSED);
    CU_ASSERT_EQUAL(page->mask, 0);
    CHECK_OK(take(3, second));
    CU_ASSERT_FALSE(sluice_lend_page_give(page, 3, first));
}

TEST(generations_wrap_around)
{
    reset();
    page->slots[0].state = state_of((UINT32_MAX >> 2) - 1, IDLE);
    CU_ASSERT_EQUAL(sluice_lend_page_assign(page, 0, 0), UINT32_MAX >> 2);
    CHECK_OK(take(0, UINT32_MAX >> 2));
    CU_ASSERT(sluice_lend_page_give(page, 0, UINT32_MAX >> 2));
    CHECK_OK(take(0, 0));
    CU_ASSERT(sluice_lend_page_request(page, 0) != 0);
    CU_ASSERT(sluice_lend_page_give(page, 0, 0));
}

/* What a process leaves behind that ends before the n-th write of a take and a give. */
static void leave_behind(unsigned slot, uint32_t generation, unsigned n)
{
    struct sluice_lend_slot *s = &page->slots[slot];
    if (n > 0)
        s->state = state_of(generation, WAITS);
    if (n > 1)
        s->state = state_of(generation, HAS);
    if (n > 2 && page->mask == 0)
        page->lent_since_ns = sluice_clock_ns();
    if (n > 3)
        page->mask |= 1u << slot;
    if (n > 4)
        s->state = state_of(generation + 1, IDLE);
    if (n > 5)
        page->mask &= ~(1u << slot);
}

TEST(whatever_a_dead_borrower_leaves_is_cleared_when_it_hangs_up)
{
    for (unsigned n = 0; n <= 6; n++) {
        reset();
        const uint32_t generation = sluice_lend_page_assign(page, 4, 9);
        leave_behind(4, generation, n);
        CU_ASSERT_EQUAL(sluice_lend_page_release(page, 4), n >= 2 && n <= 4);
        CU_ASSERT_EQUAL(page->mask, 0);
        /* It holds up no other, and its slot can be given away. */
        CHECK_OK(take(5, sluice_lend_page_assign(page, 5, 0)));
        CHECK_OK(take(4, sluice_lend_page_assign(page, 4, 0)));
    }
}

TEST(whatever_a_stopped_borrower_leaves_is_cleared_within_two_ticks_of_its_limit)
{
    for (unsigned n = 0; n <= 6; n++) {
        reset();
        const uint32_t generation = sluice_lend_page_assign(page, 4, 9);
        leave_behind(4, generation, n);
        const uint32_t request = sluice_lend_page_request(page, 4);
        if (request)
            CU_ASSERT(sluice_lend_page_take_back(page, 4, request));
        const uint32_t suspects = sluice_lend_page_reconcile(page, 0);
        CU_ASSERT_EQUAL(suspects, n == 5 ? 1u << 4 : 0);
        CU_ASSERT_EQUAL(sluice_lend_page_reconcile(page, suspects), 0);
        CU_ASSERT_EQUAL(page->mask, 0);
        CHECK_OK(take(5, sluice_lend_page_assign(page, 5, 0)));
        /* When it goes on, the rest of its writes delays the owner by two ticks at most. */
        page->mask |= 1u << 4;
        CU_ASSERT_EQUAL(sluice_lend_page_reconcile(page, sluice_lend_page_reconcile(page, 0)), 0);
        CU_ASSERT_EQUAL(page->mask, 1u << 5);
    }
}

TEST(reconcile_leaves_the_bits_of_requests)
{
    reset();
    for (unsigned slot = 0; slot < 3; slot++)
        CHECK_OK(take(slot, sluice_lend_page_assign(page, slot, 0)));
    page->mask |= 1u << 20 | 1u << 31; /* of slots that nobody has */
    const uint32_t suspects = sluice_lend_page_reconcile(page, UINT32_MAX >> 1);
    CU_ASSERT_EQUAL(suspects, 1u << 31); /* the first time */
    CU_ASSERT_EQUAL(page->mask, 7u | 1u << 31);
    CU_ASSERT_EQUAL(sluice_lend_page_reconcile(page, suspects), 0);
    CU_ASSERT_EQUAL(page->mask, 7);
}

/* Done once when page.c reads the clock, which it does between two looks at the page. */
static _Thread_local void (*meanwhile)(void);

uint64_t __real_sluice_clock_ns(void);
uint64_t __wrap_sluice_clock_ns(void);
uint64_t __wrap_sluice_clock_ns(void)
{
    void (*once)(void) = meanwhile;
    meanwhile = NULL;
    if (once)
        once();
    return __real_sluice_clock_ns();
}

static void take_slot_0(void)
{
    CHECK_OK(sluice_lend_page_take(page, 0, page->slots[0].state >> 2, 0));
}

TEST(a_request_that_begins_while_its_bit_is_cleared_has_it_again)
{
    reset();
    sluice_lend_page_assign(page, 0, 0);
    page->mask = 1; /* left behind */
    meanwhile = take_slot_0;
    sluice_lend_page_reconcile(page, 1);
    CU_ASSERT_PTR_NULL(meanwhile);
    CU_ASSERT(sluice_lend_page_request(page, 0) != 0);
    CU_ASSERT_EQUAL(page->mask, 1);
}

static void end_page(void)
{
    sluice_lend_page_end(page);
}

TEST(a_request_that_begins_while_the_owner_ends_is_over)
{
    reset();
    const uint32_t generation = sluice_lend_page_assign(page, 0, 0);
    meanwhile = end_page;
    CU_ASSERT_EQUAL(sluice_lend_page_take(page, 0, generation, 0), SLUICE_E_CLOSED);
    CU_ASSERT_PTR_NULL(meanwhile);
    CU_ASSERT_EQUAL(page->mask, 0);
    CU_ASSERT_EQUAL(sluice_lend_page_request(page, 0), 0);
    CU_ASSERT_EQUAL(num_waits(), 0);
}

TEST(a_shut_admission_lets_nobody_in)
{
    reset();
    const uint32_t generation = sluice_lend_page_assign(page, 0, 0);
    sluice_lend_page_admit(page, SLUICE_LEND_SHUT);
    CU_ASSERT_EQUAL(take(0, generation), SLUICE_E_AGAIN);
    CU_ASSERT_EQUAL(page->slots[0].state, state_of(generation, WAITS));
    CU_ASSERT_EQUAL(page->mask, 0);
    sluice_lend_page_leave(page, 0, generation);
    CU_ASSERT_EQUAL(page->slots[0].state, state_of(generation, IDLE));
    CU_ASSERT_EQUAL(num_waits(), 0);
    sluice_lend_page_admit(page, SLUICE_LEND_OPEN);
    CHECK_OK(take(0, generation));
    sluice_lend_page_leave(page, 0, generation); /* it has it: nothing */
    CU_ASSERT(sluice_lend_page_give(page, 0, generation));
}

TEST(end_ends_requests_and_lets_nobody_in)
{
    reset();
    const uint32_t has = sluice_lend_page_assign(page, 0, 0);
    const uint32_t other = sluice_lend_page_assign(page, 1, 0);
    CHECK_OK(take(0, has));
    page->mask |= 8;
    sluice_lend_page_end(page);
    CU_ASSERT_EQUAL(page->mask, 0);
    CU_ASSERT_FALSE(sluice_lend_page_give(page, 0, has));
    CU_ASSERT_EQUAL(take(1, other), SLUICE_E_CLOSED);
    CU_ASSERT_EQUAL(take(0, has + 1), SLUICE_E_CLOSED);
    CU_ASSERT_EQUAL(page->mask, 0);
    page->mask |= 2; /* somebody was between two writes */
    sluice_lend_page_end(page);
    CU_ASSERT_EQUAL(page->mask, 0);
}

TEST(a_lower_priority_waits_for_who_has_it_or_looks_for_it)
{
    reset();
    const uint32_t low = sluice_lend_page_assign(page, 0, 1);
    const uint32_t high = sluice_lend_page_assign(page, 1, 2);
    CHECK_OK(take(1, high));
    CU_ASSERT_EQUAL(take(0, low), SLUICE_E_AGAIN);
    CU_ASSERT(sluice_lend_page_give(page, 1, high));
    sluice_lend_page_admit(page, SLUICE_LEND_SHUT);
    CU_ASSERT_EQUAL(take(1, high + 1), SLUICE_E_AGAIN);
    sluice_lend_page_admit(page, SLUICE_LEND_OPEN);
    CU_ASSERT_EQUAL(take(0, low), SLUICE_E_AGAIN);
    /* It is stopped. */
    page->slots[1].looked_ns -= 4 * SLUICE_LEND_LOOK_NS;
    CHECK_OK(take(0, low));
    /* It goes on, and shares the GPU. */
    CHECK_OK(take(1, high + 1));
    CU_ASSERT_EQUAL(page->mask, 3);
}

TEST(lent_time_is_that_of_one_borrower_or_several)
{
    reset();
    const uint32_t a = sluice_lend_page_assign(page, 0, 0), b = sluice_lend_page_assign(page, 1, 0);
    CU_ASSERT_EQUAL(sluice_lend_page_lent_ns(page, sluice_clock_ns()), 0);
    CHECK_OK(take(0, a));
    const uint64_t since = page->lent_since_ns;
    CU_ASSERT_EQUAL(sluice_lend_page_lent_ns(page, since + 1000), 1000);
    CHECK_OK(take(1, b));
    CU_ASSERT_EQUAL(sluice_lend_page_lent_ns(page, since + 1000), 1000);
    CU_ASSERT(sluice_lend_page_give(page, 0, a));
    CU_ASSERT_EQUAL(page->lent_ns, 0);
    page->lent_since_ns = sluice_clock_ns() - 5000000;
    CU_ASSERT(sluice_lend_page_give(page, 1, b));
    CU_ASSERT(page->lent_ns >= 5000000);
    CU_ASSERT_EQUAL(sluice_lend_page_lent_ns(page, UINT64_MAX), page->lent_ns);
    /* A time in the future, from a borrower that writes nonsense. */
    page->mask = 1;
    page->lent_since_ns = UINT64_MAX;
    CU_ASSERT_EQUAL(sluice_lend_page_lent_ns(page, 1000), page->lent_ns);
}

static void *take_and_give(void *arg)
{
    const unsigned slot = *(const unsigned *)arg;
    bool is_right = true;
    for (int i = 0; i < 100000; i++) {
        const uint32_t generation = page->slots[slot].state >> 2;
        is_right &= take(slot, generation) == SLUICE_OK;
        is_right &= sluice_lend_page_give(page, slot, generation);
    }
    CU_ASSERT(is_right);
    return NULL;
}

TEST(no_time_is_counted_twice_while_borrowers_come_and_go)
{
    reset();
    const uint64_t begin = sluice_clock_ns();
    pthread_t threads[3];
    unsigned slots[SLUICE_ARRAY_LEN(threads)];
    for (unsigned i = 0; i < SLUICE_ARRAY_LEN(threads); i++) {
        slots[i] = i;
        sluice_lend_page_assign(page, i, 0);
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, take_and_give, &slots[i]), 0);
    }
    for (unsigned i = 0; i < SLUICE_ARRAY_LEN(threads); i++)
        pthread_join(threads[i], NULL);
    CU_ASSERT_EQUAL(page->mask, 0);
    CU_ASSERT(page->lent_ns > 0 && page->lent_ns <= sluice_clock_ns() - begin);
}

TEST(waits_are_counted_by_powers_of_two)
{
    const struct {
        uint64_t us;
        unsigned bucket;
    } cases[] = {{0, 0}, {3, 2}, {1000, 10}, {5000000, 23}, {500000000, 23}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        reset();
        const uint32_t generation = sluice_lend_page_assign(page, 0, 0);
        /* Time goes on until it is counted: the bucket can be a later one. */
        CHECK_OK(
            sluice_lend_page_take(page, 0, generation, sluice_clock_ns() - cases[i].us * 1000));
        uint64_t before = 0;
        for (unsigned k = 0; k < cases[i].bucket; k++)
            before += page->waits[k];
        CU_ASSERT_EQUAL(before, 0);
        CU_ASSERT_EQUAL(num_waits(), 1);
    }
    CU_ASSERT_EQUAL(page->waits[23], 1);
}

TEST(a_page_of_nonsense_is_dealt_with)
{
    uint64_t seed = sluice_test_seed();
    for (int round = 0; round < 200; round++) {
        for (size_t i = 0; i < sizeof(memory.bytes); i++) {
            seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            memory.bytes[i] = (char)(seed >> 56);
        }
        for (unsigned slot = 0; slot < SLUICE_LEND_SLOTS; slot++) {
            const uint32_t request = sluice_lend_page_request(page, slot);
            if (request)
                sluice_lend_page_take_back(page, slot, request);
            if (slot % 2)
                sluice_lend_page_release(page, slot);
        }
        sluice_lend_page_reconcile(page, sluice_lend_page_reconcile(page, 0));
        CU_ASSERT_EQUAL(page->mask, 0);
        page->admission = SLUICE_LEND_OPEN;
        CHECK_OK(take(0, sluice_lend_page_assign(page, 0, UINT32_MAX)));
        CU_ASSERT_EQUAL(page->mask, 1);
        sluice_lend_page_lent_ns(page, sluice_clock_ns());
        sluice_lend_page_end(page);
        CU_ASSERT_EQUAL(page->mask, 0);
    }
}

static void *wait_for_change(void *arg)
{
    _Atomic int *is_waiting = arg;
    const uint32_t seen = page->changes;
    *is_waiting = 1;
    while (page->changes == seen)
        sluice_lend_page_wait(page, seen, UINT64_MAX);
    return NULL;
}

TEST(a_wait_ends_with_a_change_and_at_its_time)
{
    reset();
    sluice_lend_page_wait(page, page->changes, 0);
    sluice_lend_page_wait(page, page->changes - 1, UINT64_MAX); /* it has changed since */
    _Atomic int is_waiting = 0;
    pthread_t thread;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, wait_for_change, &is_waiting), 0);
    while (!is_waiting)
        sched_yield();
    const uint32_t generation = sluice_lend_page_assign(page, 0, 0);
    CHECK_OK(take(0, generation));
    CU_ASSERT(sluice_lend_page_give(page, 0, generation));
    pthread_join(thread, NULL);
    CU_ASSERT_EQUAL(page->num_waiting, 0);
}
