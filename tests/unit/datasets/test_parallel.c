#include "datasets/manifest/parallel.h"

#include "base/log.h"
#include "support/test.h"

#include <stdatomic.h>

#define N 1000

static _Atomic unsigned calls[N];

static sluice_status count(void *ctx, size_t i, struct sluice_err *err)
{
    const size_t *bad = ctx;
    atomic_fetch_add(&calls[i], 1);
    if (bad && i == *bad)
        return sluice_fail(err, SLUICE_E_CORRUPT, "item %zu is bad", i);
    return SLUICE_OK;
}

TEST(every_item_is_worked_once)
{
    for (unsigned threads = 0; threads < 5; threads++) {
        memset(calls, 0, sizeof(calls));
        struct sluice_err err = {0};
        CHECK_OK(sluice_parallel_for(N, threads, "testing", count, NULL, &err));
        for (size_t i = 0; i < N; i++)
            CU_ASSERT_EQUAL(calls[i], 1);
    }
    struct sluice_err err = {0};
    CHECK_OK(sluice_parallel_for(0, 4, "testing", count, NULL, &err));
}

TEST(the_first_failure_is_returned_and_ends_it)
{
    size_t bad = 10;
    memset(calls, 0, sizeof(calls));
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_parallel_for(N, 1, "testing", count, &bad, &err), SLUICE_E_CORRUPT);
    CU_ASSERT_STRING_EQUAL(err.text, "item 10 is bad");
    CU_ASSERT_EQUAL(calls[10], 1);
    CU_ASSERT_EQUAL(calls[11], 0);
}

int main(void)
{
    sluice_log_set_level(SLUICE_LOG_WARN);
    return sluice_test_main();
}
