#include "datasets/list/yolo.h"

#include "support/test.h"

#include <stdlib.h>

static struct sluice_shapes shapes;

TEST(boxes_are_centers_and_sizes_in_parts_of_the_image)
{
    size_t bytes;
    const float want[] = {100, 50, 300, 150, 0, 0, 400, 200};
    const uint32_t labels[] = {3, 0};
    sluice_shapes_empty(&shapes);
    REQUIRE_OK(sluice_yolo_parse("3 0.5 0.5 0.5 0.5\r\n\n  0 .5 .5 1 1", &shapes, NULL));
    char *boxes = sluice_shapes_boxes(&shapes, &bytes);
    CU_ASSERT_EQUAL_FATAL(bytes, 2 * SLUICE_BOX_BYTES);
    sluice_yolo_scale(boxes, bytes, 400, 200, 1);
    CU_ASSERT(memcmp(boxes, want, sizeof(want)) == 0);
    CU_ASSERT(memcmp(boxes + sizeof(want), labels, sizeof(labels)) == 0);
    free(boxes);
    sluice_shapes_empty(&shapes);
    REQUIRE_OK(sluice_yolo_parse("", &shapes, NULL));
    CU_ASSERT_EQUAL(shapes.num_boxes, 0);
}

/* A box at the left end of the upper edge of an image that is shown upright, in the stored one: EXIF
 * 2.3 has where the stored first row and column are seen. */
TEST(boxes_are_those_of_the_image_as_it_is_shown)
{
    enum { W = 400, H = 200 }; /* as stored */
    static const float wants[9][4] = {
        [1] = {0, 0, 100, 25},      [2] = {300, 0, 400, 25}, [3] = {300, 175, 400, 200},
        [4] = {0, 175, 100, 200},   [5] = {0, 0, 50, 50},    [6] = {0, 150, 50, 200},
        [7] = {350, 150, 400, 200}, [8] = {350, 0, 400, 50},
    };
    for (unsigned orientation = 1; orientation <= 8; orientation++) {
        size_t bytes;
        sluice_shapes_empty(&shapes);
        REQUIRE_OK(sluice_yolo_parse("0 .125 .0625 .25 .125", &shapes, NULL));
        char *boxes = sluice_shapes_boxes(&shapes, &bytes);
        sluice_yolo_scale(boxes, bytes, W, H, orientation);
        CU_ASSERT(memcmp(boxes, wants[orientation], sizeof(wants[0])) == 0);
        free(boxes);
    }
}

TEST(what_is_wrong_is_named_with_its_line)
{
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"1 0.5 0.5 0.5 0.5\n1 0.5 0.5 0.5\n", ":2: a box has 5 numbers"},
        {"a cat\n", ":1: a box has 5 numbers"},
        {"0 0.1 0.1 0.2 0.1 0.2 0.2\n", ":1: a box has 5 numbers"},
        {"0 0.5 nan 0.5 0.5\n", ":1: a number that is not finite"},
        {"0 0.5 0.5 1.5 0.5\n", ":1: a number is not between 0 and 1"},
        {"0 0.5 0.5 -0.5 0.5\n", ":1: a number is not between 0 and 1"},
        {"0.5 0.5 0.5 0.5 0.5\n", ":1: it has a box whose class is not an integer"},
        {"-1 0.5 0.5 0.5 0.5\n", ":1: it has a box whose class is not an integer"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(wrong); i++)
        CHECK_FAILS(SLUICE_E_INVALID, wrong[i].says,
                    sluice_yolo_parse(wrong[i].text, &shapes, sluice_test_err()));
    char line[1000];
    memset(line, ' ', sizeof(line) - 1);
    line[sizeof(line) - 1] = '\0';
    CHECK_FAILS(SLUICE_E_INVALID, ":1: a line too long",
                sluice_yolo_parse(line, &shapes, sluice_test_err()));
}

int main(void)
{
    const int code = sluice_test_main();
    sluice_shapes_clear(&shapes);
    return code;
}
