#include "datasets/list/field.h"

#include "support/test.h"

#include <float.h>
#include <math.h>

static void expect_numbers(const char *text, size_t num, const float *want)
{
    float got[8];
    bool is_finite = false;
    CU_ASSERT_EQUAL_FATAL(sluice_field_parse_vector(text, got, 8, &is_finite), num);
    CU_ASSERT(is_finite);
    CU_ASSERT(memcmp(got, want, num * sizeof(*want)) == 0);
}

TEST(reads_numbers_between_blanks_or_commas)
{
    expect_numbers("0.5", 1, (const float[]){0.5f});
    expect_numbers(" -1,2e-3 ,\t+.25 4. ", 4, (const float[]){-1.0f, 2e-3f, 0.25f, 4.0f});
    expect_numbers("[1 2]", 2, (const float[]){1.0f, 2.0f});
    expect_numbers("[ 1, 2 ] \n", 2, (const float[]){1.0f, 2.0f});
    expect_numbers("-0", 1, (const float[]){-0.0f});
    expect_numbers("1e-60", 1, (const float[]){0.0f});
}

TEST(what_is_no_list_of_numbers_is_told)
{
    static const char *const others[] = {"",    " ",  "a cat", "1 cat", "1,,2",  ",1",   "1,",
                                         "[1",  "1]", "[]",    "[1] 2", "0x10",  "1-2",  "1e",
                                         "--1", ".",  "e5",    "1;2",   "[[1]]", "1 [2]"};
    bool is_finite;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(others); i++)
        CU_ASSERT_EQUAL(sluice_field_parse_vector(others[i], NULL, 0, &is_finite), 0);
}

TEST(numbers_that_are_not_finite_are_told)
{
    static const char *const others[] = {"nan", "1 -inf", "1,Infinity", "1e39", "[NaN]"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(others); i++) {
        bool is_finite = true;
        CU_ASSERT(sluice_field_parse_vector(others[i], NULL, 0, &is_finite) > 0);
        CU_ASSERT(!is_finite);
    }
}

/* Writes a target as a field and reads it. */
static bool returns(struct sluice_field_type type, const void *target, size_t bytes)
{
    char *text = NULL;
    size_t len = 0, got_bytes = 0;
    FILE *file = open_memstream(&text, &len);
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    sluice_field_write(file, type, target, bytes);
    CU_ASSERT_EQUAL_FATAL(fclose(file), 0);
    CU_ASSERT(!strpbrk(text, "\t\n\r") && strlen(text) == len);
    float *room = calloc(SLUICE_FIELD_ROOM(len, type.dim), sizeof(*room));
    const void *got = NULL;
    const bool is_same = sluice_field_read(type, text, room, &got, &got_bytes) &&
                         got_bytes == bytes && memcmp(got, target, bytes) == 0;
    free(room);
    free(text);
    return is_same;
}

TEST(vectors_come_back_bit_for_bit)
{
    static const float edges[] = {0.0f,     -0.0f,     1.0f / 3,    FLT_MAX,
                                  -FLT_MIN, 0x1p-149f, 16777217.0f, 0.1f};
    CU_ASSERT(returns((struct sluice_field_type){SLUICE_FIELD_VECTOR, 8}, edges, sizeof(edges)));
    uint32_t bits = 12345;
    for (int i = 0; i < 20000; i++) {
        float number;
        bits = bits * 1664525u + 1013904223u;
        memcpy(&number, &bits, sizeof(number));
        if (isfinite(number))
            CU_ASSERT_FATAL(
                returns((struct sluice_field_type){SLUICE_FIELD_VECTOR, 1}, &number, 4));
    }
}

TEST(any_bytes_come_back)
{
    const struct sluice_field_type type = {SLUICE_FIELD_BYTES, 0};
    char all[256];
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    CU_ASSERT(returns(type, all, sizeof(all)));
    CU_ASSERT(returns(type, "", 0));
    CU_ASSERT(returns(type, "a cat\\n,\t\xc3\xa4\r\n", 14));
    CU_ASSERT(returns(type, "\0", 1));
    CU_ASSERT(returns(type, "\\x00", 4));
}

TEST(boxes_and_keypoints_come_back_bit_for_bit)
{
    const struct sluice_field_type boxes = {SLUICE_FIELD_BOXES, 0};
    const struct sluice_field_type points = {SLUICE_FIELD_KEYPOINTS, 2};
    const float corners[] = {0.1f, -0.0f, 1e30f, 7, -3, 2, -3, 2.5f};
    const uint32_t labels[] = {0, SLUICE_MAX_BOX_CLASSES - 1};
    char value[2 * SLUICE_BOX_BYTES];
    memcpy(value, corners, sizeof(corners));
    memcpy(value + sizeof(corners), labels, sizeof(labels));
    CU_ASSERT(returns(boxes, value, sizeof(value)));
    CU_ASSERT(returns(boxes, "", 0));
    const float numbers[] = {1.0f / 3, 2, 0, 4, 5, 2, -1, 1e-45f, 1, 0, 0, 0};
    CU_ASSERT(returns(points, numbers, sizeof(numbers)));
    CU_ASSERT(returns(points, "", 0));
}

