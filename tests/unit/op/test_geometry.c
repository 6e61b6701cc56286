#include "op/geometry.h"

#include "base/rng.h"
#include "image/codecs/codec.h"
#include "image/orientation.h"
#include "op/form.h"
#include "run_support.h"
#include "support/test.h"

#include <math.h>

static struct sluice_geometry geometry_of(const char *spec, uint64_t id,
                                          const struct sluice_file_image *image)
{
    struct sluice_pipeline *pipeline = run_test_parse(spec);
    REQUIRE_OK(sluice_pipeline_check_geometry(pipeline, NULL));
    const struct sluice_draw_key key = {.seed = 3, .sample_id = id};
    struct sluice_geometry geometry;
    sluice_pipeline_geometry(pipeline, &key, image, 0, &geometry);
    sluice_pipeline_destroy(pipeline);
    return geometry;
}

static void check_matrix(const char *spec, uint32_t width, uint32_t height, const double want[9])
{
    const struct sluice_file_image image = {width, height, 1};
    const struct sluice_geometry geometry = geometry_of(spec, 0, &image);
    for (int i = 0; i < 9; i++) {
        CU_ASSERT_DOUBLE_EQUAL(geometry.matrix[i], want[i], 1e-12);
        if (fabs(geometry.matrix[i] - want[i]) > 1e-12)
            printf("%s: element %d is %.17g, not %.17g\n", spec, i, geometry.matrix[i], want[i]);
    }
}

TEST(without_ops_it_is_the_identity)
{
    check_matrix("decode,brightness=1.2,to_tensor", 7, 5,
                 (const double[]){1, 0, 0, 0, 1, 0, 0, 0, 1});
}

TEST(a_resize_takes_the_box_of_all_pixels_to_that_of_the_result)
{
    check_matrix("decode,resize=10x40", 20, 5, (const double[]){2, 0, 0, 0, 2, 0, 0, 0, 1});
    check_matrix("decode,resize=30", 60, 20, (const double[]){1.5, 0, 0, 0, 1.5, 0, 0, 0, 1});
}

TEST(a_crop_moves_the_origin)
{
    check_matrix("decode,center_crop=4", 20, 10, (const double[]){1, 0, -8, 0, 1, -3, 0, 0, 1});
    check_matrix("decode,resize=10x20,center_crop=4", 40, 10,
                 (const double[]){0.5, 0, -8, 0, 1, -3, 0, 0, 1});
}

TEST(padding_moves_it_back)
{
    check_matrix("decode,pad=1/2/3/4", 9, 9, (const double[]){1, 0, 1, 0, 1, 2, 0, 0, 1});
    check_matrix("decode,center_crop=10", 4, 6, (const double[]){1, 0, 3, 0, 1, 2, 0, 0, 1});
}

TEST(flips_mirror_about_the_middle)
{
    check_matrix("decode,hflip=1", 9, 4, (const double[]){-1, 0, 9, 0, 1, 0, 0, 0, 1});
    check_matrix("decode,vflip", 9, 4, (const double[]){1, 0, 0, 0, -1, 4, 0, 0, 1});
    check_matrix("decode,one_of(vflip)", 9, 4, (const double[]){1, 0, 0, 0, -1, 4, 0, 0, 1});
}

TEST(warps_are_the_inverse_of_where_pixels_come_from)
{
    check_matrix("decode,rotate=90", 6, 6, (const double[]){0, 1, 0, -1, 0, 6, 0, 0, 1});
    check_matrix("decode,translate_x=3:unit=pixel", 8, 8,
                 (const double[]){1, 0, -3, 0, 1, 0, 0, 0, 1});
    check_matrix("decode,translate_y=-2:unit=pixel", 8, 8,
                 (const double[]){1, 0, 0, 0, 1, 2, 0, 0, 1});
    check_matrix("decode,shear_x=0.5", 8, 8, (const double[]){1, -0.5, 0, 0, 1, 0, 0, 0, 1});
    check_matrix("decode,shear_y=0.5", 8, 8, (const double[]){1, 0, 0, -0.5, 1, 0, 0, 0, 1});
    check_matrix("decode,affine=0:scale=2", 8, 6, (const double[]){2, 0, -4, 0, 2, -3, 0, 0, 1});
}

