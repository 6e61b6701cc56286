/* The JPEG encoder and what decoding its files gives back; tests/golden compares the
 * decoder with Pillow. */

#include "image/codecs/codec.h"

#include "base/buf.h"

#include "image_support.h"
#include "support/test.h"

static struct sluice_codec *codec;

/* Encodes the picture and decodes it again; returns the mean difference. */
static double round_trip(uint32_t width, uint32_t height,
                         const struct sluice_jpeg_encode_options *options)
{
    uint8_t *pixels = image_test_picture(width, height);
    struct sluice_buf *file = NULL;
    struct sluice_rgb rgb = {0};
    REQUIRE_OK(sluice_jpeg_encode(pixels, width, height, options, &file, NULL));
    REQUIRE_OK(sluice_codec_decode(codec, file->data, file->len, 0, NULL, &rgb, NULL));
    CU_ASSERT_EQUAL(rgb.width, width);
    CU_ASSERT_EQUAL(rgb.height, height);
    const double difference = image_test_mean_difference(pixels, rgb.pixels->data, width, height);
    free(pixels);
    sluice_buf_unref(file);
    sluice_buf_unref(rgb.pixels);
    return difference;
}

TEST(every_option_gives_the_picture_back)
{
    static const struct sluice_jpeg_encode_options all[] = {
        {0},
        {.quality = 95, .h_samp = 1, .v_samp = 1},
        {.h_samp = 2, .v_samp = 1},
        {.h_samp = 1, .v_samp = 2},
        {.h_samp = 4, .v_samp = 1},
        {.is_progressive = true},
        {.is_cmyk = true},
        {.is_ycck = true, .h_samp = 1, .v_samp = 1},
        {.is_ycck = true},
        {.restart_rows = 1},
        {.optimize = true},
        {.optimize = true, .restart_rows = 2, .is_progressive = true},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(all); i++)
        CU_ASSERT(round_trip(97, 53, &all[i]) < 4);
    CU_ASSERT(round_trip(1, 1, &all[0]) < 4);
    CU_ASSERT(round_trip(3, 50, &all[0]) < 40); /* a few columns carry much of the colour */
}

TEST(gray_is_the_luma_three_times)
{
    uint8_t *pixels = image_test_picture(40, 30);
    struct sluice_buf *file;
    struct sluice_rgb rgb = {0};
    const struct sluice_jpeg_encode_options options = {.is_gray = true, .quality = 100};
    REQUIRE_OK(sluice_jpeg_encode(pixels, 40, 30, &options, &file, NULL));
    REQUIRE_OK(sluice_codec_decode(codec, file->data, file->len, 0, NULL, &rgb, NULL));
    for (size_t i = 0; i < 40 * 30; i++) {
        const uint8_t *p = pixels + 3 * i, *q = rgb.pixels->data + 3 * i;
        const double luma = 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2];
        CU_ASSERT(q[0] == q[1] && q[1] == q[2]);
        CU_ASSERT(q[0] > luma - 4 && q[0] < luma + 4);
    }
    free(pixels);
    sluice_buf_unref(file);
    sluice_buf_unref(rgb.pixels);
}

static unsigned count_restarts(const struct sluice_buf *file)
{
    unsigned count = 0;
    for (size_t i = 0; i + 1 < file->len; i++)
        count += file->data[i] == 0xFF && file->data[i + 1] >= 0xD0 && file->data[i + 1] <= 0xD7;
    return count;
}

TEST(restart_rows_are_what_was_asked)
{
    uint8_t *pixels = image_test_picture(64, 64); /* four rows of 16 x 16 MCUs */
    static const unsigned wanted[][2] = {{0, 0}, {1, 3}, {2, 1}, {4, 0}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(wanted); i++) {
        const struct sluice_jpeg_encode_options options = {.restart_rows = wanted[i][0]};
        struct sluice_buf *file;
        REQUIRE_OK(sluice_jpeg_encode(pixels, 64, 64, &options, &file, NULL));
        CU_ASSERT_EQUAL(count_restarts(file), wanted[i][1]);
        sluice_buf_unref(file);
    }
    free(pixels);
}

