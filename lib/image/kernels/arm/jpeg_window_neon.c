#include "image/jpeg/window_kernels.h"

#include <arm_neon.h>
#include <string.h>

/* Eight lanes of 32-bit sums. */
struct sums {
    int32x4_t low, high;
};

static inline __attribute__((always_inline)) struct sums weigh(int16x8_t a, int16_t weight_a,
                                                               int16x8_t b, int16_t weight_b)
{
    return (struct sums){
        vmlal_n_s16(vmull_n_s16(vget_low_s16(a), weight_a), vget_low_s16(b), weight_b),
        vmlal_high_n_s16(vmull_high_n_s16(a, weight_a), b, weight_b),
    };
}

static inline struct sums add(struct sums a, struct sums b)
{
    return (struct sums){vaddq_s32(a.low, b.low), vaddq_s32(a.high, b.high)};
}

static inline struct sums subtract(struct sums a, struct sums b)
{
    return (struct sums){vsubq_s32(a.low, b.low), vsubq_s32(a.high, b.high)};
}

/* The pass of jpeg/window_c.c, with the products of each output gathered.  in[place]. */
static inline __attribute__((always_inline)) void transform_8(const int16x8_t in[8],
                                                              struct sums out[8])
{
    const int16x8_t x0 = in[0], x4 = in[1], x2 = in[2], x6 = in[3];
    const int16x8_t x7 = in[4], x1 = in[5], x5 = in[6], x3 = in[7];
    const struct sums even0 = weigh(x0, 8192, x4, 8192), even1 = weigh(x0, 8192, x4, -8192);
    const struct sums even2 =
        weigh(x2, SLUICE_DCT_0_541196100, x6, SLUICE_DCT_0_541196100 - SLUICE_DCT_1_847759065);
    const struct sums even3 =
        weigh(x2, SLUICE_DCT_0_541196100 + SLUICE_DCT_0_765366865, x6, SLUICE_DCT_0_541196100);
    const struct sums t10 = add(even0, even3), t13 = subtract(even0, even3);
    const struct sums t11 = add(even1, even2), t12 = subtract(even1, even2);

    enum {
        A = -SLUICE_DCT_0_899976223,
        B = -SLUICE_DCT_2_562915447,
        Z3 = SLUICE_DCT_1_175875602 - SLUICE_DCT_1_961570560,
        Z4 = SLUICE_DCT_1_175875602 - SLUICE_DCT_0_390180644,
        Z5 = SLUICE_DCT_1_175875602,
    };
    const struct sums odd0 =
        add(weigh(x7, SLUICE_DCT_0_298631336 + A + Z3, x1, A + Z5), weigh(x5, Z5, x3, Z3));
    const struct sums odd1 =
        add(weigh(x5, SLUICE_DCT_2_053119869 + B + Z4, x3, B + Z5), weigh(x7, Z5, x1, Z4));
    const struct sums odd2 =
        add(weigh(x5, B + Z5, x3, SLUICE_DCT_3_072711026 + B + Z3), weigh(x7, Z3, x1, Z5));
    const struct sums odd3 =
        add(weigh(x7, A + Z5, x1, SLUICE_DCT_1_501321110 + A + Z4), weigh(x5, Z4, x3, Z5));

    out[0] = add(t10, odd3);
    out[7] = subtract(t10, odd3);
    out[1] = add(t11, odd2);
    out[6] = subtract(t11, odd2);
    out[2] = add(t12, odd1);
    out[5] = subtract(t12, odd1);
    out[3] = add(t13, odd0);
    out[4] = subtract(t13, odd0);
}

static inline void transpose_words(int16x8_t rows[8])
{
    int16x8_t a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = vtrn1q_s16(rows[i], rows[i + 1]);
        a[i + 1] = vtrn2q_s16(rows[i], rows[i + 1]);
    }
    for (int i = 0; i < 8; i++) {
        const int32x4_t upper = vreinterpretq_s32_s16(a[i & ~2]);
        const int32x4_t lower = vreinterpretq_s32_s16(a[i | 2]);
        b[i] = vreinterpretq_s16_s32(i & 2 ? vtrn2q_s32(upper, lower) : vtrn1q_s32(upper, lower));
    }
    for (int i = 0; i < 8; i++) {
        const int64x2_t upper = vreinterpretq_s64_s16(b[i & ~4]);
        const int64x2_t lower = vreinterpretq_s64_s16(b[i | 4]);
        rows[i] =
            vreinterpretq_s16_s64(i & 4 ? vtrn2q_s64(upper, lower) : vtrn1q_s64(upper, lower));
    }
}

