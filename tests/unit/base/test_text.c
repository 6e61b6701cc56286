#include "base/text.h"

#include "support/test.h"

static void says_whether_it_was_cut(void)
{
    char text[8] = "";
    CU_ASSERT(sluice_print(text, sizeof(text), "%s/%d", "abc", 123));
    CU_ASSERT_STRING_EQUAL(text, "abc/123");
    CU_ASSERT_FALSE(sluice_print(text, sizeof(text), "%s/%d", "abc", 1234));
    CU_ASSERT_STRING_EQUAL(text, "abc/123");
    CU_ASSERT(sluice_print(text, 1, "%s", ""));
    CU_ASSERT_STRING_EQUAL(text, "");
    CU_ASSERT_FALSE(sluice_print(text, 1, "x"));
    CU_ASSERT_STRING_EQUAL(text, "");
}

static void starts_with_compares_no_more_than_the_prefix(void)
{
    CU_ASSERT(sluice_starts_with("train/a", "train/"));
    CU_ASSERT(sluice_starts_with("train/", "train/"));
    CU_ASSERT(sluice_starts_with("", ""));
    CU_ASSERT_FALSE(sluice_starts_with("train", "train/"));
    CU_ASSERT_FALSE(sluice_starts_with("a/train/", "train/"));
}

static void utf8_is_what_rfc_3629_says(void)
{
    static const struct {
        const char *text;
        size_t len;
    } cases[] = {
        {"a", 1},
        {"\x7f", 1},
        {"\xc2\x80", 2},
        {"\xdf\xbf", 2},
        {"\xe0\xa0\x80", 3},
        {"\xed\x9f\xbf", 3},
        {"\xee\x80\x80", 3},
        {"\xf0\x90\x80\x80", 4},
        {"\xf4\x8f\xbf\xbf", 4},
        {"\x80", 0},             /* no beginning */
        {"\xc3", 0},             /* cut */
        {"\xe2\x82", 0},         /* cut */
        {"\xe2(\xa1", 0},        /* no continuation */
        {"\xc0\x80", 0},         /* longer than need be */
        {"\xe0\x9f\xbf", 0},     /* likewise */
        {"\xf0\x8f\xbf\xbf", 0}, /* likewise */
        {"\xed\xa0\x80", 0},     /* a surrogate */
        {"\xed\xbf\xbf", 0},     /* likewise */
        {"\xf4\x90\x80\x80", 0}, /* U+110000 */
        {"\xff", 0},
    };
    for (size_t i = 0; i < SLUICE_TEST_COUNT(cases); i++) {
        CU_ASSERT_EQUAL(sluice_utf8_len(cases[i].text), cases[i].len);
        CU_ASSERT_EQUAL(sluice_is_utf8(cases[i].text), cases[i].len > 0);
        char longer[16];
        CU_ASSERT(sluice_print(longer, sizeof(longer), "\xc3\xa9%sz", cases[i].text));
        CU_ASSERT_EQUAL(sluice_is_utf8(longer), cases[i].len > 0);
    }
    CU_ASSERT(sluice_is_utf8(""));
}

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(says_whether_it_was_cut),
        SLUICE_TEST(starts_with_compares_no_more_than_the_prefix),
        SLUICE_TEST(utf8_is_what_rfc_3629_says),
    };
    return sluice_test_run("text", tests, SLUICE_TEST_COUNT(tests));
}
