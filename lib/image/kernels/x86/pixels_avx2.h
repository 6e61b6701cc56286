#ifndef SLUICE_IMAGE_KERNELS_X86_PIXELS_AVX2_H
#define SLUICE_IMAGE_KERNELS_X86_PIXELS_AVX2_H

#include <stddef.h>
#include <stdint.h>

/* Kernels of single pixels (image/kernels/color_kernels.h) with AVX2 and FMA: 16 pixels at a time,
 * as planes that byte shuffles part and join. */

/* From pixels to three planes of bytes, and back. */
void sluice_split_avx2(const uint8_t *in, size_t num_pixels, uint8_t *r, uint8_t *g, uint8_t *b);
void sluice_join_avx2(const uint8_t *r, const uint8_t *g, const uint8_t *b, size_t num_pixels,
                      uint8_t *out);

uint64_t sluice_luma_sum_avx2(const uint8_t *pixels, size_t num_pixels);
void sluice_gray_avx2(const uint8_t *in, size_t num_pixels, uint8_t *out);
void sluice_saturate_avx2(const uint8_t *in, size_t num_pixels, float factor, uint8_t *out);
void sluice_shift_hue_avx2(const uint8_t *in, size_t num_pixels, uint8_t shift, uint8_t *out);

#endif
