#ifndef SLUICE_IMAGE_KERNELS_X86_WARP_AVX2_H
#define SLUICE_IMAGE_KERNELS_X86_WARP_AVX2_H

#include "image/kernels/color_kernels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* walk and warp of struct sluice_color_kernels, for CPUs with AVX2 and more. */
void sluice_walk_avx2(const uint8_t *in, size_t width, size_t height,
                      const struct sluice_walk *walk, size_t count, uint8_t *out);
void sluice_warp_avx2(const uint8_t *in, int width, int height, const double m[6], bool is_bicubic,
                      uint8_t *out);

#endif
