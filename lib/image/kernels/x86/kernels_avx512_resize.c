/* The resize with AVX-512.
 *
 * VNNI multiplies four unsigned bytes by four signed ones and adds the products to a 32-bit lane.
 * So each weight is cut into three signed digits of 8 bits, w = d0 + 256 * d1 + 65536 * d2, and a
 * lane takes four taps of one channel at once.  Sums are taken modulo 2^32.
 *
 * The final sum, S = sum(p * w) + 2^21, needs no clipping: weights are not negative and those of
 * one output add up to at most 2^22 + count / 2, so S < 256 * 2^22 if 255 * count / 2 < 2^21, which
 * is count <= 16448.  Bits 22 .. 29 of S are the byte then.  More taps than MAX_TAPS are left to
 * kernels_c.c. */

#include "image/kernels/x86/kernels_avx512.h"

#include "base/compiler.h"
#include "image/kernels/x86/kernels_rows.h"

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#define NUM_DIGITS 3
#define TAPS_PER_LANE 4
#define MAX_TAPS 16384
#define MAX_FEW 2 /* registers of taps that have loops of their own */

/* The half that rounds, as digit 2 counts. */
#define HALF_IN_DIGIT_2 (1 << (SLUICE_RESIZE_BITS - 1 - 16))

/* Four weights: word d holds their digits d.  The fourth word is zero. */
struct digits {
    uint32_t words[4];
};

/* One step across: which of the loaded bytes go to which lane, and their weights. */
struct step {
    uint32_t index[16]; /* four bytes a lane */
    uint32_t digits[NUM_DIGITS][16];
};

/* Across, the lanes are used in one of two ways.
 *
 * Side by side: the lanes are neighbouring bytes of the output, a group, and each step takes the
 * next four taps of all of them.  This needs what they look at to lie within a window of 64 bytes,
 * which is one register, or 128, which is two.  A group is 16 bytes as long as that is so (up to a
 * scale of 7 or so), then five pixels, four or three.
 *
 * In a row (above 17 or so): lane 3 t + c is channel c of taps 4 t .. 4 t + 3 of one output, and
 * each step takes the next twenty. */
enum layout {
    SIDE_BY_SIDE,
    SIDE_BY_SIDE_WIDE,
    IN_A_ROW,
};

struct row_plan {
    enum layout layout;
    uint32_t group_bytes; /* side by side */
    uint32_t num_groups;
    uint32_t num_steps;  /* of every group */
    uint8_t padding[48]; /* so that the steps are aligned */
    /* then struct step [num_groups][num_steps], then uint32_t starts[num_groups][num_steps]: the
     * byte of the row where a step's window begins; with all of the window in the row if the row is
     * as long as that */
};

#define MAX_GROUP_BYTES 16
#define MIN_GROUP_BYTES 9
#define MAX_GROUP_PIXELS 6 /* that 16 bytes touch, wherever they begin */
#define MAX_WINDOW 128
#define TAPS_IN_A_ROW 20

static struct step *plan_steps(const struct row_plan *plan)
{
    return (struct step *)(uintptr_t)(plan + 1);
}

static uint32_t *plan_starts(const struct row_plan *plan)
{
    return (uint32_t *)(void *)(plan_steps(plan) + (size_t)plan->num_groups * plan->num_steps);
}

static uint32_t num_side_by_side(uint32_t num_out, uint32_t group_bytes)
{
    return (num_out * 3 + group_bytes - 1) / group_bytes;
}

size_t sluice_plan_len_avx512(enum sluice_pass pass, uint32_t num_out, uint32_t stride)
{
    if (stride > MAX_TAPS)
        return 0;
    if (pass == SLUICE_PASS_DOWN)
        return (size_t)num_out * (stride / TAPS_PER_LANE) * sizeof(struct digits);
    const size_t side_by_side =
        (size_t)num_side_by_side(num_out, MIN_GROUP_BYTES) * (stride / TAPS_PER_LANE);
    const size_t in_a_row = (size_t)num_out * ((stride + TAPS_IN_A_ROW - 1) / TAPS_IN_A_ROW);
    return sizeof(struct row_plan) + (side_by_side > in_a_row ? side_by_side : in_a_row) *
                                         (sizeof(struct step) + sizeof(uint32_t));
}

/* Adding 128 to the two lower digits makes them unsigned; flipping their upper bits
 * takes it away again. */
