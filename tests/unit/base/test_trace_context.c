#include "base/trace_context.h"

#include "support/test.h"

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN "00f067aa0ba902b7"

TEST(reads_a_traceparent)
{
    struct sluice_trace_context context = {{0}, 0};
    CU_ASSERT_FATAL(sluice_traceparent_parse("00-" TRACE "-" SPAN "-01", &context));
    CU_ASSERT_EQUAL(context.trace[0], 0x4bf92f3577b34da6);
    CU_ASSERT_EQUAL(context.trace[1], 0xa3ce929d0e0e4736);
    CU_ASSERT_EQUAL(context.span, 0x00f067aa0ba902b7);
    CU_ASSERT(sluice_traceparent_parse("00-" TRACE "-" SPAN "-00", &context));
    CU_ASSERT(sluice_traceparent_parse("cc-" TRACE "-" SPAN "-01-what-comes-later", &context));
}

TEST(rejects_what_is_no_traceparent)
{
    static const char *const wrong[] = {
        "",
        "00",
        "00-" TRACE "-" SPAN,
        "00-" TRACE "-" SPAN "-1",
        "00-" TRACE "-" SPAN "-01-more",
        "00-" TRACE "-" SPAN "-011",
        "cc-" TRACE "-" SPAN "-01.",
        "ff-" TRACE "-" SPAN "-01",
        "00_" TRACE "-" SPAN "-01",
        "00-" TRACE "0-" SPAN "-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN "-01",
        "00-00000000000000000000000000000000-" SPAN "-01",
        "00-" TRACE "-0000000000000000-01",
        "00-" TRACE "-0x00000000000000-01",
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(wrong); i++) {
        struct sluice_trace_context context = {{1, 2}, 3};
        if (sluice_traceparent_parse(wrong[i], &context))
            CU_FAIL(wrong[i]);
        CU_ASSERT(context.trace[0] == 1 && context.trace[1] == 2 && context.span == 3);
    }
}

TEST(comes_back_as_it_was_put)
{
    const struct sluice_trace_context context = {{0x0102030405060708, 0}, 0xf0e0d0c0b0a09080};
    uint8_t bytes[SLUICE_TRACE_CONTEXT_BYTES];
    sluice_trace_context_put(&context, bytes);
    CU_ASSERT(bytes[0] == 1 && bytes[7] == 8 && bytes[16] == 0xf0 && bytes[23] == 0x80);
    const struct sluice_trace_context got = sluice_trace_context_get(bytes, sizeof(bytes));
    CU_ASSERT(memcmp(&got, &context, sizeof(got)) == 0);
}

TEST(bytes_that_are_none_are_not_traced)
{
    uint8_t bytes[SLUICE_TRACE_CONTEXT_BYTES + 1];
    memset(bytes, 7, sizeof(bytes));
    for (size_t len = 0; len <= sizeof(bytes); len++)
        CU_ASSERT_EQUAL(sluice_trace_context_get(bytes, len).span != 0,
                        len == SLUICE_TRACE_CONTEXT_BYTES);
    CU_ASSERT_EQUAL(sluice_trace_context_get(NULL, 0).span, 0);
    memset(bytes, 0, 16);
    CU_ASSERT_EQUAL(sluice_trace_context_get(bytes, SLUICE_TRACE_CONTEXT_BYTES).span, 0);
}

TEST(children_differ_and_stay_the_same)
{
    const struct sluice_trace_context a = {{1, 2}, 3}, b = {{1, 2}, 4};
    CU_ASSERT_EQUAL(sluice_trace_child(&a, 1), sluice_trace_child(&a, 1));
    CU_ASSERT_NOT_EQUAL(sluice_trace_child(&a, 1), sluice_trace_child(&a, 2));
    CU_ASSERT_NOT_EQUAL(sluice_trace_child(&a, 1), sluice_trace_child(&b, 1));
}
