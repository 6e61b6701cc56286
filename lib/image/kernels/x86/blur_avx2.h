#ifndef SLUICE_IMAGE_KERNELS_X86_BLUR_AVX2_H
#define SLUICE_IMAGE_KERNELS_X86_BLUR_AVX2_H

#include "image/kernels/color_kernels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Kernels of pil_blur and sharpness (image/kernels/color_kernels.h) with AVX2. */

/* blur_down() with sums of 16 bits.  Returns false and does nothing if the sums could overflow or
 * if a row is shorter than a vector. */
bool sluice_blur_down_avx2(const struct sluice_blur_box *box, const uint8_t *in, size_t row_bytes,
                           size_t num_rows, uint8_t *out);

void sluice_transpose_avx2(const uint8_t *in, size_t width, size_t height, uint8_t *out);

/* sharpen_row() of rows of 22 bytes and more. */
void sluice_sharpen_row_avx2(const uint8_t *row, size_t row_bytes, float factor, uint8_t *out);

#endif