static inline __m128i split_four(const int32_t coeffs[4])
{
    const __m128i bias = _mm_set1_epi32(0x8080);
    const __m128i by_digit = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m128i four = _mm_loadu_si128((const __m128i *)(const void *)coeffs);
    return _mm_shuffle_epi8(_mm_xor_si128(_mm_add_epi32(four, bias), bias), by_digit);
}

/* Four bytes of one channel, three apart, from `byte` on. */
static uint32_t every_third_byte(uint32_t byte)
{
    return 0x09060300u + byte * 0x01010101u;
}

static void make_plan_in_a_row(const struct sluice_taps *taps, struct row_plan *plan)
{
    struct step *step = plan_steps(plan);
    uint32_t *start = plan_starts(plan);
    for (uint32_t o = 0; o < taps->num_out; o++) {
        for (uint32_t s = 0; s < plan->num_steps; s++, step++) {
            const uint32_t tap = s * TAPS_IN_A_ROW;
            memset(step, 0, sizeof(*step));
            *start++ = (taps->spans[o].first + tap) * 3;
            for (uint32_t part = 0; part < TAPS_IN_A_ROW / TAPS_PER_LANE; part++) {
                const uint32_t in_step = part * TAPS_PER_LANE;
                if (tap + in_step >= taps->stride)
                    break;
                struct digits digits;
                _mm_storeu_si128(
                    (__m128i *)(void *)&digits,
                    split_four(taps->coeffs + (size_t)o * taps->stride + tap + in_step));
                for (uint32_t c = 0; c < 3; c++) {
                    step->index[part * 3 + c] = every_third_byte(in_step * 3 + c);
                    for (int d = 0; d < NUM_DIGITS; d++)
                        step->digits[d][part * 3 + c] = digits.words[d];
                }
            }
        }
    }
}

/* The pixels that a group's bytes belong to. */
struct group {
    uint32_t outputs[MAX_GROUP_PIXELS]; /* the last one again where there are no more */
    uint32_t phase;                     /* the channel of the first byte */
    uint32_t first, last;               /* least and greatest first input pixel */
};

static struct group find_group(const struct sluice_taps *taps, uint32_t group_bytes, uint32_t index)
{
    const uint32_t byte = group_first_byte(taps, group_bytes, index);
    const uint32_t last_byte = byte + group_bytes - 1;
    const uint32_t last = last_byte / 3 < taps->num_out ? last_byte / 3 : taps->num_out - 1;
    struct group group = {.phase = byte % 3, .first = UINT32_MAX};
    for (uint32_t p = 0; p < MAX_GROUP_PIXELS; p++) {
        const uint32_t output = byte / 3 + p;
        group.outputs[p] = output < last ? output : last;
        const uint32_t first = taps->spans[group.outputs[p]].first;
        group.first = first < group.first ? first : group.first;
        group.last = first > group.last ? first : group.last;
    }
    return group;
}

