/* The kernels with AVX-512 (F, BW, VL, VBMI, VNNI).  Compiled for it; only called
 * where base/cpu.h found all of these.
 *
 * VNNI multiplies four unsigned bytes by four signed ones and adds the products to
 * a 32-bit lane.  So each weight is cut into three signed digits of 8 bits,
 * w = d0 + 256 * d1 + 65536 * d2, and a lane takes four taps of one channel at once.
 * Sums are taken modulo 2^32; the final one is in range, so the bytes are those of
 * kernels_c.c. */

#include "image/kernels.h"

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#define NUM_DIGITS 3
#define TAPS_PER_LANE 4
#define LANES 15 /* five pixels of three channels; the sixteenth is idle */

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
 * Side by side: lane 3 p + c is channel c of output p of five neighbours, and each
 * step takes the next four taps of all five.  This needs the five to look at inputs
 * that lie within the 128 bytes which two registers hold.
 *
 * In a row (where the scale is above 9 or so): lane 3 t + c is channel c of taps
 * 4 t .. 4 t + 3 of one output, and each step takes the next twenty. */
struct row_plan {
    uint32_t outputs_per_group; /* 5 or 1 */
    uint32_t taps_per_step;     /* 4 or 20 */
    uint32_t num_steps;         /* of every group */
    uint32_t is_wide;           /* the bytes of a step span more than 64 */
    uint8_t padding[48];        /* so that the steps are aligned */
    /* then struct step [num_groups][num_steps], then uint32_t first_pixel[num_groups] */
};

static struct step *plan_steps(struct row_plan *plan)
{
    return (struct step *)(void *)(plan + 1);
}

static uint32_t num_groups_of(const struct row_plan *plan, uint32_t num_out)
{
    return (num_out + plan->outputs_per_group - 1) / plan->outputs_per_group;
}

static uint32_t *plan_first_pixels(struct row_plan *plan, uint32_t num_out)
{
    return (uint32_t *)(void *)(plan_steps(plan) +
                                (size_t)num_groups_of(plan, num_out) * plan->num_steps);
}

static size_t plan_len(enum sluice_pass pass, uint32_t num_out, uint32_t stride)
{
    if (pass == SLUICE_PASS_DOWN)
        return (size_t)num_out * (stride / TAPS_PER_LANE) * sizeof(struct digits);
    const size_t side_by_side =
        ((size_t)num_out + 4) / 5 * (sizeof(struct step) * (stride / 4) + sizeof(uint32_t));
    const size_t in_a_row =
        (size_t)num_out * (sizeof(struct step) * ((stride + 19) / 20) + sizeof(uint32_t));
    return sizeof(struct row_plan) + (side_by_side > in_a_row ? side_by_side : in_a_row);
}

/* Adding 128 to the two lower digits makes them unsigned; flipping their upper bits
 * takes it away again. */
static inline struct digits split_four(const int32_t coeffs[4])
{
    const __m128i bias = _mm_set1_epi32(0x8080);
    const __m128i by_digit = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m128i four = _mm_loadu_si128((const __m128i *)(const void *)coeffs);
    const __m128i bytes = _mm_xor_si128(_mm_add_epi32(four, bias), bias);
    struct digits digits;
    _mm_storeu_si128((__m128i *)(void *)&digits, _mm_shuffle_epi8(bytes, by_digit));
    return digits;
}

/* The first pixel that any of a group's outputs looks at, and how many from there to
 * the last first one. */
static uint32_t group_first(const struct sluice_taps *taps, uint32_t o, uint32_t num,
                            uint32_t *spread)
{
    uint32_t first = taps->spans[o].first, last = first;
    for (uint32_t i = 1; i < num; i++) {
        const uint32_t f = taps->spans[o + i].first;
        first = f < first ? f : first;
        last = f > last ? f : last;
    }
    *spread = last - first;
    return first;
}

