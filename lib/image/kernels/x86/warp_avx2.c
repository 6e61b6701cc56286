#include "image/kernels/x86/warp_avx2.h"

#include "image/kernels/warp_pixel.inc"

#include <immintrin.h>
#include <string.h>

/* Four pixels at a time, where all that they read is within the image: the operations of
 * warp_pixel.inc, but the lanes of a vector are the pixels. */

#define TAPS 4          /* pixels of a row that are loaded together */
#define LOADED_BYTES 16 /* for these */

struct place {
    int at[4]; /* of the first byte of the first tap */
    lanes dx, dy;
};

/* The whole and the other part of four coordinates; false: one is not within [least, most]. */
static bool split_axis(const double of_x_y_1[3], lanes xc, lanes yc, int least, int most,
                       __m128i *whole, lanes *part)
{
    const lanes in = of_x_y_1[0] * xc + of_x_y_1[1] * yc + of_x_y_1[2] - 0.5;
    const __m256d at = (__m256d)in;
    const __m256d inside = _mm256_and_pd(_mm256_cmp_pd(at, _mm256_set1_pd(least), _CMP_GE_OQ),
                                         _mm256_cmp_pd(at, _mm256_set1_pd(most + 1.0), _CMP_LT_OQ));
    *whole = _mm256_cvttpd_epi32(at);
    *part = in - (lanes)_mm256_cvtepi32_pd(*whole);
    return _mm256_movemask_pd(inside) == 15;
}

/* The source of the pixels x .. x + 3 of row y.  `before`: taps before the one at the whole part,
 * in a row and above it; there are 1 + `before` after it. */
static bool find_place(const double m[6], int width, int height, int before, int x, int y,
                       struct place *place)
{
    const int last_x = width - 1 - LOADED_BYTES / 3 + before, last_y = height - 2 - before;
    const lanes xc = {x + 0.5, x + 1.5, x + 2.5, x + 3.5}, yc = all(y + 0.5);
    __m128i whole_x, whole_y;
    if (!split_axis(m, xc, yc, before, last_x, &whole_x, &place->dx) ||
        !split_axis(m + 3, xc, yc, before, last_y, &whole_y, &place->dy))
        return false;
    const __m128i first = _mm_set1_epi32(before);
    const __m128i pixel =
        _mm_add_epi32(_mm_mullo_epi32(_mm_sub_epi32(whole_y, first), _mm_set1_epi32(width)),
                      _mm_sub_epi32(whole_x, first));
    _mm_storeu_si128((__m128i *)(void *)place->at,
                     _mm_add_epi32(pixel, _mm_add_epi32(pixel, pixel)));
    return true;
}

/* Transposes: taps[k] has tap k of the four pixels, each as 0x00BBGGRR. */
static void load_row(const uint8_t *in, const int at[4], __m128i taps[TAPS])
{
    const __m128i spread = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
    __m128i of[4];
    for (int i = 0; i < 4; i++)
        of[i] =
            _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(in + at[i])), spread);
    const __m128i low = _mm_unpacklo_epi32(of[0], of[1]), low2 = _mm_unpacklo_epi32(of[2], of[3]);
    const __m128i high = _mm_unpackhi_epi32(of[0], of[1]);
    const __m128i high2 = _mm_unpackhi_epi32(of[2], of[3]);
    taps[0] = _mm_unpacklo_epi64(low, low2);
    taps[1] = _mm_unpackhi_epi64(low, low2);
    taps[2] = _mm_unpacklo_epi64(high, high2);
    taps[3] = _mm_unpackhi_epi64(high, high2);
}

static lanes channel(__m128i pixels, int shift)
{
    return (lanes)_mm256_cvtepi32_pd(
        _mm_and_si128(_mm_srli_epi32(pixels, shift), _mm_set1_epi32(255)));
}

static __m128i make_bilinear(const uint8_t *in, int width, const struct place *place)
{
    __m128i upper[TAPS], lower[TAPS], pixels = _mm_setzero_si128();
    load_row(in, place->at, upper);
    load_row(in + (size_t)width * 3, place->at, lower);
    for (int shift = 0; shift < 24; shift += 8) {
        const lanes v1 = mix_lanes(channel(upper[0], shift), channel(upper[1], shift), place->dx);
        const lanes v2 = mix_lanes(channel(lower[0], shift), channel(lower[1], shift), place->dx);
        const __m128i values = _mm256_cvttpd_epi32((__m256d)mix_lanes(v1, v2, place->dy));
        pixels = _mm_or_si128(pixels, _mm_slli_epi32(values, shift));
    }
    return pixels;
}

