#include "pipeline/op.h"

#include "support/test.h"

static void takes_no_value_and_prints_none(void)
{
    struct sluice_op op = {.kind = &sluice_op_decode};
    struct sluice_spec_text text = {.start = "", .at = "", .op = 1, .op_name = ""};
    char printed[8] = "x";
    CU_ASSERT_EQUAL(op.kind->parse(&op, &text, false, NULL), SLUICE_OK);
    CU_ASSERT_EQUAL(op.kind->parse(&op, &text, true, NULL), SLUICE_E_INVALID);
    op.kind->print(&op, printed, sizeof(printed));
    CU_ASSERT_STRING_EQUAL(printed, "");
    CU_ASSERT_EQUAL(op.kind->family, SLUICE_OP_DECODE);
}

int main(void)
{
    static const struct sluice_test tests[] = {SLUICE_TEST(takes_no_value_and_prints_none)};
    return sluice_test_run("op_decode", tests, SLUICE_TEST_COUNT(tests));
}
