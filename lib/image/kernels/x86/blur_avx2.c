#include "image/kernels/x86/blur_avx2.h"

#include <immintrin.h>
#include <string.h>

/* --- box blur: a strip of 32 columns at a time, whose sums stay in registers from row to row ---
 */

#define STRIP 32
#define MAX_RADIUS 63 /* 255 (2 x 63 + 1) is below 2^15, so the sums are signed words */

/* A weight of up to 27 bits is 2^12 times `upper` plus `lower`: pairs of the sum's and the edges'.
 */
struct weights {
    __m256i upper, lower;
};

struct strip {
    __m256i sums[2], enters[2];
};

static inline __m256i load_words(const uint8_t *bytes)
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)bytes));
}

static struct weights weights_of(const struct sluice_blur_box *box)
{
    const uint32_t inner = box->inner, edge = box->edge;
    return (struct weights){
        .upper = _mm256_set1_epi32((int)(edge >> 12 << 16 | inner >> 12)),
        .lower = _mm256_set1_epi32((int)((edge & 4095) << 16 | (inner & 4095))),
    };
}

/* (sum inner + edges edge + 2^23) >> 24 */
static inline __m256i weigh(__m256i pairs, const struct weights *w)
{
    const __m256i upper = _mm256_slli_epi32(_mm256_madd_epi16(pairs, w->upper), 12);
    const __m256i lower = _mm256_madd_epi16(pairs, w->lower);
    const __m256i half = _mm256_set1_epi32(1 << 23);
    return _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(upper, lower), half), 24);
}

static inline __m256i slide(__m256i *sum, __m256i enters, __m256i behind, __m256i ahead,
                            const struct weights *w)
{
    *sum = _mm256_add_epi16(*sum, _mm256_sub_epi16(enters, behind));
    const __m256i edges = _mm256_add_epi16(behind, ahead);
    return _mm256_packus_epi32(weigh(_mm256_unpacklo_epi16(*sum, edges), w),
                               weigh(_mm256_unpackhi_epi16(*sum, edges), w));
}

/* The sums before the first row, of rows -radius - 1 .. radius - 1, and the row that enters. */
static struct strip begin_strip(const uint8_t *in, size_t row_bytes, size_t last, size_t radius)
{
    struct strip s;
    for (int k = 0; k < 2; k++) {
        const __m256i count = _mm256_set1_epi16((short)(radius + 1));
        s.sums[k] = _mm256_mullo_epi16(load_words(in + 16 * k), count);
    }
    for (size_t y = 0; y < radius; y++) {
        const uint8_t *row = in + (y < last ? y : last) * row_bytes;
        for (int k = 0; k < 2; k++)
            s.sums[k] = _mm256_add_epi16(s.sums[k], load_words(row + 16 * k));
    }
    const uint8_t *row = in + (radius < last ? radius : last) * row_bytes;
    for (int k = 0; k < 2; k++)
        s.enters[k] = load_words(row + 16 * k);
    return s;
}

bool sluice_blur_down_avx2(const struct sluice_blur_box *box, const uint8_t *in, size_t row_bytes,
                           size_t num_rows, uint8_t *out)
{
    const size_t last = num_rows - 1, radius = box->radius;
    if (radius > MAX_RADIUS || row_bytes < STRIP || (box->inner | box->edge) >> 27)
        return false;
    const struct weights w = weights_of(box);
    for (size_t done = 0; done < row_bytes; done += STRIP) {
        /* The last strip covers columns of the one before again. */
        const size_t at = done + STRIP <= row_bytes ? done : row_bytes - STRIP;
        struct strip s = begin_strip(in + at, row_bytes, last, radius);
        for (size_t y = 0; y < num_rows; y++) {
            const uint8_t *behind = in + at + (y > radius ? y - radius - 1 : 0) * row_bytes;
            const size_t next = y + radius + 1;
            const uint8_t *ahead = in + at + (next < last ? next : last) * row_bytes;
            __m256i made[2];
            for (int k = 0; k < 2; k++) {
                const __m256i coming = load_words(ahead + 16 * k);
                made[k] = slide(&s.sums[k], s.enters[k], load_words(behind + 16 * k), coming, &w);
                s.enters[k] = coming;
            }
            const __m256i bytes =
                _mm256_permute4x64_epi64(_mm256_packus_epi16(made[0], made[1]), 0xD8);
            _mm256_storeu_si256((__m256i *)(void *)(out + at + y * row_bytes), bytes);
        }
    }
    return true;
}

/* --- transpose: 4 x 4 pixels at a time --- */

#define SIDE 4
#define LOADED_PIXELS 6 /* that a load of 16 bytes may touch */
#define TILE_ROWS 64    /* whose pixels of one column stay in the first cache */

static inline __m128i load_row(const uint8_t *in)
{
    const __m128i spread = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
    return _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)in), spread);
}

static inline void store_row(__m128i pixels, uint8_t *out)
{
    const __m128i pack = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    const __m128i bytes = _mm_shuffle_epi8(pixels, pack);
    memcpy(out, &bytes, 3 * SIDE);
}