TEST(perspective_ends_in_1_and_takes_the_drawn_corners_to_those_of_the_image)
{
    const char *spec = "decode,perspective=0.6";
    struct sluice_pipeline *pipeline = run_test_parse(spec);
    const union sluice_drawn drawn = run_test_draw(pipeline, 1, 5, 40, 30);
    const double *a = drawn.values;
    double m[9];
    run_test_op(pipeline, 1)->type->map(&drawn, (struct sluice_size){40, 30}, m);
    const double from[4][2] = {{0, 0}, {39, 0}, {39, 29}, {0, 29}};
    for (int i = 0; i < 4; i++) {
        const double x = from[i][0], y = from[i][1], w = m[6] * x + m[7] * y + m[8];
        const double u = (m[0] * x + m[1] * y + m[2]) / w, v = (m[3] * x + m[4] * y + m[5]) / w;
        const double back = a[8] * u + a[9] * v + 1;
        CU_ASSERT_DOUBLE_EQUAL((a[0] * u + a[1] * v + a[2]) / back, x, 1e-6);
        CU_ASSERT_DOUBLE_EQUAL((a[3] * u + a[4] * v + a[5]) / back, y, 1e-6);
    }
    sluice_pipeline_destroy(pipeline);
    const struct sluice_file_image image = {40, 30, 1};
    CU_ASSERT_EQUAL(geometry_of(spec, 5, &image).matrix[8], 1);
}

TEST(a_warp_onto_a_line_has_no_inverse)
{
    const struct sluice_file_image image = {8, 8, 1};
    /* Rows move by as much as there are columns: all of a column's points meet. */
    const double flat[9] = {1, 1, 0, 1, 1, 0, 0, 0, 1};
    double inverse[9];
    sluice_matrix_invert(flat, inverse);
    for (int i = 0; i < 9; i++)
        CU_ASSERT_EQUAL(inverse[i], 0);
    CU_ASSERT_EQUAL(geometry_of("decode,shear_x=1,shear_y=1", 0, &image).matrix[8], 1);
}

TEST(orientations_turn_as_the_pixels_do)
{
    const uint32_t width = 5, height = 3;
    for (uint32_t orientation = 1; orientation <= 8; orientation++) {
        struct sluice_rgb rgb = {.width = width, .height = height};
        REQUIRE_OK(sluice_buf_create(NULL, (size_t)width * height * 3, &rgb.pixels, NULL));
        for (uint32_t i = 0; i < width * height; i++) {
            rgb.pixels->data[3 * i] = (uint8_t)(i % width);
            rgb.pixels->data[3 * i + 1] = (uint8_t)(i / width);
        }
        REQUIRE_OK(sluice_rgb_orient(&rgb, orientation, NULL, NULL));
        const struct sluice_file_image image = {width, height, orientation};
        const struct sluice_geometry g = geometry_of("decode,exif_transpose", 0, &image);
        CU_ASSERT_EQUAL(g.width, rgb.width);
        CU_ASSERT_EQUAL(g.height, rgb.height);
        CU_ASSERT_EQUAL(g.orientation, orientation);
        for (uint32_t y = 0; y < rgb.height; y++) {
            for (uint32_t x = 0; x < rgb.width; x++) {
                const uint8_t *from = rgb.pixels->data + 3 * ((size_t)y * rgb.width + x);
                const double u = from[0] + 0.5, v = from[1] + 0.5;
                CU_ASSERT_EQUAL(g.matrix[0] * u + g.matrix[1] * v + g.matrix[2], x + 0.5);
                CU_ASSERT_EQUAL(g.matrix[3] * u + g.matrix[4] * v + g.matrix[5], y + 0.5);
            }
        }
        sluice_buf_unref(rgb.pixels);
    }
}

TEST(the_crop_is_what_the_first_cropping_op_kept_of_its_input)
{
    const struct sluice_file_image image = {100, 60, 1}, turned = {60, 100, 6};
    const struct sluice_geometry none = geometry_of("decode,resize=30", 0, &image);
    CU_ASSERT(none.crop_top == 0 && none.crop_left == 0 && none.crop_width == 100 &&
              none.crop_height == 60);
    const struct sluice_geometry middle =
        geometry_of("decode,exif_transpose,resize=30,center_crop=20,center_crop=10", 0, &turned);
    CU_ASSERT(middle.width == 100 && middle.height == 60);
    CU_ASSERT(middle.crop_top == 5 && middle.crop_left == 15 && middle.crop_width == 20 &&
              middle.crop_height == 20);
}

