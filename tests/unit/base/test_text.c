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

int main(void)
{
    static const struct sluice_test tests[] = {SLUICE_TEST(says_whether_it_was_cut)};
    return sluice_test_run("text", tests, SLUICE_TEST_COUNT(tests));
}
