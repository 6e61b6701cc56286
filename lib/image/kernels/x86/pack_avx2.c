#include "image/pack/pack_kernels.h"

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

static inline __m128i load(const uint8_t *from)
{
    return _mm_loadu_si128((const __m128i *)(const void *)from);
}

static inline void store(uint8_t *to, __m128i value)
{
    _mm_storeu_si128((__m128i *)(void *)to, value);
}

/* Where 16 pixels' bytes of one colour stand in each third of their 48. */
static const int8_t places[3][3][16] = {
    {
        /* green */
        {1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
        {-1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1},
        {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14},
    },
    {
        /* red */
        {0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
        {-1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14, -1, -1, -1, -1, -1},
        {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1, 4, 7, 10, 13},
    },
    {
        /* blue */
        {2, 5, 8, 11, 14, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
        {-1, -1, -1, -1, -1, 1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1},
        {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15},
    },
};

static inline __m128i gather_colour(const __m128i thirds[3], unsigned colour)
{
    __m128i sum = _mm_setzero_si128();
    for (unsigned i = 0; i < 3; i++) {
        const __m128i place = load((const uint8_t *)places[colour][i]);
        sum = _mm_or_si128(sum, _mm_shuffle_epi8(thirds[i], place));
    }
    return sum;
}

static void split_row(const uint8_t *pixels, size_t width, uint8_t *const planes[3])
{
    const __m128i middle = _mm_set1_epi8((char)SLUICE_PACK_MIDDLE);
    size_t x = 0;
    for (; x + 16 <= width; x += 16) {
        const __m128i thirds[3] = {load(pixels + 3 * x), load(pixels + 3 * x + 16),
                                   load(pixels + 3 * x + 32)};
        const __m128i green = gather_colour(thirds, 0);
        const __m128i offset = _mm_sub_epi8(middle, green);
        store(planes[0] + x, green);
        store(planes[1] + x, _mm_add_epi8(gather_colour(thirds, 1), offset));
        store(planes[2] + x, _mm_add_epi8(gather_colour(thirds, 2), offset));
    }
    if (x < width) {
        uint8_t *const rest[3] = {planes[0] + x, planes[1] + x, planes[2] + x};
        sluice_pack_kernels_c.split_row(pixels + 3 * x, width - x, rest);
    }
}

static void residual_row(const uint8_t *row, const uint8_t *above, size_t width, uint8_t *out)
{
    out[0] = (uint8_t)(row[0] - above[0]);
    size_t x = 1;
    for (; x + 32 <= width; x += 32) {
        const __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(row + x - 1));
        const __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(above + x));
        const __m256i c = _mm256_loadu_si256((const __m256i *)(const void *)(above + x - 1));
        const __m256i value = _mm256_loadu_si256((const __m256i *)(const void *)(row + x));
        const __m256i low = _mm256_min_epu8(a, b), high = _mm256_max_epu8(a, b);
        const __m256i held = _mm256_min_epu8(_mm256_max_epu8(c, low), high);
        const __m256i predicted = _mm256_sub_epi8(_mm256_add_epi8(low, high), held);
        _mm256_storeu_si256((__m256i *)(void *)(out + x), _mm256_sub_epi8(value, predicted));
    }
    for (; x < width; x++) {
        const uint8_t a = row[x - 1], b = above[x], c = above[x - 1];
        const uint8_t low = a < b ? a : b, high = a < b ? b : a;
        const uint8_t held = c < low ? low : c > high ? high : c;
        out[x] = (uint8_t)(row[x] - (low + high - held));
    }
}

static void find_spreads(const uint8_t *residuals, size_t num_blocks, uint8_t *spreads)
{
    static const uint16_t bounds[] = SLUICE_PACK_BOUNDS;
    /* Below each first sum, so that "above" is all that has to be asked; three never met. */
    const __m128i last =
        _mm_setr_epi16((short)(bounds[0] - 1), (short)(bounds[1] - 1), (short)(bounds[2] - 1),
                       (short)(bounds[3] - 1), (short)(bounds[4] - 1), 0x7fff, 0x7fff, 0x7fff);
    const __m128i zero = _mm_setzero_si128();
    for (size_t block = 0; block < num_blocks; block++) {
        const __m128i at = load(residuals + block * SLUICE_PACK_BLOCK);
        const __m128i sizes = _mm_min_epu8(at, _mm_sub_epi8(zero, at));
        const __m128i halves = _mm_sad_epu8(sizes, zero);
        const __m128i sum = _mm_add_epi16(halves, _mm_srli_si128(halves, 8));
        const __m128i is_above = _mm_cmpgt_epi16(_mm_broadcastw_epi16(sum), last);
        const unsigned bits = (unsigned)_mm_movemask_epi8(is_above);
        spreads[block] = (uint8_t)(__builtin_popcount(bits) / 2);
    }
}

/* The pixel to the right of *left: its planes are the low lanes.  From one pixel to the next the
 * chain is min or max, max, min and a difference. */
static inline __m128i restore_pixel(__m128i *left, __m128i *corner, __m128i above, __m128i missed)
{
    const __m128i low = _mm_min_epu8(*left, above), high = _mm_max_epu8(*left, above);
    const __m128i held = _mm_min_epu8(_mm_max_epu8(*corner, low), high);
    const __m128i sum = _mm_add_epi8(*left, _mm_add_epi8(above, missed));
    *corner = above;
    *left = _mm_sub_epi8(sum, held);
    return *left;
}

/* Four pixels: their planes, four bytes each. */
static inline __m128i restore_four(__m128i *left, __m128i *corner, __m128i above, __m128i missed)
{
    const __m128i p0 = restore_pixel(left, corner, above, missed);
    const __m128i p1 =
        restore_pixel(left, corner, _mm_srli_si128(above, 4), _mm_srli_si128(missed, 4));
    const __m128i p2 =
        restore_pixel(left, corner, _mm_srli_si128(above, 8), _mm_srli_si128(missed, 8));
    const __m128i p3 =
        restore_pixel(left, corner, _mm_srli_si128(above, 12), _mm_srli_si128(missed, 12));
    return _mm_unpacklo_epi64(_mm_unpacklo_epi32(p0, p1), _mm_unpacklo_epi32(p2, p3));
}

static void restore_row(const uint8_t *const residuals[3], size_t width, uint8_t *above,
                        uint8_t *pixels)
{
    const __m128i zero = _mm_setzero_si128();
    const __m128i greens = _mm_setr_epi8(-1, 0, 0, -1, -1, 4, 4, -1, -1, 8, 8, -1, -1, 12, 12, -1);
    const __m128i middle = _mm_set1_epi32(SLUICE_PACK_MIDDLE << 8 | SLUICE_PACK_MIDDLE << 16);
    const __m128i to_rgb = _mm_setr_epi8(1, 0, 2, 5, 4, 6, 9, 8, 10, 13, 12, 14, -1, -1, -1, -1);
    int first;
    memcpy(&first, above, sizeof(first));
    __m128i left = _mm_cvtsi32_si128(first), corner = left;
    for (size_t x = 0; x < width; x += 16) {
        const __m128i g = load(residuals[0] + x), r = load(residuals[1] + x);
        const __m128i b = load(residuals[2] + x);
        const __m128i gr[2] = {_mm_unpacklo_epi8(g, r), _mm_unpackhi_epi8(g, r)};
        const __m128i b0[2] = {_mm_unpacklo_epi8(b, zero), _mm_unpackhi_epi8(b, zero)};
        const __m128i missed[4] = {
            _mm_unpacklo_epi16(gr[0], b0[0]), _mm_unpackhi_epi16(gr[0], b0[0]),
            _mm_unpacklo_epi16(gr[1], b0[1]), _mm_unpackhi_epi16(gr[1], b0[1])};
        /* Each store writes four bytes too many, which the next one mends: not at the end. */
        uint8_t last[3 * 16 + 4];
        const bool is_last = width - x < 18;
        uint8_t *to = is_last ? last : pixels + 3 * x;
        for (unsigned i = 0; i < 4; i++) {
            uint8_t *at = above + 4 * (x + 4 * i);
            const __m128i planes = restore_four(&left, &corner, load(at), missed[i]);
            store(at, planes);
            const __m128i colours =
                _mm_sub_epi8(_mm_add_epi8(planes, _mm_shuffle_epi8(planes, greens)), middle);
            store(to + 12 * i, _mm_shuffle_epi8(colours, to_rgb));
        }
        if (is_last)
            memcpy(pixels + 3 * x, last, 3 * (width - x < 16 ? width - x : 16));
    }
}

const struct sluice_pack_kernels sluice_pack_kernels_avx2 = {
    .split_row = split_row,
    .residual_row = residual_row,
    .find_spreads = find_spreads,
    .restore_row = restore_row,
};
