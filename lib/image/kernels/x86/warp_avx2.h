#ifndef SLUICE_IMAGE_KERNELS_X86_WARP_AVX2_H
#define SLUICE_IMAGE_KERNELS_X86_WARP_AVX2_H

#include <stdbool.h>
#include <stdint.h>

/* struct sluice_color_kernels.warp, for CPUs with AVX2 and more. */
void sluice_warp_avx2(const uint8_t *in, int width, int height, const double m[6], bool is_bicubic,
                      uint8_t *out);

#endif
