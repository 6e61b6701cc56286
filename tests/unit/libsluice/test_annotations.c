#include "sluice/sluice.h"

#include "base/rng.h"
#include "support/test.h"

#include <math.h>

static const double identity[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};

static void check_box(const double matrix[9], const float box[4], const float want[4])
{
    float moved[4];
    uint32_t kept = 9;
    CU_ASSERT_EQUAL_FATAL(sluice_move_boxes(matrix, 50, 100, box, 1, 0, 0, moved, &kept), 1);
    CU_ASSERT_EQUAL(kept, 0);
    for (int i = 0; i < 4; i++)
        CU_ASSERT_EQUAL(moved[i], want[i]);
}

TEST(boxes_move_as_pixels_do)
{
    check_box(identity, (const float[]){1, 2, 3, 4}, (const float[]){1, 2, 3, 4});
    check_box((const double[]){2, 0, -10, 0, 4, 5, 0, 0, 1}, (const float[]){10, 1, 20, 3},
              (const float[]){10, 9, 30, 17});
    check_box((const double[]){-1, 0, 100, 0, 1, 0, 0, 0, 1}, (const float[]){10, 1, 20, 3},
              (const float[]){80, 1, 90, 3});
}

TEST(the_result_is_around_all_corners)
{
    /* A quarter turn, and a shear. */
    check_box((const double[]){0, 1, 0, -1, 0, 50, 0, 0, 1}, (const float[]){10, 20, 30, 25},
              (const float[]){20, 20, 25, 40});
    check_box((const double[]){1, 1, 0, 0, 1, 0, 0, 0, 1}, (const float[]){10, 20, 30, 25},
              (const float[]){30, 20, 55, 25});
    /* Half the size at twice the distance. */
    check_box((const double[]){1, 0, 0, 0, 1, 0, 0, 0.1, 1}, (const float[]){10, 0, 20, 10},
              (const float[]){5, 0, 20, 5});
}

TEST(boxes_are_clipped_to_the_row)
{
    check_box(identity, (const float[]){-5, -6, 200, 300}, (const float[]){0, 0, 100, 50});
    check_box(identity, (const float[]){-5, 60, -1, 300}, (const float[]){0, 50, 0, 50});
}

TEST(small_boxes_are_left_out_and_the_rest_named)
{
    static const float boxes[] = {
        0,  0, 10,  10,               /* kept */
        0,  0, 2,   10,               /* not as wide as 3 */
        0,  0, 10,  2.5f, 0, 0, 3, 3, /* has the size, but not the area */
        99, 0, 200, 40,               /* clipped to one column */
        4,  4, 7,   10,               /* kept */
    };
    float moved[sizeof(boxes) / sizeof(*boxes)];
    uint32_t kept[6];
    CU_ASSERT_EQUAL(sluice_move_boxes(identity, 50, 100, boxes, 6, 3, 10, moved, kept), 2);
    CU_ASSERT(kept[0] == 0 && kept[1] == 5);
    CU_ASSERT_EQUAL(memcmp(moved, boxes, 16), 0);
    CU_ASSERT_EQUAL(memcmp(moved + 4, boxes + 20, 16), 0);
    CU_ASSERT_EQUAL(sluice_move_boxes(identity, 50, 100, boxes, 6, 0, 0, moved, kept), 6);
}

TEST(boxes_may_be_moved_in_place)
{
    float boxes[] = {0, 0, 1, 1, 10, 10, 30, 20, 0, 0, 1, 1, 20, 20, 30, 40};
    uint32_t kept[4];
    static const double twice[9] = {2, 0, 0, 0, 2, 0, 0, 0, 1};
    CU_ASSERT_EQUAL(sluice_move_boxes(twice, 100, 100, boxes, 4, 5, 5, boxes, kept), 2);
    static const float want[] = {20, 20, 60, 40, 40, 40, 60, 80};
    CU_ASSERT_EQUAL(memcmp(boxes, want, sizeof(want)), 0);
    CU_ASSERT(kept[0] == 1 && kept[1] == 3);
}