static void make_plan_side_by_side(const struct sluice_taps *taps, struct row_plan *plan)
{
    const uint32_t in_bytes = taps->num_in * 3;
    const uint32_t window = plan->layout == SIDE_BY_SIDE_WIDE ? MAX_WINDOW : 64;
    /* Lane j is channel (phase + j) % 3 of pixel (phase + j) / 3. */
    __m512i word_of_lane[3], channel_of_lane[3];
    for (uint32_t phase = 0; phase < 3; phase++) {
        uint32_t words[16], channels[16];
        for (uint32_t j = 0; j < 16; j++) {
            words[j] = (phase + j) / 3 * 4;
            channels[j] = (phase + j) % 3;
        }
        word_of_lane[phase] = _mm512_loadu_si512(words);
        channel_of_lane[phase] = _mm512_loadu_si512(channels);
    }
    const __m512i one = _mm512_set1_epi32(1);
    struct step *step = plan_steps(plan);
    uint32_t *start = plan_starts(plan);
    for (uint32_t g = 0; g < plan->num_groups; g++) {
        const struct group group = find_group(taps, plan->group_bytes, g);
        const __m512i words[NUM_DIGITS] = {
            word_of_lane[group.phase], _mm512_add_epi32(word_of_lane[group.phase], one),
            _mm512_add_epi32(word_of_lane[group.phase], _mm512_add_epi32(one, one))};
        uint32_t firsts[MAX_GROUP_PIXELS];
        const int32_t *coeffs[8];
        for (uint32_t p = 0; p < 8; p++) {
            const uint32_t output = group.outputs[p < MAX_GROUP_PIXELS ? p : 0];
            coeffs[p] = taps->coeffs + (size_t)output * taps->stride;
            if (p < MAX_GROUP_PIXELS)
                firsts[p] = taps->spans[output].first;
        }
        const __m512i first = _mm512_zextsi256_si512(
            _mm256_setr_epi32((int)firsts[0], (int)firsts[1], (int)firsts[2], (int)firsts[3],
                              (int)firsts[4], (int)firsts[5], 0, 0));
        const __m512i pixels = _mm512_permutexvar_epi32(_mm512_srli_epi32(words[0], 2), first);
        const __m512i bytes = _mm512_add_epi32(_mm512_mullo_epi32(pixels, _mm512_set1_epi32(3)),
                                               channel_of_lane[group.phase]);
        for (uint32_t s = 0; s < plan->num_steps; s++, step++) {
            const uint32_t wanted = (group.first + s * TAPS_PER_LANE) * 3;
            *start = wanted + window <= in_bytes ? wanted
                     : in_bytes < window         ? 0
                                                 : in_bytes - window;
            /* Taps that weigh nothing may point anywhere: a permute takes the index modulo the
             * window. */
            const __m512i at =
                _mm512_sub_epi32(bytes, _mm512_set1_epi32((int)(*start++ - s * TAPS_PER_LANE * 3)));
            _mm512_store_si512(
                step->index, _mm512_add_epi32(_mm512_mullo_epi32(at, _mm512_set1_epi32(0x01010101)),
                                              _mm512_set1_epi32(0x09060300)));
            __m128i fours[8];
            for (uint32_t p = 0; p < 8; p++)
                fours[p] = split_four(coeffs[p] + s * TAPS_PER_LANE);
            const __m512i low =
                _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_set_m128i(fours[1], fours[0])),
                                   _mm256_set_m128i(fours[3], fours[2]), 1);
            const __m512i high =
                _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_set_m128i(fours[5], fours[4])),
                                   _mm256_set_m128i(fours[7], fours[6]), 1);
            for (int d = 0; d < NUM_DIGITS; d++)
                _mm512_store_si512(step->digits[d], _mm512_permutex2var_epi32(low, words[d], high));
        }
    }
}

/* Bytes of the row that a group's lanes look at in one step. */
static uint32_t step_bytes(const struct sluice_taps *taps, uint32_t group_bytes)
{
    const uint32_t num_groups = num_side_by_side(taps->num_out, group_bytes);
    uint32_t max_spread = 0;
    for (uint32_t g = 0; g < num_groups; g++) {
        const struct group group = find_group(taps, group_bytes, g);
        max_spread = group.last - group.first > max_spread ? group.last - group.first : max_spread;
    }
    return (max_spread + TAPS_PER_LANE) * 3;
}

static void make_row_plan(const struct sluice_taps *taps)
{
    uint32_t max_count = 1;
    for (uint32_t o = 0; o < taps->num_out; o++)
        max_count = taps->spans[o].count > max_count ? taps->spans[o].count : max_count;
    struct row_plan *plan = taps->plan;
    plan->group_bytes = MAX_GROUP_BYTES;
    uint32_t bytes = step_bytes(taps, plan->group_bytes);
    plan->layout = bytes <= 64 ? SIDE_BY_SIDE : SIDE_BY_SIDE_WIDE;
    while (bytes > MAX_WINDOW && plan->group_bytes > MIN_GROUP_BYTES) {
        plan->group_bytes = (plan->group_bytes - 1) / 3 * 3;
        bytes = step_bytes(taps, plan->group_bytes);
    }
    if (bytes > MAX_WINDOW) {
        plan->layout = IN_A_ROW;
        plan->num_groups = taps->num_out;
        plan->num_steps = (max_count + TAPS_IN_A_ROW - 1) / TAPS_IN_A_ROW;
        make_plan_in_a_row(taps, plan);
    } else {
        plan->num_groups = num_side_by_side(taps->num_out, plan->group_bytes);
        plan->num_steps = (max_count + TAPS_PER_LANE - 1) / TAPS_PER_LANE;
        make_plan_side_by_side(taps, plan);
    }
}

