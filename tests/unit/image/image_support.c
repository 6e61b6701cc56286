#include "image_support.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

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