TEST(boxes_that_are_none_or_shown_nowhere_are_not_kept)
{
    static const float bad[] = {NAN, 0,   1, 1, 0, NAN, 1, 1, 0, 0, NAN, 1, 0,        0,
                                1,   NAN, 5, 0, 1, 1,   0, 5, 1, 1, 0,   0, INFINITY, 1};
    static const float good[] = {0, 0, 10, 10};
    static const double nowhere[9] = {0}, behind[9] = {1, 0, 0, 0, 1, 0, -0.2, 0, 1};
    float moved[28];
    uint32_t kept[7];
    CU_ASSERT_EQUAL(sluice_move_boxes(identity, 50, 100, bad, 7, 0, 0, moved, kept), 0);
    CU_ASSERT_EQUAL(sluice_move_boxes(nowhere, 50, 100, good, 1, 0, 0, moved, kept), 0);
    CU_ASSERT_EQUAL(sluice_move_boxes(behind, 50, 100, good, 1, 0, 0, moved, kept), 0);
    CU_ASSERT_EQUAL(sluice_move_boxes(identity, 50, 100, NULL, 0, 0, 0, NULL, NULL), 0);
}

/* Brute force: the least box that has many points of the moved box's edge. */
TEST(the_result_has_every_point_of_the_box_and_no_more)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    for (int round = 0; round < 300; round++) {
        double m[9];
        for (int i = 0; i < 9; i++)
            m[i] = (sluice_rng_double(&rng) * 2 - 1) * (i >= 6 ? 0.001 : i % 3 == 2 ? 20 : 1);
        m[8] = 1;
        const float box[4] = {sluice_rng_below(&rng, 20), sluice_rng_below(&rng, 20),
                              20.0f + sluice_rng_below(&rng, 40),
                              20.0f + sluice_rng_below(&rng, 40)};
        double want[4] = {1e9, 1e9, -1e9, -1e9};
        for (int i = 0; i <= 100; i++) {
            const double part = i / 100.0;
            const double across = box[0] + part * (box[2] - box[0]);
            const double down = box[1] + part * (box[3] - box[1]);
            const double edge[4][2] = {
                {across, box[1]}, {across, box[3]}, {box[0], down}, {box[2], down}};
            for (int k = 0; k < 4; k++) {
                const double x = edge[k][0], y = edge[k][1], w = m[6] * x + m[7] * y + m[8];
                const double u = (m[0] * x + m[1] * y + m[2]) / w;
                const double v = (m[3] * x + m[4] * y + m[5]) / w;
                want[0] = fmin(want[0], u);
                want[1] = fmin(want[1], v);
                want[2] = fmax(want[2], u);
                want[3] = fmax(want[3], v);
            }
        }
        float moved[4];
        uint32_t kept;
        CU_ASSERT_EQUAL(sluice_move_boxes(m, 40, 60, box, 1, 0, 0, moved, &kept), 1);
        for (int k = 0; k < 4; k++)
            CU_ASSERT_DOUBLE_EQUAL(moved[k], fmax(0, fmin(want[k], k % 2 ? 40 : 60)), 1e-3);
    }
}

TEST(keypoints_move_and_those_outside_are_not_visible)
{
    static const double shifted[9] = {1, 0, -10, 0, 1, 0, 0, 0, 1};
    const float points[] = {20, 5, 2, 5, 5, 1, 110, 5, 2, 20, 50, 2, 0, 0, 0, 10, 0, 1, NAN, 5, 2};
    static const float want[] = {10, 5, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0};
    float moved[21];
    sluice_move_keypoints(shifted, 50, 100, points, 7, 3, moved);
    CU_ASSERT_EQUAL(memcmp(moved, want, sizeof(want)), 0);
}

