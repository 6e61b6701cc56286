#include "image/jpeg_window_internal.h"

#include <string.h>

#define STEPS_LEN (1u << STEP_BITS)
#define LEAPS_LEN (1u << LEAP_BITS)

/* A code and what follows it. */
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

/* Coefficients that an AC code goes on by; 0: it ends the block. */
static unsigned advance_of(const struct code *code)
{
    return code->size > 0 || code->run == 15 ? code->run + 1 : 0;
}

/* The i-th of the values of one size; the lower half is negative (T.81, F.2.2.1). */
static int32_t value_of(uint32_t i, unsigned size)
{
    return (int32_t)i - ((int32_t)i < 1 << size >> 1 ? (1 << size) - 1 : 0);
}

/* What an AC symbol adds to the step that it is the second of, if that leaves `spare` bits for it:
 * value2, its advance in `both`, is_end, num_bits.  0: nothing that fits. */
struct seconds {
    uint32_t of_bits[2 * STEPS_LEN]; /* by 1 << spare, and the bits */
};

static void list_seconds(const struct code *codes, unsigned num_codes, struct seconds *seconds)
{
    uint32_t *all = seconds->of_bits;
    memset(seconds, 0, sizeof(*seconds));
    for (unsigned c = 0; c < num_codes; c++) {
        const struct code *code = &codes[c];
        const unsigned num_bits = code->length + code->size;
        const unsigned advance = advance_of(code);
        /* A run of 16 zeroes stores nothing. */
        if (num_bits > STEP_BITS || code->size > VALUE2_BITS - 1 ||
            (code->size == 0 && advance > 0))
            continue;
        const uint32_t step =
            (advance ? advance : 1) << BOTH_SHIFT | (advance ? 0 : IS_END) | num_bits;
        for (uint32_t i = 0; i < 1u << code->size; i++) {
            const uint32_t value = (uint32_t)value_of(i, code->size) & ((1u << VALUE2_BITS) - 1);
            const uint32_t bits = code->bits << code->size | i;
            for (unsigned spare = num_bits; spare <= STEP_BITS; spare++) {
                uint32_t *at = all + (1u << spare) + (bits << (spare - num_bits));
                for (uint32_t same = 0; same < 1u << (spare - num_bits); same++)
                    at[same] = value << VALUE2_SHIFT | step;
            }
        }
    }
}

/* Steps from a DC code (whose size may be 0) or an AC code on, into what an AC code may add. */
static void make_steps(const struct code *codes, unsigned num_codes, bool is_dc,
                       const struct seconds *seconds, uint32_t steps[STEPS_LEN])
{
    for (uint32_t index = 0; index < STEPS_LEN; index++)
        steps[index] = SLOW << BOTH_SHIFT;
    for (unsigned c = 0; c < num_codes; c++) {
        const struct code *code = &codes[c];
        const unsigned num_bits = code->length + code->size;
        const bool is_end = !is_dc && advance_of(code) == 0;
        const bool is_run = !is_dc && !is_end && code->size == 0;
        if (num_bits > STEP_BITS || code->size > 8 || is_run)
            continue;
        const unsigned spare = STEP_BITS - num_bits;
        const uint32_t *rest = seconds->of_bits + (1u << spare);
        const unsigned advance = is_end ? 1 : code->run + 1;
        const uint32_t first =
            advance << FIRST_SHIFT | advance << BOTH_SHIFT | (is_end ? IS_END : 0) | num_bits;
        uint32_t *at = steps + (code->bits << (STEP_BITS - code->length));
        for (uint32_t i = 0; i < 1u << code->size; i++, at += 1u << spare) {
            const uint32_t step = (uint32_t)value_of(i, code->size) << VALUE1_SHIFT | first;
            for (uint32_t j = 0; j < 1u << spare; j++)
                at[j] = step + (is_end ? 0 : rest[j]);
        }
    }
}

/* What AC symbols make of bits: leaps of 0, 1, 2, .. bits, each a symbol and then a shorter leap.
 */
struct leaps {
    uint32_t of_bits[2 * LEAPS_LEN]; /* by 1 << the number of bits, and the bits */
};

