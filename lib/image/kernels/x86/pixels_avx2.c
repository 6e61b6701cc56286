#include "image/kernels/x86/pixels_avx2.h"

#include <immintrin.h>
#include <string.h>

#define AT_ONCE 16

struct planes {
    __m128i r, g, b;
};

/* Byte shuffles, of which an index below 0 gives 0: [c][k] takes plane c's bytes from 16 k on out
 * of pixels, and puts plane c into the pixels' bytes from 16 k on. */
/* clang-format off */
static const int8_t parts[3][3][16] = {
    {{0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
     {-1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14, -1, -1, -1, -1, -1},
     {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1, 4, 7, 10, 13}},
    {{1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
     {-1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1},
     {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14}},
    {{2, 5, 8, 11, 14, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
     {-1, -1, -1, -1, -1, 1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1},
     {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15}},
};
static const int8_t joins[3][3][16] = {
    {{0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5},
     {-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1},
     {-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1}},
    {{-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1},
     {5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10},
     {-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1}},
    {{-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1},
     {-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1},
     {10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15}},
};
/* clang-format on */

static inline __m128i shuffled(__m128i bytes, const int8_t index[16])
{
    return _mm_shuffle_epi8(bytes, _mm_loadu_si128((const __m128i *)index));
}

static inline __m128i plane_of(const __m128i *bytes, int c)
{
    return _mm_or_si128(
        _mm_or_si128(shuffled(bytes[0], parts[c][0]), shuffled(bytes[1], parts[c][1])),
        shuffled(bytes[2], parts[c][2]));
}

static inline struct planes load(const uint8_t *in)
{
    const __m128i bytes[3] = {_mm_loadu_si128((const __m128i *)in),
                              _mm_loadu_si128((const __m128i *)(in + 16)),
                              _mm_loadu_si128((const __m128i *)(in + 32))};
    return (struct planes){plane_of(bytes, 0), plane_of(bytes, 1), plane_of(bytes, 2)};
}

static inline __m128i bytes_of(const struct planes *p, int k)
{
    return _mm_or_si128(_mm_or_si128(shuffled(p->r, joins[0][k]), shuffled(p->g, joins[1][k])),
                        shuffled(p->b, joins[2][k]));
}

static inline void store(const struct planes *p, uint8_t *out)
{
    for (int k = 0; k < 3; k++)
        _mm_storeu_si128((__m128i *)(out + 16 * k), bytes_of(p, k));
}

void sluice_split_avx2(const uint8_t *in, size_t num_pixels, uint8_t *r, uint8_t *g, uint8_t *b)
{
    size_t i = 0;
    for (; i + AT_ONCE <= num_pixels; i += AT_ONCE) {
        const struct planes p = load(in + 3 * i);
        _mm_storeu_si128((__m128i *)(r + i), p.r);
        _mm_storeu_si128((__m128i *)(g + i), p.g);
        _mm_storeu_si128((__m128i *)(b + i), p.b);
    }
    for (; i < num_pixels; i++) {
        r[i] = in[3 * i];
        g[i] = in[3 * i + 1];
        b[i] = in[3 * i + 2];
    }
}

void sluice_join_avx2(const uint8_t *r, const uint8_t *g, const uint8_t *b, size_t num_pixels,
                      uint8_t *out)
{
    size_t i = 0;
    for (; i + AT_ONCE <= num_pixels; i += AT_ONCE) {
        const struct planes p = {_mm_loadu_si128((const __m128i *)(r + i)),
                                 _mm_loadu_si128((const __m128i *)(g + i)),
                                 _mm_loadu_si128((const __m128i *)(b + i))};
        store(&p, out + 3 * i);
    }
    for (; i < num_pixels; i++) {
        out[3 * i] = r[i];
        out[3 * i + 1] = g[i];
        out[3 * i + 2] = b[i];
    }
}

/* Runs `kernel` on blocks of pixels; the last one, which is short, by a copy. */
typedef struct planes kernel_fn(struct planes in, float factor, int shift);

static inline __attribute__((always_inline)) void
run(kernel_fn *kernel, const uint8_t *in, size_t num_pixels, float factor, int shift, uint8_t *out)
{
    size_t i = 0;
    for (; i + AT_ONCE <= num_pixels; i += AT_ONCE) {
        const struct planes made = kernel(load(in + 3 * i), factor, shift);
        store(&made, out + 3 * i);
    }
    if (i == num_pixels)
        return;
    uint8_t block[3 * AT_ONCE] = {0};
    memcpy(block, in + 3 * i, 3 * (num_pixels - i));
    const struct planes made = kernel(load(block), factor, shift);
    store(&made, block);
    memcpy(out + 3 * i, block, 3 * (num_pixels - i));
}

/* --- luma --- */

/* (19595 r + 38470 g + 7471 b + 2^15) >> 16; 38470 is above what a signed word holds, and twice
 * 19235. */
static inline __m128i luma_of(const struct planes *p)
{
    const __m256i r = _mm256_cvtepu8_epi16(p->r), g = _mm256_cvtepu8_epi16(p->g);
    const __m256i b = _mm256_cvtepu8_epi16(p->b);
    const __m256i red = _mm256_set1_epi32(19235 << 16 | 19595);
    const __m256i blue = _mm256_set1_epi32(7471 << 16 | 19235);
    const __m256i half = _mm256_set1_epi32(0x8000);
    __m256i low = _mm256_add_epi32(_mm256_madd_epi16(_mm256_unpacklo_epi16(r, g), red),
                                   _mm256_madd_epi16(_mm256_unpacklo_epi16(g, b), blue));
    __m256i high = _mm256_add_epi32(_mm256_madd_epi16(_mm256_unpackhi_epi16(r, g), red),
                                    _mm256_madd_epi16(_mm256_unpackhi_epi16(g, b), blue));
    low = _mm256_srli_epi32(_mm256_add_epi32(low, half), 16);
    high = _mm256_srli_epi32(_mm256_add_epi32(high, half), 16);
    const __m256i words = _mm256_packus_epi32(low, high); /* in the order of unpack */
    const __m256i bytes = _mm256_packus_epi16(words, words);
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(bytes, 0x08));
}

uint64_t sluice_luma_sum_avx2(const uint8_t *pixels, size_t num_pixels)
{
    __m128i sums = _mm_setzero_si128();
    size_t i = 0;
    for (; i + AT_ONCE <= num_pixels; i += AT_ONCE) {
        const struct planes p = load(pixels + 3 * i);
        sums = _mm_add_epi64(sums, _mm_sad_epu8(luma_of(&p), _mm_setzero_si128()));
    }
    if (i < num_pixels) { /* black, which the rest is, has luma 0 */
        uint8_t block[3 * AT_ONCE] = {0};
        memcpy(block, pixels + 3 * i, 3 * (num_pixels - i));
        const struct planes p = load(block);
        sums = _mm_add_epi64(sums, _mm_sad_epu8(luma_of(&p), _mm_setzero_si128()));
    }
    return (uint64_t)_mm_extract_epi64(sums, 0) + (uint64_t)_mm_extract_epi64(sums, 1);
}

static inline struct planes to_gray(struct planes in, float factor, int shift)
{
    (void)factor, (void)shift;
    const __m128i luma = luma_of(&in);
    return (struct planes){luma, luma, luma};
}

void sluice_gray_avx2(const uint8_t *in, size_t num_pixels, uint8_t *out)
{
    run(to_gray, in, num_pixels, 0, 0, out);
}

/* --- saturation --- */

static inline __m256 to_floats(__m128i bytes)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
}

static inline __m256i blend(__m256 from, __m256 value, __m256 factor)
{
    return _mm256_cvttps_epi32(
        _mm256_add_ps(from, _mm256_mul_ps(factor, _mm256_sub_ps(value, from))));
}

/* To bytes, clipped; the four quarters of 32 bits are in order. */
static inline __m128i pack(__m256i low, __m256i high)
{
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xD8);
    return _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

static inline struct planes saturated(struct planes in, float factor, int shift)
{
    (void)shift;
    const __m128i luma = luma_of(&in);
    const __m256 low = to_floats(luma), high = to_floats(_mm_srli_si128(luma, 8));
    const __m256 by = _mm256_set1_ps(factor);
    const __m128i channels[3] = {in.r, in.g, in.b};
    __m128i made[3];
    for (int c = 0; c < 3; c++)
        made[c] = pack(blend(low, to_floats(channels[c]), by),
                       blend(high, to_floats(_mm_srli_si128(channels[c], 8)), by));
    return (struct planes){made[0], made[1], made[2]};
}

void sluice_saturate_avx2(const uint8_t *in, size_t num_pixels, float factor, uint8_t *out)
{
    run(saturated, in, num_pixels, factor, 0, out);
}

/* --- hue: to_hsv() and to_rgb() of image/kernels/color_loops.inc, in float32.  A quotient of whole
 * numbers below 2^24 that is rounded or truncated here is set right by its exact remainder, which
 * a fused multiply-add gives. --- */

struct rgb8 {
    __m256 r, g, b;
};

static inline __m256 where(__m256 mask, __m256 then, __m256 otherwise)
{
    return _mm256_blendv_ps(otherwise, then, mask);
}

static inline __m256 equal(__m256 a, __m256 b)
{
    return _mm256_cmp_ps(a, b, _CMP_EQ_OQ);
}

/* trunc(255 x) for x in [0, 1], without the rounding of the product. */
static inline __m256 trunc_255(__m256 x)
{
    const __m256 times = _mm256_set1_ps(255);
    const __m256 whole =
        _mm256_round_ps(_mm256_mul_ps(x, times), _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    const __m256 rest = _mm256_fmsub_ps(x, times, whole);
    const __m256 is_above = _mm256_cmp_ps(rest, _mm256_setzero_ps(), _CMP_LT_OQ);
    return _mm256_sub_ps(whole, _mm256_and_ps(is_above, _mm256_set1_ps(1)));
}

/* a / 65025, rounded, for a whole number below 2^24: no quotient is half way between two. */
static inline __m256 divide_65025(__m256 a)
{
    const __m256 by = _mm256_set1_ps(65025), half = _mm256_set1_ps(32512.5F);
    const __m256 guess = _mm256_round_ps(_mm256_mul_ps(a, _mm256_set1_ps(1.0F / 65025)),
                                         _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m256 rest = _mm256_fnmadd_ps(guess, by, a);
    const __m256 one = _mm256_set1_ps(1);
    const __m256 is_low = _mm256_cmp_ps(rest, half, _CMP_GT_OQ);
    const __m256 is_high =
        _mm256_cmp_ps(rest, _mm256_sub_ps(_mm256_setzero_ps(), half), _CMP_LT_OQ);
    return _mm256_sub_ps(_mm256_add_ps(guess, _mm256_and_ps(is_low, one)),
                         _mm256_and_ps(is_high, one));
}

static inline __m256 hue_of(const struct rgb8 *p, __m256 most, __m256 least)
{
    const __m256 one = _mm256_set1_ps(1), zero = _mm256_setzero_ps();
    const __m256 range = _mm256_sub_ps(most, least);
    const __m256 mid =
        _mm256_sub_ps(_mm256_sub_ps(_mm256_add_ps(_mm256_add_ps(p->r, p->g), p->b), most), least);
    const __m256 third = _mm256_div_ps(_mm256_sub_ps(most, mid), _mm256_max_ps(range, one));
    const __m256 is_r = equal(p->r, most), is_g = equal(p->g, most);
    const __m256 is_b_least = equal(p->b, least), is_r_least = equal(p->r, least);
    const __m256 whole = where(is_r, where(is_b_least, one, _mm256_set1_ps(-1)),
                               where(is_g, where(is_b_least, one, _mm256_set1_ps(3)),
                                     where(is_r_least, _mm256_set1_ps(3), _mm256_set1_ps(5))));
    const __m256 all = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
    const __m256 is_minus =
        where(is_r, is_b_least,
              where(is_g, _mm256_xor_ps(is_b_least, all), _mm256_xor_ps(is_r_least, all)));
    const __m256 sign = _mm256_and_ps(is_minus, _mm256_set1_ps(-0.0F));
    const __m256 hue = _mm256_add_ps(whole, _mm256_xor_ps(third, sign));
    /* hue / 6 + 1 in double, less 1 from 1 on, and then in float32: hue / 6, or below 0 the sum, of
     * which the rounding errors of the quotient and of the sum are taken back. */
    const __m256 by = _mm256_set1_ps(6);
    const __m256 sixth = _mm256_div_ps(hue, by);
    const __m256 sum = _mm256_add_ps(one, sixth);
    const __m256 rest = _mm256_div_ps(_mm256_fnmadd_ps(sixth, by, hue), by);
    const __m256 lost = _mm256_add_ps(_mm256_sub_ps(sixth, _mm256_sub_ps(sum, one)), rest);
    const __m256 is_negative = _mm256_cmp_ps(hue, zero, _CMP_LT_OQ);
    return trunc_255(where(is_negative, _mm256_add_ps(sum, lost), sixth));
}

static inline struct rgb8 shifted(struct rgb8 in, __m256 shift)
{
    const __m256 one = _mm256_set1_ps(1), all = _mm256_set1_ps(255);
    const __m256 v = _mm256_max_ps(_mm256_max_ps(in.r, in.g), in.b);
    const __m256 least = _mm256_min_ps(_mm256_min_ps(in.r, in.g), in.b);
    const __m256 s = trunc_255(_mm256_div_ps(_mm256_sub_ps(v, least), _mm256_max_ps(v, one)));
    __m256 h = _mm256_add_ps(hue_of(&in, v, least), shift);
    h = _mm256_sub_ps(h, _mm256_and_ps(_mm256_cmp_ps(h, all, _CMP_GT_OQ), _mm256_set1_ps(256)));
    /* six = 6 h = 255 turn + part */
    const __m256 six = _mm256_mul_ps(h, _mm256_set1_ps(6));
    const __m256 turn = _mm256_round_ps(
        _mm256_mul_ps(_mm256_add_ps(six, _mm256_set1_ps(0.5F)), _mm256_set1_ps(1.0F / 255)),
        _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    const __m256 part = _mm256_fnmadd_ps(turn, all, six);
    const __m256 whole = _mm256_set1_ps(65025);
    const __m256 low = _mm256_round_ps(
        _mm256_mul_ps(_mm256_mul_ps(v, _mm256_sub_ps(all, s)), _mm256_set1_ps(1.0F / 255)),
        _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m256 down = divide_65025(_mm256_mul_ps(v, _mm256_fnmadd_ps(s, part, whole)));
    const __m256 up =
        divide_65025(_mm256_mul_ps(v, _mm256_fnmadd_ps(s, _mm256_sub_ps(all, part), whole)));
    const __m256 k = where(equal(turn, _mm256_set1_ps(6)), _mm256_setzero_ps(), turn);
    const __m256 is_0 = equal(k, _mm256_setzero_ps()), is_1 = equal(k, one);
    const __m256 is_2 = equal(k, _mm256_set1_ps(2)), is_3 = equal(k, _mm256_set1_ps(3));
    const __m256 is_4 = equal(k, _mm256_set1_ps(4)), is_5 = equal(k, _mm256_set1_ps(5));
    return (struct rgb8){
        .r = where(_mm256_or_ps(is_0, is_5), v, where(is_1, down, where(is_4, up, low))),
        .g = where(_mm256_or_ps(is_1, is_2), v, where(is_0, up, where(is_3, down, low))),
        .b = where(_mm256_or_ps(is_3, is_4), v, where(is_2, up, where(is_5, down, low))),
    };
}

static inline struct planes hue_shifted(struct planes in, float factor, int shift)
{
    (void)factor;
    const __m256 by = _mm256_set1_ps((float)shift);
    const struct rgb8 low =
        shifted((struct rgb8){to_floats(in.r), to_floats(in.g), to_floats(in.b)}, by);
    const struct rgb8 high = shifted((struct rgb8){to_floats(_mm_srli_si128(in.r, 8)),
                                                   to_floats(_mm_srli_si128(in.g, 8)),
                                                   to_floats(_mm_srli_si128(in.b, 8))},
                                     by);
    return (struct planes){pack(_mm256_cvttps_epi32(low.r), _mm256_cvttps_epi32(high.r)),
                           pack(_mm256_cvttps_epi32(low.g), _mm256_cvttps_epi32(high.g)),
                           pack(_mm256_cvttps_epi32(low.b), _mm256_cvttps_epi32(high.b))};
}

void sluice_shift_hue_avx2(const uint8_t *in, size_t num_pixels, uint8_t shift, uint8_t *out)
{
    run(hue_shifted, in, num_pixels, 0, shift, out);
}