static void fill_step(struct step *step, const struct sluice_taps *taps, uint32_t o,
                      uint32_t num_in_group, uint32_t first_pixel, uint32_t tap, bool is_in_a_row)
{
    /* Four pixels of a channel lie three bytes apart. */
    const uint32_t four_pixels = 0x09060300, every_byte = 0x01010101;
    memset(step, 0, sizeof(*step));
    for (uint32_t part = 0; part < LANES / 3; part++) {
        const uint32_t output = is_in_a_row ? o : o + part;
        const uint32_t first_tap = is_in_a_row ? tap + part * TAPS_PER_LANE : tap;
        if (output >= o + num_in_group || first_tap >= taps->stride)
            break;
        const struct digits digits =
            split_four(taps->coeffs + (size_t)output * taps->stride + first_tap);
        const uint32_t pixel = taps->spans[output].first + first_tap - (first_pixel + tap);
        for (uint32_t c = 0; c < 3; c++) {
            step->index[part * 3 + c] = four_pixels + (pixel * 3 + c) * every_byte;
            for (int d = 0; d < NUM_DIGITS; d++)
                step->digits[d][part * 3 + c] = digits.words[d];
        }
    }
}

static void make_row_plan(const struct sluice_taps *taps)
{
    uint32_t max_spread = 0, max_count = 1;
    for (uint32_t o = 0; o < taps->num_out; o++) {
        if (taps->spans[o].count > max_count)
            max_count = taps->spans[o].count;
        uint32_t spread;
        if (o % 5 == 0) {
            const uint32_t left = taps->num_out - o;
            group_first(taps, o, left < 5 ? left : 5, &spread);
            max_spread = spread > max_spread ? spread : max_spread;
        }
    }
    const uint32_t step_pixels = max_spread + TAPS_PER_LANE;
    const bool is_in_a_row = step_pixels > 128 / 3;

    struct row_plan *plan = taps->plan;
    *plan = (struct row_plan){
        .outputs_per_group = is_in_a_row ? 1 : 5,
        .taps_per_step = is_in_a_row ? 20 : TAPS_PER_LANE,
        .is_wide = !is_in_a_row && step_pixels > 64 / 3,
    };
    plan->num_steps = (max_count + plan->taps_per_step - 1) / plan->taps_per_step;
    struct step *step = plan_steps(plan);
    uint32_t *first_pixel = plan_first_pixels(plan, taps->num_out);
    for (uint32_t o = 0; o < taps->num_out; o += plan->outputs_per_group) {
        const uint32_t left = taps->num_out - o;
        const uint32_t num = left < plan->outputs_per_group ? left : plan->outputs_per_group;
        uint32_t spread;
        *first_pixel = group_first(taps, o, num, &spread);
        for (uint32_t s = 0; s < plan->num_steps; s++, step++)
            fill_step(step, taps, o, num, *first_pixel, s * plan->taps_per_step, is_in_a_row);
        first_pixel++;
    }
}

static void make_plan(enum sluice_pass pass, const struct sluice_taps *taps)
{
    if (pass == SLUICE_PASS_ACROSS) {
        make_row_plan(taps);
        return;
    }
    struct digits *out = taps->plan;
    const size_t num_fours = (size_t)taps->num_out * taps->stride / 4;
    for (size_t i = 0; i < num_fours; i++)
        out[i] = split_four(taps->coeffs + 4 * i);
}

/* 64 bytes from `at` on, zeros for those beyond the row, which are not read. */
static inline __m512i load_part(const uint8_t *in, size_t at, size_t in_bytes)
{
    const size_t left = at < in_bytes ? in_bytes - at : 0;
    const __mmask64 mask = left >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << left) - 1;
    return _mm512_maskz_loadu_epi8(mask, in + (at < in_bytes ? at : 0));
}

static inline __m512i join_digits(const __m512i sums[NUM_DIGITS])
{
    return _mm512_add_epi32(
        sums[0], _mm512_add_epi32(_mm512_slli_epi32(sums[1], 8), _mm512_slli_epi32(sums[2], 16)));
}

/* Sums are never negative, so a logical shift does. */
static inline __m512i round_sums(__m512i sums)
{
    const __m512i half = _mm512_set1_epi32(1 << (SLUICE_RESIZE_BITS - 1));
    return _mm512_srli_epi32(_mm512_add_epi32(sums, half), SLUICE_RESIZE_BITS);
}

