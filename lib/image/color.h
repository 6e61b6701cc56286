#ifndef SLUICE_IMAGE_COLOR_H
#define SLUICE_IMAGE_COLOR_H

#include <stddef.h>
#include <stdint.h>

/* Pillow's pixel arithmetic for colour ops, bit for bit, on RGB pixels without gaps.
 *
 * Threads: pure functions. */

/* Pillow's luma, convert("L"): ITU-R BT.601 in 16 bits of fraction, rounded. */
static inline uint8_t sluice_luma(const uint8_t rgb[3])
{
    return (uint8_t)((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 0x8000u) >> 16);
}

/* Image.blend(d, v, factor).  Interpolates from d (factor 0) to v (1); extrapolates above 1. */
static inline uint8_t sluice_blend(float d, float v, float factor)
{
    const float sum = d + factor * (v - d);
    return (uint8_t)(sum <= 0 ? 0 : sum >= 255 ? 255 : sum);
}

/* Replaces each value by table[channel][value]. */
void sluice_map_rgb(const uint8_t *in, size_t num_pixels, const uint8_t table[3][256],
                    uint8_t *out);
void sluice_histogram_rgb(const uint8_t *pixels, size_t num_pixels, uint32_t histogram[3][256]);
/* The least and the greatest value of each channel, of at least one pixel. */
void sluice_range_rgb(const uint8_t *pixels, size_t num_pixels, uint8_t low[3], uint8_t high[3]);
/* The sum of the pixels' lumas, after the table `before` unless it is NULL. */
uint64_t sluice_luma_sum(const uint8_t *pixels, size_t num_pixels, const uint8_t before[3][256]);

/* The weighted sum of `num` images, value by value.  Weights are at least 0 and sum to 1 but for
 * rounding.  Products and sums are float32 in the images' order; the result is truncated. */
void sluice_mix_rgb(const uint8_t *const *images, const float *weights, unsigned num,
                    size_t num_values, uint8_t *out);

/* Every channel becomes the luma. */
void sluice_gray_rgb(const uint8_t *in, size_t num_pixels, uint8_t *out);
/* ImageEnhance.Color: from the luma (factor 0) to the pixel (1) and beyond. */
void sluice_saturate_rgb(const uint8_t *in, size_t num_pixels, float factor, uint8_t *out);
/* convert("HSV"), the hue plus `shift` modulo 256, and convert("RGB"); not the identity for 0. */
void sluice_shift_hue_rgb(const uint8_t *in, size_t num_pixels, uint8_t shift, uint8_t *out);

/* ImageEnhance.Sharpness: from the image smoothed by ImageFilter.SMOOTH (factor 0) to itself (1)
 * and beyond; the pixels at the border stay. */
void sluice_sharpen_rgb(const uint8_t *in, uint32_t width, uint32_t height, float factor,
                        uint8_t *out);

/* ImageFilter.GaussianBlur(sigma): three box blurs of fractional width in each direction (Gwosdek
 * et al., "Theoretical Foundations of Gaussian Convolution by Extended Box Filtering", SSVM 2011);
 * pixels at the border repeat.  `memory` has sluice_blur_memory(width, height) bytes. */
void sluice_blur_rgb(const uint8_t *in, uint32_t width, uint32_t height, float sigma, uint8_t *out,
                     uint8_t *memory);
size_t sluice_blur_memory(uint32_t width, uint32_t height);

/* The box blur for a sigma (image/kernels/color_kernels.h). */
struct sluice_blur_box sluice_blur_box(float sigma);

#endif
