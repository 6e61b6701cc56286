/* The window decoder's kernels with AVX-512 (F, BW, VL, VBMI, VNNI).  Compiled for it; only called
 * where base/cpu.h found all of these. */

#include "image/jpeg/window_kernels.h"

#include <immintrin.h>
#include <stdalign.h>
#include <string.h>

#define VECTOR __m512i
#define ADD _mm512_add_epi32
#define SUB _mm512_sub_epi32
#define SET _mm512_set1_epi32
#define DOT _mm512_madd_epi16
#define ADD_DOT _mm512_dpwssd_epi32
#include "image/jpeg/window_transform.inc"

/* The zigzag index of each coefficient in pair order: rows 0 and 4, 2 and 6, 7 and 1, 5 and 3. */
static const alignas(64) uint16_t from_zigzag[64] = {
    0,  10, 14, 39, 5,  23, 27, 52, 28, 54, 1,  19, 15, 45, 6,  32, /* */
    3,  21, 25, 50, 12, 37, 41, 59, 43, 61, 8,  34, 30, 56, 17, 47, /* */
    35, 2,  57, 16, 48, 7,  62, 29, 63, 42, 36, 4,  58, 26, 49, 13, /* */
    20, 9,  46, 31, 33, 18, 55, 44, 60, 53, 22, 11, 51, 40, 38, 24,
};

/* Rows 0 .. 3 of two blocks, side by side, from bytes that have four rows of a column after the
 * other: columns 0 .. 3 of one block, of the other, and 64 further columns 4 .. 7. */
#define COLUMNS(row, from)                                                                         \
    (from) + (row), (from) + 4 + (row), (from) + 8 + (row), (from) + 12 + (row)
#define TWO_ROWS(row) COLUMNS(row, 0), COLUMNS(row, 64), COLUMNS(row, 16), COLUMNS(row, 80)
static const alignas(64) uint8_t from_columns[64] = {
    TWO_ROWS(0),
    TWO_ROWS(1),
    TWO_ROWS(2),
    TWO_ROWS(3),
};

/* Values that left their range: any bit of `is_cut`, the sign bits of `is_wide`. */
struct range {
    __m512i is_cut, is_wide;
};

/* The products of half a block. */
static inline __attribute__((always_inline)) __m512i
dequantise(int16_t *coefficients, const int16_t *quantisers, struct range *range)
{
    const __m512i a = _mm512_load_si512(coefficients), b = _mm512_load_si512(quantisers);
    _mm512_store_si512(coefficients, _mm512_setzero_si512());
    const __m512i low = _mm512_mullo_epi16(a, b), high = _mm512_mulhi_epi16(a, b);
    /* 0xF6: a | (b ^ c) */
    range->is_cut =
        _mm512_ternarylogic_epi64(range->is_cut, high, _mm512_srai_epi16(low, 15), 0xF6);
    range->is_wide =
        _mm512_or_si512(range->is_wide, _mm512_add_epi16(low, _mm512_set1_epi16(16384)));
    return low;
}

static inline __m512i shuffle_32(__m512i a, __m512i b, const int which)
{
    const __m512 af = _mm512_castsi512_ps(a), bf = _mm512_castsi512_ps(b);
    return _mm512_castps_si512(which ? _mm512_shuffle_ps(af, bf, 0xDD)
                                     : _mm512_shuffle_ps(af, bf, 0x88));
}

static inline void store_row(uint8_t *a, uint8_t *b, __m128i bytes)
{
    _mm_storel_epi64((__m128i *)(void *)a, bytes);
    _mm_storeh_pi((__m64 *)(void *)b, _mm_castsi128_ps(bytes));
}

