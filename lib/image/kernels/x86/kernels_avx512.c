/* The kernels with AVX-512 (F, BW, VL, VBMI, VNNI).  Compiled for it; only called
 * where base/cpu.h found all of these.  The resize has a file of its own. */

#include "image/kernels/x86/kernels_avx512.h"

#include "image/kernels/kernels.h"
#include "image/lookup.h"

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

/* --- lookup ---
 *
 * A table of 256 bytes is four registers, and two permutes of 128 bytes each with a blend look 64
 * values up in it.  The bytes of a word are looked up one by one and combined by unpacking.
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
            sluice_look_up_avx2(lookup, pixels, num_pixels, out, plane);
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
    /* Once an image: eight outputs at a time would not be felt. */
    .weigh = sluice_weigh_avx2,
    .plan_len = sluice_plan_len_avx512,
    .make_plan = sluice_make_plan_avx512,
    .resize_rows = sluice_resize_rows_avx512,
    .blend_rows = sluice_blend_rows_avx512,
    /* Wider stores would cross more cache lines than they save instructions. */
    .flip_row = sluice_flip_row_avx2,
    .look_up = look_up,
};
