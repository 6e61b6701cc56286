#include "cli/config_lines.h"

#include "support/test.h"

static char text[4096];

static struct sluice_config_lines begin(const char *from, size_t len)
{
    memcpy(text, from, len);
    text[len] = '\0';
    return sluice_config_lines_begin(text, len);
}

#define BEGIN(literal) begin("" literal, sizeof(literal) - 1)

static void expect_line(struct sluice_config_lines *lines, unsigned number, const char *key,
                        const char *value)
{
    struct sluice_config_line line;
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_config_lines_next(lines, &line, &err));
    CU_ASSERT_EQUAL(lines->number, number);
    CU_ASSERT_PTR_NOT_NULL_FATAL(line.key);
    CU_ASSERT_STRING_EQUAL(line.key, key);
    CU_ASSERT_STRING_EQUAL(line.value, value);
}

static void expect_end(struct sluice_config_lines *lines)
{
    for (int i = 0; i < 2; i++) {
        struct sluice_config_line line;
        CHECK_OK(sluice_config_lines_next(lines, &line, NULL));
        CU_ASSERT_PTR_NULL(line.key);
    }
}

static void expect_error(struct sluice_config_lines *lines, unsigned number, const char *what)
{
    struct sluice_config_line line;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_config_lines_next(lines, &line, &err), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(lines->number, number);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, what));
}

TEST(reads_keys_and_values)
{
    struct sluice_config_lines lines = BEGIN("a=1\n  b-c =  two words \t\n\nd = \ne = x=y");
    expect_line(&lines, 1, "a", "1");
    expect_line(&lines, 2, "b-c", "two words");
    expect_line(&lines, 4, "d", "");
    expect_line(&lines, 5, "e", "x=y");
    expect_end(&lines);
}

TEST(comments_and_headings_mean_nothing)
{
    struct sluice_config_lines lines = BEGIN("# a = 1\n ; b = 2\n[server]\n [ x ] \r\nc = 3\n");
    expect_line(&lines, 5, "c", "3");
    expect_end(&lines);
    lines = BEGIN("");
    expect_end(&lines);
}

TEST(a_value_keeps_signs_of_comments)
{
    struct sluice_config_lines lines = BEGIN("a = /data ; # set\nb = [x]\n");
    expect_line(&lines, 1, "a", "/data ; # set");
    expect_line(&lines, 2, "b", "[x]");
}

TEST(one_pair_of_quotes_goes)
{
    struct sluice_config_lines lines = BEGIN("a = \" x \"\nb = \"\"y\"\"\nc = \"\nd = \"\"\ne=\"f");
    expect_line(&lines, 1, "a", " x ");
    expect_line(&lines, 2, "b", "\"y\"");
    expect_line(&lines, 3, "c", "\"");
    expect_line(&lines, 4, "d", "");
    expect_line(&lines, 5, "e", "\"f");
}

TEST(other_line_ends_and_a_byte_order_mark_are_fine)
{
    struct sluice_config_lines lines = BEGIN("\xEF\xBB\xBF"
                                             "a = 1\r\nb = 2\r\n");
    expect_line(&lines, 1, "a", "1");
    expect_line(&lines, 2, "b", "2");
    expect_end(&lines);
}

TEST(long_lines_are_whole)
{
    char line[3000] = "a = ";
    memset(line + 4, 'x', sizeof(line) - 4);
    struct sluice_config_lines lines = begin(line, sizeof(line));
    line[0] = '\0';
    struct sluice_config_line read;
    CHECK_OK(sluice_config_lines_next(&lines, &read, NULL));
    CU_ASSERT_EQUAL(strlen(read.value), sizeof(line) - 4);
}

TEST(what_is_wrong_is_said_and_reading_goes_on)
{
    struct sluice_config_lines lines =
        BEGIN("word\n = x\na\0b = 1\nc = \x1b[31m\nd = \xff\n[open\nok = 1\n");
    expect_error(&lines, 1, "'word' is no line");
    expect_error(&lines, 2, "no key");
    expect_error(&lines, 3, "byte 0");
    expect_error(&lines, 4, "0x1b");
    expect_error(&lines, 5, "UTF-8");
    expect_error(&lines, 6, "'[open'");
    expect_line(&lines, 7, "ok", "1");
    expect_end(&lines);
}