static size_t encoded_len(const struct sluice_jpeg_encode_options *options)
{
    uint8_t *pixels = image_test_picture(200, 150);
    struct sluice_buf *file;
    REQUIRE_OK(sluice_jpeg_encode(pixels, 200, 150, options, &file, NULL));
    const size_t len = file->len;
    CU_ASSERT(memcmp(file->data, "\xFF\xD8", 2) == 0);
    CU_ASSERT(memcmp(file->data + len - 2, "\xFF\xD9", 2) == 0);
    sluice_buf_unref(file);
    free(pixels);
    return len;
}

TEST(quality_and_optimisation_change_the_size)
{
    const size_t plain = encoded_len(&(struct sluice_jpeg_encode_options){0});
    CU_ASSERT_EQUAL(plain, encoded_len(&(struct sluice_jpeg_encode_options){
                               .quality = 90, .h_samp = 2, .v_samp = 2}));
    CU_ASSERT(encoded_len(&(struct sluice_jpeg_encode_options){.quality = 20}) < plain);
    CU_ASSERT(encoded_len(&(struct sluice_jpeg_encode_options){.optimize = true}) < plain);
    CU_ASSERT(encoded_len(&(struct sluice_jpeg_encode_options){.h_samp = 1, .v_samp = 1}) > plain);
}

/* Noise, so that the file outgrows the first buffer many times. */
TEST(large_files_grow_their_buffer)
{
    const uint32_t side = 500;
    uint8_t *pixels = malloc((size_t)side * side * 3);
    uint32_t state = 1;
    for (size_t i = 0; i < (size_t)side * side * 3; i++) {
        state = state * 1664525u + 1013904223u;
        pixels[i] = (uint8_t)(state >> 24);
    }
    struct sluice_buf *file;
    struct sluice_rgb rgb = {0};
    const struct sluice_jpeg_encode_options options = {.quality = 100, .h_samp = 1, .v_samp = 1};
    REQUIRE_OK(sluice_jpeg_encode(pixels, side, side, &options, &file, NULL));
    CU_ASSERT(file->len > 400000);
    REQUIRE_OK(sluice_codec_decode(codec, file->data, file->len, 0, NULL, &rgb, NULL));
    CU_ASSERT(image_test_mean_difference(pixels, rgb.pixels->data, side, side) < 3);
    sluice_buf_unref(file);
    sluice_buf_unref(rgb.pixels);
    free(pixels);
}

TEST(bad_options_are_refused)
{
    static const struct sluice_jpeg_encode_options bad[] = {
        {.quality = -1},
        {.quality = 101},
        {.h_samp = 5},
        {.v_samp = -1},
        {.h_samp = 4, .v_samp = 4}, /* 18 blocks a MCU, 10 are allowed */
        {.is_gray = true, .is_cmyk = true},
        {.is_cmyk = true, .is_ycck = true},
        {.restart_rows = 65536},
    };
    uint8_t pixel[3] = {0};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(bad); i++) {
        struct sluice_buf *file = NULL;
        struct sluice_err err = {{0}};
        CU_ASSERT_EQUAL(sluice_jpeg_encode(pixel, 1, 1, &bad[i], &file, &err), SLUICE_E_INVALID);
        CU_ASSERT(strlen(err.text) > 0);
        CU_ASSERT_PTR_NULL(file);
    }
    static const uint32_t sizes[][2] = {{0, 1}, {1, 0}, {65501, 1}, {1, 65501}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(sizes); i++) {
        struct sluice_buf *file = NULL;
        CU_ASSERT_EQUAL(sluice_jpeg_encode(pixel, sizes[i][0], sizes[i][1],
                                           &(struct sluice_jpeg_encode_options){0}, &file, NULL),
                        SLUICE_E_INVALID);
    }
}

int main(void)
{
    if (sluice_codec_create(&codec, NULL) != SLUICE_OK)
        return 1;
    const int result = sluice_test_main();
    sluice_codec_destroy(codec);
    return result;
}
