#include "image/jpeg/window_kernels.h"

#include <immintrin.h>

#include <string.h>

#define VECTOR __m256i
#define ADD _mm256_add_epi32
#define SUB _mm256_sub_epi32
#define SET _mm256_set1_epi32
#define DOT _mm256_madd_epi16
#define ADD_DOT(s, x, w) _mm256_add_epi32(s, _mm256_madd_epi16(x, w))
#include "image/jpeg/window_transform.inc"

static inline __m256i shuffle_32(__m256i a, __m256i b, const int which)
{
    const __m256 af = _mm256_castsi256_ps(a), bf = _mm256_castsi256_ps(b);
    return _mm256_castps_si256(which ? _mm256_shuffle_ps(af, bf, 0xDD)
                                     : _mm256_shuffle_ps(af, bf, 0x88));
}

static void store_two(uint8_t *a, uint8_t *b, __m128i rows)
{
    _mm_storel_epi64((__m128i *)(void *)a, rows);
    _mm_storel_epi64((__m128i *)(void *)b, _mm_unpackhi_epi64(rows, rows));
}

/* Zero where all is within its range. */
static inline __attribute__((always_inline)) __m256i
transform_block(const struct sluice_jpeg_block *block)
{
    int16_t *const coefficients = block->coefficients;
    const int16_t *const quantisers = block->quantisers;
    uint8_t *const out = block->out;
    const size_t stride = block->stride;
    /* The sign bit of `is_wide` says: not in -16384 .. 16383, saturated values among them. */
    __m256i overflow = _mm256_setzero_si256(), is_wide = _mm256_setzero_si256(), in[4], sums[8];
    for (unsigned i = 0; i < 4; i++) {
        __m256i *const from = (__m256i *)(void *)(coefficients + 16 * i);
        const __m256i a = _mm256_loadu_si256(from);
        _mm256_storeu_si256(from, _mm256_setzero_si256());
        const __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(quantisers + 16 * i));
        in[i] = _mm256_mullo_epi16(a, b);
        const __m256i high = _mm256_mulhi_epi16(a, b);
        overflow = _mm256_or_si256(overflow, _mm256_xor_si256(high, _mm256_srai_epi16(in[i], 15)));
        is_wide = _mm256_or_si256(is_wide, _mm256_add_epi16(in[i], _mm256_set1_epi16(16384)));
    }
    transform_8(in[0], in[1], in[2], in[3], _mm256_set1_epi32(1 << 10), sums);

    /* Row y's eight values stand as 0 4 2 6 | 7 1 5 3; two rows pack into pairs. */
    __m256i rows[4];
    for (unsigned i = 0; i < 4; i++) {
        rows[i] = _mm256_packs_epi32(_mm256_srai_epi32(sums[2 * i], 11),
                                     _mm256_srai_epi32(sums[2 * i + 1], 11));
        is_wide = _mm256_or_si256(is_wide, _mm256_add_epi16(rows[i], _mm256_set1_epi16(16384)));
    }
    overflow = _mm256_or_si256(overflow, _mm256_srai_epi16(is_wide, 15));

    const __m256i upper04_71 = shuffle_32(rows[0], rows[1], 0);
    const __m256i upper26_53 = shuffle_32(rows[0], rows[1], 1);
    const __m256i lower04_71 = shuffle_32(rows[2], rows[3], 0);
    const __m256i lower26_53 = shuffle_32(rows[2], rows[3], 1);
    transform_8(_mm256_permute2x128_si256(upper04_71, lower04_71, 0x20),
                _mm256_permute2x128_si256(upper26_53, lower26_53, 0x20),
                _mm256_permute2x128_si256(upper04_71, lower04_71, 0x31),
                _mm256_permute2x128_si256(upper26_53, lower26_53, 0x31), _mm256_set1_epi32(1 << 17),
                sums);

    /* Now sums[x] holds column x, rows 0 .. 7. */
    __m256i columns[4];
    for (unsigned i = 0; i < 4; i++) {
        columns[i] = _mm256_packs_epi32(_mm256_srai_epi32(sums[2 * i], 18),
                                        _mm256_srai_epi32(sums[2 * i + 1], 18));
        overflow = _mm256_or_si256(
            overflow, _mm256_and_si256(_mm256_add_epi16(columns[i], _mm256_set1_epi16(512)),
                                       _mm256_set1_epi16((short)0xFC00)));
    }
    const __m256i center = _mm256_set1_epi8((char)0x80);
    const __m256i transpose =
        _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, 0, 4, 8, 12, 1, 5, 9,
                         13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m256i left = _mm256_shuffle_epi8(
        _mm256_xor_si256(_mm256_packs_epi16(columns[0], columns[1]), center), transpose);
    const __m256i right = _mm256_shuffle_epi8(
        _mm256_xor_si256(_mm256_packs_epi16(columns[2], columns[3]), center), transpose);
    const __m256i rows_01_45 = _mm256_unpacklo_epi32(left, right);
    const __m256i rows_23_67 = _mm256_unpackhi_epi32(left, right);
    store_two(out, out + stride, _mm256_castsi256_si128(rows_01_45));
    store_two(out + 2 * stride, out + 3 * stride, _mm256_castsi256_si128(rows_23_67));
    store_two(out + 4 * stride, out + 5 * stride, _mm256_extracti128_si256(rows_01_45, 1));
    store_two(out + 6 * stride, out + 7 * stride, _mm256_extracti128_si256(rows_23_67, 1));
    return overflow;
}