static inline __attribute__((always_inline)) void transform_two(const struct sluice_jpeg_block *a,
                                                                const struct sluice_jpeg_block *b,
                                                                struct range *range)
{
    const __m512i upper_from = _mm512_load_si512(from_zigzag);
    const __m512i lower_from = _mm512_load_si512(from_zigzag + 32);
    const __m512i a0 = dequantise(a->coefficients, a->quantisers, range);
    const __m512i a1 = dequantise(a->coefficients + 32, a->quantisers + 32, range);
    const __m512i b0 = dequantise(b->coefficients, b->quantisers, range);
    const __m512i b1 = dequantise(b->coefficients + 32, b->quantisers + 32, range);
    const __m512i a04_26 = _mm512_permutex2var_epi16(a0, upper_from, a1);
    const __m512i a71_53 = _mm512_permutex2var_epi16(a0, lower_from, a1);
    const __m512i b04_26 = _mm512_permutex2var_epi16(b0, upper_from, b1);
    const __m512i b71_53 = _mm512_permutex2var_epi16(b0, lower_from, b1);
    __m512i sums[8];
    transform_8(_mm512_inserti64x4(a04_26, _mm512_castsi512_si256(b04_26), 1),
                _mm512_shuffle_i64x2(a04_26, b04_26, 0xEE),
                _mm512_inserti64x4(a71_53, _mm512_castsi512_si256(b71_53), 1),
                _mm512_shuffle_i64x2(a71_53, b71_53, 0xEE), _mm512_set1_epi32(1 << 10), sums);

    /* Row y's values stand as 0 4 2 6 | 7 1 5 3, of one block and then of the other; two rows pack
     * into pairs. */
    __m512i rows[4];
    for (unsigned i = 0; i < 4; i++) {
        rows[i] = _mm512_packs_epi32(_mm512_srai_epi32(sums[2 * i], 11),
                                     _mm512_srai_epi32(sums[2 * i + 1], 11));
        range->is_wide =
            _mm512_or_si512(range->is_wide, _mm512_add_epi16(rows[i], _mm512_set1_epi16(16384)));
    }
    const __m512i upper04_71 = shuffle_32(rows[0], rows[1], 0);
    const __m512i upper26_53 = shuffle_32(rows[0], rows[1], 1);
    const __m512i lower04_71 = shuffle_32(rows[2], rows[3], 0);
    const __m512i lower26_53 = shuffle_32(rows[2], rows[3], 1);
    transform_8(_mm512_shuffle_i64x2(upper04_71, lower04_71, 0x88),
                _mm512_shuffle_i64x2(upper26_53, lower26_53, 0x88),
                _mm512_shuffle_i64x2(upper04_71, lower04_71, 0xDD),
                _mm512_shuffle_i64x2(upper26_53, lower26_53, 0xDD), _mm512_set1_epi32(1 << 17),
                sums);

    /* Now sums[x] holds column x: rows 0 .. 3 of both blocks, then 4 .. 7. */
    __m512i columns[4];
    for (unsigned i = 0; i < 4; i++) {
        columns[i] = _mm512_packs_epi32(_mm512_srai_epi32(sums[2 * i], 18),
                                        _mm512_srai_epi32(sums[2 * i + 1], 18));
        /* 0xF8: a | (b & c) */
        range->is_cut = _mm512_ternarylogic_epi64(
            range->is_cut, _mm512_add_epi16(columns[i], _mm512_set1_epi16(512)),
            _mm512_set1_epi16((short)0xFC00), 0xF8);
    }
    const __m512i center = _mm512_set1_epi8((char)0x80);
    const __m512i left = _mm512_xor_si512(_mm512_packs_epi16(columns[0], columns[1]), center);
    const __m512i right = _mm512_xor_si512(_mm512_packs_epi16(columns[2], columns[3]), center);
    const __m512i from = _mm512_load_si512(from_columns);
    const __m512i upper = _mm512_permutex2var_epi8(left, from, right);
    const __m512i lower =
        _mm512_permutex2var_epi8(left, _mm512_add_epi8(from, _mm512_set1_epi8(32)), right);
    uint8_t *const a_out = a->out, *const b_out = b->out;
    const size_t a_stride = a->stride, b_stride = b->stride;
    store_row(a_out, b_out, _mm512_castsi512_si128(upper));
    store_row(a_out + a_stride, b_out + b_stride, _mm512_extracti32x4_epi32(upper, 1));
    store_row(a_out + 2 * a_stride, b_out + 2 * b_stride, _mm512_extracti32x4_epi32(upper, 2));
    store_row(a_out + 3 * a_stride, b_out + 3 * b_stride, _mm512_extracti32x4_epi32(upper, 3));
    store_row(a_out + 4 * a_stride, b_out + 4 * b_stride, _mm512_castsi512_si128(lower));
    store_row(a_out + 5 * a_stride, b_out + 5 * b_stride, _mm512_extracti32x4_epi32(lower, 1));
    store_row(a_out + 6 * a_stride, b_out + 6 * b_stride, _mm512_extracti32x4_epi32(lower, 2));
    store_row(a_out + 7 * a_stride, b_out + 7 * b_stride, _mm512_extracti32x4_epi32(lower, 3));
}