void sluice_make_plan_avx512(enum sluice_pass pass, const struct sluice_taps *taps)
{
    if (taps->stride > MAX_TAPS)
        return;
    if (pass == SLUICE_PASS_ACROSS) {
        make_row_plan(taps);
        return;
    }
    struct digits *out = taps->plan;
    const size_t num_fours = (size_t)taps->num_out * taps->stride / TAPS_PER_LANE;
    for (size_t i = 0; i < num_fours; i++)
        _mm_storeu_si128((__m128i *)(void *)&out[i], split_four(taps->coeffs + TAPS_PER_LANE * i));
}

static inline __mmask64 first_bytes(size_t count)
{
    return count >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << count) - 1;
}

/* `sums` by digit, the half included in that of digit 2. */
static SLUICE_ALWAYS_INLINE __m512i join_digits(const __m512i sums[NUM_DIGITS])
{
    /* Two shifts side by side are sooner done than one after the other. */
    return _mm512_add_epi32(
        sums[0], _mm512_add_epi32(_mm512_slli_epi32(sums[1], 8), _mm512_slli_epi32(sums[2], 16)));
}

/* The same of a few registers of taps, digit by digit: fewer instructions than sums of each. */
static SLUICE_ALWAYS_INLINE __m512i sum_by_digits(const __m512i *bytes, uint32_t num,
                                                  const __m512i (*digits)[NUM_DIGITS])
{
    __m512i sum = _mm512_set1_epi32(HALF_IN_DIGIT_2);
    for (int d = NUM_DIGITS - 1; d >= 0; d--) {
        if (d < NUM_DIGITS - 1)
            sum = _mm512_slli_epi32(sum, 8);
        for (uint32_t i = 0; i < num; i++)
            sum = _mm512_dpbusd_epi32(sum, bytes[i], digits[i][d]);
    }
    return sum;
}

/* The results of four registers of sums.  Of those in register i, lanes 2 q and 2 q + 1 come to
 * bytes 8 q + 2 i and 8 q + 2 i + 1. */
static SLUICE_ALWAYS_INLINE __m512i take_results(const __m512i sums[4])
{
    /* Two of a quadword's eight bytes, four times. */
    const __m512i upper_bits =
        _mm512_set1_epi16(SLUICE_RESIZE_BITS | (32 + SLUICE_RESIZE_BITS) << 8);
    const __mmask64 pair = 0x0303030303030303;
    __m512i bytes = _mm512_multishift_epi64_epi8(upper_bits, sums[0]);
    bytes = _mm512_mask_multishift_epi64_epi8(bytes, pair << 2, upper_bits, sums[1]);
    bytes = _mm512_mask_multishift_epi64_epi8(bytes, pair << 4, upper_bits, sums[2]);
    return _mm512_mask_multishift_epi64_epi8(bytes, pair << 6, upper_bits, sums[3]);
}

/* One step's bytes of a row, which may be shorter than the window (`is_short`). */
static SLUICE_ALWAYS_INLINE __m512i take_window(const uint8_t *in, const struct step *step,
                                                bool is_wide, bool is_short, size_t in_bytes)
{
    const __m512i index = _mm512_load_si512(step->index);
    const __m512i low =
        is_short ? _mm512_maskz_loadu_epi8(first_bytes(in_bytes), in) : _mm512_loadu_si512(in);
    if (!is_wide)
        return _mm512_permutexvar_epi8(index, low);
    __m512i high = _mm512_setzero_si512();
    if (!is_short)
        high = _mm512_loadu_si512(in + 64);
    else if (in_bytes > 64)
        high = _mm512_maskz_loadu_epi8(first_bytes(in_bytes - 64), in + 64);
    return _mm512_permutex2var_epi8(low, index, high);
}

