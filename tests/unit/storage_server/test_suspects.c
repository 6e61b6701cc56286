#include "storage_server/work/suspects.h"

#include "storage_server/tuning.h"
#include "support/test.h"

#define MINUTE_NS UINT64_C(60000000000)

TEST(counts_deaths)
{
    struct sluice_suspects suspects = {0};
    for (unsigned i = 1; i <= SUSPECTS_DEATHS; i++) {
        CU_ASSERT_EQUAL(sluice_suspects_deaths(&suspects, "a.jpg", MINUTE_NS + i), i - 1);
        CU_ASSERT_EQUAL(sluice_suspects_add(&suspects, "a.jpg", MINUTE_NS + i), i);
    }
    CU_ASSERT_EQUAL(sluice_suspects_deaths(&suspects, "a.jpg", MINUTE_NS + 100), SUSPECTS_DEATHS);
    CU_ASSERT_EQUAL(sluice_suspects_deaths(&suspects, "b.jpg", MINUTE_NS + 100), 0);
}

TEST(forgets_after_a_while)
{
    struct sluice_suspects suspects = {0};
    for (unsigned i = 0; i < SUSPECTS_DEATHS; i++)
        (void)sluice_suspects_add(&suspects, "a.jpg", MINUTE_NS);
    const uint64_t later_ns = MINUTE_NS + SUSPECTS_FORGET_NS;
    CU_ASSERT_EQUAL(sluice_suspects_deaths(&suspects, "a.jpg", later_ns - 1), SUSPECTS_DEATHS);
    CU_ASSERT_EQUAL(sluice_suspects_deaths(&suspects, "a.jpg", later_ns), 0);
    CU_ASSERT_EQUAL(sluice_suspects_add(&suspects, "a.jpg", later_ns), 1);
    CU_ASSERT_EQUAL(sluice_suspects_deaths(&suspects, "a.jpg", later_ns), 1);
}

TEST(the_oldest_makes_room)
{
    struct sluice_suspects suspects = {0};
    char path[32];
    for (unsigned i = 0; i < SUSPECTS_DEATHS; i++) {
        (void)sluice_suspects_add(&suspects, "first.jpg", MINUTE_NS);
        (void)sluice_suspects_add(&suspects, "second.jpg", MINUTE_NS + 1);
    }
    for (unsigned i = 0; i < SLUICE_SUSPECTS - 1; i++) {
        CU_ASSERT_EQUAL(sluice_suspects_deaths(&suspects, "second.jpg", MINUTE_NS + 2),
                        SUSPECTS_DEATHS);
        snprintf(path, sizeof(path), "%u.jpg", i);
        CU_ASSERT_EQUAL(sluice_suspects_add(&suspects, path, MINUTE_NS + 2 + i), 1);
    }
    CU_ASSERT_EQUAL(sluice_suspects_deaths(&suspects, "first.jpg", MINUTE_NS + 100), 0);
    CU_ASSERT_EQUAL(sluice_suspects_deaths(&suspects, "second.jpg", MINUTE_NS + 100),
                    SUSPECTS_DEATHS);
}
