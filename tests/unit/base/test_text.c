#include "base/text.h"

#include "support/test.h"

TEST(says_whether_it_was_cut)
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

TEST(starts_with_compares_no_more_than_the_prefix)
{
    CU_ASSERT(sluice_starts_with("train/a", "train/"));
    CU_ASSERT(sluice_starts_with("train/", "train/"));
    CU_ASSERT(sluice_starts_with("", ""));
    CU_ASSERT_FALSE(sluice_starts_with("train", "train/"));
    CU_ASSERT_FALSE(sluice_starts_with("a/train/", "train/"));
}

TEST(utf8_is_what_rfc_3629_says)
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
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        CU_ASSERT_EQUAL(sluice_utf8_len(cases[i].text), cases[i].len);
        CU_ASSERT_EQUAL(sluice_is_utf8(cases[i].text), cases[i].len > 0);
        char longer[16];
        CU_ASSERT(sluice_print(longer, sizeof(longer), "\xc3\xa9%sz", cases[i].text));
        CU_ASSERT_EQUAL(sluice_is_utf8(longer), cases[i].len > 0);
    }
    CU_ASSERT(sluice_is_utf8(""));
}

TEST(finds_the_byte_order_mark)
{
    CU_ASSERT_EQUAL(sluice_byte_order_mark("\xef\xbb\xbf"
                                           "a",
                                           4),
                    3);
    CU_ASSERT_EQUAL(sluice_byte_order_mark("\xef\xbb\xbf", 2), 0);
    CU_ASSERT_EQUAL(sluice_byte_order_mark("abc", 3), 0);
}

TEST(escapes_what_is_no_visible_character)
{
    static const struct {
        const char *text, *line;
    } cases[] = {
        {"", ""},
        {"a name, 100 % \\ it", "a name, 100 % \\ it"},
        {"one\ntwo\r\tthree", "one\\ntwo\\r\\tthree"},
        {"\x1b[2J\x7f\x01", "\\x1b[2J\\x7f\\x01"},
        {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
        {"\xc2\x9b"
         "31m\xc2\xa0",
         "\\xc2\\x9b31m\xc2\xa0"}, /* CSI as a C1 character */
        {"\xff\xe2\x82|", "\\xff\\xe2\\x82|"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        char line[64];
        CU_ASSERT_EQUAL(sluice_escape_line(line, sizeof(line), cases[i].text),
                        strlen(cases[i].line));
        CU_ASSERT_STRING_EQUAL(line, cases[i].line);
    }
}

TEST(an_escaped_line_is_cut_between_characters)
{
    static const char text[] = "a\x1b\xc3\xbc"
                               "b";
    /* clang-format off */
    static const char *const lines[] = {
        "", "a", "a", "a", "a", "a\\x1b", "a\\x1b", ("a\\x1b\xc3\xbc"), ("a\\x1b\xc3\xbc" "b")};
    /* clang-format on */
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(lines); i++) {
        char line[16];
        memset(line, 'x', sizeof(line));
        CU_ASSERT_EQUAL(sluice_escape_line(line, i + 1, text), strlen(lines[i]));
        CU_ASSERT_STRING_EQUAL(line, lines[i]);
        CU_ASSERT_EQUAL(line[i + 1], 'x');
    }
}
