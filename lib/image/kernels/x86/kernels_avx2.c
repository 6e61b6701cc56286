/* The kernels with AVX2.  Compiled for it; only called where base/cpu.h found it.
 *
 * A weight has up to 23 bits, more than a 16-bit multiply takes, so it is used in
 * halves: sum(p * w) = sum(p * low) + (sum(p * high) << LOW_BITS), each sum made by
 * the multiply that adds neighbouring products.  Integer sums do not depend on
 * their order, so the bytes are those of kernels_c.c.  Sums are taken modulo 2^32; a pair's
 * products fit (twice 255 * 2^11), and so does the whole, which kernels_c.c takes in 32 bits too.
 */

#include "base/compiler.h"
#include "image/kernels/kernels.h"
#include "image/kernels/x86/kernels_rows.h"

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#define LOW_BITS 11

/* The halves of four weights, two neighbours in a word. */
struct halves {
    uint32_t low[2], high[2];
};

/* Two taps of eight neighbouring bytes of the output, a lane each: which of the loaded bytes go
 * there, widened to 16 bits, and their weights. */
struct pair {
    uint32_t index[8];
    uint32_t low[8], high[8];
};

/* Across, either half of a register takes what four bytes of the output look at from a window of
 * its own, sixteen bytes of the row: one for two taps or, if they fit, for four.  Where not even
 * two taps fit (scales above 4 or so) each half takes one pixel, and a window is for four taps.
 * Rows shorter than a window are left to kernels_c.c.
 *
 * The plan of this pass is a struct row_plan, then struct halves [num_out][stride / 4], then struct
 * pair [num_groups][num_windows][pairs_per_window], then where each window begins, uint32_t
 * starts[num_groups][num_windows][2].  That of the pass down is the halves alone. */
struct row_plan {
    uint32_t group_bytes; /* GROUP_BYTES or PIXEL_GROUP_BYTES */
    uint32_t pairs_per_window;
    uint32_t num_windows; /* of every group */
    uint32_t num_groups;
    uint8_t padding[16]; /* so that what follows is aligned */
};

#define GROUP_BYTES 8
#define PIXEL_GROUP_BYTES 6
#define PIXELS_PER_GROUP 4 /* that 8 bytes touch, wherever they begin */
#define WINDOW 16

static inline __m256i load_32(const void *at)
{
    return _mm256_loadu_si256((const __m256i *)at);
}

static size_t num_halves(uint32_t num_out, uint32_t stride)
{
    /* An even number: 32 bytes' alignment goes on. */
    return ((size_t)num_out * (stride / 4) + 1) & ~(size_t)1;
}

static uint32_t num_groups_of(uint32_t num_out, uint32_t group_bytes)
{
    return (num_out * 3 + group_bytes - 1) / group_bytes;
}

static bool is_too_short(const struct sluice_taps *taps)
{
    return taps->num_in * 3 < WINDOW;
}

static size_t plan_len(enum sluice_pass pass, uint32_t num_out, uint32_t stride)
{
    const size_t halves_len = num_halves(num_out, stride) * sizeof(struct halves);
    if (pass == SLUICE_PASS_DOWN)
        return halves_len;
    return sizeof(struct row_plan) + halves_len +
           (size_t)num_groups_of(num_out, PIXEL_GROUP_BYTES) * (stride / 2) *
               (sizeof(struct pair) + 2 * sizeof(uint32_t));
}

static struct halves *halves_across(const struct sluice_taps *taps)
{
    return (struct halves *)(void *)((struct row_plan *)taps->plan + 1);
}

static struct pair *plan_pairs(const struct sluice_taps *taps)
{
    return (struct pair *)(void *)(halves_across(taps) + num_halves(taps->num_out, taps->stride));
}

static uint32_t *plan_starts(const struct sluice_taps *taps)
{
    const struct row_plan *plan = taps->plan;
    return (uint32_t *)(void *)(plan_pairs(taps) + (size_t)plan->num_groups * plan->num_windows *
                                                       plan->pairs_per_window);
}

static void split_weights(const struct sluice_taps *taps, struct halves *out)
{
    const size_t num_fours = (size_t)taps->num_out * taps->stride / 4;
    const __m128i low_bits = _mm_set1_epi32((1 << LOW_BITS) - 1);
    for (size_t i = 0; i < num_fours; i++) {
        const __m128i four = _mm_loadu_si128((const __m128i *)(const void *)(taps->coeffs + 4 * i));
        const __m128i halves =
            _mm_packs_epi32(_mm_and_si128(four, low_bits), _mm_srai_epi32(four, LOW_BITS));
        _mm_storeu_si128((__m128i *)(void *)&out[i], halves);
    }
}