TEST(kinds_have_names)
{
    for (int kind = SLUICE_FIELD_VECTOR; kind < SLUICE_NUM_FIELD_KINDS; kind++) {
        const char *name = sluice_field_kind_name((enum sluice_field_kind)kind);
        CU_ASSERT_EQUAL(sluice_field_kind_parse(name, strlen(name)), kind);
    }
    CU_ASSERT_EQUAL(sluice_field_kind_parse("none", 4), SLUICE_FIELD_NONE);
    CU_ASSERT_EQUAL(sluice_field_kind_parse("box", 3), SLUICE_FIELD_NONE);
    CU_ASSERT_EQUAL(sluice_field_kind_parse("boxes2", 6), SLUICE_FIELD_NONE);
    CU_ASSERT_STRING_EQUAL(sluice_field_kind_name(SLUICE_NUM_FIELD_KINDS), "unknown");
}

/* One box. */
static const char *flaw_of_box(float left, float top, float right, float bottom, uint32_t label)
{
    const float corners[] = {left, top, right, bottom};
    char value[SLUICE_BOX_BYTES];
    memcpy(value, corners, sizeof(corners));
    memcpy(value + sizeof(corners), &label, sizeof(label));
    return sluice_field_flaw((struct sluice_field_type){SLUICE_FIELD_BOXES, 0}, value,
                             sizeof(value));
}

TEST(tells_flaws_of_values_by_their_kind)
{
    const struct sluice_field_type text = {SLUICE_FIELD_TEXT, 0}, mask = {SLUICE_FIELD_MASK, 0},
                                   boxes = {SLUICE_FIELD_BOXES, 0},
                                   points = {SLUICE_FIELD_KEYPOINTS, 2};
    const float numbers[] = {1, 2, INFINITY, 4, 5, 6, 7, 8, 9};
    CU_ASSERT_PTR_NULL(sluice_field_flaw(text, "\xe2\x82\xac", 3));
    CU_ASSERT_PTR_NOT_NULL(sluice_field_flaw(text, "\xe2\x82\xac", 2)); /* cut */
    CU_ASSERT_PTR_NOT_NULL(sluice_field_flaw(text, "a\0b", 3));
    CU_ASSERT_PTR_NOT_NULL(sluice_field_flaw(text, "a\xff", 2));
    CU_ASSERT_PTR_NULL(sluice_field_flaw(mask, "\0\xff", 2));
    CU_ASSERT_PTR_NULL(flaw_of_box(1, 2, 1, 2, 3));
    CU_ASSERT_PTR_NOT_NULL(flaw_of_box(1, 2, 0.5f, 2, 3));
    CU_ASSERT_PTR_NOT_NULL(flaw_of_box(1, 2, 3, 1, 3));
    CU_ASSERT_PTR_NOT_NULL(flaw_of_box(NAN, 2, 3, 4, 3));
    CU_ASSERT_PTR_NOT_NULL(flaw_of_box(1, 2, 3, 4, SLUICE_MAX_BOX_CLASSES));
    CU_ASSERT_PTR_NOT_NULL(sluice_field_flaw(boxes, numbers, 16));
    CU_ASSERT_PTR_NULL(sluice_field_flaw(points, numbers + 3, 24));
    CU_ASSERT_PTR_NOT_NULL(sluice_field_flaw(points, numbers, 24));
    CU_ASSERT_PTR_NOT_NULL(sluice_field_flaw(points, numbers + 3, 12));
    CU_ASSERT_PTR_NOT_NULL(
        sluice_field_type_flaw((struct sluice_field_type){SLUICE_FIELD_KEYPOINTS, 0}));
    CU_ASSERT_PTR_NOT_NULL(
        sluice_field_type_flaw((struct sluice_field_type){SLUICE_FIELD_BOXES, 1}));
}

TEST(text_stays_readable)
{
    char *text = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);
    sluice_field_write(file, (struct sluice_field_type){SLUICE_FIELD_BYTES, 0},
                       "\xc3\xa4 cat\n\x1b", 8);
    fclose(file);
    CU_ASSERT_STRING_EQUAL(text, "\xc3\xa4 cat\\n\\x1b");
    free(text);
}

