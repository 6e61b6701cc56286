/* What the window decoder takes and declines; tests/property/test_region.c compares its
 * pixels with libjpeg-turbo's for every kind of file. */

#include "image/jpeg/window.h"

#include "base/buf.h"
#include "image/codecs/internal.h"
#include "image/jpeg/window_internal.h"
#include "image/tuning.h"

#include "image_support.h"
#include "support/test.h"

static struct sluice_jpeg_window *window;

static sluice_status decode(const struct sluice_buf *file, const struct sluice_box *box,
                            struct sluice_rgb *rgb)
{
    return sluice_jpeg_window_decode(window, sluice_jpeg_window_kernels_for(sluice_cpu_level()),
                                     file->data, file->len, box, NULL, NULL, rgb, NULL);
}

/* The status for a file of these options; nothing is written on failure. */
static sluice_status status_of(const struct sluice_jpeg_encode_options *options, uint32_t width)
{
    struct sluice_buf *file = image_test_jpeg(width, 40, options);
    const struct sluice_box box = {.left = 1, .top = 1, .width = width - 2, .height = 30};
    struct sluice_rgb rgb = {0};
    const sluice_status status = decode(file, &box, &rgb);
    CU_ASSERT_EQUAL(rgb.pixels != NULL, status == SLUICE_OK);
    CU_ASSERT_EQUAL(rgb.width, status == SLUICE_OK ? box.width : 0);
    sluice_buf_unref(rgb.pixels);
    sluice_buf_unref(file);
    return status;
}

TEST(takes_gray_and_the_common_samplings)
{
    static const struct sluice_jpeg_encode_options taken[] = {
        {.h_samp = 1, .v_samp = 1},         {.h_samp = 2, .v_samp = 1}, {.h_samp = 1, .v_samp = 2},
        {.h_samp = 2, .v_samp = 2},         {.is_gray = true},          {.restart_rows = 1},
        {.optimize = true, .quality = 100},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(taken); i++)
        CHECK_OK(status_of(&taken[i], 40));
}

TEST(declines_what_it_does_not_cover)
{
    static const struct sluice_jpeg_encode_options declined[] = {
        {.h_samp = 4, .v_samp = 1}, {.h_samp = 1, .v_samp = 4}, {.h_samp = 3, .v_samp = 1},
        {.is_progressive = true},   {.is_cmyk = true},          {.is_ycck = true},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(declined); i++)
        CU_ASSERT_EQUAL(status_of(&declined[i], 40), SLUICE_E_UNSUPPORTED);
    /* Chroma two columns wide is repeated, not interpolated. */
    CU_ASSERT_EQUAL(status_of(&(struct sluice_jpeg_encode_options){0}, 4), SLUICE_E_UNSUPPORTED);
    CHECK_OK(status_of(&(struct sluice_jpeg_encode_options){0}, 5));
}

/* With an Adobe marker that says so, three components are RGB. */
TEST(declines_rgb_planes)
{
    size_t len;
    char path[1024];
    snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/codec/rgb_planes.jpg",
             sluice_test_source_dir());
    uint8_t *bytes = sluice_test_read_file(path, &len);
    const struct sluice_box box = {.width = 1, .height = 1};
    struct sluice_rgb rgb = {0};
    CU_ASSERT_EQUAL(sluice_jpeg_window_decode(window, &sluice_jpeg_window_kernels_c, bytes, len,
                                              &box, NULL, NULL, &rgb, NULL),
                    SLUICE_E_UNSUPPORTED);
    free(bytes);
}

TEST(a_box_outside_the_image_is_invalid)
{
    static const struct sluice_box boxes[] = {
        {0, 0, 0, 1}, {0, 0, 41, 1}, {40, 0, 1, 1}, {0, 0, 1, 31}, {0, UINT32_MAX, 1, 2}};
    struct sluice_buf *file = image_test_jpeg(40, 30, &(struct sluice_jpeg_encode_options){0});
    struct sluice_rgb rgb = {0};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(boxes); i++)
        CU_ASSERT_EQUAL(decode(file, &boxes[i], &rgb), SLUICE_E_INVALID);
    CU_ASSERT_PTR_NULL(rgb.pixels);
    sluice_buf_unref(file);
}