/* The inputs of the eight lanes of a group. */
struct group {
    uint32_t outputs[PIXELS_PER_GROUP]; /* theirs; the last one again where there are no more */
    __m256i pixels;                     /* which of these a lane belongs to */
    __m256i bytes;                      /* where in the row its first tap is */
    uint32_t first[2], span; /* the first of either half, and how many they span at most */
};

static inline struct group find_group(const struct sluice_taps *taps, uint32_t group_bytes,
                                      uint32_t index)
{
    /* By the channel of the first byte; the last one for two pixels and a lane unused after each.
     */
    enum { TWO_PIXELS = 3 };
    static const uint32_t pixels[4][8] = {{0, 0, 0, 1, 1, 1, 2, 2},
                                          {0, 0, 1, 1, 1, 2, 2, 2},
                                          {0, 1, 1, 1, 2, 2, 2, 3},
                                          {0, 0, 0, 0, 1, 1, 1, 1}};
    static const uint32_t channels[4][8] = {{0, 1, 2, 0, 1, 2, 0, 1},
                                            {1, 2, 0, 1, 2, 0, 1, 2},
                                            {2, 0, 1, 2, 0, 1, 2, 0},
                                            {0, 1, 2, 2, 0, 1, 2, 2}};
    const uint32_t byte = group_first_byte(taps, group_bytes, index);
    const uint32_t phase = group_bytes == GROUP_BYTES ? byte % 3 : TWO_PIXELS;
    struct group group = {.pixels = load_32(pixels[phase])};
    uint32_t firsts[PIXELS_PER_GROUP];
    for (uint32_t p = 0; p < PIXELS_PER_GROUP; p++) {
        const uint32_t output = byte / 3 + p;
        group.outputs[p] = output < taps->num_out ? output : taps->num_out - 1;
        firsts[p] = taps->spans[group.outputs[p]].first * 3;
    }
    const __m128i first =
        _mm_setr_epi32((int)firsts[0], (int)firsts[1], (int)firsts[2], (int)firsts[3]);
    group.bytes =
        _mm256_add_epi32(_mm256_permutevar8x32_epi32(_mm256_castsi128_si256(first), group.pixels),
                         load_32(channels[phase]));
    const __m256i swapped = _mm256_shuffle_epi32(group.bytes, 0x4e);
    const __m256i least_2 = _mm256_min_epu32(group.bytes, swapped);
    const __m256i most_2 = _mm256_max_epu32(group.bytes, swapped);
    const __m256i least = _mm256_min_epu32(least_2, _mm256_shuffle_epi32(least_2, 0xb1));
    const __m256i most = _mm256_max_epu32(most_2, _mm256_shuffle_epi32(most_2, 0xb1));
    const __m256i spans = _mm256_sub_epi32(most, least);
    const uint32_t low = (uint32_t)_mm256_extract_epi32(spans, 0) + 1;
    const uint32_t high = (uint32_t)_mm256_extract_epi32(spans, 4) + 1;
    group.first[0] = (uint32_t)_mm256_extract_epi32(least, 0);
    group.first[1] = (uint32_t)_mm256_extract_epi32(least, 4);
    group.span = low > high ? low : high;
    return group;
}

