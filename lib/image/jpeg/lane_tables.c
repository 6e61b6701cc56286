#include "image/jpeg/lanes.h"

#include <string.h>

#define STEPS_LEN (1u << STEP_BITS)
#define SKIPS_LEN (1u << SKIP_BITS)

/* A Huffman code and its symbol. */
struct code {
    uint32_t bits; /* the code itself */
    unsigned length, size, run;
};

static unsigned list_codes(const struct sluice_jpeg_huffman *huffman, bool is_dc,
                           struct code codes[256])
{
    unsigned number = 0;
    uint32_t bits = 0;
    for (unsigned length = 1; length <= 16; length++, bits <<= 1) {
        for (unsigned i = 0; i < huffman->counts[length]; i++, number++, bits++) {
            const unsigned symbol = huffman->symbols[number];
            codes[number] = (struct code){
                .bits = bits,
                .length = length,
                .size = is_dc ? symbol : symbol & 15,
                .run = is_dc ? 0 : symbol >> 4,
            };
        }
    }
    return number;
}

/* The number of coefficients that an AC code stands for; 0: it ends the block. */
static unsigned advance_of(const struct code *code)
{
    return code->size > 0 || code->run == 15 ? code->run + 1 : 0;
}

/* The i-th of the values of one size; the lower half is negative (T.81, F.2.2.1). */
static int32_t value_of(uint32_t i, unsigned size)
{
    return (int32_t)i - ((int32_t)i < 1 << size >> 1 ? (1 << size) - 1 : 0);
}

static void fill(uint32_t *at, uint32_t count, uint32_t entry)
{
    for (uint32_t i = 0; i < count; i++)
        at[i] = entry;
}

static void make_steps(const struct code *codes, unsigned num_codes, bool is_dc,
                       uint32_t steps[STEPS_LEN])
{
    uint32_t *at = steps; /* the codes are in ascending order */
    for (unsigned c = 0; c < num_codes && codes[c].length <= STEP_BITS; c++) {
        const struct code *code = &codes[c];
        const uint32_t len = 1u << (STEP_BITS - code->length);
        const unsigned num_bits = code->length + code->size;
        const bool is_end = !is_dc && advance_of(code) == 0;
        const uint32_t step = (code->run + 1) << ADVANCE_SHIFT | (is_end ? IS_END : 0) | num_bits;
        const uint32_t add = 0 - (code->bits << code->size);
        if (num_bits > MAX_STEP_BITS || (code->size > 0 && code->length == STEP_BITS)) {
            fill(at, len, SLOW << ADVANCE_SHIFT);
        } else if (code->size == 0) {
            fill(at, len,
                 (is_end ? 1u << ADVANCE_SHIFT | IS_END | num_bits : step) | add << ADD_SHIFT);
        } else { /* negative values first */
            fill(at, len / 2, step | (add + 1 - (1u << code->size)) << ADD_SHIFT);
            fill(at + len / 2, len / 2, step | add << ADD_SHIFT);
        }
        at += len;
    }
    fill(at, (uint32_t)(steps + STEPS_LEN - at), SLOW << ADVANCE_SHIFT);
}

/* The skips over AC symbols for every string of 0, 1, .. SKIP_BITS bits.  Dynamic programming: the
 * skip of a string is its first symbol and the skip of what is left, which is shorter. */
struct skips {
    uint16_t of_bits[2 * SKIPS_LEN]; /* the index is a 1 and then the string's bits */
};

static void fill_skips(uint16_t *at, uint32_t count, uint16_t entry)
{
    for (uint32_t i = 0; i < count; i++)
        at[i] = entry;
}

/* Entries for a symbol that is followed by any of `count` shorter skips. */
static void join_skips(uint16_t *at, uint32_t count, unsigned skip, const uint16_t *rests)
{
    for (uint32_t i = 0; i < count; i++)
        at[i] = (uint16_t)(skip + rests[i]);
}

static void list_skips(const struct code *codes, unsigned num_codes, struct skips *skips)
{
    uint16_t *all = skips->of_bits;
    memset(skips, 0, sizeof(*skips));
    for (unsigned n = 1; n <= SKIP_BITS; n++) {
        for (unsigned c = 0; c < num_codes && codes[c].length <= n; c++) {
            const struct code *code = &codes[c];
            const unsigned num_bits = code->length + code->size;
            const unsigned advance = advance_of(code);
            if (num_bits > n + MAX_SKIP_BITS - SKIP_BITS)
                continue;
            const unsigned first =
                (advance ? advance : 1) << ADVANCE_SHIFT | (advance ? 0 : IS_END) | num_bits;
            uint16_t *at = all + (1u << n) + (code->bits << (n - code->length));
            const uint32_t len = 1u << (n - code->length);
            /* Nothing follows an end of block, or a value that goes on behind the string. */
            if (!advance || num_bits >= n) {
                fill_skips(at, len, (uint16_t)first);
                continue;
            }
            const uint32_t rest_len = 1u << (n - num_bits);
            for (uint32_t i = 0; i < len; i += rest_len)
                join_skips(at + i, rest_len, first, all + rest_len);
        }
    }
}

