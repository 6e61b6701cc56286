#include "image/kernels/x86/warp_avx2.h"

#include "image/kernels/warp_pixel.inc"

#include <immintrin.h>
#include <string.h>

/* The pixels of a row that read within the image alone are a span, which is made in vectors; those
 * to both sides of it repeat the border. */

/* --- which pixels of a row read within the image --- */

/* A coordinate of the sources of a row: step (x + 0.5) + of_row + rest. */
struct axis {
    double step, of_row, rest;
};

struct span {
    int begin, end;
};

static double source_of(const struct axis *axis, int x)
{
    return axis->step * (x + 0.5) + axis->of_row + axis->rest;
}

/* Rounding keeps the order of numbers, so a coordinate never turns back, and the pixels of a row on
 * one side of `bound` lie next to each other. */
static bool is_before(const struct axis *axis, int x, double bound)
{
    return (source_of(axis, x) - 0.5 < bound) == (axis->step > 0);
}

static int count_before(const struct axis *axis, int width, double bound)
{
    if (axis->step == 0)
        return is_before(axis, 0, bound) ? width : 0;
    const double guess = (bound - axis->of_row - axis->rest) / axis->step;
    int x = guess < 0 ? 0 : guess < width ? (int)guess : width;
    while (x > 0 && !is_before(axis, x - 1, bound))
        x--;
    while (x < width && is_before(axis, x, bound))
        x++;
    return x;
}

/* The pixels of `within` whose coordinate, less half a pixel, is from `least` to below `end`. */
static struct span cut(struct span within, const struct axis *axis, int width, int least, int end)
{
    const int low = count_before(axis, width, least), high = count_before(axis, width, end);
    const struct span its = axis->step > 0 ? (struct span){low, high} : (struct span){high, low};
    return (struct span){its.begin > within.begin ? its.begin : within.begin,
                         its.end < within.end ? its.end : within.end};
}

/* --- where the pixels of a row come from.  A pixel takes a hundred cycles from its coordinates to
 * its bytes, so the places of a block are found first and its pixels overlap. --- */

#define BLOCK 64
#define AT_ONCE 4

struct warp {
    const uint8_t *in;
    int width, height;
    int before; /* taps before the whole part of a coordinate; there are 1 + `before` from it on */
    bool is_bicubic;
};

struct row {
    const struct warp *warp;
    struct axis x, y;
    uint8_t *out;
};

struct places {
    double dx[BLOCK], dy[BLOCK];
    int at[BLOCK]; /* index of the first byte of the upper left tap */
};

static inline __m256d find_axis(const struct axis *axis, __m256d x, __m128i *whole)
{
    const __m256d of_x = _mm256_mul_pd(_mm256_set1_pd(axis->step), x);
    const __m256d sum = _mm256_add_pd(_mm256_add_pd(of_x, _mm256_set1_pd(axis->of_row)),
                                      _mm256_set1_pd(axis->rest));
    const __m256d at = _mm256_sub_pd(sum, _mm256_set1_pd(0.5));
    *whole = _mm256_cvttpd_epi32(at);
    return _mm256_sub_pd(at, _mm256_cvtepi32_pd(*whole));
}

static void find_places(const struct row *row, int x, int count, struct places *places)
{
    const __m128i width = _mm_set1_epi32(row->warp->width);
    const __m128i before = _mm_set1_epi32(row->warp->before);
    __m256d centres = _mm256_add_pd(_mm256_set1_pd(x), _mm256_setr_pd(0.5, 1.5, 2.5, 3.5));
    for (int i = 0; i < count; i += AT_ONCE) {
        __m128i whole_x, whole_y;
        _mm256_storeu_pd(places->dx + i, find_axis(&row->x, centres, &whole_x));
        _mm256_storeu_pd(places->dy + i, find_axis(&row->y, centres, &whole_y));
        const __m128i pixel = _mm_add_epi32(_mm_mullo_epi32(_mm_sub_epi32(whole_y, before), width),
                                            _mm_sub_epi32(whole_x, before));
        _mm_storeu_si128((__m128i *)(void *)(places->at + i),
                         _mm_add_epi32(pixel, _mm_add_epi32(pixel, pixel)));
        centres = _mm256_add_pd(centres, _mm256_set1_pd(AT_ONCE));
    }
}

