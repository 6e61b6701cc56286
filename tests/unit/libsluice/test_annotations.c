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