static inline __m512i sum_group(const struct row_plan *plan, const struct step *steps,
                                const uint8_t *in, size_t at, size_t in_bytes, bool is_wide)
{
    __m512i sums[NUM_DIGITS];
    for (int d = 0; d < NUM_DIGITS; d++)
        sums[d] = _mm512_setzero_si512();
    const size_t step_bytes = (size_t)plan->taps_per_step * 3;
    for (uint32_t s = 0; s < plan->num_steps; s++, at += step_bytes) {
        const __m512i index = _mm512_load_si512(steps[s].index);
        const __m512i bytes = load_part(in, at, in_bytes);
        const __m512i taken =
            is_wide ? _mm512_permutex2var_epi8(bytes, index, load_part(in, at + 64, in_bytes))
                    : _mm512_permutexvar_epi8(index, bytes);
        for (int d = 0; d < NUM_DIGITS; d++)
            sums[d] = _mm512_dpbusd_epi32(sums[d], taken, _mm512_load_si512(steps[s].digits[d]));
    }
    return join_digits(sums);
}

static void resize_row(const struct sluice_taps *taps, const uint8_t *in, uint32_t in_width,
                       uint8_t *out)
{
    struct row_plan *plan = taps->plan;
    const size_t in_bytes = (size_t)in_width * 3;
    const struct step *steps = plan_steps(plan);
    const uint32_t *first_pixel = plan_first_pixels(plan, taps->num_out);

    if (plan->outputs_per_group == 1) {
        for (uint32_t o = 0; o < taps->num_out; o++, steps += plan->num_steps, out += 3) {
            __m512i sum = sum_group(plan, steps, in, (size_t)first_pixel[o] * 3, in_bytes, false);
            /* Lanes 3, 6, 9 and 12 on hold further taps of lanes 0, 1 and 2. */
            const __m512i zero = _mm512_setzero_si512();
            const __m512i by_3 = _mm512_alignr_epi32(zero, sum, 3);
            const __m512i pairs = _mm512_add_epi32(sum, by_3);
            const __m512i fours = _mm512_add_epi32(pairs, _mm512_alignr_epi32(zero, pairs, 6));
            sum = _mm512_add_epi32(fours, _mm512_alignr_epi32(zero, sum, 12));
            _mm_mask_storeu_epi8(out, 7, _mm512_cvtusepi32_epi8(round_sums(sum)));
        }
        return;
    }
    for (uint32_t o = 0; o < taps->num_out; o += 5, steps += plan->num_steps, out += 15) {
        const size_t at = (size_t)*first_pixel++ * 3;
        const __m512i sum = plan->is_wide ? sum_group(plan, steps, in, at, in_bytes, true)
                                          : sum_group(plan, steps, in, at, in_bytes, false);
        const __m128i bytes = _mm512_cvtusepi32_epi8(round_sums(sum));
        const uint32_t left = taps->num_out - o;
        if (left >= 6) /* the sixteenth byte is the next group's first: it comes later */
            _mm_storeu_si128((__m128i *)(void *)out, bytes);
        else
            _mm_mask_storeu_epi8(out, (__mmask16)((1u << (3 * (left < 5 ? left : 5))) - 1), bytes);
    }
}

