#include "random_jpeg.h"

#include <stdlib.h>
#include <string.h>

#define MAX_SIDE 120
#define MAX_COMPONENTS 3
#define MAX_TABLES 4
#define MAX_SYMBOLS 256
#define MAX_LENGTH 16
#define MAX_INTERVAL 16

/* Of the magnitudes of a block's dequantised coefficients: an AC coefficient moves a pixel by at
 * most a quarter of it. */
#define MAX_SUM 2000
/* So that DC differences are of category 11 at most, and AC coefficients of category 10. */
#define MAX_COEFFICIENT 1023

enum { DC, AC, NUM_CLASSES };

struct huffman {
    bool is_used;
    bool has_symbol[MAX_SYMBOLS];
    unsigned counts[MAX_LENGTH + 1];
    unsigned num_symbols;
    uint8_t symbols[MAX_SYMBOLS]; /* by code */
    uint16_t code[MAX_SYMBOLS];   /* by symbol, as is length */
    uint8_t length[MAX_SYMBOLS];
};

struct component {
    uint8_t id, h, v;
    unsigned quant, table[NUM_CLASSES];
};

struct maker {
    struct sluice_rng *rng;
    struct random_jpeg *jpeg;
    struct component components[MAX_COMPONENTS];
    uint16_t quant[MAX_TABLES][64]; /* in the order of the file, as are coefficients */
    struct huffman huffman[NUM_CLASSES][MAX_TABLES];
    uint32_t num_mcus, blocks_in_mcu;
    unsigned block_component[16];
    int16_t (*blocks)[64]; /* in the order of the scan */

    uint8_t *bytes;
    size_t len, room;
    uint32_t bits; /* the last num_bits of it are not yet written */
    unsigned num_bits;
};

static uint32_t below(struct maker *maker, uint32_t bound)
{
    return sluice_rng_below(maker->rng, bound);
}