static __m128i make_bicubic(const uint8_t *in, int width, const struct place *place)
{
    __m128i taps[4][TAPS], pixels = _mm_setzero_si128();
    for (int i = 0; i < 4; i++)
        load_row(in + (size_t)i * (size_t)width * 3, place->at, taps[i]);
    for (int shift = 0; shift < 24; shift += 8) {
        lanes rows[4];
        for (int i = 0; i < 4; i++)
            rows[i] = cubic(channel(taps[i][0], shift), channel(taps[i][1], shift),
                            channel(taps[i][2], shift), channel(taps[i][3], shift), place->dx);
        const __m256d sum = (__m256d)cubic(rows[0], rows[1], rows[2], rows[3], place->dy);
        const __m256d clipped =
            _mm256_min_pd(_mm256_max_pd(sum, _mm256_setzero_pd()), _mm256_set1_pd(255));
        pixels = _mm_or_si128(pixels, _mm_slli_epi32(_mm256_cvttpd_epi32(clipped), shift));
    }
    return pixels;
}

void sluice_warp_avx2(const uint8_t *in, int width, int height, const double m[6], bool is_bicubic,
                      uint8_t *out)
{
    const __m128i pack = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    const bool fits = (size_t)width * (size_t)height <= INT32_MAX / 3; /* indices are int32 */
    for (int y = 0; y < height; y++) {
        uint8_t *row = out + (size_t)y * (size_t)width * 3;
        int x = 0;
        for (struct place place; fits && x + 4 <= width; x += 4) {
            if (find_place(m, width, height, is_bicubic, x, y, &place)) {
                const __m128i pixels =
                    is_bicubic ? make_bicubic(in, width, &place) : make_bilinear(in, width, &place);
                const __m128i packed = _mm_shuffle_epi8(pixels, pack);
                memcpy(row + x * 3, &packed, 12);
                continue;
            }
            for (int i = x; i < x + 4; i++)
                warp_pixel(in, width, height, m, is_bicubic, i, y, row + i * 3);
        }
        for (; x < width; x++)
            warp_pixel(in, width, height, m, is_bicubic, x, y, row + x * 3);
    }
}

#define WALKED 8 /* pixels at a time */

/* Eight pixels of four bytes each to 24 bytes. */
static void store_pixels(__m256i pixels, uint8_t *out)
{
    const __m256i pack = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
    const __m256i order = _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 3, 7);
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(pixels, pack), order);
    _mm_storeu_si128((__m128i *)(void *)out, _mm256_castsi256_si128(bytes));
    _mm_storel_epi64((__m128i *)(void *)(out + 16), _mm256_extracti128_si256(bytes, 1));
}

void sluice_walk_avx2(const uint8_t *in, size_t width, size_t height,
                      const struct sluice_walk *walk, size_t count, uint8_t *out)
{
    const bool fits = width * height <= INT32_MAX / 3; /* indices are int32 */
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i step_x = _mm256_set1_epi32(walk->step_x);
    const __m256i step_y = _mm256_set1_epi32(walk->step_y);
    const __m256i last = _mm256_set1_epi32(fits ? (int)(width * height) - 1 : 0);
    __m256i x = _mm256_add_epi32(_mm256_set1_epi32(walk->x), _mm256_mullo_epi32(lane, step_x));
    __m256i y = _mm256_add_epi32(_mm256_set1_epi32(walk->y), _mm256_mullo_epi32(lane, step_y));
    size_t i = 0;
    for (; fits && i + WALKED <= count; i += WALKED) {
        const __m256i pixel = _mm256_add_epi32(
            _mm256_mullo_epi32(_mm256_srai_epi32(y, 16), _mm256_set1_epi32((int)width)),
            _mm256_srai_epi32(x, 16));
        /* The load of the image's last pixel would end behind the image. */
        if (_mm256_movemask_epi8(_mm256_cmpeq_epi32(pixel, last)) != 0)
            break;
        const __m256i at = _mm256_add_epi32(pixel, _mm256_add_epi32(pixel, pixel));
        store_pixels(_mm256_i32gather_epi32((const int *)(const void *)in, at, 1), out + 3 * i);
        x = _mm256_add_epi32(x, _mm256_slli_epi32(step_x, 3));
        y = _mm256_add_epi32(y, _mm256_slli_epi32(step_y, 3));
    }
    for (; i < count; i++) {
        const uint32_t from_x = (uint32_t)walk->x + (uint32_t)i * (uint32_t)walk->step_x;
        const uint32_t from_y = (uint32_t)walk->y + (uint32_t)i * (uint32_t)walk->step_y;
        memcpy(out + 3 * i, in + ((from_y >> 16) * width + (from_x >> 16)) * 3, 3);
    }
}