/* libjpeg's own limit of 65,500, though the format has 65,535. */
TEST(declines_sides_that_libjpeg_refuses)
{
    struct sluice_buf *file =
        image_test_jpeg(16, 16, &(struct sluice_jpeg_encode_options){.is_gray = true});
    const struct sluice_box box = {.width = 8, .height = 8};
    uint8_t *sof = memmem(file->data, file->len, "\xFF\xC0", 2);
    CU_ASSERT_PTR_NOT_NULL_FATAL(sof);
    struct sluice_rgb rgb = {0};
    sof[5] = 0xFF;
    sof[6] = 0xDC; /* 65,500 rows */
    CHECK_OK(decode(file, &box, &rgb));
    sluice_buf_unref(rgb.pixels);
    sof[6] = 0xDD;
    rgb = (struct sluice_rgb){0};
    CU_ASSERT_EQUAL(decode(file, &box, &rgb), SLUICE_E_UNSUPPORTED);
    sluice_buf_unref(file);
}

/* Only the part that is read counts, but the scan must end in EOI. */
TEST(declines_faults_before_the_last_row)
{
    struct sluice_buf *file =
        image_test_jpeg(64, 64,
                        &(struct sluice_jpeg_encode_options){
                            .restart_rows = 1, .h_samp = 1, .v_samp = 1, .quality = 95});
    uint8_t *mark = memmem(file->data, file->len, "\xFF\xD3", 2); /* ends the fourth MCU row */
    CU_ASSERT_PTR_NOT_NULL_FATAL(mark);
    /* The row is cut short, and what is missing is made up from nothing. */
    const size_t cut = 20;
    memmove(mark - cut, mark, (size_t)(file->data + file->len - mark));
    file->len -= cut;
    const struct sluice_box above = {.width = 64, .height = 24},
                            within = {.width = 64, .height = 32};
    struct sluice_rgb rgb = {0};
    CHECK_OK(decode(file, &above, &rgb));
    sluice_buf_unref(rgb.pixels);
    rgb = (struct sluice_rgb){0};
    CU_ASSERT_EQUAL(decode(file, &within, &rgb), SLUICE_E_CORRUPT);
    file->len -= 2;
    CU_ASSERT_EQUAL(decode(file, &above, &rgb), SLUICE_E_CORRUPT);
    CU_ASSERT_PTR_NULL(rgb.pixels);
    sluice_buf_unref(file);
}

/* A decoder that failed in mid-block is as good as new. */
TEST(nothing_stays_from_one_file_to_the_next)
{
    struct sluice_buf *good =
        image_test_jpeg(48, 48, &(struct sluice_jpeg_encode_options){.quality = 95});
    const struct sluice_box box = {.left = 3, .top = 3, .width = 40, .height = 40};
    struct sluice_rgb first = {0};
    REQUIRE_OK(decode(good, &box, &first));
    unsigned num_declined = 0;
    for (size_t at = 700; at + 2 < good->len; at += 3) {
        const uint8_t saved = good->data[at];
        good->data[at] ^= 0x55;
        struct sluice_rgb other = {0};
        num_declined += decode(good, &box, &other) != SLUICE_OK;
        sluice_buf_unref(other.pixels);
        good->data[at] = saved;
        struct sluice_rgb again = {0};
        REQUIRE_OK(decode(good, &box, &again));
        CU_ASSERT(memcmp(first.pixels->data, again.pixels->data, first.pixels->len) == 0);
        sluice_buf_unref(again.pixels);
    }
    CU_ASSERT(num_declined > 10);
    sluice_buf_unref(first.pixels);
    sluice_buf_unref(good);
}

TEST(memory_of_a_large_image_is_not_kept)
{
    enum { SIDE = 6000 };
    uint8_t *black = calloc(SIDE, (size_t)SIDE * 3);
    struct sluice_buf *large = NULL,
                      *small = image_test_jpeg(48, 48, &(struct sluice_jpeg_encode_options){0});
    CU_ASSERT_PTR_NOT_NULL_FATAL(black);
    REQUIRE_OK(sluice_jpeg_encode(
        black, SIDE, SIDE, &(struct sluice_jpeg_encode_options){.is_gray = true}, &large, NULL));
    free(black);
    const struct sluice_buf *files[] = {small, large, small};
    for (int i = 0; i < 3; i++) {
        const uint32_t side = files[i] == large ? SIDE : 48;
        struct sluice_rgb rgb = {0};
        CHECK_OK(decode(files[i], &(struct sluice_box){.width = side, .height = side}, &rgb));
        CU_ASSERT(window->memory_capacity <= SLUICE_IMAGE_KEPT_BYTES);
        CU_ASSERT_EQUAL(window->memory_capacity > 0, files[i] == small);
        sluice_buf_unref(rgb.pixels);
    }
    sluice_buf_unref(small);
    sluice_buf_unref(large);
}

int main(void)
{
    if (sluice_jpeg_window_create(&window, NULL) != SLUICE_OK)
        return 1;
    const int rc = sluice_test_main();
    sluice_jpeg_window_destroy(window);
    sluice_jpeg_window_destroy(NULL);
    return rc;
}