TEST(refuses_wrong_fields)
{
    static const struct {
        struct sluice_field_type type;
        const char *field;
    } wrong[] = {
        {{SLUICE_FIELD_VECTOR, 2}, "1"},         {{SLUICE_FIELD_VECTOR, 2}, "1 2 3"},
        {{SLUICE_FIELD_VECTOR, 2}, "1 nan"},     {{SLUICE_FIELD_VECTOR, 2}, ""},
        {{SLUICE_FIELD_BYTES, 0}, "a\\"},        {{SLUICE_FIELD_BYTES, 0}, "a\\q"},
        {{SLUICE_FIELD_BOXES, 0}, "1 2 3 4"},    {{SLUICE_FIELD_BOXES, 0}, "1 2 3 4 0.5"},
        {{SLUICE_FIELD_BOXES, 0}, "1 2 3 4 -1"}, {{SLUICE_FIELD_BOXES, 0}, "3 2 1 4 1"},
        {{SLUICE_FIELD_BOXES, 0}, "a"},          {{SLUICE_FIELD_KEYPOINTS, 2}, "1 2 3"},
        {{SLUICE_FIELD_TEXT, 0}, "\\xff"},       {{SLUICE_FIELD_TEXT, 0}, "\\x00"},
        {{SLUICE_FIELD_BYTES, 0}, "\\x1"},       {{SLUICE_FIELD_BYTES, 0}, "\\x1G"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(wrong); i++) {
        char field[32];
        float room[40];
        const void *target;
        size_t bytes;
        strcpy(field, wrong[i].field);
        CU_ASSERT(!sluice_field_read(wrong[i].type, field, room, &target, &bytes));
    }
}

TEST(tells_flaws_of_types_and_targets)
{
    const struct sluice_field_type none = {SLUICE_FIELD_NONE, 0}, two = {SLUICE_FIELD_VECTOR, 2},
                                   bytes = {SLUICE_FIELD_BYTES, 0};
    const float numbers[] = {1.0f, NAN};
    CU_ASSERT_PTR_NULL(sluice_field_type_flaw(none));
    CU_ASSERT_PTR_NULL(sluice_field_type_flaw(two));
    CU_ASSERT_PTR_NULL(sluice_field_type_flaw(bytes));
    CU_ASSERT_PTR_NOT_NULL(
        sluice_field_type_flaw((struct sluice_field_type){SLUICE_FIELD_VECTOR, 0}));
    CU_ASSERT_PTR_NOT_NULL(sluice_field_type_flaw(
        (struct sluice_field_type){SLUICE_FIELD_VECTOR, SLUICE_MAX_FIELD_DIM + 1}));
    CU_ASSERT_PTR_NOT_NULL(
        sluice_field_type_flaw((struct sluice_field_type){SLUICE_FIELD_BYTES, 1}));
    CU_ASSERT_PTR_NOT_NULL(
        sluice_field_type_flaw((struct sluice_field_type){SLUICE_NUM_FIELD_KINDS, 0}));
    CU_ASSERT_PTR_NULL(sluice_field_flaw(none, NULL, 0));
    CU_ASSERT_PTR_NOT_NULL(sluice_field_flaw(none, "", 0));
    CU_ASSERT_PTR_NULL(sluice_field_flaw(bytes, "", 0));
    CU_ASSERT_PTR_NOT_NULL(sluice_field_flaw(bytes, NULL, 0));
    CU_ASSERT_PTR_NOT_NULL(sluice_field_flaw(bytes, "", SLUICE_MAX_FIELD_BYTES + 1));
    const struct sluice_field_type mask = {SLUICE_FIELD_MASK, 0};
    CU_ASSERT_PTR_NULL(sluice_field_flaw(mask, "", SLUICE_MAX_VALUES_BYTES));
    CU_ASSERT_PTR_NOT_NULL(sluice_field_flaw(mask, "", SLUICE_MAX_VALUES_BYTES + 1));
    CU_ASSERT_PTR_NOT_NULL(sluice_field_flaw(two, numbers, 4));
    CU_ASSERT_PTR_NOT_NULL(sluice_field_flaw(two, numbers, 8));
}

TEST(targets_are_compared)
{
    CU_ASSERT(sluice_field_is_same("ab", 2, "abc", 2));
    CU_ASSERT(!sluice_field_is_same("ab", 2, "abc", 3));
    CU_ASSERT(!sluice_field_is_same("ab", 2, "ac", 2));
    CU_ASSERT(sluice_field_is_same("", 0, "x", 0));
    CU_ASSERT(sluice_field_is_same(NULL, 0, NULL, 0));
    CU_ASSERT(!sluice_field_is_same("", 0, NULL, 0));
}