/* Red, green and blue; unless it is the last one also a byte that the next pixel's overwrites. */
static inline void store_pixel(__m128i rgb, bool is_last, uint8_t *out)
{
    const __m128i pack = _mm_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    const int bytes = _mm_cvtsi128_si32(_mm_shuffle_epi8(rgb, pack));
    memcpy(out, &bytes, is_last ? 3 : 4);
}

/* --- bilinear: the operations of take_bilinear() --- */

#define TWO_52 4503599627370496.0

/* The channels of a pixel and the byte behind it, each plus 2^52: as a double's lowest bits they
 * need no conversion, and differences are exact. */
static inline __m256d load_pixel(const uint8_t *pixel)
{
    int bytes;
    memcpy(&bytes, pixel, sizeof(bytes));
    const __m256i words = _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(bytes));
    return _mm256_or_pd(_mm256_castsi256_pd(words), _mm256_set1_pd(TWO_52));
}

static inline __m256d mix(__m256d a, __m256d b_less_a, __m256d part)
{
    return _mm256_add_pd(a, _mm256_mul_pd(b_less_a, part));
}

static inline __m256d mix_pair(const uint8_t *pair, __m256d dx)
{
    const __m256d a = load_pixel(pair), b = load_pixel(pair + 3);
    return mix(_mm256_sub_pd(a, _mm256_set1_pd(TWO_52)), _mm256_sub_pd(b, a), dx);
}

static void make_bilinear(const struct row *row, int x, int count)
{
    const size_t row_bytes = (size_t)row->warp->width * 3;
    const uint8_t *in = row->warp->in;
    uint8_t *out = row->out + 3 * x;
    struct places places;
    find_places(row, x, count, &places);
    for (int i = 0; i < count; i++) {
        const uint8_t *upper = in + places.at[i];
        const __m256d dx = _mm256_set1_pd(places.dx[i]), dy = _mm256_set1_pd(places.dy[i]);
        const __m256d v1 = mix_pair(upper, dx), v2 = mix_pair(upper + row_bytes, dx);
        store_pixel(_mm256_cvttpd_epi32(mix(v1, _mm256_sub_pd(v2, v1), dy)), i + 1 == count,
                    out + 3 * i);
    }
}

/* --- bicubic: in float32, and as take_bicubic() where that is too near to a whole number --- */

/* Above the error of the float32 sums, 7e-4: the weights' errors add up to 5e-7 of 383 in each
 * direction; rounding the sums adds 2e-4, rounding dx and dy 7e-5. */
#define MARGIN (1.0F / 1024)

/* Each pixel has four weights in each direction. */
struct weights {
    float of_x[BLOCK][4], of_y[4][BLOCK];
};

/* The polynomials of cubic(). */
static inline void find_taps(const double d4[AT_ONCE], __m128 w[4])
{
    const __m128 d = _mm256_cvtpd_ps(_mm256_loadu_pd(d4));
    const __m128 one = _mm_set1_ps(1), square = _mm_mul_ps(d, d);
    const __m128 less_1 = _mm_sub_ps(d, one), less_2 = _mm_sub_ps(d, _mm_set1_ps(2));
    w[0] = _mm_mul_ps(d, _mm_fnmsub_ps(d, less_2, one)); /* -d + 2 d^2 - d^3 */
    w[1] = _mm_fmadd_ps(square, less_2, one);            /* 1 - 2 d^2 + d^3 */
    w[2] = _mm_mul_ps(d, _mm_fnmadd_ps(d, less_1, one)); /* d + d^2 - d^3 */
    w[3] = _mm_mul_ps(square, less_1);                   /* -d^2 + d^3 */
}

static void find_weights(const struct places *places, int count, struct weights *weights)
{
    for (int i = 0; i < count; i += AT_ONCE) {
        __m128 w[4];
        find_taps(places->dx + i, w);
        _MM_TRANSPOSE4_PS(w[0], w[1], w[2], w[3]);
        for (int k = 0; k < 4; k++)
            _mm_storeu_ps(weights->of_x[i + k], w[k]);
        find_taps(places->dy + i, w);
        for (int k = 0; k < 4; k++)
            _mm_storeu_ps(weights->of_y[k] + i, w[k]);
    }
}

/* The weighted sums of 4 x 4 pixels, whose rows are 12 values: red, green, blue and one without
 * meaning. */