static bool inverse_dct(const struct sluice_jpeg_block *blocks, size_t num_blocks)
{
    __m256i overflow = _mm256_setzero_si256();
    for (size_t i = 0; i < num_blocks; i++)
        overflow = _mm256_or_si256(overflow, transform_block(&blocks[i]));
    return _mm256_testz_si256(overflow, overflow) != 0;
}

static __m256i load_16_bytes(const uint8_t *bytes)
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)bytes));
}

static __m256i load_16_words(const uint16_t *words)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)words);
}

static __m256i times_3(__m256i a)
{
    return _mm256_add_epi16(_mm256_add_epi16(a, a), a);
}

static void blend(const uint8_t *near, const uint8_t *far, size_t len, uint16_t *sums)
{
    size_t i = 0;
    for (; i + 16 <= len; i += 16)
        _mm256_storeu_si256(
            (__m256i *)(void *)(sums + i),
            _mm256_add_epi16(times_3(load_16_bytes(near + i)), load_16_bytes(far + i)));
    sluice_jpeg_window_kernels_c.blend(near + i, far + i, len - i, sums + i);
}

static void finish_blend(const uint16_t *sums, size_t len, unsigned bias, uint8_t *out)
{
    const __m256i bias_16 = _mm256_set1_epi16((short)bias);
    size_t i = 0;
    for (; i + 16 <= len; i += 16) {
        const __m256i words =
            _mm256_srli_epi16(_mm256_add_epi16(load_16_words(sums + i), bias_16), 2);
        _mm_storeu_si128(
            (__m128i *)(void *)(out + i),
            _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
    }
    sluice_jpeg_window_kernels_c.finish_blend(sums + i, len - i, bias, out + i);
}

static void widen(const uint16_t *sums, size_t len, unsigned even, unsigned odd, unsigned shift,
                  uint8_t *out)
{
    const __m256i even_16 = _mm256_set1_epi16((short)even), odd_16 = _mm256_set1_epi16((short)odd);
    const __m128i count = _mm_cvtsi32_si128((int)shift);
    size_t i = 0;
    for (; i + 16 <= len; i += 16) {
        const __m256i near = times_3(load_16_words(sums + i));
        const __m256i first = _mm256_srl_epi16(
            _mm256_add_epi16(_mm256_add_epi16(near, load_16_words(sums + i - 1)), even_16), count);
        const __m256i second = _mm256_srl_epi16(
            _mm256_add_epi16(_mm256_add_epi16(near, load_16_words(sums + i + 1)), odd_16), count);
        /* Both fit a byte: the second goes into the upper half of each word. */
        _mm256_storeu_si256((__m256i *)(void *)(out + 2 * i),
                            _mm256_or_si256(first, _mm256_slli_epi16(second, 8)));
    }
    sluice_jpeg_window_kernels_c.widen(sums + i, len - i, even, odd, shift, out + 2 * i);
}

/* (weight * x + 32768) >> 16 for a chroma value: the halved weights give the same for each. */
static __m256i scale(__m256i x, int weight)
{
    return _mm256_mulhrs_epi16(x, _mm256_set1_epi16((short)(weight / 2)));
}

static __m128i pack_bytes(__m256i words)
{
    return _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

static void convert_16(const uint8_t *y_in, const uint8_t *cb_in, const uint8_t *cr_in,
                       uint8_t *rgb)
{
    const __m256i center = _mm256_set1_epi16(128);
    const __m256i y = load_16_bytes(y_in);
    const __m256i cb = _mm256_sub_epi16(load_16_bytes(cb_in), center);
    const __m256i cr = _mm256_sub_epi16(load_16_bytes(cr_in), center);
    const __m256i red = _mm256_add_epi16(_mm256_add_epi16(y, cr), scale(cr, SLUICE_JPEG_CR_TO_R));
    const __m256i blue = _mm256_add_epi16(_mm256_add_epi16(y, _mm256_add_epi16(cb, cb)),
                                          scale(cb, SLUICE_JPEG_CB_TO_B));
    const __m256i weights = WEIGHTS(SLUICE_JPEG_CB_TO_G, SLUICE_JPEG_CR_TO_G);
    const __m256i half = _mm256_set1_epi32(32768);
    const __m256i low = _mm256_srai_epi32(
        _mm256_add_epi32(_mm256_madd_epi16(_mm256_unpacklo_epi16(cb, cr), weights), half), 16);
    const __m256i high = _mm256_srai_epi32(
        _mm256_add_epi32(_mm256_madd_epi16(_mm256_unpackhi_epi16(cb, cr), weights), half), 16);
    const __m256i green = _mm256_add_epi16(_mm256_sub_epi16(y, cr), _mm256_packs_epi32(low, high));

    const __m128i r = pack_bytes(red), g = pack_bytes(green), b = pack_bytes(blue);
    const __m128i out0 =
        _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(r, _mm_setr_epi8(0, -1, -1, 1, -1, -1, 2, -1, -1,
                                                                    3, -1, -1, 4, -1, -1, 5)),
                                  _mm_shuffle_epi8(g, _mm_setr_epi8(-1, 0, -1, -1, 1, -1, -1, 2, -1,
                                                                    -1, 3, -1, -1, 4, -1, -1))),
                     _mm_shuffle_epi8(b, _mm_setr_epi8(-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3,
                                                       -1, -1, 4, -1)));
    const __m128i out1 =
        _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(r, _mm_setr_epi8(-1, -1, 6, -1, -1, 7, -1, -1, 8,
                                                                    -1, -1, 9, -1, -1, 10, -1)),
                                  _mm_shuffle_epi8(g, _mm_setr_epi8(5, -1, -1, 6, -1, -1, 7, -1, -1,
                                                                    8, -1, -1, 9, -1, -1, 10))),
                     _mm_shuffle_epi8(b, _mm_setr_epi8(-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1,
                                                       -1, 9, -1, -1)));
    const __m128i out2 = _mm_or_si128(
        _mm_or_si128(_mm_shuffle_epi8(r, _mm_setr_epi8(-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14,
                                                       -1, -1, 15, -1, -1)),
                     _mm_shuffle_epi8(g, _mm_setr_epi8(-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1,
                                                       14, -1, -1, 15, -1))),
        _mm_shuffle_epi8(
            b, _mm_setr_epi8(10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15)));
    _mm_storeu_si128((__m128i *)(void *)rgb, out0);
    _mm_storeu_si128((__m128i *)(void *)(rgb + 16), out1);
    _mm_storeu_si128((__m128i *)(void *)(rgb + 32), out2);
}

static void ycc_to_rgb(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, size_t len,
                       uint8_t *rgb)
{
    size_t i = 0;
    for (; i + 16 <= len; i += 16)
        convert_16(y + i, cb + i, cr + i, rgb + 3 * i);
    if (i == len)
        return;
    /* The rest through copies: the rows may end with the caller's memory. */
    uint8_t rest[3][16] = {{0}}, pixels[48];
    memcpy(rest[0], y + i, len - i);
    memcpy(rest[1], cb + i, len - i);
    memcpy(rest[2], cr + i, len - i);
    convert_16(rest[0], rest[1], rest[2], pixels);
    memcpy(rgb + 3 * i, pixels, 3 * (len - i));
}

const struct sluice_jpeg_window_kernels sluice_jpeg_window_kernels_avx2 = {
    .place = sluice_jpeg_place_in_pairs,
    .inverse_dct = inverse_dct,
    .blend = blend,
    .finish_blend = finish_blend,
    .widen = widen,
    .ycc_to_rgb = ycc_to_rgb,
};
