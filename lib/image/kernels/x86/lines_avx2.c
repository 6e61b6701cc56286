#include "image/kernels/x86/lines_avx2.h"

#include "image/tuning.h"

#include <immintrin.h>
#include <string.h>

/* value = trunc(slope v + start), clipped to a byte. */
struct line {
    float slope, start;
};

/* --- which line a table is --- */

#define NO_BOUND 1e9F

/* The line lies between `least` and `end` at each byte, and is below `end`. */
struct bounds {
    float least[256], end[256], guess, width; /* the slope differs by up to 1 / width */
};

static bool find_bounds(const uint8_t table[256], struct bounds *bounds)
{
    int first = 256, last = 0;
    for (int v = 0; v < 256; v++) {
        bounds->least[v] = table[v] > 0 ? table[v] : -NO_BOUND;
        bounds->end[v] = table[v] < 255 ? (float)table[v] + 1 : NO_BOUND;
        if (table[v] > 0 && table[v] < 255) {
            first = first < v ? first : v;
            last = v;
        }
    }
    if (last <= first)
        return false;
    bounds->width = (float)(last - first);
    bounds->guess = (float)(table[last] - table[first]) / bounds->width;
    return true;
}

static const float first_bytes[8] = {0, 1, 2, 3, 4, 5, 6, 7};

/* bounds - slope v of eight bytes. */
static inline __m256 starts_of(const float *bounds, int v, __m256 slope)
{
    const __m256 bytes = _mm256_add_ps(_mm256_loadu_ps(first_bytes), _mm256_set1_ps((float)v));
    return _mm256_fnmadd_ps(slope, bytes, _mm256_loadu_ps(bounds + v));
}

/* The first byte whose bound is met at this start. */
static int find_byte(const float *bounds, __m256 slope, float start)
{
    for (int v = 0; v < 256; v += 8) {
        const __m256 is_it =
            _mm256_cmp_ps(starts_of(bounds, v, slope), _mm256_set1_ps(start), _CMP_EQ_OQ);
        const int bits = _mm256_movemask_ps(is_it);
        if (bits)
            return v + __builtin_ctz((unsigned)bits);
    }
    return 0;
}

/* The starts that lines of a slope can have are a range, which is a concave function of the slope:
 * its derivative is the distance of the bytes that bound it, its greatest value is found by
 * bisection. */
static bool find_line(const struct bounds *bounds, struct line *line)
{
    float low = bounds->guess - 1 / bounds->width, high = bounds->guess + 1 / bounds->width;
    float widest = -NO_BOUND;
    for (int i = 0; i < SLUICE_LINE_STEPS; i++) {
        const float slope = (low + high) / 2;
        const __m256 slopes = _mm256_set1_ps(slope);
        __m256 least = _mm256_set1_ps(-NO_BOUND), end = _mm256_set1_ps(NO_BOUND);
        for (int v = 0; v < 256; v += 8) {
            least = _mm256_max_ps(least, starts_of(bounds->least, v, slopes));
            end = _mm256_min_ps(end, starts_of(bounds->end, v, slopes));
        }
        float leasts[8], ends[8];
        _mm256_storeu_ps(leasts, least);
        _mm256_storeu_ps(ends, end);
        for (int k = 1; k < 8; k++) {
            leasts[0] = leasts[k] > leasts[0] ? leasts[k] : leasts[0];
            ends[0] = ends[k] < ends[0] ? ends[k] : ends[0];
        }
        const float range = ends[0] - leasts[0];
        if (range > widest) {
            widest = range;
            *line = (struct line){slope, leasts[0] + range / 2};
        }
        if (find_byte(bounds->least, slopes, leasts[0]) > find_byte(bounds->end, slopes, ends[0]))
            low = slope;
        else
            high = slope;
    }
    return widest > 0;
}

/* --- pixels --- */

#define AT_ONCE 96 /* bytes: whole pixels and whole vectors */

struct pattern {
    __m256 slope[3], start[3]; /* of bytes from 8 k on, which are of the channels in turn */
};

static struct pattern repeat(const struct line lines[3])
{
    float slopes[24], starts[24];
    struct pattern pattern;
    for (int i = 0; i < 24; i++) {
        slopes[i] = lines[i % 3].slope;
        starts[i] = lines[i % 3].start;
    }
    for (int k = 0; k < 3; k++) {
        pattern.slope[k] = _mm256_loadu_ps(slopes + 8 * k);
        pattern.start[k] = _mm256_loadu_ps(starts + 8 * k);
    }
    return pattern;
}

static inline __m256i eight_of(const uint8_t *in, const struct pattern *pattern, int k)
{
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)(in + 8 * k));
    const __m256 value = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
    return _mm256_cvttps_epi32(
        _mm256_fmadd_ps(value, pattern->slope[k % 3], pattern->start[k % 3]));
}

static inline void map_block(const uint8_t *in, const struct pattern *pattern, uint8_t *out)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7); /* that the packs have left */
    for (int k = 0; k < 12; k += 4) {
        const __m256i low =
            _mm256_packs_epi32(eight_of(in, pattern, k), eight_of(in, pattern, k + 1));
        const __m256i high =
            _mm256_packs_epi32(eight_of(in, pattern, k + 2), eight_of(in, pattern, k + 3));
        _mm256_storeu_si256((__m256i *)(void *)(out + 8 * k),
                            _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order));
    }
}

static bool makes(const struct pattern *pattern, const uint8_t table[3][256])
{
    uint8_t values[3 * 256], made[3 * 256];
    bool is_same = true;
    for (int i = 0; i < 3 * 256; i++)
        values[i] = (uint8_t)(i / 3);
    for (int i = 0; i < 3 * 256; i += AT_ONCE)
        map_block(values + i, pattern, made + i);
    for (int i = 0; i < 3 * 256; i++)
        is_same &= made[i] == table[i % 3][i / 3];
    return is_same;
}

bool sluice_map_lines_avx2(const uint8_t *in, size_t num_pixels, const uint8_t table[3][256],
                           uint8_t *out)
{
    if (num_pixels < SLUICE_LINE_MIN_PIXELS)
        return false;
    struct line lines[3];
    for (int c = 0; c < 3; c++) {
        struct bounds bounds;
        if (c > 0 && memcmp(table[c], table[c - 1], 256) == 0)
            lines[c] = lines[c - 1];
        else if (!find_bounds(table[c], &bounds) || !find_line(&bounds, &lines[c]))
            return false;
    }
    const struct pattern pattern = repeat(lines);
    if (!makes(&pattern, table))
        return false;
    size_t i = 0;
    for (; i + AT_ONCE <= 3 * num_pixels; i += AT_ONCE)
        map_block(in + i, &pattern, out + i);
    for (; i < 3 * num_pixels; i++)
        out[i] = table[i % 3][in[i]];
    return true;
}
