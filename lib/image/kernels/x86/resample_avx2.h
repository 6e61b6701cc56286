#ifndef SLUICE_IMAGE_KERNELS_X86_RESAMPLE_AVX2_H
#define SLUICE_IMAGE_KERNELS_X86_RESAMPLE_AVX2_H

#include <stddef.h>
#include <stdint.h>

/* struct sluice_color_kernels.weigh_pixels, for CPUs with AVX2 and more. */
void sluice_weigh_pixels_avx2(const uint8_t *pixels, const int32_t *weights, size_t count,
                              uint8_t *out);

#endif
