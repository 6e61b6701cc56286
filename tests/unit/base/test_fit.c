#include "base/fit.h"

#include "support/test.h"

static const struct sluice_fit_part parts[] = {
    {.form = {"epoch 0"}, .importance = 9, .before = ""},
    {.form = {"1834 samples/s", "1834/s"}, .importance = 5, .before = ", "},
    {.form = {""}, .importance = 7, .before = ", "},
    {.form = {"limited by network", "limit network", "network"}, .importance = 3, .before = ", "},
};

static void expect(unsigned columns, const char *expected)
{
    char text[100];
    const unsigned taken = sluice_fit_line(parts, 4, columns, text, sizeof(text));
    CU_ASSERT_STRING_EQUAL(text, expected);
    CU_ASSERT_EQUAL(taken, strlen(expected));
    CU_ASSERT(taken <= columns);
}

TEST(parts_get_shorter_and_then_fewer_the_least_important_first)
{
    expect(80, "epoch 0, 1834 samples/s, limited by network");
    expect(43, "epoch 0, 1834 samples/s, limited by network");
    expect(42, "epoch 0, 1834 samples/s, limit network");
    expect(37, "epoch 0, 1834 samples/s, network");
    expect(31, "epoch 0, 1834/s, limit network"); /* room again for a longer one */
    expect(24, "epoch 0, 1834/s, network");
    expect(23, "epoch 0, 1834 samples/s");
    expect(22, "epoch 0, 1834/s");
    expect(14, "epoch 0");
}

TEST(the_most_important_part_is_cut_and_not_left_out)
{
    expect(5, "epoch");
    expect(0, "");
}

TEST(columns_are_not_bytes)
{
    const struct sluice_fit_part bar[] = {
        {.form = {"a"}, .importance = 2, .before = ""},
        {.form = {"━━"}, .importance = 1, .before = " ", .extra_bytes = 4},
    };
    char text[100];
    CU_ASSERT_EQUAL(sluice_fit_line(bar, 2, 4, text, sizeof(text)), 4);
    CU_ASSERT_STRING_EQUAL(text, "a ━━");
    CU_ASSERT_EQUAL(sluice_fit_line(bar, 2, 3, text, sizeof(text)), 1);
    CU_ASSERT_STRING_EQUAL(text, "a");
}