TEST(the_crop_of_a_bucket_is_of_the_resized_image)
{
    const struct sluice_file_image image = {300, 100, 1};
    const struct sluice_geometry g = geometry_of("decode,fit_bucket=50x100/60x60", 0, &image);
    CU_ASSERT(g.crop_top == 0 && g.crop_left == 25 && g.crop_width == 100 && g.crop_height == 50);
    check_matrix("decode,fit_bucket=50x100/60x60", 300, 100,
                 (const double[]){0.5, 0, -25, 0, 0.5, 0, 0, 0, 1});
}

TEST(the_crop_and_flip_are_those_of_the_draws)
{
    const char *spec = "decode,random_resized_crop=24,hflip,color=1.5,hflip=0.3";
    struct sluice_pipeline *pipeline = run_test_parse(spec);
    unsigned flipped = 0;
    for (uint64_t id = 0; id < 50; id++) {
        const struct sluice_draw_key key = {.seed = 3, .sample_id = id};
        const struct sluice_draws draws = sluice_pipeline_draws(pipeline, &key, 90, 70);
        const struct sluice_file_image image = {90, 70, 1};
        const struct sluice_geometry g = geometry_of(spec, id, &image);
        CU_ASSERT(g.crop_top == draws.top && g.crop_left == draws.left &&
                  g.crop_height == draws.height && g.crop_width == draws.width);
        CU_ASSERT_EQUAL(g.is_flipped, draws.flip);
        CU_ASSERT_EQUAL(g.matrix[0] < 0, draws.flip);
        flipped += draws.flip;
    }
    CU_ASSERT(flipped > 0 && flipped < 50);
    sluice_pipeline_destroy(pipeline);
}

TEST(refuses_blends_that_move_pixels)
{
    struct sluice_pipeline *pipeline =
        run_test_parse("decode,random_resized_crop=24,one_of(augmix,invert)");
    CHECK_FAILS(SLUICE_E_INVALID, "op 4 (augmix) mixes images whose pixels were moved apart",
                sluice_pipeline_check_geometry(pipeline, sluice_test_err()));
    sluice_pipeline_destroy(pipeline);
}

TEST(a_cut_file_has_the_image_of_the_whole_one)
{
    uint8_t *pixels = calloc(320 * 200, 3);
    struct sluice_buf *file = NULL;
    const struct sluice_jpeg_encode_options options = {.quality = 80};
    REQUIRE_OK(sluice_jpeg_encode(pixels, 320, 200, &options, &file, NULL));
    free(pixels);
    struct sluice_pipeline *pipeline =
        run_test_parse("decode,random_resized_crop=24:scale=0.1-0.2");
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    struct sluice_sample sample = run_test_sample(file, 0);
    struct sluice_file_image whole = {0}, cut = {0};
    CHECK_OK(sluice_file_image_read(pipeline, &sample, &whole, NULL));
    REQUIRE_OK(sluice_pipeline_cut_for_gpu(pipeline, scratch, &sample, 0, NULL));
    CU_ASSERT_FATAL(sluice_sample_is_window(&sample));
    CHECK_OK(sluice_file_image_read(pipeline, &sample, &cut, NULL));
    CU_ASSERT(whole.width == 320 && whole.height == 200 && whole.orientation == 1);
    CU_ASSERT(cut.width == 320 && cut.height == 200 && cut.orientation == 1);
    sluice_sample_clear(&sample);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(pipeline);
    sluice_buf_unref(file);
}

TEST(a_file_that_is_no_image_has_none)
{
    struct sluice_pipeline *pipeline = run_test_parse("decode,random_resized_crop=24");
    struct sluice_sample sample = run_test_zeroes(0, SLUICE_KIND_FILE, 0, 0, 100);
    struct sluice_file_image image;
    CU_ASSERT(sluice_file_image_read(pipeline, &sample, &image, NULL) != SLUICE_OK);
    sluice_sample_clear(&sample);
    sluice_pipeline_destroy(pipeline);
}

TEST(impossible_images_are_known)
{
    const struct sluice_file_image bad[] = {
        {0, 5, 1}, {5, 0, 1}, {65536, 5, 1}, {5, 65536, 1}, {5, 5, 0}, {5, 5, 9},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CU_ASSERT_FALSE(sluice_file_image_is_possible(&bad[i]));
    CU_ASSERT_TRUE(sluice_file_image_is_possible(&(struct sluice_file_image){65535, 1, 8}));
}
