#include "image/jpeg/recode.h"

#include "base/buf.h"
#include "image/jpeg/bit_writer.h"

#include <stdlib.h>

/* Optimal Huffman tables in two passes: one counts symbols, one writes them. */

/* --- the code --- */

#define NUM_LEAVES 257 /* a reserved symbol takes the code of all ones, which must stay free */

struct leaf {
    uint32_t weight;
    uint16_t symbol;
};

static int compare_leaves(const void *a, const void *b)
{
    const struct leaf *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? -1 : 1;
    return (int)y->symbol - (int)x->symbol;
}

/* Huffman's algorithm with two queues (van Leeuwen 1976): leaves and joined nodes, both in order of
 * rising weight.  `leaves` are sorted; gives the number of codes of each length. */
static void measure_lengths(const struct leaf *leaves, unsigned num_leaves, unsigned *num_of_length)
{
    uint64_t weight[2 * NUM_LEAVES] = {0};
    uint16_t parent[2 * NUM_LEAVES] = {0};
    unsigned depth[2 * NUM_LEAVES] = {0};
    for (unsigned i = 0; i < num_leaves; i++)
        weight[i] = leaves[i].weight;
    unsigned leaf = 0, node = num_leaves, end = num_leaves;
    while (end < 2 * num_leaves - 1) {
        weight[end] = 0;
        for (int i = 0; i < 2; i++) {
            const bool take_leaf =
                leaf < num_leaves && (node >= end || weight[leaf] <= weight[node]);
            const unsigned least = take_leaf ? leaf++ : node++;
            weight[end] += weight[least];
            parent[least] = (uint16_t)end;
        }
        end++;
    }
    depth[end - 1] = 0;
    for (unsigned i = end - 1; i-- > 0;) {
        depth[i] = depth[parent[i]] + 1;
        if (i < num_leaves)
            num_of_length[depth[i]]++;
    }
}

void sluice_jpeg_optimal_huffman(const uint32_t occurrences[256],
                                 struct sluice_jpeg_huffman *huffman)
{
    struct leaf leaves[NUM_LEAVES];
    unsigned num_leaves = 0;
    for (unsigned symbol = 0; symbol < 256; symbol++) {
        if (occurrences[symbol])
            leaves[num_leaves++] =
                (struct leaf){.weight = occurrences[symbol], .symbol = (uint16_t)symbol};
    }
    const unsigned num_symbols = num_leaves;
    leaves[num_leaves++] = (struct leaf){.symbol = 256}; /* reserved; lightest, so longest */
    qsort(leaves, num_leaves, sizeof(leaves[0]), compare_leaves);

    *huffman = (struct sluice_jpeg_huffman){.is_present = true};
    if (num_symbols == 0)
        return;
    unsigned num_of_length[NUM_LEAVES + 1] = {0};
    measure_lengths(leaves, num_leaves, num_of_length);

    /* Limit the lengths to 16 bits (T.81, K.2): of two longest codes, which share a prefix, one
     * takes the prefix; a shorter code gets one bit more, and the other becomes its sibling. */
    unsigned longest = NUM_LEAVES;
    for (; longest > 16; longest--) {
        while (num_of_length[longest] > 0) {
            unsigned shorter = longest - 2;
            while (num_of_length[shorter] == 0)
                shorter--;
            num_of_length[longest] -= 2;
            num_of_length[longest - 1]++;
            num_of_length[shorter + 1] += 2;
            num_of_length[shorter]--;
        }
    }
    while (num_of_length[longest] == 0)
        longest--;
    num_of_length[longest]--; /* the reserved one */

    for (unsigned length = 1; length <= 16; length++)
        huffman->counts[length] = (uint8_t)num_of_length[length];
    huffman->num_symbols = (uint16_t)num_symbols;
    /* The most frequent symbol first; leaf 0 is the reserved one. */
    for (unsigned i = 0; i < num_symbols; i++)
        huffman->symbols[i] = (uint8_t)leaves[num_symbols - i].symbol;
}

/* --- two passes --- */

#define EXTRA_ROOM 64

struct recoder {
    struct sluice_jpeg_lookup dc[4], ac[4];
    uint32_t dc_occurrences[4][256], ac_occurrences[4][256];
    struct sluice_jpeg_codes dc_codes[4], ac_codes[4];
};

static sluice_status fail_unsound(struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_INTERNAL, "cut MCUs do not parse");
}

/* Counts the symbols of a segment. */
static sluice_status count_symbols(struct recoder *recoder, const struct sluice_jpeg *jpeg,
                                   size_t num_mcus, const uint8_t *bytes, struct sluice_err *err)
{
    struct sluice_jpeg_bits in;
    sluice_jpeg_bits_start(&in, bytes);
    for (size_t i = 0; i < num_mcus * jpeg->blocks_in_mcu; i++) {
        const struct sluice_jpeg_component *component =
            &jpeg->components[jpeg->block_component[i % jpeg->blocks_in_mcu]];
        const struct sluice_jpeg_lookup *lookup = &recoder->dc[component->dc];
        uint32_t *occurrences = recoder->dc_occurrences[component->dc];
        for (unsigned k = 0; k < 64;) {
            const unsigned entry = sluice_jpeg_bits_peek_symbol(&in, lookup);
            const unsigned symbol = entry & 255, size = symbol & 15;
            if (entry == 0)
                return fail_unsound(err);
            occurrences[symbol]++;
            sluice_jpeg_bits_skip(&in, (entry >> 8) + size);
            sluice_jpeg_bits_refill(&in);
            if (k > 0 && symbol == 0)
                break;
            k += k > 0 ? (symbol >> 4) + 1 : 1;
            lookup = &recoder->ac[component->ac];
            occurrences = recoder->ac_occurrences[component->ac];
        }
    }
    return SLUICE_OK;
}