static inline __m128 weigh(const uint8_t *first, size_t row_bytes, const struct weights *weights,
                           int pixel)
{
    __m256 eight = _mm256_setzero_ps();
    __m128 four = _mm_setzero_ps();
    for (int i = 0; i < 4; i++, first += row_bytes) {
        int last;
        memcpy(&last, first + 8, sizeof(last));
        const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)first);
        const __m256 weight = _mm256_set1_ps(weights->of_y[i][pixel]);
        eight = _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)), weight, eight);
        four = _mm_fmadd_ps(_mm_cvtepi32_ps(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(last))),
                            _mm256_castps256_ps128(weight), four);
    }
    const __m256 taps = _mm256_broadcast_ps((const __m128 *)(const void *)weights->of_x[pixel]);
    eight =
        _mm256_mul_ps(eight, _mm256_permutevar_ps(taps, _mm256_setr_epi32(0, 0, 0, 1, 1, 1, 2, 2)));
    four = _mm_mul_ps(four, _mm_permute_ps(_mm256_castps256_ps128(taps), 0xFE));
    /* rgbr gbrg brgb: from the first, fourth, seventh and tenth value on. */
    const __m128i a = _mm_castps_si128(_mm256_castps256_ps128(eight));
    const __m128i b = _mm_castps_si128(_mm256_extractf128_ps(eight, 1));
    const __m128i c = _mm_castps_si128(four);
    return _mm_add_ps(_mm_add_ps(_mm_castsi128_ps(a), _mm_castsi128_ps(_mm_alignr_epi8(b, a, 12))),
                      _mm_add_ps(_mm_castsi128_ps(_mm_alignr_epi8(c, b, 8)),
                                 _mm_castsi128_ps(_mm_srli_si128(c, 4))));
}

/* 4 x 4 pixels of one colour, which is the result, as cubic() has no rounding there. */
static bool is_flat(const uint8_t *first, size_t row_bytes)
{
    bool is_same = true;
    for (size_t i = 0; is_same && i < 4; i++) {
        const uint8_t *row = first + row_bytes * i;
        is_same = memcmp(row, first, 3) == 0 && memcmp(row, row + 3, 9) == 0;
    }
    return is_same;
}

/* take_bicubic() of 4 x 4 pixels. */
static void make_exactly(const uint8_t *first, size_t row_bytes, double dx, double dy, uint8_t *out)
{
    const __m256d zero = _mm256_set1_pd(TWO_52);
    lanes rows[4];
    for (int i = 0; i < 4; i++, first += row_bytes) {
        uint32_t last;
        memcpy(&last, first + 8, sizeof(last)); /* what is behind it may lie behind the image */
        last >>= 8;
        rows[i] = cubic((lanes)_mm256_sub_pd(load_pixel(first), zero),
                        (lanes)_mm256_sub_pd(load_pixel(first + 3), zero),
                        (lanes)_mm256_sub_pd(load_pixel(first + 6), zero),
                        (lanes)_mm256_sub_pd(load_pixel((const uint8_t *)&last), zero), all(dx));
    }
    const __m256d sum = (__m256d)cubic(rows[0], rows[1], rows[2], rows[3], all(dy));
    const __m256d clipped =
        _mm256_min_pd(_mm256_max_pd(sum, _mm256_setzero_pd()), _mm256_set1_pd(255));
    store_pixel(_mm256_cvttpd_epi32(clipped), true, out);
}

/* Stores a pair of pixels; returns a bit for each sum that is within MARGIN of a whole number. */
static inline int store_pair(const float sums[2][4], int count, uint8_t *out)
{
    /* Clipped half way between two whole numbers. */
    const __m256 sum = _mm256_min_ps(_mm256_max_ps(_mm256_loadu_ps(sums[0]), _mm256_set1_ps(0.5F)),
                                     _mm256_set1_ps(255.5F));
    const __m256i most = _mm256_cvttps_epi32(_mm256_add_ps(sum, _mm256_set1_ps(MARGIN)));
    const __m256i least = _mm256_cvttps_epi32(_mm256_sub_ps(sum, _mm256_set1_ps(MARGIN)));
    const int same = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(least, most)));
    store_pixel(_mm256_castsi256_si128(most), count == 1, out);
    if (count > 1)
        store_pixel(_mm256_extracti128_si256(most, 1), count == 2, out + 3);
    return (same | 0x88) ^ 0xFF;
}

