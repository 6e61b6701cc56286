/* One pass of the inverse DCT over the columns of a vector, for the kernels of x86: the text is the
 * same for every width.  Who includes it says before what a vector is:
 *
 *     VECTOR             of 32-bit words, each of which may be two of 16 bits
 *     ADD, SUB           of words
 *     SET(word)          all the same
 *     DOT(x, w)          of each word the sum of its halves' products
 *     ADD_DOT(s, x, w)   the same added to s */

#ifndef SLUICE_IMAGE_JPEG_WINDOW_TRANSFORM_H
#define SLUICE_IMAGE_JPEG_WINDOW_TRANSFORM_H

#include "image/jpeg_window_kernels.h"

#define WEIGHTS(first, second)                                                                     \
    SET((int)((uint32_t)(uint16_t)(first) | (uint32_t)(uint16_t)(second) << 16))

/* The pass of jpeg_window_c.c, with the products of each output gathered: x04 holds pairs of
 * inputs 0 and 4, and so on.  `round` goes into the even part, which every output contains. */
static inline __attribute__((always_inline)) void
transform_8(VECTOR x04, VECTOR x26, VECTOR x71, VECTOR x53, VECTOR round, VECTOR out[8])
{
    const VECTOR even0 = ADD_DOT(round, x04, WEIGHTS(8192, 8192));
    const VECTOR even1 = ADD_DOT(round, x04, WEIGHTS(8192, -8192));
    const VECTOR even2 =
        DOT(x26, WEIGHTS(SLUICE_DCT_0_541196100, SLUICE_DCT_0_541196100 - SLUICE_DCT_1_847759065));
    const VECTOR even3 =
        DOT(x26, WEIGHTS(SLUICE_DCT_0_541196100 + SLUICE_DCT_0_765366865, SLUICE_DCT_0_541196100));
    const VECTOR t10 = ADD(even0, even3), t13 = SUB(even0, even3);
    const VECTOR t11 = ADD(even1, even2), t12 = SUB(even1, even2);

    enum {
        A = -SLUICE_DCT_0_899976223,
        B = -SLUICE_DCT_2_562915447,
        Z3 = SLUICE_DCT_1_175875602 - SLUICE_DCT_1_961570560,
        Z4 = SLUICE_DCT_1_175875602 - SLUICE_DCT_0_390180644,
        Z5 = SLUICE_DCT_1_175875602,
    };
    const VECTOR odd0 =
        ADD_DOT(DOT(x71, WEIGHTS(SLUICE_DCT_0_298631336 + A + Z3, A + Z5)), x53, WEIGHTS(Z5, Z3));
    const VECTOR odd1 =
        ADD_DOT(DOT(x53, WEIGHTS(SLUICE_DCT_2_053119869 + B + Z4, B + Z5)), x71, WEIGHTS(Z5, Z4));
    const VECTOR odd2 =
        ADD_DOT(DOT(x53, WEIGHTS(B + Z5, SLUICE_DCT_3_072711026 + B + Z3)), x71, WEIGHTS(Z3, Z5));
    const VECTOR odd3 =
        ADD_DOT(DOT(x71, WEIGHTS(A + Z5, SLUICE_DCT_1_501321110 + A + Z4)), x53, WEIGHTS(Z4, Z5));

    out[0] = ADD(t10, odd3);
    out[7] = SUB(t10, odd3);
    out[1] = ADD(t11, odd2);
    out[6] = SUB(t11, odd2);
    out[2] = ADD(t12, odd1);
    out[5] = SUB(t12, odd1);
    out[3] = ADD(t13, odd0);
    out[4] = SUB(t13, odd0);
}

#endif
