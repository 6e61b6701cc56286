#ifndef SLUICE_IMAGE_KERNELS_X86_KERNELS_AVX512_H
#define SLUICE_IMAGE_KERNELS_X86_KERNELS_AVX512_H

#include "image/kernels/kernels.h"

/* The resize of the AVX-512 table, for kernels_avx512.c to list: see kernels.h. */

size_t sluice_plan_len_avx512(enum sluice_pass pass, uint32_t num_out, uint32_t stride);
void sluice_make_plan_avx512(enum sluice_pass pass, const struct sluice_taps *taps);
void sluice_resize_rows_avx512(const struct sluice_taps *taps, const uint8_t *in, size_t in_stride,
                               uint32_t num_rows, uint8_t *out, size_t out_stride);
void sluice_blend_rows_avx512(const struct sluice_taps *taps, uint32_t o,
                              const uint8_t *const *rows, uint8_t *out, size_t num_bytes);

#endif
