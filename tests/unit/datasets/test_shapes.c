#include "datasets/list/shapes.h"

#include "datasets/list/field_values.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

static struct sluice_shapes shapes;

TEST(boxes_have_the_layout_of_their_kind)
{
    const float corners[] = {1, 2, 3, 4, 5, 6, 7, 8};
    const uint32_t labels[] = {9, 10};
    size_t bytes;
    sluice_shapes_empty(&shapes);
    REQUIRE_OK(sluice_shapes_add_box(&shapes, 1, 2, 3, 4, 9, NULL));
    REQUIRE_OK(sluice_shapes_add_box(&shapes, 5, 6, 7, 8, 10, NULL));
    char *made = sluice_shapes_boxes(&shapes, &bytes);
    CU_ASSERT_EQUAL_FATAL(bytes, 2 * SLUICE_BOX_BYTES);
    CU_ASSERT(memcmp(made, corners, sizeof(corners)) == 0);
    CU_ASSERT(memcmp(made + sizeof(corners), labels, sizeof(labels)) == 0);
    free(made);
    sluice_shapes_empty(&shapes);
    made = sluice_shapes_boxes(&shapes, &bytes);
    CU_ASSERT(made && bytes == 0);
    free(made);
}

TEST(wrong_boxes_and_points_are_told)
{
    sluice_shapes_empty(&shapes);
    CHECK_FAILS(SLUICE_E_INVALID, "not finite",
                sluice_shapes_add_box(&shapes, NAN, 0, 1, 1, 0, sluice_test_err()));
    CHECK_FAILS(SLUICE_E_INVALID, "not finite",
                sluice_shapes_add_box(&shapes, 0, 0, 1e39, 1, 0, sluice_test_err()));
    CHECK_FAILS(SLUICE_E_INVALID, "negative size",
                sluice_shapes_add_box(&shapes, 0, 1, 1, 0, 0, sluice_test_err()));
    CHECK_FAILS(SLUICE_E_INVALID, "class is not",
                sluice_shapes_add_box(&shapes, 0, 0, 1, 1, -1, sluice_test_err()));
    CHECK_FAILS(SLUICE_E_INVALID, "class is not",
                sluice_shapes_add_box(&shapes, 0, 0, 1, 1, NAN, sluice_test_err()));
    CHECK_FAILS(SLUICE_E_INVALID, "class is not",
                sluice_shapes_add_box(&shapes, 0, 0, 1, 1, 1e7, sluice_test_err()));
    CHECK_FAILS(SLUICE_E_INVALID, "not finite",
                sluice_shapes_add_point(&shapes, 0, 0, INFINITY, sluice_test_err()));
    CU_ASSERT(shapes.num_boxes == 0 && shapes.num_numbers == 0);
}

TEST(there_is_a_most_of_boxes)
{
    sluice_shapes_empty(&shapes);
    for (size_t i = 0; i < SLUICE_MAX_BOXES; i++)
        REQUIRE_OK(sluice_shapes_add_box(&shapes, 0, 0, 1, 1, 0, NULL));
    CHECK_FAILS(SLUICE_E_INVALID, "has more than 52428 boxes",
                sluice_shapes_add_box(&shapes, 0, 0, 1, 1, 0, sluice_test_err()));
    size_t bytes;
    char *made = sluice_shapes_boxes(&shapes, &bytes);
    CU_ASSERT_PTR_NULL(
        sluice_field_flaw((struct sluice_field_type){SLUICE_FIELD_BOXES, 0}, made, bytes));
    free(made);
}

/* What is written as JSON is read again. */
static void expect_back(struct sluice_field_type type, const char *json)
{
    struct sluice_field_values values = {.wanted = type.kind}, again = {.wanted = type.kind};
    struct sluice_field_place place, back;
    char *text = NULL;
    size_t len = 0;
    REQUIRE_OK(sluice_field_values_add_bytes(&values, json, strlen(json), &place, NULL));
    FILE *file = open_memstream(&text, &len);
    sluice_shapes_write_json(file, type, values.bytes, place.bytes);
    fclose(file);
    REQUIRE_OK(sluice_field_values_add_bytes(&again, text, len, &back, NULL));
    CU_ASSERT(sluice_field_is_same(values.bytes, place.bytes, again.bytes, back.bytes));
    free(text);
    sluice_field_values_clear(&values);
    sluice_field_values_clear(&again);
}

TEST(shapes_come_back_from_json)
{
    expect_back((struct sluice_field_type){SLUICE_FIELD_BOXES, 0},
                "[[0.1, -2, 1e30, 4, 7], [1, 2, 3, 4, 0]]");
    expect_back((struct sluice_field_type){SLUICE_FIELD_BOXES, 0}, "[]");
    expect_back((struct sluice_field_type){SLUICE_FIELD_KEYPOINTS, 2},
                "[[[0.1, 2], [3, 4, 0]], [[1, 2, 1], [5, 6, 2]]]");
    expect_back((struct sluice_field_type){SLUICE_FIELD_KEYPOINTS, 2}, "[]");
}

int main(void)
{
    const int code = sluice_test_main();
    sluice_shapes_clear(&shapes);
    return code;
}