static void make_bicubic(const struct row *row, int x, int count)
{
    const size_t row_bytes = (size_t)row->warp->width * 3;
    const uint8_t *in = row->warp->in;
    uint8_t *out = row->out + 3 * x;
    struct places places;
    struct weights weights;
    float sums[BLOCK][4];
    find_places(row, x, count, &places);
    find_weights(&places, count, &weights);
    for (int i = 0; i < count; i++)
        _mm_storeu_ps(sums[i], weigh(in + places.at[i], row_bytes, &weights, i));
    if (count % 2)
        memcpy(sums[count], sums[count - 1], sizeof(sums[0]));
    for (int i = 0; i < count; i += 2) {
        const int is_near = store_pair((const float(*)[4])(sums + i), count - i, out + 3 * i);
        for (int k = i; is_near && k < i + 2 && k < count; k++) {
            const uint8_t *first = in + places.at[k];
            if (is_flat(first, row_bytes))
                memcpy(out + 3 * k, first, 3);
            else if (is_near >> 4 * (k - i) & 7)
                make_exactly(first, row_bytes, places.dx[k], places.dy[k], out + 3 * k);
        }
    }
}

/* A pixel whose taps repeat those at the border. */
static void make_at_border(const struct row *row, double from_x, double from_y, uint8_t *out)
{
    const struct warp *w = row->warp;
    const int x = floor_of(from_x), y = floor_of(from_y);
    uint8_t taps[4][12];
    for (int i = 0; i < 4; i++) {
        const uint8_t *line = w->in + (size_t)clamp(y - 1 + i, w->height) * (size_t)w->width * 3;
        for (int k = 0; k < 4; k++)
            memcpy(taps[i] + 3 * k, line + 3 * clamp(x - 1 + k, w->width), 3);
    }
    make_exactly(taps[0], sizeof(taps[0]), from_x - x, from_y - y, out);
}

/* --- rows --- */

/* False: the pixel's source is not within the image. */
static bool make_pixel(const struct row *row, int x)
{
    const struct warp *w = row->warp;
    const double from_x = source_of(&row->x, x), from_y = source_of(&row->y, x);
    if (from_x < 0 || from_x >= w->width || from_y < 0 || from_y >= w->height)
        return false;
    if (w->is_bicubic)
        make_at_border(row, from_x - 0.5, from_y - 0.5, row->out + 3 * x);
    else
        take_bilinear(w->in, w->width, w->height, from_x, from_y, row->out + 3 * x);
    return true;
}

static void make_row(const struct row *row, struct span span)
{
    const struct warp *w = row->warp;
    for (int x = span.begin; x < span.end; x += BLOCK) {
        const int count = span.end - x < BLOCK ? span.end - x : BLOCK;
        if (w->is_bicubic)
            make_bicubic(row, x, count);
        else
            make_bilinear(row, x, count);
    }
    /* To both sides are those that read across the border, and then those from outside. */
    int left = span.begin, right = span.end > left ? span.end : left;
    const bool is_empty = left == right;
    while (left > 0 && (make_pixel(row, left - 1) || is_empty))
        left--;
    while (right < w->width && (make_pixel(row, right) || is_empty))
        right++;
}

void sluice_warp_avx2(const uint8_t *in, int width, int height, const double m[6], bool is_bicubic,
                      uint8_t *out)
{
    const int before = is_bicubic ? 1 : 0;
    const struct warp warp = {in, width, height, before, is_bicubic};
    const bool fits = (size_t)width * (size_t)height <= INT32_MAX / 3; /* indices are int32 */
    for (int y = 0; y < height; y++) {
        const struct row row = {
            .warp = &warp,
            .x = {m[0], m[1] * (y + 0.5), m[2]},
            .y = {m[3], m[4] * (y + 0.5), m[5]},
            .out = out + (size_t)y * (size_t)width * 3,
        };
        struct span span = {0, fits ? width : 0};
        /* Bilinear reads a byte behind its second tap. */
        span = cut(span, &row.x, width, before, width - 2);
        span = cut(span, &row.y, width, before, height - 1 - before);
        make_row(&row, span);
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