static inline void transpose_bytes(uint8x8_t rows[8])
{
    uint8x8_t a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = vtrn1_u8(rows[i], rows[i + 1]);
        a[i + 1] = vtrn2_u8(rows[i], rows[i + 1]);
    }
    for (int i = 0; i < 8; i++) {
        const uint16x4_t upper = vreinterpret_u16_u8(a[i & ~2]);
        const uint16x4_t lower = vreinterpret_u16_u8(a[i | 2]);
        b[i] = vreinterpret_u8_u16(i & 2 ? vtrn2_u16(upper, lower) : vtrn1_u16(upper, lower));
    }
    for (int i = 0; i < 8; i++) {
        const uint32x2_t upper = vreinterpret_u32_u8(b[i & ~4]);
        const uint32x2_t lower = vreinterpret_u32_u8(b[i | 4]);
        rows[i] = vreinterpret_u8_u32(i & 4 ? vtrn2_u32(upper, lower) : vtrn1_u32(upper, lower));
    }
}

/* Not zero where a value is not in -limit .. limit - 1 (saturated ones are not either), limit a
 * power of two.  Unsigned, as the sum may wrap. */
static inline uint16x8_t find_outside(int16x8_t values, uint16_t limit)
{
    const uint16x8_t moved = vaddq_u16(vreinterpretq_u16_s16(values), vdupq_n_u16(limit));
    return vandq_u16(moved, vdupq_n_u16((uint16_t) ~(2 * limit - 1)));
}

static inline int16x8_t multiply(int16x8_t a, int16x8_t b)
{
    return vcombine_s16(vqmovn_s32(vmull_s16(vget_low_s16(a), vget_low_s16(b))),
                        vqmovn_s32(vmull_high_s16(a, b)));
}

static bool transform_block(const struct sluice_jpeg_block *block)
{
    int16x8_t values[8];
    uint16x8_t is_outside = vdupq_n_u16(0);
    for (unsigned i = 0; i < 8; i += 2) {
        const int16x8x2_t a = vld2q_s16(block->coefficients + (size_t)8 * i);
        const int16x8x2_t b = vld2q_s16(block->quantisers + (size_t)8 * i);
        values[i] = multiply(a.val[0], b.val[0]);
        values[i + 1] = multiply(a.val[1], b.val[1]);
        is_outside = vorrq_u16(is_outside, find_outside(values[i], 16384));
        is_outside = vorrq_u16(is_outside, find_outside(values[i + 1], 16384));
    }
    struct sums sums[8];
    transform_8(values, sums);
    for (unsigned y = 0; y < 8; y++) {
        values[y] = vcombine_s16(vqrshrn_n_s32(sums[y].low, 11), vqrshrn_n_s32(sums[y].high, 11));
        is_outside = vorrq_u16(is_outside, find_outside(values[y], 16384));
    }

    transpose_words(values); /* now by the place of a column, as the pass wants them */
    transform_8(values, sums);
    uint8x8_t samples[8];
    for (unsigned x = 0; x < 8; x++) {
        const int16x8_t column = vcombine_s16(vqmovn_s32(vrshrq_n_s32(sums[x].low, 18)),
                                              vqmovn_s32(vrshrq_n_s32(sums[x].high, 18)));
        is_outside = vorrq_u16(is_outside, find_outside(column, 512));
        samples[x] = vqmovun_s16(vqaddq_s16(column, vdupq_n_s16(128)));
    }
    transpose_bytes(samples);
    for (unsigned y = 0; y < 8; y++)
        vst1_u8(block->out + y * block->stride, samples[y]);
    return vmaxvq_u16(is_outside) == 0;
}

static bool inverse_dct(const struct sluice_jpeg_block *blocks, size_t num_blocks)
{
    bool is_good = true;
    for (size_t i = 0; i < num_blocks; i++) {
        is_good &= transform_block(&blocks[i]);
        memset(blocks[i].coefficients, 0, 64 * sizeof(int16_t));
    }
    return is_good;
}

