/* The committed files of formats beside JPEG and PNG, and what Pillow made of them
 * (make_format_goldens.py).  Damaged ones fail with a status and words. */

#include "base/buf.h"
#include "image/codecs/codec.h"
#include "image/orientation.h"

#include "crc32.h"
#include "support/test.h"

static struct sluice_codec *codec;

static uint8_t *read_golden(const char *name, size_t *len)
{
    char path[1300];
    snprintf(path, sizeof(path), "%s/tests/golden/formats/%s", sluice_test_source_dir(), name);
    return sluice_test_read_file(path, len);
}

static bool is_left_out(const uint8_t *bytes, size_t len)
{
    struct sluice_image_info info;
    return sluice_image_probe(bytes, len, &info, NULL) == SLUICE_OK &&
           !sluice_image_format_is_decoded(info.format);
}

static void check_pixels(const char *name, unsigned width, unsigned height, unsigned crc)
{
    size_t len;
    uint8_t *bytes = read_golden(name, &len);
    struct sluice_rgb rgb = {0};
    struct sluice_err err = {{0}};
    const sluice_status status = sluice_codec_decode(codec, bytes, len, 0, NULL, &rgb, &err);
    if (is_left_out(bytes, len)) {
        CU_ASSERT_EQUAL(status, SLUICE_E_UNSUPPORTED);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "this build is without"));
        free(bytes);
        return;
    }
    if (status != SLUICE_OK)
        printf("%s: %s\n", name, err.text);
    CHECK_OK(status);
    struct sluice_image_info info = {0};
    CHECK_OK(sluice_image_probe(bytes, len, &info, NULL));
    CU_ASSERT_EQUAL(info.width, width);
    CU_ASSERT_EQUAL(info.height, height);
    if (status == SLUICE_OK) {
        const bool is_equal = rgb.width == width && rgb.height == height &&
                              rgb.pixels->len == (size_t)width * height * 3 &&
                              crc32_of(rgb.pixels->data, rgb.pixels->len) == crc;
        if (!is_equal)
            printf("%s: pixels differ from Pillow's\n", name);
        CU_ASSERT(is_equal);
    }
    const uint64_t too_few = (uint64_t)width * height - 1; /* 0 would be the default */
    if (too_few > 0)
        CU_ASSERT_EQUAL(sluice_codec_decode(codec, bytes, len, too_few, NULL, &rgb, NULL),
                        SLUICE_E_UNSUPPORTED);
    sluice_buf_unref(rgb.pixels);
    free(bytes);
}

static void check_upright(const char *name, unsigned width, unsigned height, unsigned crc)
{
    size_t len;
    uint8_t *bytes = read_golden(name, &len);
    struct sluice_image_info info = {0};
    struct sluice_rgb rgb = {0};
    CHECK_OK(sluice_image_probe(bytes, len, &info, NULL));
    if (sluice_image_format_is_decoded(info.format)) {
        CHECK_OK(sluice_codec_decode(codec, bytes, len, 0, NULL, &rgb, NULL));
        const uint32_t orientation = sluice_image_orientation(&info, bytes, len);
        CHECK_OK(sluice_rgb_orient(&rgb, orientation, NULL, NULL));
        const bool is_equal = rgb.width == width && rgb.height == height &&
                              crc32_of(rgb.pixels->data, rgb.pixels->len) == crc;
        if (!is_equal)
            printf("%s: not upright as Pillow makes it\n", name);
        CU_ASSERT(is_equal);
    }
    sluice_buf_unref(rgb.pixels);
    free(bytes);
}

static void check_refused(const char *name)
{
    size_t len;
    uint8_t *bytes = read_golden(name, &len);
    struct sluice_rgb rgb = {0};
    struct sluice_err err = {{0}};
    const sluice_status status = sluice_codec_decode(codec, bytes, len, 0, NULL, &rgb, &err);
    if (status != SLUICE_E_CORRUPT && status != SLUICE_E_UNSUPPORTED)
        printf("%s: %s\n", name, sluice_status_name(status));
    CU_ASSERT(status == SLUICE_E_CORRUPT || status == SLUICE_E_UNSUPPORTED);
    if (strncmp(name, "cut", 3) == 0 && !is_left_out(bytes, len))
        CU_ASSERT_EQUAL(status, SLUICE_E_CORRUPT);
    CU_ASSERT_PTR_NULL(rgb.pixels);
    CU_ASSERT(err.text[0] != '\0');
    sluice_buf_unref(rgb.pixels);
    free(bytes);
}

TEST(every_file_decodes_as_pillow_decodes_it)
{
    char path[1200], line[512], name[256];
    snprintf(path, sizeof(path), "%s/tests/golden/formats/expected.txt", sluice_test_source_dir());
    FILE *expected = fopen(path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(expected);
    unsigned width, height, crc, num_checked = 0, num_refused = 0, num_upright = 0;
    while (fgets(line, sizeof(line), expected)) {
        if (sscanf(line, "decode %255s %u %u %x", name, &width, &height, &crc) == 4) {
            check_pixels(name, width, height, crc);
            num_checked++;
        } else if (sscanf(line, "upright %255s %u %u %x", name, &width, &height, &crc) == 4) {
            check_upright(name, width, height, crc);
            num_upright++;
        } else if (sscanf(line, "error %255s", name) == 1) {
            check_refused(name);
            num_refused++;
        }
    }
    fclose(expected);
    CU_ASSERT(num_checked >= 60);
    CU_ASSERT(num_refused >= 15);
    CU_ASSERT(num_upright >= 20);
}

int main(void)
{
    if (sluice_codec_create(&codec, NULL) != SLUICE_OK)
        return 1;
    const int result = sluice_test_main();
    sluice_codec_destroy(codec);
    return result;
}