/* The sums of one group for four rows.  A `few_steps` of 1 .. MAX_FEW is the number of steps. */
static SLUICE_ALWAYS_INLINE void sum_group(const struct row_plan *plan, const struct step *step,
                                           const uint32_t *start, const uint8_t *const *in,
                                           size_t in_bytes, bool is_wide, bool is_short,
                                           uint32_t few_steps, __m512i sums[ROWS_AT_ONCE])
{
    if (few_steps) {
        __m512i digits[MAX_FEW][NUM_DIGITS];
        for (uint32_t s = 0; s < few_steps; s++) {
            for (int d = 0; d < NUM_DIGITS; d++)
                digits[s][d] = _mm512_load_si512(step[s].digits[d]);
        }
        for (int r = 0; r < ROWS_AT_ONCE; r++) {
            __m512i bytes[MAX_FEW];
            for (uint32_t s = 0; s < few_steps; s++)
                bytes[s] = take_window(in[r] + start[s], &step[s], is_wide, is_short, in_bytes);
            sums[r] = sum_by_digits(bytes, few_steps, digits);
        }
        return;
    }
    __m512i by_digit[ROWS_AT_ONCE][NUM_DIGITS];
    for (int r = 0; r < ROWS_AT_ONCE; r++) {
        by_digit[r][0] = by_digit[r][1] = _mm512_setzero_si512();
        by_digit[r][2] = _mm512_set1_epi32(HALF_IN_DIGIT_2);
    }
    for (uint32_t s = 0; s < plan->num_steps; s++, step++, start++) {
        for (int r = 0; r < ROWS_AT_ONCE; r++) {
            const __m512i bytes = take_window(in[r] + *start, step, is_wide, is_short, in_bytes);
            for (int d = 0; d < NUM_DIGITS; d++)
                by_digit[r][d] =
                    _mm512_dpbusd_epi32(by_digit[r][d], bytes, _mm512_load_si512(step->digits[d]));
        }
    }
    for (int r = 0; r < ROWS_AT_ONCE; r++)
        sums[r] = join_digits(by_digit[r]);
}

static SLUICE_ALWAYS_INLINE void resize_side_by_side(const struct sluice_taps *taps,
                                                     const struct rows *rows, bool is_wide,
                                                     bool is_short, uint32_t few_steps)
{
    const struct row_plan *plan = taps->plan;
    const struct step *step = plan_steps(plan);
    const uint32_t *start = plan_starts(plan);
    const size_t in_bytes = (size_t)taps->num_in * 3, out_bytes = (size_t)taps->num_out * 3;
    /* From the order of take_results to 16 bytes of each row. */
    uint8_t row_order[64];
    for (unsigned i = 0; i < 64; i++)
        row_order[i] = (uint8_t)(i % 16 / 2 * 8 + i / 16 * 2 + i % 2);
    const __m512i by_row = _mm512_loadu_si512(row_order);

    for (uint32_t g = 0; g < plan->num_groups; g++) {
        const size_t at = group_first_byte(taps, plan->group_bytes, g);
        /* The next group overwrites bytes stored past this one. */
        const bool is_whole = at + MAX_GROUP_BYTES <= out_bytes;
        const __mmask16 mask =
            (__mmask16)first_bytes(out_bytes < plan->group_bytes ? out_bytes : plan->group_bytes);
        for (uint32_t y = 0; y < rows->num; y += ROWS_AT_ONCE) {
            __m512i sums[ROWS_AT_ONCE];
            sum_group(plan, step, start, rows->in + y, in_bytes, is_wide, is_short, few_steps,
                      sums);
            const __m512i results = _mm512_permutexvar_epi8(by_row, take_results(sums));
            const __m128i of_row[ROWS_AT_ONCE] = {
                _mm512_castsi512_si128(results), _mm512_extracti32x4_epi32(results, 1),
                _mm512_extracti32x4_epi32(results, 2), _mm512_extracti32x4_epi32(results, 3)};
            for (uint32_t r = 0; r < ROWS_AT_ONCE; r++) {
                uint8_t *out = rows->out[y + r] + at;
                if (is_whole)
                    _mm_storeu_si128((__m128i *)(void *)out, of_row[r]);
                else
                    _mm_mask_storeu_epi8(out, mask, of_row[r]);
            }
        }
        step += plan->num_steps;
        start += plan->num_steps;
    }
}