static void blend(const uint8_t *near, const uint8_t *far, size_t len, uint16_t *sums)
{
    size_t i = 0;
    for (; i + 8 <= len; i += 8)
        vst1q_u16(sums + i, vmlal_u8(vmovl_u8(vld1_u8(far + i)), vld1_u8(near + i), vdup_n_u8(3)));
    sluice_jpeg_window_kernels_c.blend(near + i, far + i, len - i, sums + i);
}

static void finish_blend(const uint16_t *sums, size_t len, unsigned bias, uint8_t *out)
{
    const uint16x8_t bias_16 = vdupq_n_u16((uint16_t)bias);
    size_t i = 0;
    for (; i + 8 <= len; i += 8)
        vst1_u8(out + i, vshrn_n_u16(vaddq_u16(vld1q_u16(sums + i), bias_16), 2));
    sluice_jpeg_window_kernels_c.finish_blend(sums + i, len - i, bias, out + i);
}

static void widen(const uint16_t *sums, size_t len, unsigned even, unsigned odd, unsigned shift,
                  uint8_t *out)
{
    const uint16x8_t even_16 = vdupq_n_u16((uint16_t)even), odd_16 = vdupq_n_u16((uint16_t)odd);
    const int16x8_t count = vdupq_n_s16((int16_t) - (int)shift); /* to the right */
    size_t i = 0;
    for (; i + 8 <= len; i += 8) {
        const uint16x8_t near = vmulq_n_u16(vld1q_u16(sums + i), 3);
        const uint16x8_t first = vaddq_u16(vaddq_u16(near, vld1q_u16(sums + i - 1)), even_16);
        const uint16x8_t second = vaddq_u16(vaddq_u16(near, vld1q_u16(sums + i + 1)), odd_16);
        const uint8x8x2_t both = {{
            vmovn_u16(vshlq_u16(first, count)),
            vmovn_u16(vshlq_u16(second, count)),
        }};
        vst2_u8(out + 2 * i, both);
    }
    sluice_jpeg_window_kernels_c.widen(sums + i, len - i, even, odd, shift, out + 2 * i);
}

/* (weight_a * a + weight_b * b + 32768) >> 16 */
static inline __attribute__((always_inline)) int16x8_t scale(int16x8_t a, int16_t weight_a,
                                                             int16x8_t b, int16_t weight_b)
{
    const struct sums sums = weigh(a, weight_a, b, weight_b);
    return vcombine_s16(vrshrn_n_s32(sums.low, 16), vrshrn_n_s32(sums.high, 16));
}

static inline int16x8_t load_words(const uint8_t *bytes)
{
    return vreinterpretq_s16_u16(vmovl_u8(vld1_u8(bytes)));
}

static inline void convert_8(const uint8_t *y_in, const uint8_t *cb_in, const uint8_t *cr_in,
                             uint8_t *rgb)
{
    const int16x8_t center = vdupq_n_s16(128);
    const int16x8_t y = load_words(y_in);
    const int16x8_t cb = vsubq_s16(load_words(cb_in), center);
    const int16x8_t cr = vsubq_s16(load_words(cr_in), center);
    const int16x8_t red = vaddq_s16(vaddq_s16(y, cr), scale(cr, SLUICE_JPEG_CR_TO_R, cb, 0));
    const int16x8_t green =
        vaddq_s16(vsubq_s16(y, cr), scale(cb, SLUICE_JPEG_CB_TO_G, cr, SLUICE_JPEG_CR_TO_G));
    const int16x8_t blue =
        vaddq_s16(vaddq_s16(y, vaddq_s16(cb, cb)), scale(cb, SLUICE_JPEG_CB_TO_B, cr, 0));
    const uint8x8x3_t pixels = {{vqmovun_s16(red), vqmovun_s16(green), vqmovun_s16(blue)}};
    vst3_u8(rgb, pixels);
}

static void ycc_to_rgb(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, size_t len,
                       uint8_t *rgb)
{
    size_t i = 0;
    for (; i + 8 <= len; i += 8)
        convert_8(y + i, cb + i, cr + i, rgb + 3 * i);
    sluice_jpeg_window_kernels_c.ycc_to_rgb(y + i, cb + i, cr + i, len - i, rgb + 3 * i);
}

const struct sluice_jpeg_window_kernels sluice_jpeg_window_kernels_neon = {
    .place = sluice_jpeg_place_in_pairs,
    .inverse_dct = inverse_dct,
    .blend = blend,
    .finish_blend = finish_blend,
    .widen = widen,
    .ycc_to_rgb = ycc_to_rgb,
};
