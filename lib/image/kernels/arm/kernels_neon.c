/* The kernels with NEON, which every AArch64 machine has.
 *
 * NEON multiplies 32 bits by 32 bits, so the weights are used directly, without a plan.  Its
 * rounding shift adds the half, its narrowing clips: together the rounding of kernels_c.c. */

#include "image/kernels/kernels.h"
#include "image/lookup.h"

#include <arm_neon.h>
#include <stdbool.h>
#include <string.h>

static size_t plan_len(enum sluice_pass pass, uint32_t num_out, uint32_t stride)
{
    (void)pass, (void)num_out, (void)stride;
    return 0;
}

static void make_plan(enum sluice_pass pass, const struct sluice_taps *taps)
{
    (void)pass, (void)taps;
}

/* Where a pixel's red, green and blue stand among 16 bytes, each before the upper bytes of a
 * 32-bit value; an index beyond 15 gives zero. */
#define SPREAD(k)                                                                                  \
    {                                                                                              \
        3 * (k), 255, 255, 255, 3 * (k) + 1, 255, 255, 255, 3 * (k) + 2, 255, 255, 255, 255, 255,  \
            255, 255                                                                               \
    }
static const uint8_t spread[4][16] = {SPREAD(0), SPREAD(1), SPREAD(2), SPREAD(3)};

/* Pixel k of 16 bytes as 32-bit red, green, blue and zero. */
static inline int32x4_t spread_pixel(uint8x16_t bytes, unsigned k)
{
    return vreinterpretq_s32_u8(vqtbl1q_u8(bytes, vld1q_u8(spread[k])));
}

static inline uint16x4_t round_and_clip(int32x4_t sum)
{
    return vqmovun_s32(vrshrq_n_s32(sum, SLUICE_RESIZE_BITS));
}

/* Red, green, blue and a zero of output `o`, clipped to 16 bits. */
static inline uint16x4_t resize_pixel(const struct sluice_taps *taps, const uint8_t *in,
                                      size_t in_bytes, uint32_t o)
{
    const size_t num_groups = (taps->spans[o].count + 3) / 4;
    size_t at = (size_t)taps->spans[o].first * 3;
    const int32_t *coeffs = taps->coeffs + (size_t)o * taps->stride;
    int32x4_t even = vdupq_n_s32(0), odd = even;
    for (size_t group = 0; group < num_groups; group++, at += 12, coeffs += 4) {
        uint8x16_t bytes;
        if (at + 16 <= in_bytes) {
            bytes = vld1q_u8(in + at);
        } else {
            uint8_t padded[16] = {0};
            memcpy(padded, in + at, in_bytes - at);
            bytes = vld1q_u8(padded);
        }
        const int32x4_t weights = vld1q_s32(coeffs);
        even = vmlaq_laneq_s32(even, spread_pixel(bytes, 0), weights, 0);
        odd = vmlaq_laneq_s32(odd, spread_pixel(bytes, 1), weights, 1);
        even = vmlaq_laneq_s32(even, spread_pixel(bytes, 2), weights, 2);
        odd = vmlaq_laneq_s32(odd, spread_pixel(bytes, 3), weights, 3);
    }
    return round_and_clip(vaddq_s32(even, odd));
}

static void resize_row(const struct sluice_taps *taps, const uint8_t *in, uint8_t *out)
{
    static const uint8_t drop_zeros[16] = {0,  1,  2,  4,  5,   6,   8,   9,
                                           10, 12, 13, 14, 255, 255, 255, 255};
    const size_t in_bytes = (size_t)taps->num_in * 3;
    const uint8x16_t order = vld1q_u8(drop_zeros);
    uint32_t o = 0;
    for (; o + 4 <= taps->num_out; o += 4, out += 12) {
        const uint16x8_t left = vcombine_u16(resize_pixel(taps, in, in_bytes, o),
                                             resize_pixel(taps, in, in_bytes, o + 1));
        const uint16x8_t right = vcombine_u16(resize_pixel(taps, in, in_bytes, o + 2),
                                              resize_pixel(taps, in, in_bytes, o + 3));
        const uint8x16_t packed =
            vqtbl1q_u8(vcombine_u8(vqmovn_u16(left), vqmovn_u16(right)), order);
        vst1_u8(out, vget_low_u8(packed));
        const uint32_t last = vgetq_lane_u32(vreinterpretq_u32_u8(packed), 2);
        memcpy(out + 8, &last, 4);
    }
    for (; o < taps->num_out; o++, out += 3) {
        const uint16x4_t pixel = resize_pixel(taps, in, in_bytes, o);
        const uint8x8_t bytes = vqmovn_u16(vcombine_u16(pixel, pixel));
        const uint32_t value = vget_lane_u32(vreinterpret_u32_u8(bytes), 0);
        memcpy(out, &value, 3);
    }
}

static void resize_rows(const struct sluice_taps *taps, const uint8_t *in, size_t in_stride,
                        uint32_t num_rows, uint8_t *out, size_t out_stride)
{
    for (; num_rows > 0; num_rows--, in += in_stride, out += out_stride)
        resize_row(taps, in, out);
}

