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

/* The lumas of the eight pixels in two times 12 bytes that `spread` finds in each half: r g b g. */
static inline __m256i luma_of_eight(const uint8_t *low, const uint8_t *high, __m256i spread)
{
    const __m256i bytes =
        _mm256_shuffle_epi8(_mm256_loadu2_m128i((const __m128i *)(const void *)high,
                                                (const __m128i *)(const void *)low),
                            spread);
    const __m256i weights =
        _mm256_set1_epi64x((int64_t)19235 << 48 | (int64_t)7471 << 32 | 19235 << 16 | 19595);
    const __m256i zero = _mm256_setzero_si256();
    const __m256i sums =
        _mm256_hadd_epi32(_mm256_madd_epi16(_mm256_unpacklo_epi8(bytes, zero), weights),
                          _mm256_madd_epi16(_mm256_unpackhi_epi8(bytes, zero), weights));
    return _mm256_srli_epi32(_mm256_add_epi32(sums, _mm256_set1_epi32(0x8000)), 16);
}

/* Those of 16 pixels, without a byte behind them. */
static inline void luma_of_block(const uint8_t *in, __m256i luma[2])
{
    const __m256i first = _mm256_setr_epi8(0, 1, 2, 1, 3, 4, 5, 4, 6, 7, 8, 7, 9, 10, 11, 10, 0, 1,
                                           2, 1, 3, 4, 5, 4, 6, 7, 8, 7, 9, 10, 11, 10);
    const __m256i last = _mm256_setr_epi8(0, 1, 2, 1, 3, 4, 5, 4, 6, 7, 8, 7, 9, 10, 11, 10, 4, 5,
                                          6, 5, 7, 8, 9, 8, 10, 11, 12, 11, 13, 14, 15, 14);
    luma[0] = luma_of_eight(in, in + 12, first);
    luma[1] = luma_of_eight(in + 24, in + 32, last);
}

static inline __m256i sum_block(const uint8_t *in)
{
    __m256i luma[2];
    luma_of_block(in, luma);
    return _mm256_sad_epu8(_mm256_packus_epi32(luma[0], luma[1]), _mm256_setzero_si256());
}

uint64_t sluice_luma_sum_avx2(const uint8_t *pixels, size_t num_pixels)
{
    __m256i sums = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + AT_ONCE <= num_pixels; i += AT_ONCE)
        sums = _mm256_add_epi64(sums, sum_block(pixels + 3 * i));
    if (i < num_pixels) { /* black, which the rest is, has luma 0 */
        uint8_t block[3 * AT_ONCE] = {0};
        memcpy(block, pixels + 3 * i, 3 * (num_pixels - i));
        sums = _mm256_add_epi64(sums, sum_block(block));
    }
    uint64_t parts_of[4];
    _mm256_storeu_si256((__m256i *)(void *)parts_of, sums);
    return parts_of[0] + parts_of[1] + parts_of[2] + parts_of[3];
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

/* The 24 values of eight pixels, by their lumas. */
static inline void saturate_eight(const uint8_t *in, __m256 luma, __m256 factor, __m256i made[3])
{
    const __m256i of_pixel[3] = {_mm256_setr_epi32(0, 0, 0, 1, 1, 1, 2, 2),
                                 _mm256_setr_epi32(2, 3, 3, 3, 4, 4, 4, 5),
                                 _mm256_setr_epi32(5, 5, 6, 6, 6, 7, 7, 7)};
    for (int k = 0; k < 3; k++) {
        const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)(in + 8 * k));
        made[k] = blend(_mm256_permutevar8x32_ps(luma, of_pixel[k]), to_floats(bytes), factor);
    }
}