static void list_leaps(const struct code *codes, unsigned num_codes, struct leaps *leaps)
{
    uint32_t *all = leaps->of_bits;
    memset(leaps, 0, sizeof(*leaps));
    for (unsigned n = 1; n <= LEAP_BITS; n++) {
        for (unsigned c = 0; c < num_codes && codes[c].length <= n; c++) {
            const struct code *code = &codes[c];
            const unsigned num_bits = code->length + code->size;
            const unsigned advance = advance_of(code);
            if (num_bits > n + MAX_LEAP_BITS - LEAP_BITS)
                continue;
            const uint32_t first =
                (advance ? advance : 1) << ADVANCE_SHIFT | (advance ? 0 : IS_END) | num_bits;
            uint32_t *at = all + (1u << n) + (code->bits << (n - code->length));
            const uint32_t len = 1u << (n - code->length);
            /* Behind the end, or a value that needs more bits, comes the leap of no bits. */
            const uint32_t rest_len = advance && num_bits < n ? 1u << (n - num_bits) : 1;
            const uint32_t *rests = all + rest_len;
            for (uint32_t i = 0; i < len; i += rest_len) {
                for (uint32_t j = 0; j < rest_len; j++)
                    at[i + j] = first + rests[j];
            }
        }
    }
}

/* From a DC code and its value on, and into the leap that follows. */
static void make_first_leaps(const struct code *codes, unsigned num_codes,
                             const struct leaps *leaps, uint32_t first[LEAPS_LEN])
{
    for (uint32_t index = 0; index < LEAPS_LEN; index++)
        first[index] = SLOW << ADVANCE_SHIFT;
    for (unsigned c = 0; c < num_codes; c++) {
        const struct code *code = &codes[c];
        const unsigned num_bits = code->length + code->size;
        if (num_bits > LEAP_BITS)
            continue;
        const uint32_t rest_len = 1u << (LEAP_BITS - num_bits);
        const uint32_t *rests = leaps->of_bits + rest_len;
        uint32_t *at = first + (code->bits << (LEAP_BITS - code->length));
        for (uint32_t i = 0; i < 1u << code->size; i++, at += rest_len) {
            const uint32_t leap =
                (uint32_t)value_of(i, code->size) << DC_SHIFT | 1u << ADVANCE_SHIFT | num_bits;
            for (uint32_t j = 0; j < rest_len; j++)
                at[j] = leap + rests[j];
        }
    }
}

static const struct sluice_jpeg_component *find_same(const struct sluice_jpeg *jpeg, unsigned c)
{
    const struct sluice_jpeg_component *component = jpeg->components;
    while (component->dc != jpeg->components[c].dc || component->ac != jpeg->components[c].ac)
        component++;
    return component;
}

void sluice_jpeg_window_make_steps(struct sluice_jpeg_window *window,
                                   const struct sluice_jpeg *jpeg)
{
    struct code codes[256];
    struct seconds seconds;
    for (unsigned c = 0; c < window->num_planes; c++) {
        const struct sluice_jpeg_component *component = find_same(jpeg, c);
        struct sluice_jpeg_coding *coding = &window->codings[component - jpeg->components];
        window->planes[c].coding = coding;
        if (component != &jpeg->components[c])
            continue;
        const struct sluice_jpeg_huffman *dc = &jpeg->dc[component->dc],
                                         *ac = &jpeg->ac[component->ac];
        sluice_jpeg_lookup_init(&coding->dc, dc);
        sluice_jpeg_lookup_init(&coding->ac, ac);
        unsigned num_codes = list_codes(ac, false, codes);
        list_seconds(codes, num_codes, &seconds);
        make_steps(codes, num_codes, false, &seconds, coding->steps.rest);
        num_codes = list_codes(dc, true, codes);
        make_steps(codes, num_codes, true, &seconds, coding->steps.first);
    }
}

void sluice_jpeg_window_make_leaps(struct sluice_jpeg_window *window,
                                   const struct sluice_jpeg *jpeg)
{
    struct code codes[256];
    struct leaps leaps;
    for (unsigned c = 0; c < window->num_planes; c++) {
        const struct sluice_jpeg_component *component = find_same(jpeg, c);
        if (component != &jpeg->components[c])
            continue;
        struct sluice_jpeg_leaps *out = &window->codings[c].leaps;
        unsigned num_codes = list_codes(&jpeg->ac[component->ac], false, codes);
        list_leaps(codes, num_codes, &leaps);
        for (uint32_t index = 0; index < LEAPS_LEN; index++) {
            const uint32_t leap = leaps.of_bits[LEAPS_LEN + index];
            out->rest[index] = leap ? leap : SLOW << ADVANCE_SHIFT;
        }
        num_codes = list_codes(&jpeg->dc[component->dc], true, codes);
        make_first_leaps(codes, num_codes, &leaps, out->first);
    }
}