/* How many of the MCUs a segment has. */
static size_t mcus_of(const struct sluice_jpeg *jpeg, size_t segment, size_t num_mcus)
{
    const size_t interval = jpeg->restart_interval, before = segment * interval;
    return num_mcus - before < interval ? num_mcus - before : interval;
}

/* Reads a segment like count_symbols(), and writes it with the new tables. */
static sluice_status write_symbols(const struct recoder *recoder, const struct sluice_jpeg *jpeg,
                                   size_t num_mcus, const uint8_t *bytes,
                                   struct sluice_jpeg_bit_writer *out, const uint8_t *end,
                                   struct sluice_err *err)
{
    struct sluice_jpeg_bits in;
    sluice_jpeg_bits_start(&in, bytes);
    for (size_t i = 0; i < num_mcus * jpeg->blocks_in_mcu; i++) {
        const struct sluice_jpeg_component *component =
            &jpeg->components[jpeg->block_component[i % jpeg->blocks_in_mcu]];
        const struct sluice_jpeg_lookup *lookup = &recoder->dc[component->dc];
        const struct sluice_jpeg_codes *codes = &recoder->dc_codes[component->dc];
        for (unsigned k = 0; k < 64;) {
            const unsigned entry = sluice_jpeg_bits_peek_symbol(&in, lookup);
            const unsigned symbol = entry & 255, size = symbol & 15;
            if (end - out->next < 16)
                return sluice_fail(err, SLUICE_E_AGAIN, "a crop would not be smaller");
            sluice_jpeg_bits_skip(&in, entry >> 8);
            sluice_jpeg_put_bits(
                out, (uint64_t)codes->code[symbol] << size | (in.bits >> 1 >> (63 - size)),
                codes->length[symbol] + size);
            sluice_jpeg_bits_skip(&in, size);
            sluice_jpeg_bits_refill(&in);
            if (k > 0 && symbol == 0)
                break;
            k += k > 0 ? (symbol >> 4) + 1 : 1;
            lookup = &recoder->ac[component->ac];
            codes = &recoder->ac_codes[component->ac];
        }
    }
    return SLUICE_OK;
}

static sluice_status write_segments(const struct recoder *recoder, const struct sluice_jpeg *jpeg,
                                    const struct sluice_jpeg_scan *in, size_t num_mcus,
                                    struct sluice_jpeg_scan *out, size_t room,
                                    struct sluice_err *err)
{
    struct sluice_jpeg_bit_writer writer = {.next = out->data->data};
    for (size_t i = 0; i < in->num_segments; i++) {
        const sluice_status status =
            write_symbols(recoder, jpeg, mcus_of(jpeg, i, num_mcus),
                          sluice_jpeg_segment_start(in, i), &writer, out->data->data + room, err);
        if (status != SLUICE_OK)
            return status;
        if (writer.count > 0)
            sluice_jpeg_put_bits(&writer, (1u << (8 - writer.count)) - 1, 8 - writer.count);
        out->segment_ends[out->num_segments++] = (size_t)(writer.next - out->data->data);
    }
    out->data->len = out->segment_ends[out->num_segments - 1];
    return SLUICE_OK;
}

sluice_status sluice_jpeg_recode_optimal(struct sluice_jpeg *jpeg,
                                         const struct sluice_jpeg_scan *in, size_t num_mcus,
                                         struct sluice_buf_pool *pool, struct sluice_jpeg_scan *out,
                                         struct sluice_err *err)
{
    const size_t room = in->data->len + in->data->len / 4 + in->num_segments + EXTRA_ROOM;
    struct sluice_jpeg_scan made = {.segment_ends =
                                        malloc(in->num_segments * sizeof(*made.segment_ends))};
    struct recoder *recoder = calloc(1, sizeof(*recoder));
    sluice_status status = SLUICE_OK;
    if (!recoder || !made.segment_ends)
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to code a JPEG again");
    if (status == SLUICE_OK)
        status = sluice_buf_create(pool, room, &made.data, err);
    if (status != SLUICE_OK)
        goto done;
    for (unsigned c = 0; c < jpeg->num_components; c++) {
        const unsigned dc = jpeg->components[c].dc, ac = jpeg->components[c].ac;
        sluice_jpeg_lookup_init(&recoder->dc[dc], &jpeg->dc[dc]);
        sluice_jpeg_lookup_init(&recoder->ac[ac], &jpeg->ac[ac]);
    }
    for (size_t i = 0; i < in->num_segments && status == SLUICE_OK; i++)
        status = count_symbols(recoder, jpeg, mcus_of(jpeg, i, num_mcus),
                               sluice_jpeg_segment_start(in, i), err);
    if (status != SLUICE_OK)
        goto done;
    for (unsigned c = 0; c < jpeg->num_components; c++) {
        const unsigned dc = jpeg->components[c].dc, ac = jpeg->components[c].ac;
        sluice_jpeg_optimal_huffman(recoder->dc_occurrences[dc], &jpeg->dc[dc]);
        sluice_jpeg_optimal_huffman(recoder->ac_occurrences[ac], &jpeg->ac[ac]);
        sluice_jpeg_codes_init(&recoder->dc_codes[dc], &jpeg->dc[dc]);
        sluice_jpeg_codes_init(&recoder->ac_codes[ac], &jpeg->ac[ac]);
    }
    status = write_segments(recoder, jpeg, in, num_mcus, &made, room, err);
    if (status != SLUICE_OK)
        goto done;
    *out = made;
    made = (struct sluice_jpeg_scan){0};

done:
    sluice_jpeg_scan_clear(&made);
    free(recoder);
    return status;
}