static void fill_group(const struct sluice_taps *taps, const struct group *group, struct pair *pair,
                       uint32_t *start)
{
    const struct row_plan *plan = taps->plan;
    const uint32_t last_start = taps->num_in * 3 - WINDOW;
    const uint32_t num_pairs = plan->num_windows * plan->pairs_per_window;
    const struct halves *halves[PIXELS_PER_GROUP];
    for (uint32_t p = 0; p < PIXELS_PER_GROUP; p++)
        halves[p] = halves_across(taps) + (size_t)group->outputs[p] * (taps->stride / 4);
    __m256i starts = _mm256_setzero_si256();
    for (uint32_t q = 0; q < num_pairs; q++, pair++) {
        if (q % plan->pairs_per_window == 0) {
            for (uint32_t half = 0; half < 2; half++) {
                const uint32_t wanted = group->first[half] + q * 6;
                start[half] = wanted < last_start ? wanted : last_start;
            }
            starts = _mm256_set_m128i(_mm_set1_epi32((int)start[1]), _mm_set1_epi32((int)start[0]));
            start += 2;
        }
        /* Byte, nothing, the byte three on, nothing.  A tap that weighs nothing may lie
         * outside the window: any byte will do. */
        const __m256i in_window = _mm256_set1_epi32(WINDOW - 1);
        const __m256i at =
            _mm256_sub_epi32(_mm256_add_epi32(group->bytes, _mm256_set1_epi32((int)q * 6)), starts);
        const __m256i next = _mm256_add_epi32(at, _mm256_set1_epi32(3));
        const __m256i both =
            _mm256_or_si256(_mm256_and_si256(at, in_window),
                            _mm256_slli_epi32(_mm256_and_si256(next, in_window), 16));
        _mm256_store_si256((__m256i *)(void *)pair->index,
                           _mm256_or_si256(both, _mm256_set1_epi32((int)0x80008000)));
        /* Lower and upper halves of the pair, by pixel. */
        __m128i of_pixel[PIXELS_PER_GROUP];
        for (uint32_t p = 0; p < PIXELS_PER_GROUP; p++)
            of_pixel[p] = _mm_loadu_si128((const __m128i *)(const void *)&halves[p][q / 2]);
        const __m128i low_01 = _mm_unpacklo_epi32(of_pixel[0], of_pixel[1]);
        const __m128i low_23 = _mm_unpacklo_epi32(of_pixel[2], of_pixel[3]);
        const __m128i high_01 = _mm_unpackhi_epi32(of_pixel[0], of_pixel[1]);
        const __m128i high_23 = _mm_unpackhi_epi32(of_pixel[2], of_pixel[3]);
        const __m128i low =
            q % 2 ? _mm_unpackhi_epi64(low_01, low_23) : _mm_unpacklo_epi64(low_01, low_23);
        const __m128i high =
            q % 2 ? _mm_unpackhi_epi64(high_01, high_23) : _mm_unpacklo_epi64(high_01, high_23);
        _mm256_store_si256((__m256i *)(void *)pair->low,
                           _mm256_permutevar8x32_epi32(_mm256_castsi128_si256(low), group->pixels));
        _mm256_store_si256(
            (__m256i *)(void *)pair->high,
            _mm256_permutevar8x32_epi32(_mm256_castsi128_si256(high), group->pixels));
    }
}

/* The most bytes that the first taps of a half span. */
static uint32_t max_span(const struct sluice_taps *taps, uint32_t group_bytes)
{
    const uint32_t num_groups = num_groups_of(taps->num_out, group_bytes);
    uint32_t most = 0;
    for (uint32_t g = 0; g < num_groups; g++) {
        const struct group group = find_group(taps, group_bytes, g);
        most = group.span > most ? group.span : most;
    }
    return most;
}

static void make_row_plan(const struct sluice_taps *taps)
{
    if (is_too_short(taps))
        return;
    struct row_plan *plan = taps->plan;
    split_weights(taps, halves_across(taps));
    uint32_t max_count = 1;
    for (uint32_t o = 0; o < taps->num_out; o++)
        max_count = taps->spans[o].count > max_count ? taps->spans[o].count : max_count;
    const uint32_t span = max_span(taps, GROUP_BYTES);
    plan->group_bytes = span + 3 <= WINDOW ? GROUP_BYTES : PIXEL_GROUP_BYTES;
    plan->pairs_per_window =
        plan->group_bytes == PIXEL_GROUP_BYTES || (max_count > 2 && span + 9 <= WINDOW) ? 2 : 1;
    plan->num_groups = num_groups_of(taps->num_out, plan->group_bytes);
    const uint32_t taps_per_window = plan->pairs_per_window * 2;
    plan->num_windows = (max_count + taps_per_window - 1) / taps_per_window;
    struct pair *pair = plan_pairs(taps);
    uint32_t *start = plan_starts(taps);
    for (uint32_t g = 0; g < plan->num_groups; g++) {
        const struct group group = find_group(taps, plan->group_bytes, g);
        fill_group(taps, &group, pair, start);
        pair += (size_t)plan->num_windows * plan->pairs_per_window;
        start += (size_t)plan->num_windows * 2;
    }
}

static void make_plan(enum sluice_pass pass, const struct sluice_taps *taps)
{
    if (pass == SLUICE_PASS_ACROSS)
        make_row_plan(taps);
    else
        split_weights(taps, taps->plan);
}