static inline void saturate(const uint8_t *in, __m256 factor, uint8_t *out)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7); /* that the packs have left */
    __m256i luma[2], made[6];
    luma_of_block(in, luma);
    saturate_eight(in, _mm256_cvtepi32_ps(luma[0]), factor, made);
    saturate_eight(in + 24, _mm256_cvtepi32_ps(luma[1]), factor, made + 3);
    const __m256i words[3] = {_mm256_packs_epi32(made[0], made[1]),
                              _mm256_packs_epi32(made[2], made[3]),
                              _mm256_packs_epi32(made[4], made[5])};
    const __m256i low = _mm256_packus_epi16(words[0], words[1]);
    const __m256i high = _mm256_packus_epi16(words[2], words[2]);
    _mm256_storeu_si256((__m256i *)(void *)out, _mm256_permutevar8x32_epi32(low, order));
    _mm_storeu_si128((__m128i *)(void *)(out + 32),
                     _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(high, order)));
}

void sluice_saturate_avx2(const uint8_t *in, size_t num_pixels, float factor, uint8_t *out)
{
    const __m256 by = _mm256_set1_ps(factor);
    size_t i = 0;
    for (; i + AT_ONCE <= num_pixels; i += AT_ONCE)
        saturate(in + 3 * i, by, out + 3 * i);
    if (i == num_pixels)
        return;
    uint8_t block[3 * AT_ONCE] = {0}, made[3 * AT_ONCE];
    memcpy(block, in + 3 * i, 3 * (num_pixels - i));
    saturate(block, by, made);
    memcpy(out + 3 * i, made, 3 * (num_pixels - i));
}

/* --- hue: to_hsv() and to_rgb() of image/kernels/color_loops.inc.  Float32 gives the same whole
 * numbers; tests/unit/image/test_color.c goes through all colours. --- */

/* whole and is_minus of to_hsv() by which channels are the least and the most: bit 0, blue is the
 * least; 1, red is; 2, red is the most; 3, green is. */
static const int8_t wholes[16] = {5, 1, 3, 1, -1, 1, 3, 1, 5, 1, 3, 1, -1, 1, 3, 1};
static const int8_t signs[16] = {-1, 1, 1, 1, 1, -1, 1, -1, -1, 1, -1, 1, 1, -1, -1, -1};

static inline __m128i bit_where_equal(__m128i a, __m128i b, int bit)
{
    return _mm_and_si128(_mm_cmpeq_epi8(a, b), _mm_set1_epi8((char)(1 << bit)));
}

/* Eight pixels, as float32 of whole numbers but for the hue: a sixth of a turn is one. */
struct hsv8 {
    __m256 v, v_less_least, whole, part;
};

static inline __m256 saturation_of(const struct hsv8 *p)
{
    const __m256 one = _mm256_set1_ps(1);
    return _mm256_mul_ps(_mm256_div_ps(p->v_less_least, _mm256_max_ps(p->v, one)),
                         _mm256_set1_ps(255));
}

/* The hue, plus one turn if it is negative.  The unsigned minimum of the bits selects: a negative
 * float has its sign bit set, so its bits are greater than those of any positive float. */
static inline __m256 hue_of(const struct hsv8 *p)
{
    const __m256 one = _mm256_set1_ps(1);
    const __m256 third = _mm256_div_ps(p->part, _mm256_max_ps(p->v_less_least, one));
    const __m256 hue = _mm256_add_ps(p->whole, third);
    const __m256 turn = _mm256_div_ps(hue, _mm256_set1_ps(6));
    const __m256 next = _mm256_fmadd_ps(hue, _mm256_set1_ps(1.0F / 6), one);
    const __m256i least = _mm256_min_epu32(_mm256_castps_si256(turn), _mm256_castps_si256(next));
    return _mm256_mul_ps(_mm256_castsi256_ps(least), _mm256_set1_ps(255));
}

static inline __m256i truncated_words(__m256 low, __m256 high)
{
    return _mm256_packs_epi32(_mm256_cvttps_epi32(low), _mm256_cvttps_epi32(high));
}

/* A channel is v (65025 - s part) / 65025, rounded: `part` rises and falls with the hue, from 0
 * where the channel is the most to 255 where it is the least. */