static void resize_in_a_row(const struct sluice_taps *taps, const uint8_t *in, uint8_t *out)
{
    const struct row_plan *plan = taps->plan;
    const struct step *step = plan_steps(plan);
    const uint32_t *start = plan_starts(plan);
    const size_t in_bytes = (size_t)taps->num_in * 3;
    const __m512i zero = _mm512_setzero_si512();
    for (uint32_t o = 0; o < taps->num_out; o++, out += 3) {
        __m512i by_digit[NUM_DIGITS] = {zero, zero, zero};
        for (uint32_t s = 0; s < plan->num_steps; s++, step++, start++) {
            if (*start >= in_bytes)
                continue;
            const __m512i bytes = _mm512_permutexvar_epi8(
                _mm512_load_si512(step->index),
                _mm512_maskz_loadu_epi8(first_bytes(in_bytes - *start), in + *start));
            for (int d = 0; d < NUM_DIGITS; d++)
                by_digit[d] =
                    _mm512_dpbusd_epi32(by_digit[d], bytes, _mm512_load_si512(step->digits[d]));
        }
        /* Lanes 3, 6, 9 and 12 on hold further taps of lanes 0, 1 and 2. */
        const __m512i sum = join_digits(by_digit);
        const __m512i pairs = _mm512_add_epi32(sum, _mm512_alignr_epi32(zero, sum, 3));
        const __m512i fours = _mm512_add_epi32(pairs, _mm512_alignr_epi32(zero, pairs, 6));
        const __m128i all =
            _mm512_castsi512_si128(_mm512_add_epi32(fours, _mm512_alignr_epi32(zero, sum, 12)));
        const __m128i rounded = _mm_srli_epi32(
            _mm_add_epi32(all, _mm_set1_epi32(1 << (SLUICE_RESIZE_BITS - 1))), SLUICE_RESIZE_BITS);
        const uint32_t pixel = (uint32_t)_mm_cvtsi128_si32(_mm_cvtepi32_epi8(rounded));
        memcpy(out, &pixel, 3);
    }
}

void sluice_resize_rows_avx512(const struct sluice_taps *taps, const uint8_t *in, size_t in_stride,
                               uint32_t num_rows, uint8_t *out, size_t out_stride)
{
    if (taps->stride > MAX_TAPS) {
        sluice_kernels_c.resize_rows(taps, in, in_stride, num_rows, out, out_stride);
        return;
    }
    const struct row_plan *plan = taps->plan;
    if (plan->layout == IN_A_ROW) {
        for (uint32_t y = 0; y < num_rows; y++)
            resize_in_a_row(taps, in + y * in_stride, out + y * out_stride);
        return;
    }
    const bool is_wide = plan->layout == SIDE_BY_SIDE_WIDE;
    const bool is_short = taps->num_in * 3 < (is_wide ? 128 : 64);
    for (uint32_t y = 0; y < num_rows; y += MAX_ROWS) {
        const struct rows rows = list_rows(in + y * in_stride, in_stride, num_rows - y,
                                           out + y * out_stride, out_stride);
        if (is_short)
            resize_side_by_side(taps, &rows, is_wide, true, 0);
        else if (is_wide)
            resize_side_by_side(taps, &rows, true, false, 0);
        else if (plan->num_steps == 1)
            resize_side_by_side(taps, &rows, false, false, 1);
        else if (plan->num_steps == 2)
            resize_side_by_side(taps, &rows, false, false, 2);
        else
            resize_side_by_side(taps, &rows, false, false, 0);
    }
}

/* Sixteen bytes of four rows to a lane for each column: in quarters of the register, columns
 * 4 i .. 4 i + 3 come to register i. */
static SLUICE_ALWAYS_INLINE void interleave(const uint8_t *const rows[4], size_t at, __mmask64 mask,
                                            bool is_masked, __m512i columns[4])
{
    __m512i row[4];
    for (int k = 0; k < 4; k++)
        row[k] = is_masked ? _mm512_maskz_loadu_epi8(mask, rows[k] + at)
                           : _mm512_loadu_si512(rows[k] + at);
    const __m512i low_01 = _mm512_unpacklo_epi8(row[0], row[1]);
    const __m512i high_01 = _mm512_unpackhi_epi8(row[0], row[1]);
    const __m512i low_23 = _mm512_unpacklo_epi8(row[2], row[3]);
    const __m512i high_23 = _mm512_unpackhi_epi8(row[2], row[3]);
    columns[0] = _mm512_unpacklo_epi16(low_01, low_23);
    columns[1] = _mm512_unpackhi_epi16(low_01, low_23);
    columns[2] = _mm512_unpacklo_epi16(high_01, high_23);
    columns[3] = _mm512_unpackhi_epi16(high_01, high_23);
}

