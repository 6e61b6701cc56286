/* The kernels with AVX2.  Compiled for it; only called where base/cpu.h found it.
 *
 * A weight has up to 23 bits, more than a 16-bit multiply takes, so it is used in
 * halves: sum(p * w) = sum(p * low) + (sum(p * high) << LOW_BITS), each sum made by
 * the multiply that adds neighbouring products.  Integer sums do not depend on
 * their order, so the bytes are those of kernels_c.c.  Neither sum overflows:
 * the weights of one output add up to little more than 1 << 22. */

#include "image/kernels.h"

#include <immintrin.h>
#include <string.h>

#define LOW_BITS 11

/* The plan of both passes: for every four taps, their four lower halves, then their
 * four upper ones. */
static size_t plan_len(enum sluice_pass pass, uint32_t num_out, uint32_t stride)
{
    (void)pass;
    return (size_t)num_out * stride * 2 * sizeof(int16_t);
}

static void make_plan(enum sluice_pass pass, const struct sluice_taps *taps)
{
    (void)pass;
    int16_t *halves = taps->plan;
    const int32_t *coeffs = taps->coeffs;
    const size_t num_coeffs = (size_t)taps->num_out * taps->stride;
    for (size_t i = 0; i < num_coeffs; i += 4, halves += 8) {
        for (size_t k = 0; k < 4; k++) {
            halves[k] = (int16_t)(coeffs[i + k] & ((1 << LOW_BITS) - 1));
            halves[4 + k] = (int16_t)(coeffs[i + k] >> LOW_BITS);
        }
    }
}

static __m256i join_halves(__m256i low, __m256i high)
{
    const __m256i rounding = _mm256_set1_epi32(1 << (SLUICE_RESIZE_BITS - 1));
    return _mm256_add_epi32(_mm256_add_epi32(low, rounding), _mm256_slli_epi32(high, LOW_BITS));
}

/* Red, green, blue and a zero of output `o`, as 32-bit values of 0 .. 255 or a bit
 * beyond. */
static inline __m128i resize_pixel(const struct sluice_taps *taps, const uint8_t *in,
                                   size_t in_bytes, uint32_t o)
{
    /* Four pixels of 3 bytes to 16-bit pairs (tap 0, tap 1) of each channel in the
     * lower lane, (tap 2, tap 3) in the upper one. */
    const __m256i spread =
        _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1, /**/
                         6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
    /* The halves of four weights, (0, 1) to the lower lane, (2, 3) to the upper. */
    const __m256i take_low = _mm256_setr_epi8(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, /**/
                                              4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7);
    const __m256i take_high = _mm256_add_epi8(take_low, _mm256_set1_epi8(8));

    const size_t num_groups = (taps->spans[o].count + 3) / 4;
    size_t at = (size_t)taps->spans[o].first * 3;
    const int16_t *halves = (const int16_t *)taps->plan + (size_t)o * taps->stride * 2;
    __m256i low = _mm256_setzero_si256(), high = low;
    for (size_t group = 0; group < num_groups; group++, at += 12, halves += 8) {
        __m128i bytes;
        if (at + 16 <= in_bytes) {
            bytes = _mm_loadu_si128((const __m128i *)(const void *)(in + at));
        } else {
            uint8_t padded[16] = {0};
            memcpy(padded, in + at, in_bytes - at);
            bytes = _mm_loadu_si128((const __m128i *)(const void *)padded);
        }
        const __m256i pixels = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), spread);
        const __m256i weights =
            _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)halves));
        low = _mm256_add_epi32(low,
                               _mm256_madd_epi16(pixels, _mm256_shuffle_epi8(weights, take_low)));
        high = _mm256_add_epi32(high,
                                _mm256_madd_epi16(pixels, _mm256_shuffle_epi8(weights, take_high)));
    }
    const __m256i sum = _mm256_add_epi32(low, _mm256_slli_epi32(high, LOW_BITS));
    const __m128i both =
        _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    return _mm_srai_epi32(_mm_add_epi32(both, _mm_set1_epi32(1 << (SLUICE_RESIZE_BITS - 1))),
                          SLUICE_RESIZE_BITS);
}

static void resize_row(const struct sluice_taps *taps, const uint8_t *in, uint8_t *out)
{
    const size_t in_bytes = (size_t)taps->num_in * 3;
    const __m128i drop_zeros =
        _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    uint32_t o = 0;
    for (; o + 4 <= taps->num_out; o += 4, out += 12) {
        const __m128i first = _mm_packs_epi32(resize_pixel(taps, in, in_bytes, o),
                                              resize_pixel(taps, in, in_bytes, o + 1));
        const __m128i second = _mm_packs_epi32(resize_pixel(taps, in, in_bytes, o + 2),
                                               resize_pixel(taps, in, in_bytes, o + 3));
        const __m128i packed = _mm_shuffle_epi8(_mm_packus_epi16(first, second), drop_zeros);
        _mm_storel_epi64((__m128i *)(void *)out, packed);
        const int last = _mm_extract_epi32(packed, 2);
        memcpy(out + 8, &last, 4);
    }
    for (; o < taps->num_out; o++, out += 3) {
        const __m128i pixel = resize_pixel(taps, in, in_bytes, o);
        const __m128i words = _mm_packs_epi32(pixel, pixel);
        const int value = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
        memcpy(out, &value, 3);
    }
}

