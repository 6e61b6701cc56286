#include "base/error.h"

#include "support/test.h"

TEST(fail_sets_the_text_and_returns_the_status)
{
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_fail(&err, SLUICE_E_CORRUPT, "row %d of %s", 7, "a"), SLUICE_E_CORRUPT);
    CU_ASSERT_STRING_EQUAL(err.text, "row 7 of a");
}

TEST(the_first_text_wins)
{
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_fail(&err, SLUICE_E_IO, "cause"), SLUICE_E_IO);
    CU_ASSERT_EQUAL(sluice_fail(&err, SLUICE_E_INVALID, "context"), SLUICE_E_INVALID);
    CU_ASSERT_STRING_EQUAL(err.text, "cause");
}

TEST(err_may_be_null)
{
    CU_ASSERT_EQUAL(sluice_fail(NULL, SLUICE_E_AGAIN, "%d", 1), SLUICE_E_AGAIN);
}

TEST(a_long_text_is_cut_and_terminated)
{
    struct sluice_err err = {0};
    char text[1000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    CU_ASSERT_EQUAL(sluice_fail(&err, SLUICE_E_IO, "%s", text), SLUICE_E_IO);
    CU_ASSERT_EQUAL(strlen(err.text), sizeof(err.text) - 1);
}

TEST(a_text_is_one_line_that_a_terminal_does_not_obey)
{
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_fail(&err, SLUICE_E_IO, "%s: gone", "a\nb\x1b[2J\xc2\x9b\xff\xc3\xa9"),
                    SLUICE_E_IO);
    CU_ASSERT_STRING_EQUAL(err.text, "a\\nb\\x1b[2J\\xc2\\x9b\\xff\xc3\xa9: gone");
}

TEST(every_status_has_a_name_of_its_own)
{
    for (int i = SLUICE_OK; i < SLUICE_NUM_STATUS; i++) {
        const char *name = sluice_status_name((sluice_status)i);
        CU_ASSERT_STRING_NOT_EQUAL(name, "unknown");
        for (int k = SLUICE_OK; k < i; k++)
            CU_ASSERT_STRING_NOT_EQUAL(name, sluice_status_name((sluice_status)k));
    }
    CU_ASSERT_STRING_EQUAL(sluice_status_name((sluice_status)1000), "unknown");
}
