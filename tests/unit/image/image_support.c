#include "image_support.h"

#include "base/buf.h"
#include "support/test.h"

#include <math.h>

uint8_t *image_test_picture(uint32_t width, uint32_t height)
{
    uint8_t *pixels = malloc((size_t)width * height * 3);
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            uint8_t *p = pixels + ((size_t)y * width + x) * 3;
            p[0] = (uint8_t)(128 + 100 * sin(x / 9.0) * cos(y / 7.0));
            p[1] = (uint8_t)(x * 255 / width);
            p[2] = y * 2 < height ? 60 : 190;
        }
    }
    return pixels;
}

double image_test_mean_difference(const uint8_t *a, const uint8_t *b, uint32_t width,
                                  uint32_t height)
{
    double sum = 0;
    const size_t len = (size_t)width * height * 3;
    for (size_t i = 0; i < len; i++)
        sum += abs(a[i] - b[i]);
    return sum / (double)len;
}

bool image_test_is_part(const struct sluice_rgb *part, const struct sluice_rgb *all,
                        const struct sluice_box *box)
{
    if (part->width != box->width || part->height != box->height ||
        part->pixels->len != (size_t)box->width * box->height * 3)
        return false;
    for (uint32_t y = 0; y < box->height; y++) {
        const size_t from = ((size_t)(box->top + y) * all->width + box->left) * 3;
        if (memcmp(part->pixels->data + (size_t)y * box->width * 3, all->pixels->data + from,
                   (size_t)box->width * 3) != 0)
            return false;
    }
    return true;
}

struct sluice_buf *image_test_jpeg(uint32_t width, uint32_t height,
                                   const struct sluice_jpeg_encode_options *options)
{
    uint8_t *pixels = image_test_picture(width, height);
    struct sluice_buf *file = NULL;
    REQUIRE_OK(sluice_jpeg_encode(pixels, width, height, options, &file, NULL));
    free(pixels);
    return file;
}

struct sluice_buf *image_test_file(enum image_test_kind kind, uint32_t width, uint32_t height)
{
    if (kind != IMAGE_TEST_PNG) {
        const struct sluice_jpeg_encode_options options = {
            .is_progressive = kind == IMAGE_TEST_PROGRESSIVE,
            .is_gray = kind == IMAGE_TEST_GRAY,
            .is_cmyk = kind == IMAGE_TEST_CMYK,
            .restart_rows = kind == IMAGE_TEST_RESTARTS,
        };
        return image_test_jpeg(width, height, &options);
    }
    uint8_t *pixels = image_test_picture(width, height);
    struct sluice_buf *file = NULL;
    REQUIRE_OK(sluice_png_encode(pixels, width, height, 6, &file, NULL));
    free(pixels);
    return file;
}

struct sluice_jpeg_index image_test_index(const struct sluice_buf *file, uint32_t step)
{
    struct sluice_jpeg_index index = {0};
    REQUIRE_OK(sluice_jpeg_index_build(file->data, file->len, 12345, step, &index, NULL));
    return index;
}