/* Half of the last bit, as the upper halves count. */
static inline __m256i rounding_in_high(void)
{
    return _mm256_set1_epi32(1 << (SLUICE_RESIZE_BITS - 1 - LOW_BITS));
}

/* The rounded sums, `high` including the rounding. */
static SLUICE_ALWAYS_INLINE __m256i join_halves(__m256i low, __m256i high)
{
    return _mm256_srai_epi32(_mm256_add_epi32(low, _mm256_slli_epi32(high, LOW_BITS)),
                             SLUICE_RESIZE_BITS);
}

static inline __m256i load_two(const uint8_t *low, const uint8_t *high)
{
    return _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)low)),
        _mm_loadu_si128((const __m128i *)(const void *)high), 1);
}

/* One group of one row. */
static SLUICE_ALWAYS_INLINE __m256i sum_group(const uint8_t *in, const struct pair *pair,
                                              const uint32_t *start, uint32_t num_windows,
                                              uint32_t pairs_per_window)
{
    __m256i low = _mm256_setzero_si256(), high = rounding_in_high();
    for (uint32_t w = 0; w < num_windows; w++, start += 2) {
        const __m256i window = load_two(in + start[0], in + start[1]);
        for (uint32_t i = 0; i < pairs_per_window; i++, pair++) {
            const __m256i bytes = _mm256_shuffle_epi8(window, load_32(pair->index));
            low = _mm256_add_epi32(low, _mm256_madd_epi16(bytes, load_32(pair->low)));
            high = _mm256_add_epi32(high, _mm256_madd_epi16(bytes, load_32(pair->high)));
        }
    }
    return join_halves(low, high);
}

/* The same of four rows, for many windows: each weight is loaded once. */
static SLUICE_ALWAYS_INLINE void sum_group_of_rows(const uint8_t *const *in,
                                                   const struct pair *pair, const uint32_t *start,
                                                   uint32_t num_windows, uint32_t pairs_per_window,
                                                   __m256i sums[ROWS_AT_ONCE])
{
    __m256i low[ROWS_AT_ONCE], high[ROWS_AT_ONCE];
    for (int r = 0; r < ROWS_AT_ONCE; r++) {
        low[r] = _mm256_setzero_si256();
        high[r] = rounding_in_high();
    }
    for (uint32_t w = 0; w < num_windows; w++, start += 2) {
        for (uint32_t i = 0; i < pairs_per_window; i++, pair++) {
            const __m256i index = load_32(pair->index);
            const __m256i weight_low = load_32(pair->low), weight_high = load_32(pair->high);
            for (int r = 0; r < ROWS_AT_ONCE; r++) {
                const __m256i window = load_two(in[r] + start[0], in[r] + start[1]);
                const __m256i bytes = _mm256_shuffle_epi8(window, index);
                low[r] = _mm256_add_epi32(low[r], _mm256_madd_epi16(bytes, weight_low));
                high[r] = _mm256_add_epi32(high[r], _mm256_madd_epi16(bytes, weight_high));
            }
        }
    }
    for (int r = 0; r < ROWS_AT_ONCE; r++)
        sums[r] = join_halves(low[r], high[r]);
}

static inline void store_lower(uint8_t *out, __m128i bytes)
{
    const long long half = _mm_cvtsi128_si64(bytes);
    memcpy(out, &half, 8);
}

static inline void store_upper(uint8_t *out, __m128i bytes)
{
    const long long half = _mm_extract_epi64(bytes, 1);
    memcpy(out, &half, 8);
}