TEST(keypoints_of_two_numbers_may_lie_outside)
{
    static const double shifted[9] = {1, 0, -10, 0, 1, 0, 0, 0, 1}, nowhere[9] = {0};
    float points[] = {20, 5, 5, 500};
    sluice_move_keypoints(shifted, 50, 100, points, 2, 2, points);
    CU_ASSERT(points[0] == 10 && points[1] == 5 && points[2] == -5 && points[3] == 500);
    sluice_move_keypoints(nowhere, 50, 100, points, 2, 2, points);
    for (int i = 0; i < 4; i++)
        CU_ASSERT(isnan(points[i]));
}

/* 3 x 2 pixels: 7 255 21 / 0 19 3. */
static const uint8_t mask_file[] = {
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44,
    0x52, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x02, 0x08, 0x00, 0x00, 0x00, 0x00, 0xb8,
    0x1f, 0x39, 0xc6, 0x00, 0x00, 0x00, 0x10, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9c, 0x63, 0x60,
    0xff, 0x2f, 0xca, 0xc0, 0x20, 0xcc, 0x0c, 0x00, 0x06, 0xc5, 0x01, 0x32, 0x05, 0xf6, 0x1b,
    0xb8, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};

static void check_mask(const struct sluice_geometry *geometry, uint32_t height, uint32_t width,
                       const uint8_t *want)
{
    uint8_t out[64];
    CU_ASSERT_FATAL(height * width <= sizeof(out));
    CHECK_OK(
        sluice_move_mask(geometry, mask_file, sizeof(mask_file), height, width, 99, out, NULL));
    CU_ASSERT_EQUAL(memcmp(out, want, (size_t)height * width), 0);
}

TEST(masks_are_sampled_at_the_centres_of_pixels)
{
    struct sluice_geometry g = {
        .matrix = {1, 0, 0, 0, 1, 0, 0, 0, 1}, .height = 2, .width = 3, .orientation = 1};
    check_mask(&g, 2, 3, (const uint8_t[]){7, 255, 21, 0, 19, 3});
    /* Twice as large, then a flip and two rows of padding above. */
    const double twice[9] = {2, 0, 0, 0, 2, 0, 0, 0, 1}, flip[9] = {-1, 0, 3, 0, 1, 2, 0, 0, 1};
    memcpy(g.matrix, twice, sizeof(twice));
    check_mask(&g, 2, 6, (const uint8_t[]){7, 7, 255, 255, 21, 21, 7, 7, 255, 255, 21, 21});
    memcpy(g.matrix, flip, sizeof(flip));
    check_mask(&g, 3, 3, (const uint8_t[]){99, 99, 99, 99, 99, 99, 21, 255, 7});
    /* A third of the width: the middle of three. */
    const double third[9] = {1.0 / 3, 0, 0, 0, 1, 0, 0, 0, 1}, nowhere[9] = {0};
    memcpy(g.matrix, third, sizeof(third));
    check_mask(&g, 2, 1, (const uint8_t[]){255, 19});
    memcpy(g.matrix, nowhere, sizeof(nowhere));
    check_mask(&g, 1, 2, (const uint8_t[]){99, 99});
}

TEST(a_mask_is_as_the_file_is_stored)
{
    /* Turned by a quarter: the image is 2 wide and 3 high when upright. */
    struct sluice_geometry g = {
        .matrix = {0, -1, 2, 1, 0, 0, 0, 0, 1}, .height = 3, .width = 2, .orientation = 6};
    check_mask(&g, 3, 2, (const uint8_t[]){0, 7, 19, 255, 3, 21});
    g.orientation = 3;
    uint8_t out[6];
    CHECK_FAILS(
        SLUICE_E_INVALID, "a mask of 3 x 2 pixels for an image of 2 x 3",
        sluice_move_mask(&g, mask_file, sizeof(mask_file), 3, 2, 0, out, sluice_test_err()));
    CU_ASSERT(sluice_move_mask(&g, mask_file, 20, 3, 2, 0, out, NULL) != SLUICE_OK);
}