static bool inverse_dct(const struct sluice_jpeg_block *blocks, size_t num_blocks)
{
    struct range range = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    size_t i = 0;
    for (; i + 2 <= num_blocks; i += 2)
        transform_two(&blocks[i], &blocks[i + 1], &range);
    if (i < num_blocks) {
        alignas(64) int16_t zeroes[64] = {0};
        uint8_t out[64];
        const struct sluice_jpeg_block none = {zeroes, blocks[i].quantisers, out, 8};
        transform_two(&blocks[i], &none, &range);
    }
    const __mmask32 is_cut = _mm512_test_epi16_mask(range.is_cut, range.is_cut);
    return (is_cut | _mm512_movepi16_mask(range.is_wide)) == 0;
}

static inline __m512i load_32_bytes(const uint8_t *bytes)
{
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)bytes));
}

static inline __m512i times_3(__m512i a)
{
    return _mm512_add_epi16(_mm512_add_epi16(a, a), a);
}

static void blend(const uint8_t *near, const uint8_t *far, size_t len, uint16_t *sums)
{
    size_t i = 0;
    for (; i + 32 <= len; i += 32)
        _mm512_storeu_si512(
            sums + i, _mm512_add_epi16(times_3(load_32_bytes(near + i)), load_32_bytes(far + i)));
    sluice_jpeg_window_kernels_avx2.blend(near + i, far + i, len - i, sums + i);
}

static void finish_blend(const uint16_t *sums, size_t len, unsigned bias, uint8_t *out)
{
    const __m512i bias_16 = _mm512_set1_epi16((short)bias);
    size_t i = 0;
    for (; i + 32 <= len; i += 32)
        _mm256_storeu_si256((__m256i *)(void *)(out + i),
                            _mm512_cvtepi16_epi8(_mm512_srli_epi16(
                                _mm512_add_epi16(_mm512_loadu_si512(sums + i), bias_16), 2)));
    sluice_jpeg_window_kernels_avx2.finish_blend(sums + i, len - i, bias, out + i);
}

static void widen(const uint16_t *sums, size_t len, unsigned even, unsigned odd, unsigned shift,
                  uint8_t *out)
{
    const __m512i even_16 = _mm512_set1_epi16((short)even), odd_16 = _mm512_set1_epi16((short)odd);
    const __m128i count = _mm_cvtsi32_si128((int)shift);
    size_t i = 0;
    for (; i + 32 <= len; i += 32) {
        const __m512i near = times_3(_mm512_loadu_si512(sums + i));
        const __m512i before = _mm512_add_epi16(_mm512_loadu_si512(sums + i - 1), even_16);
        const __m512i after = _mm512_add_epi16(_mm512_loadu_si512(sums + i + 1), odd_16);
        const __m512i first = _mm512_srl_epi16(_mm512_add_epi16(near, before), count);
        const __m512i second = _mm512_srl_epi16(_mm512_add_epi16(near, after), count);
        /* Both fit a byte: the second goes into the upper half of each word. */
        _mm512_storeu_si512(out + 2 * i, _mm512_or_si512(first, _mm512_slli_epi16(second, 8)));
    }
    sluice_jpeg_window_kernels_avx2.widen(sums + i, len - i, even, odd, shift, out + 2 * i);
}

/* (weight * x + 32768) >> 16 for a chroma value: the halved weights give the same for each. */
static inline __m512i scale(__m512i x, int weight)
{
    return _mm512_mulhrs_epi16(x, _mm512_set1_epi16((short)(weight / 2)));
}

