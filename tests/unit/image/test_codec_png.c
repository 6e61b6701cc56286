/* The PNG encoder and the checks around libpng; tests/golden compares the decoder
 * with Pillow on every colour type. */

#include "image/codecs/codec.h"

#include "base/buf.h"

#include "image_support.h"
#include "support/test.h"

static struct sluice_codec *codec;

static struct sluice_buf *encode(uint32_t width, uint32_t height, int level)
{
    uint8_t *pixels = image_test_picture(width, height);
    struct sluice_buf *file = NULL;
    REQUIRE_OK(sluice_png_encode(pixels, width, height, level, &file, NULL));
    free(pixels);
    return file;
}

TEST(every_level_gives_the_same_pixels_back)
{
    uint8_t *pixels = image_test_picture(61, 45);
    size_t len[10];
    for (int level = 0; level <= 9; level++) {
        struct sluice_buf *file = encode(61, 45, level);
        struct sluice_rgb rgb = {0};
        REQUIRE_OK(sluice_codec_decode(codec, file->data, file->len, 0, NULL, &rgb, NULL));
        CU_ASSERT_EQUAL(rgb.width, 61);
        CU_ASSERT_EQUAL(rgb.height, 45);
        CU_ASSERT_EQUAL(memcmp(rgb.pixels->data, pixels, 61 * 45 * 3), 0);
        len[level] = file->len;
        sluice_buf_unref(rgb.pixels);
        sluice_buf_unref(file);
    }
    CU_ASSERT(len[9] < len[1] && len[1] < len[0]);
    free(pixels);
}

/* Written by Pillow: 0 1 2 / 3 2 0 in two bits with a palette, and 7 255 21 / 0 19 3 as gray. */
static const uint8_t palette[] = {
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52,
    0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x02, 0x02, 0x03, 0x00, 0x00, 0x00, 0xe0, 0x1a, 0x8e,
    0x89, 0x00, 0x00, 0x00, 0x0c, 0x50, 0x4c, 0x54, 0x45, 0x00, 0x00, 0x00, 0xff, 0x00, 0x00, 0x00,
    0xff, 0x00, 0x00, 0x00, 0xff, 0x9b, 0xc0, 0x13, 0xdc, 0x00, 0x00, 0x00, 0x0c, 0x49, 0x44, 0x41,
    0x54, 0x78, 0x9c, 0x63, 0x90, 0x60, 0x78, 0x00, 0x00, 0x01, 0x2c, 0x00, 0xf9, 0x09, 0x54, 0x23,
    0x75, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};
static const uint8_t gray[] = {
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44,
    0x52, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x02, 0x08, 0x00, 0x00, 0x00, 0x00, 0xb8,
    0x1f, 0x39, 0xc6, 0x00, 0x00, 0x00, 0x10, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9c, 0x63, 0x60,
    0xff, 0x2f, 0xca, 0xc0, 0x20, 0xcc, 0x0c, 0x00, 0x06, 0xc5, 0x01, 0x32, 0x05, 0xf6, 0x1b,
    0xb8, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};

TEST(a_mask_has_the_numbers_of_the_file)
{
    struct sluice_buf *values = NULL;
    REQUIRE_OK(sluice_png_decode_mask(palette, sizeof(palette), &values, NULL));
    CU_ASSERT_EQUAL_FATAL(values->len, 6);
    CU_ASSERT_EQUAL(memcmp(values->data, (const uint8_t[]){0, 1, 2, 3, 2, 0}, 6), 0);
    sluice_buf_unref(values);
    REQUIRE_OK(sluice_png_decode_mask(gray, sizeof(gray), &values, NULL));
    CU_ASSERT_EQUAL_FATAL(values->len, 6);
    CU_ASSERT_EQUAL(memcmp(values->data, (const uint8_t[]){7, 255, 21, 0, 19, 3}, 6), 0);
    sluice_buf_unref(values);
}

