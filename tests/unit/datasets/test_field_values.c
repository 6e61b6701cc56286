#include "datasets/list/field_values.h"

#include "support/test.h"

static struct sluice_field_values values;
static struct sluice_field_place place;

static void begin(enum sluice_field_kind wanted)
{
    sluice_field_values_clear(&values);
    values.wanted = wanted;
}

static void expect_text(const char *text, const void *want, size_t bytes)
{
    REQUIRE_OK(sluice_field_values_add_text(&values, text, &place, NULL));
    CU_ASSERT_EQUAL_FATAL(place.bytes, bytes);
    CU_ASSERT(memcmp(values.bytes + place.at, want, bytes) == 0);
}

static void expect_refused(const char *text, const char *says)
{
    struct sluice_err err = {0};
    const size_t len = values.len;
    CU_ASSERT_EQUAL(sluice_field_values_add_text(&values, text, &place, &err), SLUICE_E_INVALID);
    if (!strstr(err.text, says))
        printf("%s\n", err.text);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, says));
    CU_ASSERT_EQUAL(values.len, len);
}

TEST(the_first_one_says_what_all_are)
{
    begin(SLUICE_FIELD_NONE);
    expect_text("1,2", (const float[]){1, 2}, 8);
    CU_ASSERT(values.type.kind == SLUICE_FIELD_VECTOR && values.type.dim == 2);
    expect_text("[3 4]", (const float[]){3, 4}, 8);
    expect_refused("1", "has 1 number, but the ones before have 2; --target-type bytes");
    expect_refused("a cat", "is no list of numbers, as the ones before are; --target-type bytes");
    expect_refused("1 nan", "not finite");
    begin(SLUICE_FIELD_NONE);
    expect_text("a cat", "a cat", 5);
    CU_ASSERT_EQUAL(values.type.kind, SLUICE_FIELD_BYTES);
    expect_text("42", "42", 2);
    expect_text("", "", 0);
}

TEST(a_type_that_is_asked_for_holds)
{
    begin(SLUICE_FIELD_BYTES);
    expect_text("42", "42", 2);
    begin(SLUICE_FIELD_VECTOR);
    expect_refused("a cat", "is no number, and no list of numbers");
    expect_refused("", "is no number");
    expect_text("42", (const float[]){42}, 4);
    expect_refused("1 2", "has 2 numbers, but the ones before have 1");
}

TEST(not_finite_is_refused_at_once)
{
    begin(SLUICE_FIELD_NONE);
    expect_refused("inf", "not finite");
    CU_ASSERT_EQUAL(values.type.kind, SLUICE_FIELD_NONE);
}

TEST(bytes_have_a_limit)
{
    static char much[SLUICE_MAX_FIELD_BYTES + 1];
    begin(SLUICE_FIELD_NONE);
    CU_ASSERT_EQUAL(sluice_field_values_add_bytes(&values, much, sizeof(much), &place, NULL),
                    SLUICE_E_INVALID);
    CHECK_OK(sluice_field_values_add_bytes(&values, much, sizeof(much) - 1, &place, NULL));
    CU_ASSERT_EQUAL(place.bytes, sizeof(much) - 1);
}

TEST(texts_and_json_are_checked_and_stay_as_they_are)
{
    begin(SLUICE_FIELD_TEXT);
    expect_text("42", "42", 2);
    expect_refused("\xff", "is a text that is not UTF-8");
    begin(SLUICE_FIELD_JSON);
    expect_text("{\"a\": [1, null]}", "{\"a\": [1, null]}", 16);
    expect_text("3", "3", 1);
    expect_refused("", "is not JSON");
    expect_refused("{\"a\": NaN}", "is not JSON");
    char deep[8000];
    memset(deep, '[', sizeof(deep) - 1);
    deep[sizeof(deep) - 1] = '\0';
    expect_refused(deep, "is not JSON: maximum parsing depth reached");
    begin(SLUICE_FIELD_MASK);
    expect_text("\x89PNG", "\x89PNG", 4);
}

TEST(boxes_and_keypoints_are_read_from_json)
{
    const float corners[] = {1, 2, 3, 4, 0, 0, 5.5f, 6};
    const uint32_t labels[] = {7, 1};
    char want[2 * SLUICE_BOX_BYTES];
    memcpy(want, corners, sizeof(corners));
    memcpy(want + sizeof(corners), labels, sizeof(labels));
    begin(SLUICE_FIELD_BOXES);
    expect_text("[[1, 2, 3, 4, 7], [0, 0, 5.5, 6, 1]]", want, sizeof(want));
    expect_text("{\"boxes\": [[1, 2, 3, 4], [0, 0, 5.5, 6]], \"labels\": [7, 1]}", want,
                sizeof(want));
    expect_text("{\"bbox\": [[1, 2, 2, 2], [0, 0, 5.5, 6]], \"categories\": [7, 1]}", want,
                sizeof(want));
    expect_text("[]", "", 0);
    expect_refused("{\"boxes\": [[1, 2, 3, 4]], \"labels\": []}", "and not as many classes");
    expect_refused("[[1, 2, 3]]", "is no list of boxes");
    expect_refused("7", "is no list of boxes");
    expect_refused("[[3, 2, 1, 4]]", "has a box of negative size");
    expect_refused("[[1, 2, 3, 1e300]]", "not finite");
    expect_refused("[[1, 2, 3, 4, 0.5]]", "class is not an integer");
    begin(SLUICE_FIELD_KEYPOINTS);
    expect_text("[]", "", 0);
    CU_ASSERT_EQUAL(values.type.kind, SLUICE_FIELD_NONE);
    expect_text("[[[1, 2], [3, 4, 1]]]", (const float[]){1, 2, 2, 3, 4, 1}, 24);
    CU_ASSERT(values.type.kind == SLUICE_FIELD_KEYPOINTS && values.type.dim == 2);
    expect_text("{\"keypoints\": [[1, 2, 0, 3, 4, 1]]}", (const float[]){1, 2, 0, 3, 4, 1}, 24);
    expect_refused("[[[1, 2, 0]]]", "has an object of 1 keypoints, but the ones before have 2");
    expect_refused("[[1, 2, 0, 4]]", "is no list of keypoints");
    expect_refused("[[[1, 2, 0, 4], [1, 2, 0]]]", "is no list of keypoints");
}

int main(void)
{
    const int code = sluice_test_main();
    sluice_field_values_clear(&values);
    return code;
}