/* Red, green and blue of 32 pixels, in words. */
static inline __attribute__((always_inline)) void convert_32(__m512i y, __m512i cb, __m512i cr,
                                                             __m512i rgb[3])
{
    const __m512i weights = WEIGHTS(SLUICE_JPEG_CB_TO_G, SLUICE_JPEG_CR_TO_G);
    const __m512i half = _mm512_set1_epi32(32768);
    const __m512i low =
        _mm512_srai_epi32(_mm512_dpwssd_epi32(half, _mm512_unpacklo_epi16(cb, cr), weights), 16);
    const __m512i high =
        _mm512_srai_epi32(_mm512_dpwssd_epi32(half, _mm512_unpackhi_epi16(cb, cr), weights), 16);
    rgb[0] = _mm512_add_epi16(_mm512_add_epi16(y, cr), scale(cr, SLUICE_JPEG_CR_TO_R));
    rgb[1] = _mm512_add_epi16(_mm512_sub_epi16(y, cr), _mm512_packs_epi32(low, high));
    rgb[2] = _mm512_add_epi16(_mm512_add_epi16(y, _mm512_add_epi16(cb, cb)),
                              scale(cb, SLUICE_JPEG_CB_TO_B));
}

/* Where byte i of 64 pixels is among the 64 reds and, behind them, 64 greens; of a blue byte,
 * where it is among the blues. */
#define WOVEN_1(i) (uint8_t)((i) / 3 + ((i) % 3 == 1 ? 64 : 0))
#define WOVEN_4(i) WOVEN_1(i), WOVEN_1((i) + 1), WOVEN_1((i) + 2), WOVEN_1((i) + 3)
#define WOVEN_16(i) WOVEN_4(i), WOVEN_4((i) + 4), WOVEN_4((i) + 8), WOVEN_4((i) + 12)
#define WOVEN_64(i) WOVEN_16(i), WOVEN_16((i) + 16), WOVEN_16((i) + 32), WOVEN_16((i) + 48)
static const alignas(64) uint8_t woven[3][64] = {{WOVEN_64(0)}, {WOVEN_64(64)}, {WOVEN_64(128)}};
static const __mmask64 is_blue[3] = {0x4924924924924924, 0x2492492492492492, 0x9249249249249249};

static inline __attribute__((always_inline)) void
convert_64(const uint8_t *y_in, const uint8_t *cb_in, const uint8_t *cr_in, uint8_t *rgb)
{
    const __m512i zero = _mm512_setzero_si512(), center = _mm512_set1_epi16(128);
    const __m512i y = _mm512_loadu_si512(y_in);
    const __m512i cb = _mm512_loadu_si512(cb_in), cr = _mm512_loadu_si512(cr_in);
    __m512i low[3], high[3], bytes[3];
    convert_32(_mm512_unpacklo_epi8(y, zero),
               _mm512_sub_epi16(_mm512_unpacklo_epi8(cb, zero), center),
               _mm512_sub_epi16(_mm512_unpacklo_epi8(cr, zero), center), low);
    convert_32(_mm512_unpackhi_epi8(y, zero),
               _mm512_sub_epi16(_mm512_unpackhi_epi8(cb, zero), center),
               _mm512_sub_epi16(_mm512_unpackhi_epi8(cr, zero), center), high);
    for (unsigned c = 0; c < 3; c++)
        bytes[c] = _mm512_packus_epi16(low[c], high[c]);
    for (unsigned third = 0; third < 3; third++) {
        const __m512i from = _mm512_load_si512(woven[third]);
        const __m512i pixels = _mm512_permutex2var_epi8(bytes[0], from, bytes[1]);
        _mm512_storeu_si512(rgb + (size_t)64 * third,
                            _mm512_mask_permutexvar_epi8(pixels, is_blue[third], from, bytes[2]));
    }
}

static void ycc_to_rgb(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, size_t len,
                       uint8_t *rgb)
{
    if (len < 64) {
        sluice_jpeg_window_kernels_avx2.ycc_to_rgb(y, cb, cr, len, rgb);
        return;
    }
    for (size_t i = 0; i < len; i += 64) {
        const size_t at = i + 64 <= len ? i : len - 64; /* the last ones once more */
        convert_64(y + at, cb + at, cr + at, rgb + 3 * at);
    }
}

const struct sluice_jpeg_window_kernels sluice_jpeg_window_kernels_avx512 = {
    .place = sluice_jpeg_place_in_zigzag,
    .inverse_dct = inverse_dct,
    .blend = blend,
    .finish_blend = finish_blend,
    .widen = widen,
    .ycc_to_rgb = ycc_to_rgb,
};
