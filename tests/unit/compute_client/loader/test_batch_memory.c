#include "compute_client/loader/batch/batch_memory.h"

#include "support/test.h"

#define BYTES 1000

struct made {
    unsigned num_made, num_freed, fails_at;
};

static sluice_status make(void *ctx, size_t bytes, void **memory, struct sluice_err *err)
{
    struct made *made = ctx;
    CU_ASSERT_EQUAL(bytes, BYTES);
    if (made->fails_at && made->num_made + 1 == made->fails_at)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "none for you");
    *memory = malloc(bytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(*memory);
    made->num_made++;
    return SLUICE_OK;
}

static void unmake(void *ctx, void *memory, size_t bytes)
{
    CU_ASSERT_EQUAL(bytes, BYTES);
    struct made *made = ctx;
    (void)bytes;
    made->num_freed++;
    free(memory);
}

static sluice_status open_memory(struct made *made, struct sluice_batch_memory *memory,
                                 struct sluice_err *err)
{
    const struct sluice_batch_memory_options options = {
        .count = 3,
        .bytes = BYTES,
        .bytes_ahead = 2 * BYTES + 1,
        .alloc = make,
        .free = unmake,
        .ctx = made,
    };
    return sluice_batch_memory_init(memory, &options, err);
}

TEST(what_was_given_back_last_is_taken_first)
{
    struct made made = {0};
    struct sluice_batch_memory memory;
    REQUIRE_OK(open_memory(&made, &memory, NULL));
    CU_ASSERT_EQUAL(made.num_made, 3);
    void *a = sluice_batch_memory_take(&memory);
    void *b = sluice_batch_memory_take(&memory);
    void *c = sluice_batch_memory_take(&memory);
    CU_ASSERT(a != b && b != c && a != c);
    sluice_batch_memory_give(&memory, b);
    CU_ASSERT_PTR_EQUAL(sluice_batch_memory_take(&memory), b);
    sluice_batch_memory_give(&memory, c);
    sluice_batch_memory_give(&memory, a);
    CU_ASSERT_PTR_EQUAL(sluice_batch_memory_take(&memory), a);
    CU_ASSERT_PTR_EQUAL(sluice_batch_memory_take(&memory), c);
    sluice_batch_memory_give(&memory, a);
    sluice_batch_memory_give(&memory, b);
    sluice_batch_memory_give(&memory, c);
    sluice_batch_memory_clear(&memory);
    CU_ASSERT_EQUAL(made.num_freed, 3);
    sluice_batch_memory_clear(&memory);
    CU_ASSERT_EQUAL(made.num_freed, 3);
}

TEST(a_lent_block_is_replaced_and_few_stay_when_it_returns)
{
    struct made made = {0};
    struct sluice_batch_memory memory;
    REQUIRE_OK(open_memory(&made, &memory, NULL));
    void *lent[4];
    for (int i = 0; i < 4; i++) {
        lent[i] = sluice_batch_memory_take(&memory);
        CU_ASSERT_FALSE(sluice_batch_memory_lend(&memory)); /* three must be left */
        void *more = NULL;
        REQUIRE_OK(make(&made, BYTES, &more, NULL));
        REQUIRE_OK(sluice_batch_memory_add(&memory, more, NULL));
        CU_ASSERT_TRUE(sluice_batch_memory_lend(&memory));
    }
    CU_ASSERT_EQUAL(memory.num_blocks, 7);
    CU_ASSERT_EQUAL(memory.num_free, 3);
    CU_ASSERT_TRUE(sluice_batch_memory_return(&memory, lent[0]));
    CU_ASSERT_TRUE(sluice_batch_memory_return(&memory, lent[2]));
    CU_ASSERT_FALSE(sluice_batch_memory_return(&memory, lent[1]));
    unmake(&made, lent[1], BYTES);
    CU_ASSERT_EQUAL(memory.num_free, 5);
    /* The spare blocks are lent before another is needed. */
    void *a = sluice_batch_memory_take(&memory), *b = sluice_batch_memory_take(&memory);
    CU_ASSERT_PTR_EQUAL(a, lent[2]);
    CU_ASSERT_TRUE(sluice_batch_memory_lend(&memory));
    CU_ASSERT_TRUE(sluice_batch_memory_lend(&memory));
    CU_ASSERT_FALSE(sluice_batch_memory_lend(&memory));
    sluice_batch_memory_clear(&memory); /* the others stay with whoever has them */
    CU_ASSERT_EQUAL(made.num_freed, 1 + 3);
    unmake(&made, a, BYTES);
    unmake(&made, b, BYTES);
    unmake(&made, lent[3], BYTES);
    CU_ASSERT_EQUAL(made.num_freed, made.num_made);
}

TEST(a_failure_leaves_nothing)
{
    for (unsigned at = 1; at <= 3; at++) {
        struct made made = {.fails_at = at};
        struct sluice_batch_memory memory;
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(open_memory(&made, &memory, &err), SLUICE_E_NO_MEMORY);
        CU_ASSERT_STRING_EQUAL(err.text, "none for you");
        CU_ASSERT_EQUAL(made.num_freed, at - 1);
        sluice_batch_memory_clear(&memory);
        CU_ASSERT_EQUAL(made.num_freed, at - 1);
    }
}