static inline void blend_64(const struct digits *digits, uint32_t count, const uint8_t *const *rows,
                            uint8_t *out, size_t at, __mmask64 mask)
{
    __m512i sums[4][NUM_DIGITS];
    for (int i = 0; i < 4; i++) {
        for (int d = 0; d < NUM_DIGITS; d++)
            sums[i][d] = _mm512_setzero_si512();
    }
    for (uint32_t k = 0; k < count; k += 4, digits++) {
        /* Rows beyond the last weigh nothing: any row will do. */
        const uint32_t last = count - 1;
        const __m512i a = _mm512_maskz_loadu_epi8(mask, rows[k] + at);
        const __m512i b = _mm512_maskz_loadu_epi8(mask, rows[k + 1 < last ? k + 1 : last] + at);
        const __m512i c = _mm512_maskz_loadu_epi8(mask, rows[k + 2 < last ? k + 2 : last] + at);
        const __m512i d = _mm512_maskz_loadu_epi8(mask, rows[k + 3 < last ? k + 3 : last] + at);
        const __m512i ab_low = _mm512_unpacklo_epi8(a, b), ab_high = _mm512_unpackhi_epi8(a, b);
        const __m512i cd_low = _mm512_unpacklo_epi8(c, d), cd_high = _mm512_unpackhi_epi8(c, d);
        const __m512i columns[4] = {
            _mm512_unpacklo_epi16(ab_low, cd_low),
            _mm512_unpackhi_epi16(ab_low, cd_low),
            _mm512_unpacklo_epi16(ab_high, cd_high),
            _mm512_unpackhi_epi16(ab_high, cd_high),
        };
        for (int digit = 0; digit < NUM_DIGITS; digit++) {
            const __m512i weights = _mm512_set1_epi32((int)digits->words[digit]);
            for (int i = 0; i < 4; i++)
                sums[i][digit] = _mm512_dpbusd_epi32(sums[i][digit], columns[i], weights);
        }
    }
    __m512i values[4];
    for (int i = 0; i < 4; i++)
        values[i] = round_sums(join_digits(sums[i]));
    /* Packing undoes the unpacking, lane by lane. */
    const __m512i low = _mm512_packs_epi32(values[0], values[1]);
    const __m512i high = _mm512_packs_epi32(values[2], values[3]);
    _mm512_mask_storeu_epi8(out + at, mask, _mm512_packus_epi16(low, high));
}

static void blend_rows(const struct sluice_taps *taps, uint32_t o, const uint8_t *const *rows,
                       uint8_t *out, size_t num_bytes)
{
    const struct digits *digits = (const struct digits *)taps->plan + (size_t)o * taps->stride / 4;
    const uint32_t count = taps->spans[o].count;
    size_t at = 0;
    for (; at + 64 <= num_bytes; at += 64)
        blend_64(digits, count, rows, out, at, ~(__mmask64)0);
    /* The rest once more with the bytes before it: a masked store of bytes costs more. */
    if (at < num_bytes && at > 0)
        blend_64(digits, count, rows, out, num_bytes - 64, ~(__mmask64)0);
    else if (at < num_bytes)
        blend_64(digits, count, rows, out, at, ((__mmask64)1 << num_bytes) - 1);
}

/* --- lookup ---
 *
 * A table of 256 bytes is four registers, and two permutes of 128 bytes each with a blend look
 * 64 values up in it.  A word is so many bytes, looked up one by one and put together by unpacking.
 * Unpacking works in quarters of a register, so the pixels are first taken in the order that comes
 * out right. */

struct byte_table {
    __m512i quarters[4];
};

static inline struct byte_table load_table(const uint8_t *bytes)
{
    struct byte_table table;
    for (int i = 0; i < 4; i++)
        table.quarters[i] = _mm512_loadu_si512(bytes + 64 * i);
    return table;
}

static inline __m512i look_up_bytes(const struct byte_table *table, __m512i at, __mmask64 is_upper)
{
    const __m512i lower = _mm512_permutex2var_epi8(table->quarters[0], at, table->quarters[1]);
    const __m512i upper = _mm512_permutex2var_epi8(table->quarters[2], at, table->quarters[3]);
    return _mm512_mask_blend_epi8(is_upper, lower, upper);
}

/* The first `count` (at most 64) bytes at `in`, nothing beyond. */
static inline __mmask64 first_bytes(size_t count)
{
    return count >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << count) - 1;
}

/* 192 bytes, of which `count` are there to be read. */
static inline void load_192(const uint8_t *in, size_t count, __m512i out[3])
{
    if (count >= 192) {
        for (size_t i = 0; i < 3; i++)
            out[i] = _mm512_loadu_si512(in + 64 * i);
        return;
    }
    for (size_t i = 0; i < 3; i++)
        out[i] =
            _mm512_maskz_loadu_epi8(first_bytes(count > 64 * i ? count - 64 * i : 0), in + 64 * i);
}

/* From 192 bytes the ones at `from`; `beyond` marks those of the last 64. */
static inline __m512i take_192(const __m512i in[3], __m512i from, __mmask64 beyond)
{
    const __m512i taken = _mm512_permutex2var_epi8(in[0], from, in[1]);
    return _mm512_mask_permutexvar_epi8(taken, beyond, from, in[2]);
}

