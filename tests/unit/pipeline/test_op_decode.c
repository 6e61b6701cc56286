#include "pipeline/op.h"

#include "support/test.h"

static void takes_no_value_and_prints_none(void)
{
    struct sluice_op op = {.type = &sluice_op_decode};
    struct sluice_spec_text text = {.start = "", .at = "", .op = 1, .op_name = ""};
    char printed[8] = "x";
    CU_ASSERT_EQUAL(op.type->parse(&op, &text, false, NULL), SLUICE_OK);
    CU_ASSERT_EQUAL(op.type->parse(&op, &text, true, NULL), SLUICE_E_INVALID);
    op.type->print(&op, printed, sizeof(printed));
    CU_ASSERT_STRING_EQUAL(printed, "");
    CU_ASSERT_EQUAL(op.type->family, SLUICE_OP_DECODE);
}

static void exif_transpose_is_of_decode(void)
{
    struct sluice_op op = {.type = &sluice_op_exif_transpose};
    struct sluice_spec_text text = {.start = "", .at = "", .op = 2, .op_name = ""};
    CU_ASSERT_EQUAL(op.type->parse(&op, &text, false, NULL), SLUICE_OK);
    CU_ASSERT_EQUAL(op.type->parse(&op, &text, true, NULL), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(op.type->family, SLUICE_OP_DECODE);
}

int main(void)
{
    static const struct sluice_test tests[] = {SLUICE_TEST(takes_no_value_and_prints_none),
                                               SLUICE_TEST(exif_transpose_is_of_decode)};
    return sluice_test_run("op_decode", tests, SLUICE_TEST_COUNT(tests));
}