static inline void load_digits(const struct digits *digits, __m512i out[NUM_DIGITS])
{
    for (int d = 0; d < NUM_DIGITS; d++)
        out[d] = _mm512_set1_epi32((int)digits->words[d]);
}

static SLUICE_ALWAYS_INLINE void store_columns(const __m512i sums[4], uint8_t *out, __mmask64 mask,
                                               bool is_masked)
{
    /* take_results leaves each quarter's lower halves before its upper ones. */
    const __m512i in_order =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
    const __m512i results = _mm512_shuffle_epi8(take_results(sums), in_order);
    if (is_masked)
        _mm512_mask_storeu_epi8(out, mask, results);
    else
        _mm512_storeu_si512(out, results);
}

/* 64 columns of 4 * num rows. */
static SLUICE_ALWAYS_INLINE void blend_64(const struct digits *digits, uint32_t num,
                                          const uint8_t *const *rows, uint8_t *out, size_t at,
                                          __mmask64 mask, bool is_masked)
{
    __m512i by_digit[4][NUM_DIGITS], columns[4], weights[NUM_DIGITS], sums[4];
    for (int i = 0; i < 4; i++) {
        by_digit[i][0] = by_digit[i][1] = _mm512_setzero_si512();
        by_digit[i][2] = _mm512_set1_epi32(HALF_IN_DIGIT_2);
    }
    for (uint32_t f = 0; f < num; f++) {
        interleave(rows + 4 * (size_t)f, at, mask, is_masked, columns);
        load_digits(&digits[f], weights);
        for (int d = 0; d < NUM_DIGITS; d++) {
            for (int i = 0; i < 4; i++)
                by_digit[i][d] = _mm512_dpbusd_epi32(by_digit[i][d], columns[i], weights[d]);
        }
    }
    for (int i = 0; i < 4; i++)
        sums[i] = join_digits(by_digit[i]);
    store_columns(sums, out + at, mask, is_masked);
}

/* All columns of 4 * few rows, few <= MAX_FEW: weights and addresses stay in registers. */
static SLUICE_ALWAYS_INLINE void blend_few(const struct digits *digits, uint32_t few,
                                           const uint8_t *const *rows, uint8_t *out,
                                           size_t num_bytes)
{
    const uint8_t *row[4 * MAX_FEW];
    __m512i weights[MAX_FEW][NUM_DIGITS];
    for (uint32_t k = 0; k < 4 * few; k++)
        row[k] = rows[k];
    for (uint32_t f = 0; f < few; f++)
        load_digits(&digits[f], weights[f]);
    /* The rest of the row comes together with bytes that are done already: a masked store of
     * bytes costs more. */
    for (size_t next = 0; next < num_bytes; next += 64) {
        const size_t at = next + 64 <= num_bytes ? next : num_bytes - 64;
        __m512i columns[MAX_FEW][4], sums[4];
        for (uint32_t f = 0; f < few; f++)
            interleave(row + 4 * (size_t)f, at, 0, false, columns[f]);
        for (int i = 0; i < 4; i++) {
            __m512i bytes[MAX_FEW];
            for (uint32_t f = 0; f < few; f++)
                bytes[f] = columns[f][i];
            sums[i] = sum_by_digits(bytes, few, weights);
        }
        store_columns(sums, out + at, 0, false);
    }
}

void sluice_blend_rows_avx512(const struct sluice_taps *taps, uint32_t o,
                              const uint8_t *const *rows, uint8_t *out, size_t num_bytes)
{
    if (taps->stride > MAX_TAPS) {
        sluice_kernels_c.blend_rows(taps, o, rows, out, num_bytes);
        return;
    }
    const struct digits *digits = (const struct digits *)taps->plan + (size_t)o * taps->stride / 4;
    const uint32_t num_fours = (taps->spans[o].count + 3) / 4;
    if (num_bytes < 64) {
        blend_64(digits, num_fours, rows, out, 0, first_bytes(num_bytes), true);
    } else if (num_fours == 1) {
        blend_few(digits, 1, rows, out, num_bytes);
    } else if (num_fours == 2) {
        blend_few(digits, 2, rows, out, num_bytes);
    } else {
        const size_t last = num_bytes - 64;
        for (size_t at = 0; at < last; at += 64)
            blend_64(digits, num_fours, rows, out, at, 0, false);
        blend_64(digits, num_fours, rows, out, last, 0, false);
    }
}