static SLUICE_ALWAYS_INLINE void resize_in_groups(const struct sluice_taps *taps,
                                                  const struct rows *rows, uint32_t num_windows,
                                                  uint32_t pairs_per_window, bool is_by_pixel)
{
    const struct row_plan *plan = taps->plan;
    const struct pair *pair = plan_pairs(taps);
    const uint32_t *start = plan_starts(taps);
    const uint32_t group_bytes = is_by_pixel ? PIXEL_GROUP_BYTES : GROUP_BYTES;
    const size_t out_bytes = (size_t)taps->num_out * 3;
    /* Packing leaves four bytes of each row in either half. */
    const __m256i by_row = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i close_gaps = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 2, 4, 5, 6, -1, -1, 8, 9, 10, 12, 13, 14, -1, -1));
    for (uint32_t g = 0; g < plan->num_groups; g++) {
        const size_t at = group_first_byte(taps, group_bytes, g);
        for (uint32_t y = 0; y < rows->num; y += ROWS_AT_ONCE) {
            __m256i sums[ROWS_AT_ONCE];
            if (is_by_pixel) {
                sum_group_of_rows(rows->in + y, pair, start, num_windows, pairs_per_window, sums);
            } else {
                for (uint32_t r = 0; r < ROWS_AT_ONCE; r++)
                    sums[r] =
                        sum_group(rows->in[y + r], pair, start, num_windows, pairs_per_window);
            }
            const __m256i packed = _mm256_packus_epi16(_mm256_packs_epi32(sums[0], sums[1]),
                                                       _mm256_packs_epi32(sums[2], sums[3]));
            __m256i results = _mm256_permutevar8x32_epi32(packed, by_row);
            if (is_by_pixel)
                results = _mm256_shuffle_epi8(results, close_gaps);
            const __m128i low = _mm256_castsi256_si128(results);
            const __m128i high = _mm256_extracti128_si256(results, 1);
            uint8_t *const *out = rows->out + y;
            if (at + 8 <= out_bytes) {
                /* The next group overwrites bytes stored past this one. */
                store_lower(out[0] + at, low);
                store_upper(out[1] + at, low);
                store_lower(out[2] + at, high);
                store_upper(out[3] + at, high);
            } else {
                uint8_t all[ROWS_AT_ONCE][8];
                _mm256_storeu_si256((__m256i *)(void *)all, results);
                for (int r = 0; r < ROWS_AT_ONCE; r++)
                    memcpy(out[r] + at, all[r], out_bytes - at);
            }
        }
        pair += num_windows * pairs_per_window;
        start += 2 * num_windows;
    }
}

static void resize_rows(const struct sluice_taps *taps, const uint8_t *in, size_t in_stride,
                        uint32_t num_rows, uint8_t *out, size_t out_stride)
{
    if (is_too_short(taps)) {
        sluice_kernels_c.resize_rows(taps, in, in_stride, num_rows, out, out_stride);
        return;
    }
    const struct row_plan *plan = taps->plan;
    const bool is_by_pixel = plan->group_bytes == PIXEL_GROUP_BYTES;
    for (uint32_t y = 0; y < num_rows; y += MAX_ROWS) {
        const struct rows rows = list_rows(in + y * in_stride, in_stride, num_rows - y,
                                           out + y * out_stride, out_stride);
        if (is_by_pixel) {
            resize_in_groups(taps, &rows, plan->num_windows, 2, true);
            continue;
        }
        /* The usual numbers as constants: the loop over them costs as much as what it does. */
        switch (plan->num_windows * 4 + plan->pairs_per_window) {
        case 1 * 4 + 1:
            resize_in_groups(taps, &rows, 1, 1, false);
            break;
        case 2 * 4 + 1:
            resize_in_groups(taps, &rows, 2, 1, false);
            break;
        case 3 * 4 + 1:
            resize_in_groups(taps, &rows, 3, 1, false);
            break;
        case 4 * 4 + 1:
            resize_in_groups(taps, &rows, 4, 1, false);
            break;
        case 1 * 4 + 2:
            resize_in_groups(taps, &rows, 1, 2, false);
            break;
        case 2 * 4 + 2:
            resize_in_groups(taps, &rows, 2, 2, false);
            break;
        default:
            resize_in_groups(taps, &rows, plan->num_windows, plan->pairs_per_window, false);
        }
    }
}

