#ifndef SLUICE_IMAGE_JPEG_ARITHMETIC_H
#define SLUICE_IMAGE_JPEG_ARITHMETIC_H

#include "base/compiler.h"

#include <stdint.h>

/* The arithmetic from a JPEG's coefficients to pixels that the decoder on the CPU
 * (jpeg/window_kernels.h) and the one on a GPU (gpu/) share.
 *
 * C11 and CUDA.  Threads: pure functions and constants. */

/* 8 * row + column of the k-th coefficient of the file. */
SLUICE_KERNEL_CONST uint8_t sluice_jpeg_natural_order[64] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
};

/* 2^16 times the weights of the colour conversion, rounded: 1.402 - 1, 1.772 - 2,
 * -0.34414, 1 - 0.71414. */
#define SLUICE_JPEG_CR_TO_R 26345
#define SLUICE_JPEG_CB_TO_B (-14942)
#define SLUICE_JPEG_CB_TO_G (-22554)
#define SLUICE_JPEG_CR_TO_G 18734

/* 2^13 times the constants of the transform, as Loeffler, Ligtenberg and Moschytz name them. */
#define SLUICE_DCT_0_298631336 2446
#define SLUICE_DCT_0_390180644 3196
#define SLUICE_DCT_0_541196100 4433
#define SLUICE_DCT_0_765366865 6270
#define SLUICE_DCT_0_899976223 7373
#define SLUICE_DCT_1_175875602 9633
#define SLUICE_DCT_1_501321110 12299
#define SLUICE_DCT_1_847759065 15137
#define SLUICE_DCT_1_961570560 16069
#define SLUICE_DCT_2_053119869 16819
#define SLUICE_DCT_2_562915447 20995
#define SLUICE_DCT_3_072711026 25172

/* One 8-point inverse DCT (Loeffler, Ligtenberg and Moschytz); in[k] is the k-th frequency.  Gives
 * the sums before the rounding shift. */
SLUICE_KERNEL_INLINE void sluice_jpeg_transform_8(const int32_t in[8], int32_t out[8])
{
    const int32_t z1 = (in[2] + in[6]) * SLUICE_DCT_0_541196100;
    const int32_t even2 = z1 - in[6] * SLUICE_DCT_1_847759065;
    const int32_t even3 = z1 + in[2] * SLUICE_DCT_0_765366865;
    const int32_t even0 = (in[0] + in[4]) * 8192, even1 = (in[0] - in[4]) * 8192;
    const int32_t t10 = even0 + even3, t13 = even0 - even3;
    const int32_t t11 = even1 + even2, t12 = even1 - even2;

    const int32_t z5 = (in[7] + in[3] + in[5] + in[1]) * SLUICE_DCT_1_175875602;
    const int32_t z3 = z5 - (in[7] + in[3]) * SLUICE_DCT_1_961570560;
    const int32_t z4 = z5 - (in[5] + in[1]) * SLUICE_DCT_0_390180644;
    const int32_t a = -(in[7] + in[1]) * SLUICE_DCT_0_899976223;
    const int32_t b = -(in[5] + in[3]) * SLUICE_DCT_2_562915447;
    const int32_t odd0 = in[7] * SLUICE_DCT_0_298631336 + a + z3;
    const int32_t odd1 = in[5] * SLUICE_DCT_2_053119869 + b + z4;
    const int32_t odd2 = in[3] * SLUICE_DCT_3_072711026 + b + z3;
    const int32_t odd3 = in[1] * SLUICE_DCT_1_501321110 + a + z4;

    out[0] = t10 + odd3;
    out[7] = t10 - odd3;
    out[1] = t11 + odd2;
    out[6] = t11 - odd2;
    out[2] = t12 + odd1;
    out[5] = t12 - odd1;
    out[3] = t13 + odd0;
    out[4] = t13 - odd0;
}

#endif
