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
