#include "lend/credit.h"

#include "support/test.h"

/* Times in ms; the clock stands at 5 s at first. */
enum { MS = 1000000 };
static const uint64_t start = UINT64_C(5000) * MS;

static struct sluice_lend_credit credit;

static void begin(enum sluice_lend_when when, double share)
{
    sluice_lend_credit_init(&credit, when, share, start);
}

static bool at(uint64_t now_ms, uint64_t lent_ms, uint64_t waited_ms)
{
    return sluice_lend_credit_update(&credit, start + now_ms * MS, lent_ms * MS, waited_ms * MS);
}

TEST(always_lends_whatever_was_lent)
{
    begin(SLUICE_LEND_ALWAYS, 0);
    CU_ASSERT(at(0, 0, 0));
    CU_ASSERT(at(10, 100000, 0));
}

TEST(share_lends_its_part_of_the_time)
{
    begin(SLUICE_LEND_SHARE, 0.25);
    CU_ASSERT(at(0, 0, 0)); /* 100 ms at the start */
    CU_ASSERT(at(0, 99, 0));
    CU_ASSERT_FALSE(at(0, 100, 0));
    CU_ASSERT(at(4, 100, 0));
    CU_ASSERT_FALSE(at(4, 400, 0)); /* a long request leaves -299 ms */
    CU_ASSERT_FALSE(at(1200, 400, 0));
    CU_ASSERT(at(1204, 400, 0));
    CU_ASSERT_FALSE(at(1204, 401, 1000)); /* waits for data earn nothing */
}

TEST(share_is_kept_over_many_requests)
{
    begin(SLUICE_LEND_SHARE, 0.3);
    uint64_t lent = 0;
    for (uint64_t now = 0; now < 100000; now += 10)
        if (at(now, lent, 0))
            lent += 7;
    CU_ASSERT(lent > 30000 && lent <= 30100 + 7);
}

TEST(idle_lends_what_the_owner_waited_and_no_more)
{
    begin(SLUICE_LEND_IDLE, 0);
    CU_ASSERT_FALSE(at(0, 0, 0));
    CU_ASSERT_FALSE(at(5000, 0, 0));
    CU_ASSERT(at(5010, 0, 10));
    CU_ASSERT(at(5020, 9, 10));
    CU_ASSERT_FALSE(at(5030, 10, 10));
    CU_ASSERT_FALSE(at(5040, 60, 10));
    CU_ASSERT_FALSE(at(5050, 60, 60));
    CU_ASSERT(at(5060, 60, 61));
}

TEST(no_more_than_a_second_is_saved_up)
{
    begin(SLUICE_LEND_IDLE, 0);
    CU_ASSERT(at(60000, 0, 60000));
    CU_ASSERT(at(60000, 999, 60000));
    CU_ASSERT_FALSE(at(60000, 1000, 60000));
    begin(SLUICE_LEND_SHARE, 0.9);
    CU_ASSERT(at(60000, 0, 0));
    CU_ASSERT_FALSE(at(60000, 1000, 0));
}
