#include "compute_client/loader/source/again_log.h"

#include "support/test.h"

#define S 1000000000ull

TEST(one_line_in_five_seconds_tells_the_first_failure)
{
    struct sluice_again_log again = {0}, line = {0};
    CU_ASSERT_EQUAL(sluice_again_due_ns(&again), 0);
    CU_ASSERT_FALSE(sluice_again_take(&again, 1, 100 * S, &line));
    sluice_again_note(&again, SLUICE_E_IO, "first");
    sluice_again_note(&again, SLUICE_E_STALE, "second");
    CU_ASSERT_TRUE(sluice_again_take(&again, 1, 100 * S, &line));
    CU_ASSERT_EQUAL(line.status, SLUICE_E_IO);
    CU_ASSERT_STRING_EQUAL(line.text, "first");
    CU_ASSERT_FALSE(sluice_again_take(&again, 1, 200 * S, &line));
    again.told_ns = 100 * S;
    sluice_again_note(&again, SLUICE_E_STALE, "third");
    CU_ASSERT_EQUAL(sluice_again_due_ns(&again), 105 * S);
    CU_ASSERT_FALSE(sluice_again_take(&again, 1, 105 * S - 1, &line));
    CU_ASSERT_TRUE(sluice_again_take(&again, 1, 105 * S, &line));
    CU_ASSERT_STRING_EQUAL(line.text, "third");
}

TEST(a_failure_that_is_over_is_not_told)
{
    struct sluice_again_log again = {0}, line = {0};
    sluice_again_note(&again, SLUICE_E_IO, "over");
    CU_ASSERT_FALSE(sluice_again_take(&again, 0, 100 * S, &line));
    CU_ASSERT_EQUAL(sluice_again_due_ns(&again), 0);
    sluice_again_note(&again, SLUICE_E_IO, "lasts");
    CU_ASSERT_TRUE(sluice_again_take(&again, 2, 101 * S, &line)); /* no line was used up */
    CU_ASSERT_STRING_EQUAL(line.text, "lasts");
}