static inline __m256i channel_of(__m256i s, __m256i part, const struct hsv8 *low,
                                 const struct hsv8 *high)
{
    const __m256i zero = _mm256_setzero_si256();
    const __m256i less = _mm256_mullo_epi16(s, _mm256_min_epu16(part, _mm256_set1_epi16(255)));
    const __m256 whole = _mm256_set1_ps(65025), half = _mm256_set1_ps(32512);
    const __m256 by = _mm256_set1_ps(1.0F / 65025);
    const __m256 of_low =
        _mm256_fnmadd_ps(low->v, _mm256_cvtepi32_ps(_mm256_unpacklo_epi16(less, zero)),
                         _mm256_fmadd_ps(low->v, whole, half));
    const __m256 of_high =
        _mm256_fnmadd_ps(high->v, _mm256_cvtepi32_ps(_mm256_unpackhi_epi16(less, zero)),
                         _mm256_fmadd_ps(high->v, whole, half));
    return truncated_words(_mm256_mul_ps(of_low, by), _mm256_mul_ps(of_high, by));
}

static inline __m256i distance(__m256i a, int16_t b)
{
    return _mm256_abs_epi16(_mm256_sub_epi16(a, _mm256_set1_epi16(b)));
}

static inline struct planes hue_shifted(struct planes in, float factor, int shift)
{
    (void)factor;
    const __m128i most = _mm_max_epu8(_mm_max_epu8(in.r, in.g), in.b);
    const __m128i least = _mm_min_epu8(_mm_min_epu8(in.r, in.g), in.b);
    const __m128i range = _mm_sub_epi8(most, least);
    /* most - mid = 2 most + least - r - g - b, modulo 256 */
    const __m128i rest = _mm_sub_epi8(
        _mm_sub_epi8(_mm_add_epi8(_mm_add_epi8(most, most), least), _mm_add_epi8(in.r, in.g)),
        in.b);
    const __m128i kind =
        _mm_or_si128(_mm_or_si128(bit_where_equal(in.b, least, 0), bit_where_equal(in.r, least, 1)),
                     _mm_or_si128(bit_where_equal(in.r, most, 2), bit_where_equal(in.g, most, 3)));
    const __m128i whole = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)wholes), kind);
    const __m128i sign = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)signs), kind);
    const __m256i part = _mm256_sign_epi16(_mm256_cvtepu8_epi16(rest), _mm256_cvtepi8_epi16(sign));
    const struct hsv8 low = {
        to_floats(most), to_floats(range), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(whole)),
        _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm256_castsi256_si128(part)))};
    const struct hsv8 high = {
        to_floats(_mm_srli_si128(most, 8)), to_floats(_mm_srli_si128(range, 8)),
        _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(whole, 8))),
        _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm256_extracti128_si256(part, 1)))};

    /* Words are in the order that packs and unpacks of `low` and `high` have. */
    const __m256i s = truncated_words(saturation_of(&low), saturation_of(&high));
    const __m256i hue = truncated_words(hue_of(&low), hue_of(&high));
    const __m256i h = _mm256_and_si256(_mm256_add_epi16(hue, _mm256_set1_epi16((int16_t)shift)),
                                       _mm256_set1_epi16(255));
    const __m256i six = _mm256_mullo_epi16(h, _mm256_set1_epi16(6)); /* 255 a sixth of a turn */
    const __m256i all = _mm256_set1_epi16(255), two = _mm256_set1_epi16(510);
    const __m256i r = channel_of(s, _mm256_subs_epu16(two, distance(six, 765)), &low, &high);
    const __m256i g = channel_of(s, _mm256_subs_epu16(distance(six, 510), all), &low, &high);
    const __m256i b = channel_of(s, _mm256_subs_epu16(distance(six, 1020), all), &low, &high);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i rg = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(r, g), order);
    const __m256i bb = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(b, b), order);
    return (struct planes){_mm256_castsi256_si128(rg), _mm256_extracti128_si256(rg, 1),
                           _mm256_castsi256_si128(bb)};
}

void sluice_shift_hue_avx2(const uint8_t *in, size_t num_pixels, uint8_t shift, uint8_t *out)
{
    run(hue_shifted, in, num_pixels, 0, shift, out);
}