TEST(other_images_are_no_masks)
{
    struct sluice_buf *file = encode(20, 10, 1), *values = NULL;
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "a mask is a PNG of one channel",
                sluice_png_decode_mask(file->data, file->len, &values, sluice_test_err()));
    sluice_buf_unref(file);
    for (size_t len = 0; len < sizeof(gray) - 12; len++) /* without IEND and its CRC */
        CU_ASSERT(sluice_png_decode_mask(gray, len, &values, NULL) != SLUICE_OK);
    uint8_t deep[sizeof(gray)];
    memcpy(deep, gray, sizeof(deep));
    deep[24] = 16;
    CU_ASSERT_EQUAL(sluice_png_decode_mask(deep, sizeof(deep), &values, NULL),
                    SLUICE_E_UNSUPPORTED);
    CU_ASSERT_PTR_NULL(values);
}

TEST(bad_arguments_are_refused)
{
    uint8_t pixel[3] = {0};
    struct sluice_buf *file = NULL;
    struct sluice_err err = {{0}};
    CU_ASSERT_EQUAL(sluice_png_encode(pixel, 1, 1, -1, &file, &err), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_png_encode(pixel, 1, 1, 10, &file, &err), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_png_encode(pixel, 0, 1, 1, &file, &err), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_png_encode(pixel, 1, 65536, 1, &file, &err), SLUICE_E_INVALID);
    CU_ASSERT(strlen(err.text) > 0);
    CU_ASSERT_PTR_NULL(file);
}

static sluice_status decode_status(const uint8_t *bytes, size_t len)
{
    struct sluice_rgb rgb = {0};
    struct sluice_err err = {{0}};
    const sluice_status status = sluice_codec_decode(codec, bytes, len, 0, NULL, &rgb, &err);
    CU_ASSERT_EQUAL(status == SLUICE_OK, err.text[0] == 0);
    sluice_buf_unref(rgb.pixels);
    return status;
}

TEST(a_wrong_crc_before_the_pixels_is_corrupt)
{
    struct sluice_buf *file = encode(9, 9, 6);
    CHECK_OK(decode_status(file->data, file->len));
    file->data[29] ^= 1; /* the CRC of IHDR */
    CU_ASSERT_EQUAL(decode_status(file->data, file->len), SLUICE_E_CORRUPT);
    sluice_buf_unref(file);
}

TEST(a_chunk_longer_than_the_file_is_corrupt)
{
    struct sluice_buf *file = encode(9, 9, 6);
    static const uint8_t huge[12] = {0x7F, 0xFF, 0xFF, 0xFF, 't', 'E', 'X', 't', 0, 0, 0, 0};
    uint8_t *bytes = malloc(file->len + sizeof(huge));
    memcpy(bytes, file->data, 33);
    memcpy(bytes + 33, huge, sizeof(huge));
    memcpy(bytes + 33 + sizeof(huge), file->data + 33, file->len - 33);
    CU_ASSERT_EQUAL(decode_status(bytes, file->len + sizeof(huge)), SLUICE_E_CORRUPT);
    memset(bytes + 33, 0xFF, 4); /* a length of 32 bits */
    CU_ASSERT_EQUAL(decode_status(bytes, file->len + sizeof(huge)), SLUICE_E_CORRUPT);
    free(bytes);
    sluice_buf_unref(file);
}

TEST(too_few_pixels_are_corrupt)
{
    /* The header of a taller picture (with its right CRC) on the pixels of a smaller one. */
    struct sluice_buf *small = encode(9, 9, 6), *tall = encode(9, 10, 6);
    memcpy(small->data, tall->data, 33);
    CU_ASSERT_EQUAL(decode_status(small->data, small->len), SLUICE_E_CORRUPT);
    sluice_buf_unref(small);
    sluice_buf_unref(tall);
}

int main(void)
{
    if (sluice_codec_create(&codec, NULL) != SLUICE_OK)
        return 1;
    const int result = sluice_test_main();
    sluice_codec_destroy(codec);
    return result;
}