/* Where value i stands among 64 bytes before they are unpacked to words of word_bytes. */
static inline unsigned before_unpacking(unsigned i, unsigned word_bytes)
{
    const unsigned in_quarter = 16 / word_bytes; /* words */
    return i / in_quarter % 4 * 16 + i / (4 * in_quarter) * in_quarter + i % in_quarter;
}

/* `is_far`: past the caches; `out` is aligned then.  It saves reading the lines that are about to
 * be overwritten, if they are not in a cache. */
static inline void store_64(void *out, __m512i value, bool is_far)
{
    if (is_far)
        _mm512_stream_si512(out, value);
    else
        _mm512_storeu_si512(out, value);
}

/* Words from their bytes, `out` in order; the first `count` are stored. */
static inline void store_words_32(const __m512i bytes[4], uint32_t *out, size_t count, bool is_far)
{
    const __m512i low_0 = _mm512_unpacklo_epi8(bytes[0], bytes[1]);
    const __m512i high_0 = _mm512_unpackhi_epi8(bytes[0], bytes[1]);
    const __m512i low_1 = _mm512_unpacklo_epi8(bytes[2], bytes[3]);
    const __m512i high_1 = _mm512_unpackhi_epi8(bytes[2], bytes[3]);
    const __m512i words[4] = {
        _mm512_unpacklo_epi16(low_0, low_1),
        _mm512_unpackhi_epi16(low_0, low_1),
        _mm512_unpacklo_epi16(high_0, high_1),
        _mm512_unpackhi_epi16(high_0, high_1),
    };
    if (count >= 64) {
        for (size_t i = 0; i < 4; i++)
            store_64(out + 16 * i, words[i], is_far);
        return;
    }
    for (size_t i = 0; i < 4 && count > 16 * i; i++) {
        const size_t left = count - 16 * i;
        const __mmask16 mask = (__mmask16)(left >= 16 ? 0xffff : (1u << left) - 1);
        _mm512_mask_storeu_epi32(out + 16 * i, mask, words[i]);
    }
}

static inline void store_words_16(const __m512i bytes[2], uint16_t *out, size_t count, bool is_far)
{
    const __m512i words[2] = {_mm512_unpacklo_epi8(bytes[0], bytes[1]),
                              _mm512_unpackhi_epi8(bytes[0], bytes[1])};
    if (count >= 64) {
        store_64(out, words[0], is_far);
        store_64(out + 32, words[1], is_far);
        return;
    }
    for (size_t i = 0; i < 2 && count > 32 * i; i++) {
        const size_t left = count - 32 * i;
        const __mmask32 mask = left >= 32 ? ~(__mmask32)0 : ((__mmask32)1 << left) - 1;
        _mm512_mask_storeu_epi16(out + 32 * i, mask, words[i]);
    }
}

/* One channel of all pixels to its plane, so that its tables stay in registers. */
static void look_up_plane_32(const uint8_t bytes[4][256], const uint8_t *pixels, size_t num_pixels,
                             unsigned channel, uint32_t *out, bool is_far)
{
    uint8_t order[64];
    for (unsigned i = 0; i < 64; i++)
        order[before_unpacking(i, 4)] = (uint8_t)(3 * i + channel);
    const __m512i from = _mm512_loadu_si512(order);
    const __mmask64 beyond = _mm512_movepi8_mask(from);
    const struct byte_table tables[4] = {load_table(bytes[0]), load_table(bytes[1]),
                                         load_table(bytes[2]), load_table(bytes[3])};
    for (size_t i = 0; i < num_pixels; i += 64) {
        __m512i in[3], words[4];
        load_192(pixels + 3 * i, (num_pixels - i) * 3, in);
        const __m512i at = take_192(in, from, beyond);
        const __mmask64 is_upper = _mm512_movepi8_mask(at);
        for (int b = 0; b < 4; b++)
            words[b] = look_up_bytes(&tables[b], at, is_upper);
        store_words_32(words, out + i, num_pixels - i, is_far);
    }
}

