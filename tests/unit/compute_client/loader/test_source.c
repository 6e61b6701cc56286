#include "compute_client/loader/source/source.h"

#include "base/buf.h"
#include "support/test.h"

static void count_release(void *owner)
{
    ++*(int *)owner;
}

/* A result whose bytes are "cdefg", in two pieces of a message that `released` counts. */
static struct sluice_source_result make_result(int *released)
{
    struct sluice_message message = {0};
    REQUIRE_OK(sluice_message_append_copy(&message, "abcd", 4, NULL));
    REQUIRE_OK(sluice_message_append_ref(&message, (const uint8_t *)"efgh", 4, count_release,
                                         released, NULL));
    struct sluice_source_result result = {.sample.width = 7};
    REQUIRE_OK(sluice_message_share(&message, &result.message, NULL));
    struct sluice_cursor all = sluice_cursor_init(sluice_shared_message_get(result.message));
    CU_ASSERT_TRUE(sluice_cursor_skip(&all, 2));
    CU_ASSERT_TRUE(sluice_cursor_sub(&all, 5, &result.arrived));
    return result;
}

TEST(gather_brings_the_bytes_together_and_lets_the_message_go)
{
    int released = 0;
    struct sluice_source_result result = make_result(&released);
    CHECK_OK(sluice_source_gather(&result, NULL, NULL));
    CU_ASSERT_PTR_NOT_NULL_FATAL(result.sample.data);
    CU_ASSERT_EQUAL(result.sample.data->len, 5);
    CU_ASSERT_EQUAL(memcmp(result.sample.data->data, "cdefg", 5), 0);
    CU_ASSERT_EQUAL(result.sample.width, 7);
    CU_ASSERT_EQUAL(released, 1);
    struct sluice_buf *data = result.sample.data;
    CHECK_OK(sluice_source_gather(&result, NULL, NULL));
    CU_ASSERT_PTR_EQUAL(result.sample.data, data);
    sluice_source_result_clear(&result);
}

TEST(a_message_stays_for_its_other_samples)
{
    int released = 0;
    struct sluice_source_result result = make_result(&released);
    struct sluice_source_result other = result;
    sluice_shared_message_ref(other.message);
    CHECK_OK(sluice_source_gather(&result, NULL, NULL));
    CU_ASSERT_EQUAL(released, 0);
    CHECK_OK(sluice_source_gather(&other, NULL, NULL));
    CU_ASSERT_EQUAL(released, 1);
    CU_ASSERT_EQUAL(memcmp(other.sample.data->data, "cdefg", 5), 0);
    sluice_source_result_clear(&result);
    sluice_source_result_clear(&other);
}

TEST(clear_lets_go_of_either_and_is_idempotent)
{
    int released = 0;
    struct sluice_source_result result = make_result(&released);
    sluice_source_result_clear(&result);
    CU_ASSERT_EQUAL(released, 1);
    sluice_source_result_clear(&result);
    CU_ASSERT_EQUAL(released, 1);
    struct sluice_source_result none = {0};
    sluice_source_result_clear(&none);
    CHECK_OK(sluice_source_gather(&none, NULL, NULL));
    CU_ASSERT_PTR_NULL(none.sample.data);
}