static inline void blend_16(const int32_t *coeffs, uint32_t count, const uint8_t *const *rows,
                            uint8_t *out, size_t at)
{
    const int32x4_t zero = vdupq_n_s32(0);
    int32x4_t sum[4] = {zero, zero, zero, zero};
    for (uint32_t k = 0; k < count; k++) {
        const int32_t weight = coeffs[k];
        const uint8x16_t bytes = vld1q_u8(rows[k] + at);
        const uint16x8_t low = vmovl_u8(vget_low_u8(bytes)), high = vmovl_high_u8(bytes);
        sum[0] = vmlaq_n_s32(sum[0], vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(low))), weight);
        sum[1] = vmlaq_n_s32(sum[1], vreinterpretq_s32_u32(vmovl_high_u16(low)), weight);
        sum[2] = vmlaq_n_s32(sum[2], vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(high))), weight);
        sum[3] = vmlaq_n_s32(sum[3], vreinterpretq_s32_u32(vmovl_high_u16(high)), weight);
    }
    const uint16x8_t left = vcombine_u16(round_and_clip(sum[0]), round_and_clip(sum[1]));
    const uint16x8_t right = vcombine_u16(round_and_clip(sum[2]), round_and_clip(sum[3]));
    vst1q_u8(out + at, vcombine_u8(vqmovn_u16(left), vqmovn_u16(right)));
}

static void blend_rows(const struct sluice_taps *taps, uint32_t o, const uint8_t *const *rows,
                       uint8_t *out, size_t num_bytes)
{
    if (num_bytes < 16) {
        sluice_kernels_c.blend_rows(taps, o, rows, out, num_bytes);
        return;
    }
    const int32_t *coeffs = taps->coeffs + (size_t)o * taps->stride;
    const uint32_t count = taps->spans[o].count;
    size_t at = 0;
    for (; at + 16 <= num_bytes; at += 16)
        blend_16(coeffs, count, rows, out, at);
    if (at < num_bytes) /* the rest, together with bytes that are done already */
        blend_16(coeffs, count, rows, out, num_bytes - 16);
}

static inline uint8x16_t mirror_16(uint8x16_t bytes)
{
    const uint8x16_t halves = vrev64q_u8(bytes);
    return vextq_u8(halves, halves, 8);
}

static inline void flip_16(const uint8_t *in, uint8_t *out)
{
    uint8x16x3_t pixels = vld3q_u8(in);
    for (int c = 0; c < 3; c++)
        pixels.val[c] = mirror_16(pixels.val[c]);
    vst3q_u8(out, pixels);
}

static void flip_row(const uint8_t *in, size_t width, uint8_t *out)
{
    if (width < 16) {
        sluice_kernels_c.flip_row(in, width, out);
        return;
    }
    size_t x = 0;
    for (; x + 16 <= width; x += 16)
        flip_16(in + (width - x - 16) * 3, out + x * 3);
    if (x < width) /* the rest, together with pixels that are done already */
        flip_16(in, out + (width - 16) * 3);
}

/* --- lookup ---
 *
 * NEON lacks a gather, and a permute reaches 64 bytes: four permutes for each byte of a value cost
 * more than its one load.  But computed float32 values are computed four at a time. */

static inline float32x4_t compute(const struct sluice_lookup *lookup, unsigned c, uint16x4_t values)
{
    const float32x4_t v = vcvtq_f32_u32(vmovl_u16(values));
    const float32x4_t rest = vmulq_n_f32(v, SLUICE_LOOKUP_255TH_REST);
    const float32x4_t x = vfmaq_n_f32(rest, v, SLUICE_LOOKUP_255TH);
    const float32x4_t difference = vsubq_f32(x, vdupq_n_f32(lookup->mean[c]));
    return vfmaq_n_f32(vmulq_n_f32(difference, lookup->scale_rest[c]), difference,
                       lookup->scale[c]);
}

static void look_up(const struct sluice_lookup *lookup, const uint8_t *pixels, size_t num_pixels,
                    void *out, size_t plane)
{
    const bool is_planar = lookup->layout == SLUICE_LOOKUP_CHW;
    size_t i = 0;
    for (; lookup->is_computed && i + 8 <= num_pixels; i += 8) {
        const uint8x8x3_t bytes = vld3_u8(pixels + 3 * i);
        float32x4x3_t low, high;
        for (unsigned c = 0; c < 3; c++) {
            const uint16x8_t values = vmovl_u8(bytes.val[c]);
            low.val[c] = compute(lookup, c, vget_low_u16(values));
            high.val[c] = compute(lookup, c, vget_high_u16(values));
        }
        float *to = (float *)out + i * (is_planar ? 1 : 3);
        if (!is_planar) {
            vst3q_f32(to, low);
            vst3q_f32(to + 12, high);
            continue;
        }
        for (size_t c = 0; c < 3; c++) {
            vst1q_f32(to + c * plane, low.val[c]);
            vst1q_f32(to + c * plane + 4, high.val[c]);
        }
    }
    sluice_look_up_c(lookup, pixels + 3 * i, num_pixels - i,
                     (uint8_t *)out + i * sluice_lookup_value_bytes(lookup) * (is_planar ? 1 : 3),
                     plane);
}

const struct sluice_kernels sluice_kernels_neon = {
    .weigh = sluice_weigh_c,
    .plan_len = plan_len,
    .make_plan = make_plan,
    .resize_rows = resize_rows,
    .blend_rows = blend_rows,
    .flip_row = flip_row,
    .look_up = look_up,
};
