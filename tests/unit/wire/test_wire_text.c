#include "wire/wire_internal.h"

#include "support/test.h"

TEST(bytes_outside_utf8_become_question_marks)
{
    static const struct {
        const char *text, *clean;
    } cases[] = {
        {"", ""},
        {"plain", "plain"},
        {"\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80", "\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"},
        {"\x80", "?"},
        {"\xFF-\xFE", "?-?"},
        {"\xC0\xAF", "?\?"},             /* too long a form of '/' */
        {"\xE0\x80\xAF", "?\?\?"},       /* again */
        {"\xED\xA0\x80", "?\?\?"},       /* a surrogate */
        {"\xF4\x90\x80\x80", "?\?\?\?"}, /* beyond U+10FFFF */
        {"\xF8\x88\x80\x80\x80", "?\?\?\?\?"},
        {"a\xE2\x82", "a?\?"}, /* cut off by the end */
        {"\xC3"
         "A",
         "?A"}, /* cut off by a character */
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        char out[32];
        sluice_wire_copy_utf8(cases[i].text, out, sizeof(out));
        CU_ASSERT_STRING_EQUAL(out, cases[i].clean);

        /* On the heap, so that a read beyond the end shows. */
        char *text = strdup(cases[i].text);
        char *owned = NULL;
        const char *clean = sluice_wire_clean_utf8(text, &owned);
        CU_ASSERT_STRING_EQUAL(clean, cases[i].clean);
        CU_ASSERT_PTR_EQUAL(clean, strcmp(text, cases[i].clean) == 0 ? text : owned);
        free(owned);
        free(text);
    }
}

TEST(a_cut_is_at_the_end_of_a_character)
{
    const char text[] = "ab\xE2\x82\xAC";
    static const char *const expected[] = {"", "a", "ab", "ab", "ab", "ab\xE2\x82\xAC"};
    for (size_t capacity = 1; capacity <= 6; capacity++) {
        char out[8];
        memset(out, 'X', sizeof(out));
        sluice_wire_copy_utf8(text, out, capacity);
        CU_ASSERT_STRING_EQUAL(out, expected[capacity - 1]);
        CU_ASSERT_EQUAL(out[capacity], 'X');
    }
}

TEST(null_is_empty)
{
    char out[2] = "x", *owned = NULL, *copy = NULL;
    sluice_wire_copy_utf8(NULL, out, sizeof(out));
    CU_ASSERT_STRING_EQUAL(out, "");
    CU_ASSERT_STRING_EQUAL(sluice_wire_clean_utf8(NULL, &owned), "");
    CU_ASSERT_PTR_NULL(owned);
    CHECK_OK(sluice_wire_copy_string(NULL, &copy, NULL));
    CU_ASSERT_STRING_EQUAL(copy, "");
    free(copy);
}

TEST(dataset_ids_are_32_hex_digits_or_nothing)
{
    char out[33] = "before";
    static const char *const wrong[] = {"a", "0123456789abcdef0123456789abcde",
                                        "0123456789abcdef0123456789abcdef0",
                                        "0123456789ABCDEF0123456789abcdef"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(wrong); i++) {
        CU_ASSERT_EQUAL(sluice_wire_copy_dataset_id(wrong[i], out, NULL), SLUICE_E_CORRUPT);
        CU_ASSERT_STRING_EQUAL(out, "before");
    }
    CHECK_OK(sluice_wire_copy_dataset_id("0123456789abcdef0123456789abcdef", out, NULL));
    CU_ASSERT_STRING_EQUAL(out, "0123456789abcdef0123456789abcdef");
    CHECK_OK(sluice_wire_copy_dataset_id("", out, NULL));
    CU_ASSERT_STRING_EQUAL(out, "");
}