static const uint16_t slow_skip = SLOW << ADVANCE_SHIFT;

/* The skips that begin with an AC code. */
static void make_rest_skips(const struct code *codes, unsigned num_codes, const struct skips *skips,
                            uint16_t table[SKIPS_LEN])
{
    uint16_t *at = table; /* the codes are in ascending order */
    for (unsigned c = 0; c < num_codes && codes[c].length <= SKIP_BITS; c++) {
        const uint32_t len = 1u << (SKIP_BITS - codes[c].length);
        if (codes[c].length + codes[c].size > MAX_SKIP_BITS)
            fill_skips(at, len, slow_skip);
        else
            memcpy(at, skips->of_bits + SKIPS_LEN + (at - table), len * sizeof(*at));
        at += len;
    }
    fill_skips(at, (uint32_t)(table + SKIPS_LEN - at), slow_skip);
}

/* The skips that begin with a DC code and its value. */
static void make_first_skips(const struct code *codes, unsigned num_codes,
                             const struct skips *skips, struct sluice_jpeg_skips *out)
{
    uint16_t *at = out->first;
    int16_t *dc = out->dc;
    for (unsigned c = 0; c < num_codes && codes[c].length <= SKIP_BITS; c++) {
        const struct code *code = &codes[c];
        const unsigned num_bits = code->length + code->size;
        const uint32_t len = 1u << (SKIP_BITS - code->length);
        if (num_bits > SKIP_BITS) {
            fill_skips(at, len, slow_skip);
        } else {
            const uint32_t rest_len = 1u << (SKIP_BITS - num_bits);
            for (uint32_t i = 0; i < 1u << code->size; i++) {
                join_skips(at + i * rest_len, rest_len, 1u << ADVANCE_SHIFT | num_bits,
                           skips->of_bits + rest_len);
                const int16_t value = (int16_t)value_of(i, code->size);
                for (uint32_t j = 0; j < rest_len; j++)
                    dc[i * rest_len + j] = value;
            }
        }
        at += len;
        dc += len;
    }
    fill_skips(at, (uint32_t)(out->first + SKIPS_LEN - at), slow_skip);
}

void sluice_jpeg_lanes_set_codings(struct sluice_jpeg_lanes *lanes, const struct sluice_jpeg *jpeg)
{
    const struct sluice_jpeg_component *components = jpeg->components;
    for (unsigned c = 0; c < jpeg->num_components; c++) {
        unsigned same = 0;
        while (components[same].dc != components[c].dc || components[same].ac != components[c].ac)
            same++;
        lanes->coding[c] = &lanes->codings[same];
        if (same != c)
            continue;
        sluice_jpeg_ranks_init(&lanes->codings[c].dc, &jpeg->dc[components[c].dc]);
        sluice_jpeg_ranks_init(&lanes->codings[c].ac, &jpeg->ac[components[c].ac]);
    }
}

/* Whether no earlier component has the same coding. */
static bool is_first_of(const struct sluice_jpeg_lanes *lanes, unsigned component)
{
    return lanes->coding[component] == &lanes->codings[component];
}

void sluice_jpeg_lanes_make_steps(struct sluice_jpeg_lanes *lanes, const struct sluice_jpeg *jpeg)
{
    struct code codes[256];
    for (unsigned c = 0; c < jpeg->num_components; c++) {
        if (!is_first_of(lanes, c))
            continue;
        struct sluice_jpeg_steps *out = &lanes->codings[c].steps;
        unsigned num_codes = list_codes(&jpeg->ac[jpeg->components[c].ac], false, codes);
        make_steps(codes, num_codes, false, out->rest);
        num_codes = list_codes(&jpeg->dc[jpeg->components[c].dc], true, codes);
        make_steps(codes, num_codes, true, out->first);
    }
}

void sluice_jpeg_lanes_make_skips(struct sluice_jpeg_lanes *lanes, const struct sluice_jpeg *jpeg)
{
    struct code codes[256];
    struct skips skips;
    for (unsigned c = 0; c < jpeg->num_components; c++) {
        if (!is_first_of(lanes, c))
            continue;
        struct sluice_jpeg_skips *out = &lanes->codings[c].skips;
        unsigned num_codes = list_codes(&jpeg->ac[jpeg->components[c].ac], false, codes);
        list_skips(codes, num_codes, &skips);
        make_rest_skips(codes, num_codes, &skips, out->rest);
        num_codes = list_codes(&jpeg->dc[jpeg->components[c].dc], true, codes);
        make_first_skips(codes, num_codes, &skips, out);
    }
}