static void *must(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

/* --- bytes --- */

static void put(struct maker *maker, unsigned byte)
{
    if (maker->len == maker->room) {
        maker->room = maker->room * 2 + 4096;
        maker->bytes = must(realloc(maker->bytes, maker->room));
    }
    maker->bytes[maker->len++] = (uint8_t)byte;
}

static void put16(struct maker *maker, unsigned value)
{
    put(maker, value >> 8);
    put(maker, value & 0xFF);
}

/* Any number of bytes 0xFF may stand before a marker. */
static void put_marker(struct maker *maker, unsigned marker)
{
    for (uint32_t n = below(maker, 8) == 0 ? below(maker, 4) : 0; n > 0; n--)
        put(maker, 0xFF);
    put(maker, 0xFF);
    put(maker, marker);
}

/* `num_bits` is 0 .. 16. */
static void put_bits(struct maker *maker, uint32_t bits, unsigned num_bits)
{
    maker->bits = maker->bits << num_bits | (bits & ((1u << num_bits) - 1));
    maker->num_bits += num_bits;
    while (maker->num_bits >= 8) {
        const unsigned byte = maker->bits >> (maker->num_bits - 8) & 0xFF;
        put(maker, byte);
        if (byte == 0xFF)
            put(maker, 0);
        maker->num_bits -= 8;
    }
}

/* Fills the last byte up with ones, as T.81 asks for before every marker. */
static void end_bits(struct maker *maker)
{
    put_bits(maker, 0x7F, (8 - maker->num_bits) % 8);
}

/* --- what the file is --- */

static uint32_t random_side(struct maker *maker)
{
    switch (below(maker, 6)) {
    case 0:
        return 1;
    case 1:
        return 1 + below(maker, 5);
    case 2:
        return 8 * (1 + below(maker, MAX_SIDE / 8 - 1)) + below(maker, 2);
    default:
        return 1 + below(maker, MAX_SIDE);
    }
}

static void choose_frame(struct maker *maker)
{
    static const uint8_t factors[][2] = {{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}};
    struct random_jpeg *jpeg = maker->jpeg;
    jpeg->width = random_side(maker);
    jpeg->height = random_side(maker);
    jpeg->is_extended = below(maker, 2);
    jpeg->interval = below(maker, 4) == 0 ? 0 : 1 + below(maker, MAX_INTERVAL);
    const uint32_t kind = below(maker, 6);
    jpeg->num_components = kind == 5 ? 1 : 3;
    jpeg->h = kind == 5 ? 1 : factors[kind][0];
    jpeg->v = kind == 5 ? 1 : factors[kind][1];
    const uint8_t first_id = (uint8_t)(below(maker, 2) ? 1 : below(maker, 60));
    const unsigned num_huffman = jpeg->is_extended ? 4 : 2;
    for (unsigned c = 0; c < jpeg->num_components; c++) {
        struct component *component = &maker->components[c];
        const bool is_gray = jpeg->num_components == 1;
        *component = (struct component){
            .id = (uint8_t)(first_id + c),
            /* Of gray they mean nothing. */
            .h = (uint8_t)(is_gray  ? 1 + below(maker, 2)
                           : c == 0 ? jpeg->h
                                    : 1),
            .v = (uint8_t)(is_gray  ? 1 + below(maker, 2)
                           : c == 0 ? jpeg->v
                                    : 1),
            .quant = below(maker, MAX_TABLES),
            .table = {below(maker, num_huffman), below(maker, num_huffman)},
        };
        for (unsigned n = 0; n < (c == 0 ? jpeg->h * jpeg->v : 1); n++)
            maker->block_component[maker->blocks_in_mcu++] = c;
    }
    const uint32_t across = (jpeg->width + 8 * jpeg->h - 1) / (8 * jpeg->h);
    const uint32_t down = (jpeg->height + 8 * jpeg->v - 1) / (8 * jpeg->v);
    maker->num_mcus = across * down;
}

static void choose_quantisers(struct maker *maker)
{
    for (unsigned t = 0; t < MAX_TABLES; t++) {
        const bool is_wide = maker->jpeg->is_extended && below(maker, 2);
        const uint32_t most = is_wide ? 256 + below(maker, 32512) : 1 + below(maker, 255);
        for (unsigned k = 0; k < 64; k++)
            maker->quant[t][k] = (uint16_t)(1 + below(maker, most));
    }
    for (unsigned c = 0; c < maker->jpeg->num_components; c++) {
        for (unsigned k = 0; k < 64; k++)
            maker->jpeg->has_wide_quantisers |= maker->quant[maker->components[c].quant][k] > 255;
    }
}

/* --- coefficients --- */

static int16_t random_coefficient(struct maker *maker, uint32_t quantiser, uint32_t *left)
{
    uint32_t most = *left / quantiser;
    most = most < MAX_COEFFICIENT ? most : MAX_COEFFICIENT;
    /* Small ones are as frequent as large ones are. */
    while (most > 1 && below(maker, 2))
        most /= 2;
    const uint32_t magnitude = below(maker, most + 1);
    *left -= magnitude * quantiser;
    return (int16_t)(below(maker, 2) ? (int)magnitude : -(int)magnitude);
}

static void fill_block(struct maker *maker, const uint16_t quant[64], int16_t block[64])
{
    uint32_t left = 1 + below(maker, MAX_SUM);
    memset(block, 0, 64 * sizeof(*block));
    block[0] = random_coefficient(maker, quant[0], &left);
    switch (below(maker, 4)) {
    case 0:
        break;
    case 1: /* runs of more than 15 */
        for (uint32_t n = 1 + below(maker, 3); n > 0; n--) {
            const uint32_t k = 1 + below(maker, 63);
            if (block[k] == 0)
                block[k] = random_coefficient(maker, quant[k], &left);
        }
        break;
    default:
        for (uint32_t k = 1, last = 1 + below(maker, 63); k <= last; k++)
            block[k] = random_coefficient(maker, quant[k], &left);
        break;
    }
}

static void choose_coefficients(struct maker *maker)
{
    const size_t num_blocks = (size_t)maker->num_mcus * maker->blocks_in_mcu;
    maker->blocks = must(calloc(num_blocks, sizeof(*maker->blocks)));
    for (size_t i = 0; i < num_blocks; i++) {
        const unsigned c = maker->block_component[i % maker->blocks_in_mcu];
        fill_block(maker, maker->quant[maker->components[c].quant], maker->blocks[i]);
    }
}

/* --- the scan, once to see its symbols and once to write it --- */

static unsigned category_of(int value)
{
    unsigned category = 0;
    for (unsigned magnitude = (unsigned)abs(value); magnitude > 0; magnitude >>= 1)
        category++;
    return category;
}

static void code(struct maker *maker, struct huffman *huffman, unsigned symbol, int value,
                 bool is_written)
{
    huffman->is_used = true;
    huffman->has_symbol[symbol] = true;
    if (!is_written)
        return;
    const unsigned num_bits = symbol & 15;
    put_bits(maker, huffman->code[symbol], huffman->length[symbol]);
    put_bits(maker, (uint32_t)(value < 0 ? value - 1 : value), num_bits);
}

static void code_block(struct maker *maker, const struct component *component,
                       const int16_t block[64], int *predictor, bool is_written)
{
    struct huffman *ac = &maker->huffman[AC][component->table[AC]];
    const int difference = block[0] - *predictor;
    *predictor = block[0];
    code(maker, &maker->huffman[DC][component->table[DC]], category_of(difference), difference,
         is_written);
    unsigned last = 63, run = 0;
    while (last > 0 && block[last] == 0)
        last--;
    for (unsigned k = 1; k <= last; k++) {
        if (block[k] == 0) {
            run++;
            continue;
        }
        for (; run >= 16; run -= 16)
            code(maker, ac, 0xF0, 0, is_written);
        code(maker, ac, run << 4 | category_of(block[k]), block[k], is_written);
        run = 0;
    }
    if (last < 63)
        code(maker, ac, 0, 0, is_written);
}

static void code_scan(struct maker *maker, bool is_written)
{
    const unsigned interval = maker->jpeg->interval;
    int predictors[MAX_COMPONENTS] = {0};
    for (uint32_t mcu = 0; mcu < maker->num_mcus; mcu++) {
        if (interval > 0 && mcu > 0 && mcu % interval == 0) {
            memset(predictors, 0, sizeof(predictors));
            if (is_written) {
                end_bits(maker);
                put_marker(maker, 0xD0 + (mcu / interval - 1) % 8);
            }
        }
        for (uint32_t b = 0; b < maker->blocks_in_mcu; b++) {
            const unsigned c = maker->block_component[b];
            code_block(maker, &maker->components[c],
                       maker->blocks[(size_t)mcu * maker->blocks_in_mcu + b], &predictors[c],
                       is_written);
        }
    }
    if (is_written)
        end_bits(maker);
}

/* --- Huffman tables --- */

/* Any symbol that a sequential file of 8 bits may have. */
static unsigned random_symbol(struct maker *maker, unsigned class)
{
    if (class == DC)
        return below(maker, 12);
    const uint32_t n = below(maker, 162);
    return n == 160 ? 0 : n == 161 ? 0xF0 : n / 10 << 4 | (n % 10 + 1);
}

/* Code lengths of so many leaves, by splitting random leaves of a tree, often the deepest. */
static void grow_tree(struct maker *maker, unsigned num_leaves, unsigned counts[MAX_LENGTH + 1])
{
    const uint32_t steepness = below(maker, 4);
    memset(counts, 0, (MAX_LENGTH + 1) * sizeof(*counts));
    counts[0] = 1;
    for (unsigned n = 1; n < num_leaves; n++) {
        unsigned num_open = n - counts[MAX_LENGTH], length = 0;
        uint32_t number = below(maker, num_open);
        if (below(maker, 4) < steepness)
            number = num_open - 1;
        while (number >= counts[length])
            number -= counts[length++];
        counts[length]--;
        counts[length + 1] += 2;
    }
}

/* Removes the longest code: that of all ones is none. */
static void drop_longest(unsigned counts[MAX_LENGTH + 1])
{
    unsigned length = MAX_LENGTH;
    while (counts[length] == 0)
        length--;
    counts[length]--;
}

static void make_huffman(struct maker *maker, unsigned class, struct huffman *huffman)
{
    for (uint32_t n = below(maker, 2) ? below(maker, 40) : 0; n > 0; n--)
        huffman->has_symbol[random_symbol(maker, class)] = true;
    for (unsigned s = 0; s < MAX_SYMBOLS; s++) {
        if (huffman->has_symbol[s])
            huffman->symbols[huffman->num_symbols++] = (uint8_t)s;
    }
    for (unsigned i = huffman->num_symbols; i > 1; i--) {
        const uint32_t other = below(maker, i);
        const uint8_t symbol = huffman->symbols[other];
        huffman->symbols[other] = huffman->symbols[i - 1];
        huffman->symbols[i - 1] = symbol;
    }
    /* More leaves than symbols: codes that mean nothing. */
    const unsigned num_unused = 1 + (below(maker, 3) == 0 ? below(maker, 20) : 0);
    grow_tree(maker, huffman->num_symbols + num_unused, huffman->counts);
    for (unsigned n = 0; n < num_unused; n++)
        drop_longest(huffman->counts);
    unsigned next = 0, number = 0;
    for (unsigned length = 1; length <= MAX_LENGTH; length++, next <<= 1) {
        for (unsigned n = 0; n < huffman->counts[length]; n++) {
            const uint8_t symbol = huffman->symbols[number++];
            huffman->code[symbol] = (uint16_t)next++;
            huffman->length[symbol] = (uint8_t)length;
        }
    }
}

static void choose_huffman(struct maker *maker)
{
    struct random_jpeg *jpeg = maker->jpeg;
    for (unsigned class = 0; class < NUM_CLASSES; class ++) {
        for (unsigned t = 0; t < MAX_TABLES; t++) {
            struct huffman *huffman = &maker->huffman[class][t];
            if (!huffman->is_used)
                continue;
            make_huffman(maker, class, huffman);
            jpeg->num_huffman++;
            for (unsigned length = 1; length <= MAX_LENGTH; length++) {
                if (huffman->counts[length] > 0 && length > jpeg->longest_code)
                    jpeg->longest_code = length;
            }
        }
    }
}

/* --- the file --- */

static void put_app(struct maker *maker)
{
    static const uint8_t jfif[] = {0, 16, 'J', 'F', 'I', 'F', 0, 1, 1, 0, 0, 1, 0, 1, 0, 0};
    static const uint8_t adobe[] = {0, 14, 'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, 1};
    const uint32_t kind = below(maker, 3);
    if (kind == 0) {
        put_marker(maker, 0xE0);
        for (size_t i = 0; i < sizeof(jfif); i++)
            put(maker, jfif[i]);
    } else if (kind == 1) {
        put_marker(maker, 0xEE);
        for (size_t i = 0; i < sizeof(adobe); i++)
            put(maker, adobe[i]);
    }
    if (below(maker, 4) == 0) {
        const uint32_t len = below(maker, 40);
        put_marker(maker, 0xFE);
        put16(maker, 2 + len);
        for (uint32_t i = 0; i < len; i++)
            put(maker, below(maker, 256));
    }
}

static void put_quantisers(struct maker *maker)
{
    for (unsigned t = 0; t < MAX_TABLES; t++) {
        bool is_wide = false;
        for (unsigned k = 0; k < 64; k++)
            is_wide |= maker->quant[t][k] > 255;
        put_marker(maker, 0xDB);
        put16(maker, 2 + 1 + (is_wide ? 128 : 64));
        put(maker, (is_wide ? 0x10 : 0) | t);
        for (unsigned k = 0; k < 64; k++)
            is_wide ? put16(maker, maker->quant[t][k]) : put(maker, maker->quant[t][k]);
    }
}

static void put_frame(struct maker *maker)
{
    const struct random_jpeg *jpeg = maker->jpeg;
    put_marker(maker, jpeg->is_extended ? 0xC1 : 0xC0);
    put16(maker, 8 + 3 * jpeg->num_components);
    put(maker, 8);
    put16(maker, jpeg->height);
    put16(maker, jpeg->width);
    put(maker, jpeg->num_components);
    for (unsigned c = 0; c < jpeg->num_components; c++) {
        const struct component *component = &maker->components[c];
        put(maker, component->id);
        put(maker, (unsigned)component->h << 4 | component->v);
        put(maker, component->quant);
    }
}

static void put_table(struct maker *maker, unsigned class, unsigned number,
                      const struct huffman *huffman)
{
    put(maker, class << 4 | number);
    for (unsigned length = 1; length <= MAX_LENGTH; length++)
        put(maker, huffman->counts[length]);
    for (unsigned i = 0; i < huffman->num_symbols; i++)
        put(maker, huffman->symbols[i]);
}

/* A table that the right one replaces. */
static void put_false_table(struct maker *maker, unsigned class, unsigned number)
{
    struct huffman *other = must(calloc(1, sizeof(*other)));
    other->has_symbol[random_symbol(maker, class)] = true;
    make_huffman(maker, class, other);
    put_marker(maker, 0xC4);
    put16(maker, 2 + 17 + other->num_symbols);
    put_table(maker, class, number, other);
    free(other);
}

static void put_huffman(struct maker *maker)
{
    const bool is_one_segment = below(maker, 2);
    unsigned len = 2;
    for (unsigned i = 0; i < NUM_CLASSES * MAX_TABLES; i++) {
        const struct huffman *huffman = &maker->huffman[i % NUM_CLASSES][i / NUM_CLASSES];
        if (!huffman->is_used)
            continue;
        len += 17 + huffman->num_symbols;
        if (below(maker, 4) == 0)
            put_false_table(maker, i % NUM_CLASSES, i / NUM_CLASSES);
    }
    if (is_one_segment) {
        put_marker(maker, 0xC4);
        put16(maker, len);
    }
    for (unsigned i = 0; i < NUM_CLASSES * MAX_TABLES; i++) {
        const unsigned class = i % NUM_CLASSES, number = i / NUM_CLASSES;
        const struct huffman *huffman = &maker->huffman[class][number];
        if (!huffman->is_used)
            continue;
        if (!is_one_segment) {
            put_marker(maker, 0xC4);
            put16(maker, 2 + 17 + huffman->num_symbols);
        }
        put_table(maker, class, number, huffman);
    }
}

static void put_scan_header(struct maker *maker)
{
    const struct random_jpeg *jpeg = maker->jpeg;
    if (jpeg->interval > 0) {
        put_marker(maker, 0xDD);
        put16(maker, 4);
        put16(maker, jpeg->interval);
    }
    put_marker(maker, 0xDA);
    put16(maker, 6 + 2 * jpeg->num_components);
    put(maker, jpeg->num_components);
    for (unsigned c = 0; c < jpeg->num_components; c++) {
        put(maker, maker->components[c].id);
        put(maker, maker->components[c].table[DC] << 4 | maker->components[c].table[AC]);
    }
    put(maker, 0);
    put(maker, 63);
    put(maker, 0);
}

static void put_file(struct maker *maker)
{
    put(maker, 0xFF);
    put(maker, 0xD8);
    put_app(maker);
    const bool has_frame_first = below(maker, 2);
    if (has_frame_first)
        put_frame(maker);
    put_quantisers(maker);
    if (!has_frame_first)
        put_frame(maker);
    put_huffman(maker);
    put_scan_header(maker);
    code_scan(maker, true);
    put_marker(maker, 0xD9);
}

struct random_jpeg random_jpeg_make(struct sluice_rng *rng)
{
    struct random_jpeg jpeg = {.file = NULL};
    struct maker *maker = must(calloc(1, sizeof(*maker)));
    maker->rng = rng;
    maker->jpeg = &jpeg;
    choose_frame(maker);
    choose_quantisers(maker);
    choose_coefficients(maker);
    code_scan(maker, false);
    choose_huffman(maker);
    put_file(maker);
    if (sluice_buf_create(NULL, maker->len, &jpeg.file, NULL) != SLUICE_OK)
        abort();
    memcpy(jpeg.file->data, maker->bytes, maker->len);
    jpeg.file->len = maker->len;
    free(maker->blocks);
    free(maker->bytes);
    free(maker);
    return jpeg;
}