static void look_up_plane_16(const uint8_t bytes[4][256], const uint8_t *pixels, size_t num_pixels,
                             unsigned channel, uint16_t *out, bool is_far)
{
    uint8_t order[64];
    for (unsigned i = 0; i < 64; i++)
        order[before_unpacking(i, 2)] = (uint8_t)(3 * i + channel);
    const __m512i from = _mm512_loadu_si512(order);
    const __mmask64 beyond = _mm512_movepi8_mask(from);
    const struct byte_table tables[2] = {load_table(bytes[0]), load_table(bytes[1])};
    for (size_t i = 0; i < num_pixels; i += 64) {
        __m512i in[3], words[2];
        load_192(pixels + 3 * i, (num_pixels - i) * 3, in);
        const __m512i at = take_192(in, from, beyond);
        const __mmask64 is_upper = _mm512_movepi8_mask(at);
        for (int b = 0; b < 2; b++)
            words[b] = look_up_bytes(&tables[b], at, is_upper);
        store_words_16(words, out + i, num_pixels - i, is_far);
    }
}

/* All three channels of 64 consecutive bytes: each table looks all of them up, and a mask keeps
 * what is its channel's.  Byte i of the 64 is of channel (phase + i) % 3. */
static void look_up_pixels_16(const struct sluice_lookup *lookup, const uint8_t *pixels,
                              size_t num_values, uint16_t *out)
{
    uint8_t order[64];
    __mmask64 is_channel[3][3] = {{0}}; /* [phase][channel] */
    for (unsigned i = 0; i < 64; i++) {
        const unsigned place = before_unpacking(i, 2);
        order[place] = (uint8_t)i;
        for (unsigned phase = 0; phase < 3; phase++)
            is_channel[phase][(phase + i) % 3] |= (__mmask64)1 << place;
    }
    const __m512i from = _mm512_loadu_si512(order);
    unsigned phase = 0;
    for (size_t i = 0; i < num_values; i += 64, phase = (phase + 1) % 3) { /* 64 % 3 == 1 */
        const size_t left = num_values - i;
        const __m512i in = _mm512_maskz_loadu_epi8(first_bytes(left), pixels + i);
        const __m512i at = _mm512_permutexvar_epi8(from, in);
        const __mmask64 is_upper = _mm512_movepi8_mask(at);
        __m512i words[2];
        for (unsigned b = 0; b < 2; b++) {
            words[b] = _mm512_setzero_si512();
            for (int c = 0; c < 3; c++) {
                const struct byte_table table = load_table(lookup->bytes[c][b]);
                words[b] = _mm512_mask_blend_epi8(is_channel[phase][c], words[b],
                                                  look_up_bytes(&table, at, is_upper));
            }
        }
        store_words_16(words, out + i, left, false);
    }
}

static void look_up(const struct sluice_lookup *lookup, const uint8_t *pixels, size_t num_pixels,
                    void *out, size_t plane)
{
    if (lookup->layout == SLUICE_LOOKUP_NHWC) {
        /* Thrice the lookups: that pays for two bytes a value, but not for four. */
        if (lookup->type == SLUICE_LOOKUP_F32)
            sluice_look_up_c(lookup, pixels, num_pixels, out, plane);
        else
            look_up_pixels_16(lookup, pixels, num_pixels * 3, out);
        return;
    }
    for (unsigned c = 0; c < 3; c++) {
        uint8_t *to = (uint8_t *)out + c * plane * sluice_lookup_value_bytes(lookup);
        const bool is_far = lookup->is_far && (uintptr_t)to % 64 == 0;
        if (lookup->type == SLUICE_LOOKUP_F32)
            look_up_plane_32(lookup->bytes[c], pixels, num_pixels, c, (uint32_t *)(void *)to,
                             is_far);
        else
            look_up_plane_16(lookup->bytes[c], pixels, num_pixels, c, (uint16_t *)(void *)to,
                             is_far);
    }
    if (lookup->is_far)
        _mm_sfence(); /* such stores keep no order by themselves */
}

const struct sluice_kernels sluice_kernels_avx512 = {
    .plan_len = plan_len,
    .make_plan = make_plan,
    .resize_row = resize_row,
    .blend_rows = blend_rows,
    /* Wider stores would cross more cache lines than they save instructions. */
    .flip_row = sluice_flip_row_avx2,
    .look_up = look_up,
};
