#include "datasets/list/target_values.h"

#include "support/test.h"

static struct sluice_target_values values;
static struct sluice_target_place place;

static void begin(enum sluice_target_kind wanted)
{
    sluice_target_values_clear(&values);
    values.wanted = wanted;
}

static void expect_text(const char *text, const void *want, size_t bytes)
{
    REQUIRE_OK(sluice_target_values_add_text(&values, text, &place, NULL));
    CU_ASSERT_EQUAL_FATAL(place.bytes, bytes);
    CU_ASSERT(memcmp(values.bytes + place.at, want, bytes) == 0);
}

static void expect_refused(const char *text, const char *says)
{
    struct sluice_err err = {0};
    const size_t len = values.len;
    CU_ASSERT_EQUAL(sluice_target_values_add_text(&values, text, &place, &err), SLUICE_E_INVALID);
    if (!strstr(err.text, says))
        printf("%s\n", err.text);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, says));
    CU_ASSERT_EQUAL(values.len, len);
}

TEST(the_first_one_says_what_all_are)
{
    begin(SLUICE_TARGETS_NONE);
    expect_text("1,2", (const float[]){1, 2}, 8);
    CU_ASSERT(values.type.kind == SLUICE_TARGETS_VECTOR && values.type.dim == 2);
    expect_text("[3 4]", (const float[]){3, 4}, 8);
    expect_refused("1", "has 1 number, but the ones before have 2; --target-type bytes");
    expect_refused("a cat", "is no list of numbers, as the ones before are; --target-type bytes");
    expect_refused("1 nan", "not finite");
    begin(SLUICE_TARGETS_NONE);
    expect_text("a cat", "a cat", 5);
    CU_ASSERT_EQUAL(values.type.kind, SLUICE_TARGETS_BYTES);
    expect_text("42", "42", 2);
    expect_text("", "", 0);
}

TEST(a_type_that_is_asked_for_holds)
{
    begin(SLUICE_TARGETS_BYTES);
    expect_text("42", "42", 2);
    begin(SLUICE_TARGETS_VECTOR);
    expect_refused("a cat", "is no number, and no list of numbers");
    expect_refused("", "is no number");
    expect_text("42", (const float[]){42}, 4);
    expect_refused("1 2", "has 2 numbers, but the ones before have 1");
}

TEST(not_finite_is_refused_at_once)
{
    begin(SLUICE_TARGETS_NONE);
    expect_refused("inf", "not finite");
    CU_ASSERT_EQUAL(values.type.kind, SLUICE_TARGETS_NONE);
}

TEST(bytes_have_a_limit)
{
    static char much[SLUICE_MAX_TARGET_BYTES + 1];
    begin(SLUICE_TARGETS_NONE);
    CU_ASSERT_EQUAL(sluice_target_values_add_bytes(&values, much, sizeof(much), &place, NULL),
                    SLUICE_E_INVALID);
    CHECK_OK(sluice_target_values_add_bytes(&values, much, sizeof(much) - 1, &place, NULL));
    CU_ASSERT_EQUAL(place.bytes, sizeof(much) - 1);
}

int main(void)
{
    const int code = sluice_test_main();
    sluice_target_values_clear(&values);
    return code;
}