static void resize_rows(const struct sluice_taps *taps, const uint8_t *in, size_t in_stride,
                        uint32_t num_rows, uint8_t *out, size_t out_stride)
{
    for (; num_rows > 0; num_rows--, in += in_stride, out += out_stride)
        resize_row(taps, in, out);
}

/* Both halves of the weights of taps k and k + 1 (k even), each pair in every lane. */
static inline void load_pair(const int16_t *halves, uint32_t k, __m256i *low, __m256i *high)
{
    int32_t pair[2];
    memcpy(&pair[0], halves + k / 4 * 8 + k % 4, 4);
    memcpy(&pair[1], halves + k / 4 * 8 + k % 4 + 4, 4);
    *low = _mm256_set1_epi32(pair[0]);
    *high = _mm256_set1_epi32(pair[1]);
}

static inline void blend_32(const int16_t *halves, uint32_t count, const uint8_t *const *rows,
                            uint8_t *out, size_t at)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i low[4] = {zero, zero, zero, zero}, high[4] = {zero, zero, zero, zero};
    for (uint32_t k = 0; k < count; k += 2) {
        __m256i weight_low, weight_high;
        load_pair(halves, k, &weight_low, &weight_high);
        /* An odd last tap is paired with itself: the weight beside it is zero. */
        const uint8_t *next = rows[k + 1 < count ? k + 1 : k];
        const __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(rows[k] + at));
        const __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(next + at));
        const __m256i ab[2] = {_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b)};
        for (int i = 0; i < 2; i++) {
            const __m256i p = _mm256_unpacklo_epi8(ab[i], zero);
            const __m256i q = _mm256_unpackhi_epi8(ab[i], zero);
            low[2 * i] = _mm256_add_epi32(low[2 * i], _mm256_madd_epi16(p, weight_low));
            high[2 * i] = _mm256_add_epi32(high[2 * i], _mm256_madd_epi16(p, weight_high));
            low[2 * i + 1] = _mm256_add_epi32(low[2 * i + 1], _mm256_madd_epi16(q, weight_low));
            high[2 * i + 1] = _mm256_add_epi32(high[2 * i + 1], _mm256_madd_epi16(q, weight_high));
        }
    }
    __m256i sum[4];
    for (int i = 0; i < 4; i++)
        sum[i] = _mm256_srai_epi32(join_halves(low[i], high[i]), SLUICE_RESIZE_BITS);
    const __m256i packed =
        _mm256_packus_epi16(_mm256_packs_epi32(sum[0], sum[1]), _mm256_packs_epi32(sum[2], sum[3]));
    _mm256_storeu_si256((__m256i *)(void *)(out + at), packed);
}

static void blend_rows(const struct sluice_taps *taps, uint32_t o, const uint8_t *const *rows,
                       uint8_t *out, size_t num_bytes)
{
    if (num_bytes < 32) {
        sluice_kernels_c.blend_rows(taps, o, rows, out, num_bytes);
        return;
    }
    const int16_t *halves = (const int16_t *)taps->plan + (size_t)o * taps->stride * 2;
    const uint32_t count = taps->spans[o].count;
    size_t at = 0;
    for (; at + 32 <= num_bytes; at += 32)
        blend_32(halves, count, rows, out, at);
    if (at < num_bytes) /* the rest, together with bytes that are done already */
        blend_32(halves, count, rows, out, num_bytes - 32);
}

/* Five pixels at a time, from the end of `in` to the start of `out`. */
void sluice_flip_row_avx2(const uint8_t *in, size_t width, uint8_t *out)
{
    const __m128i mirror = _mm_setr_epi8(13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, 0);
    /* Loads the byte before the five pixels too; stores one more byte, which the next store
     * overwrites. */
    size_t left = width;
    for (; left >= 6; left -= 5, out += 15) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(in + left * 3 - 16));
        _mm_storeu_si128((__m128i *)(void *)out, _mm_shuffle_epi8(bytes, mirror));
    }
    for (; left > 0; left--, out += 3)
        memcpy(out, in + (left - 1) * 3, 3);
}

const struct sluice_kernels sluice_kernels_avx2 = {
    .plan_len = plan_len,
    .make_plan = make_plan,
    .resize_rows = resize_rows,
    .blend_rows = blend_rows,
    .flip_row = sluice_flip_row_avx2,
    /* A gather reads no faster than as many loads. */
    .look_up = sluice_look_up_c,
};