static inline void transpose_block(const uint8_t *in, size_t in_row, uint8_t *out, size_t out_row)
{
    const __m128i a = load_row(in), b = load_row(in + in_row);
    const __m128i c = load_row(in + 2 * in_row), d = load_row(in + 3 * in_row);
    const __m128i low = _mm_unpacklo_epi32(a, b), low2 = _mm_unpacklo_epi32(c, d);
    const __m128i high = _mm_unpackhi_epi32(a, b), high2 = _mm_unpackhi_epi32(c, d);
    store_row(_mm_unpacklo_epi64(low, low2), out);
    store_row(_mm_unpackhi_epi64(low, low2), out + out_row);
    store_row(_mm_unpacklo_epi64(high, high2), out + 2 * out_row);
    store_row(_mm_unpackhi_epi64(high, high2), out + 3 * out_row);
}

/* The pixels of the rows [y0, y1) and the columns [x0, x1), one by one. */
static void transpose_rest(const uint8_t *in, size_t width, size_t height, size_t x0, size_t x1,
                           size_t y0, size_t y1, uint8_t *out)
{
    for (size_t x = x0; x < x1; x++) {
        for (size_t y = y0; y < y1; y++)
            memcpy(out + 3 * (x * height + y), in + 3 * (y * width + x), 3);
    }
}

void sluice_transpose_avx2(const uint8_t *in, size_t width, size_t height, uint8_t *out)
{
    for (size_t y0 = 0; y0 < height; y0 += TILE_ROWS) {
        const size_t y1 = y0 + TILE_ROWS < height ? y0 + TILE_ROWS : height;
        const size_t whole = y0 + (y1 - y0) / SIDE * SIDE;
        size_t x = 0;
        for (; x + LOADED_PIXELS <= width; x += SIDE) {
            for (size_t y = y0; y < whole; y += SIDE)
                transpose_block(in + 3 * (y * width + x), 3 * width, out + 3 * (x * height + y),
                                3 * height);
        }
        transpose_rest(in, width, height, 0, x, whole, y1, out);
        transpose_rest(in, width, height, x, width, y0, y1, out);
    }
}

/* --- sharpness: 16 values at a time --- */

#define WORDS 16
#define BLOCK 256

static inline __m256i load_sums(const uint16_t *from)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)from);
}

/* The sums of a column of three bytes each, from `row` on. */
static void sum_columns(const uint8_t *row, size_t row_bytes, size_t count, uint16_t *sums)
{
    for (size_t i = 0; i < count; i += WORDS) {
        /* The last ones cover some of those before again. */
        const size_t at = i + WORDS <= count ? i : count - WORDS;
        const __m256i above = load_words(row + at - row_bytes);
        const __m256i below = load_words(row + at + row_bytes);
        _mm256_storeu_si256((__m256i *)(void *)(sums + at),
                            _mm256_add_epi16(_mm256_add_epi16(above, below), load_words(row + at)));
    }
}

/* sluice_blend() of words; whoever makes bytes of them clips. */
static inline __m256i blend(__m256i from, __m256i value, __m256 factor)
{
    const __m256i zero = _mm256_setzero_si256();
    const __m256 d[2] = {_mm256_cvtepi32_ps(_mm256_unpacklo_epi16(from, zero)),
                         _mm256_cvtepi32_ps(_mm256_unpackhi_epi16(from, zero))};
    const __m256 v[2] = {_mm256_cvtepi32_ps(_mm256_unpacklo_epi16(value, zero)),
                         _mm256_cvtepi32_ps(_mm256_unpackhi_epi16(value, zero))};
    __m256i made[2];
    for (int k = 0; k < 2; k++)
        made[k] = _mm256_cvttps_epi32(
            _mm256_add_ps(d[k], _mm256_mul_ps(factor, _mm256_sub_ps(v[k], d[k]))));
    return _mm256_packs_epi32(made[0], made[1]);
}

/* Values from `row` on; `sums` begins three columns before. */
static inline void sharpen_words(const uint8_t *row, const uint16_t *sums, __m256 factor,
                                 uint8_t *out)
{
    const __m256i value = load_words(row);
    const __m256i of_columns = _mm256_add_epi16(
        _mm256_add_epi16(load_sums(sums), load_sums(sums + 3)), load_sums(sums + 6));
    const __m256i sum = _mm256_add_epi16(of_columns, _mm256_slli_epi16(value, 2));
    /* sum / 13, rounded: (sum + 6) / 13, whose remainder the factor's error does not reach */
    const __m256i smooth = _mm256_mulhi_epu16(_mm256_add_epi16(sum, _mm256_set1_epi16(6)),
                                              _mm256_set1_epi16(65536 / 13 + 1));
    const __m256i words = blend(smooth, value, factor);
    const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(words, words), 0x08);
    _mm_storeu_si128((__m128i *)(void *)out, _mm256_castsi256_si128(bytes));
}

void sluice_sharpen_row_avx2(const uint8_t *row, size_t row_bytes, float factor, uint8_t *out)
{
    const __m256 by = _mm256_set1_ps(factor);
    const size_t end = row_bytes - 3;
    uint16_t sums[BLOCK + 6];
    for (size_t begin = 3; begin < end; begin += BLOCK) {
        size_t count = end - begin < BLOCK ? end - begin : BLOCK;
        const size_t first = count < WORDS ? end - WORDS : begin;
        count = count < WORDS ? WORDS : count;
        sum_columns(row + first - 3, row_bytes, count + 6, sums);
        for (size_t i = 0; i < count; i += WORDS) {
            const size_t at = i + WORDS <= count ? i : count - WORDS;
            sharpen_words(row + first + at, sums + at, by, out + first + at);
        }
    }
}