/* 32 columns of up to four rows. */
static SLUICE_ALWAYS_INLINE void blend_four(const __m256i weights[4], const uint8_t *const rows[4],
                                            bool has_two_pairs, uint8_t *out, size_t at)
{
    const __m256i zero = _mm256_setzero_si256();
    const __m256i a = load_32(rows[0] + at), b = load_32(rows[1] + at);
    const __m256i ab[2] = {_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b)};
    __m256i cd[2] = {zero, zero};
    if (has_two_pairs) {
        const __m256i c = load_32(rows[2] + at), d = load_32(rows[3] + at);
        cd[0] = _mm256_unpacklo_epi8(c, d);
        cd[1] = _mm256_unpackhi_epi8(c, d);
    }
    __m256i sums[4];
    for (int i = 0; i < 4; i++) {
        const __m256i p =
            i % 2 ? _mm256_unpackhi_epi8(ab[i / 2], zero) : _mm256_unpacklo_epi8(ab[i / 2], zero);
        __m256i low = _mm256_madd_epi16(p, weights[0]);
        __m256i high = _mm256_add_epi32(_mm256_madd_epi16(p, weights[1]), rounding_in_high());
        if (has_two_pairs) {
            const __m256i q = i % 2 ? _mm256_unpackhi_epi8(cd[i / 2], zero)
                                    : _mm256_unpacklo_epi8(cd[i / 2], zero);
            low = _mm256_add_epi32(low, _mm256_madd_epi16(q, weights[2]));
            high = _mm256_add_epi32(high, _mm256_madd_epi16(q, weights[3]));
        }
        sums[i] = join_halves(low, high);
    }
    const __m256i packed = _mm256_packus_epi16(_mm256_packs_epi32(sums[0], sums[1]),
                                               _mm256_packs_epi32(sums[2], sums[3]));
    _mm256_storeu_si256((__m256i *)(void *)(out + at), packed);
}

static SLUICE_ALWAYS_INLINE void blend_32(const struct halves *halves, uint32_t count,
                                          const uint8_t *const *rows, uint8_t *out, size_t at)
{
    const __m256i zero = _mm256_setzero_si256(), rounding = rounding_in_high();
    __m256i low[4] = {zero, zero, zero, zero};
    __m256i high[4] = {rounding, rounding, rounding, rounding};
    for (uint32_t k = 0; k < count; k += 2) {
        const __m256i weight_low = _mm256_set1_epi32((int)halves[k / 4].low[k / 2 % 2]);
        const __m256i weight_high = _mm256_set1_epi32((int)halves[k / 4].high[k / 2 % 2]);
        const __m256i a = load_32(rows[k] + at), b = load_32(rows[k + 1] + at);
        const __m256i ab[2] = {_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b)};
        for (int i = 0; i < 4; i++) {
            const __m256i p = i % 2 ? _mm256_unpackhi_epi8(ab[i / 2], zero)
                                    : _mm256_unpacklo_epi8(ab[i / 2], zero);
            low[i] = _mm256_add_epi32(low[i], _mm256_madd_epi16(p, weight_low));
            high[i] = _mm256_add_epi32(high[i], _mm256_madd_epi16(p, weight_high));
        }
    }
    const __m256i packed = _mm256_packus_epi16(
        _mm256_packs_epi32(join_halves(low[0], high[0]), join_halves(low[1], high[1])),
        _mm256_packs_epi32(join_halves(low[2], high[2]), join_halves(low[3], high[3])));
    _mm256_storeu_si256((__m256i *)(void *)(out + at), packed);
}

static void blend_rows(const struct sluice_taps *taps, uint32_t o, const uint8_t *const *rows,
                       uint8_t *out, size_t num_bytes)
{
    if (num_bytes < 32) {
        sluice_kernels_c.blend_rows(taps, o, rows, out, num_bytes);
        return;
    }
    const struct halves *halves =
        (const struct halves *)taps->plan + (size_t)o * (taps->stride / 4);
    const uint32_t count = taps->spans[o].count;
    const size_t last = num_bytes - 32; /* the rest, together with bytes that are done already */
    if (count > 4) {
        for (size_t at = 0; at < last; at += 32)
            blend_32(halves, count, rows, out, at);
        blend_32(halves, count, rows, out, last);
        return;
    }
    const uint8_t *const four[4] = {rows[0], rows[1], rows[2], rows[3]};
    const __m256i weights[4] = {
        _mm256_set1_epi32((int)halves->low[0]), _mm256_set1_epi32((int)halves->high[0]),
        _mm256_set1_epi32((int)halves->low[1]), _mm256_set1_epi32((int)halves->high[1])};
    if (count > 2) {
        for (size_t at = 0; at < last; at += 32)
            blend_four(weights, four, true, out, at);
        blend_four(weights, four, true, out, last);
    } else {
        for (size_t at = 0; at < last; at += 32)
            blend_four(weights, four, false, out, at);
        blend_four(weights, four, false, out, last);
    }
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
    .weigh = sluice_weigh_avx2,
    .plan_len = plan_len,
    .make_plan = make_plan,
    .resize_rows = resize_rows,
    .blend_rows = blend_rows,
    .flip_row = sluice_flip_row_avx2,
    .look_up = sluice_look_up_avx2,
};
