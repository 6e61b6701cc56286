/* The entropy layer: whatever the bytes, a parse ends in words or in a header whose promises
 * hold, and every bit that the scan has can be read as symbols without leaving its memory. */

#include "base/buf.h"
#include "image/jpeg/entropy.h"

#include "fuzz.h"

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

static void check_header(const struct sluice_jpeg *jpeg)
{
    REQUIRE(jpeg->width >= 1 && jpeg->height >= 1);
    REQUIRE(jpeg->num_components == 1 || jpeg->num_components == 3 || jpeg->num_components == 4);
    REQUIRE(jpeg->blocks_in_mcu >= 1 && jpeg->blocks_in_mcu <= SLUICE_JPEG_MAX_BLOCKS_IN_MCU);
    REQUIRE((uint64_t)jpeg->mcus_across * jpeg->mcu_width >= jpeg->width);
    REQUIRE((uint64_t)jpeg->mcus_down * jpeg->mcu_height >= jpeg->height);
    for (unsigned b = 0; b < jpeg->blocks_in_mcu; b++)
        REQUIRE(jpeg->block_component[b] < jpeg->num_components);
    for (unsigned c = 0; c < jpeg->num_components; c++) {
        const struct sluice_jpeg_component *component = &jpeg->components[c];
        REQUIRE(component->dc < 4 && jpeg->dc[component->dc].is_present);
        REQUIRE(component->ac < 4 && jpeg->ac[component->ac].is_present);
        REQUIRE(component->quant < 4 && jpeg->has_quant[component->quant]);
    }
}

/* By the AC table of component 0, from the start of each segment to its end. */
static void read_symbols(const struct sluice_jpeg *jpeg, const struct sluice_jpeg_scan *scan)
{
    static struct sluice_jpeg_lookup lookup;
    static struct sluice_jpeg_codes codes;
    const struct sluice_jpeg_huffman *huffman = &jpeg->ac[jpeg->components[0].ac];
    sluice_jpeg_lookup_init(&lookup, huffman);
    sluice_jpeg_codes_init(&codes, huffman);
    for (size_t i = 0; i < scan->num_segments; i++) {
        const uint8_t *start = scan->data->data + (i > 0 ? scan->segment_ends[i - 1] : 0);
        const size_t num_bits = (size_t)(scan->data->data + scan->segment_ends[i] - start) * 8;
        struct sluice_jpeg_bits in;
        sluice_jpeg_bits_start(&in, start);
        while (sluice_jpeg_bits_position(&in, start) < num_bits) {
            const unsigned entry = sluice_jpeg_bits_peek_symbol(&in, &lookup);
            if (entry == 0)
                break;
            REQUIRE(entry >> 8 >= 1 && entry >> 8 <= 16);
            /* A table may name a symbol twice; codes keep one of them. */
            REQUIRE(codes.length[entry & 255] > 0);
            sluice_jpeg_bits_skip(&in, (entry >> 8) + (entry & 15));
            sluice_jpeg_bits_refill(&in);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sluice_jpeg jpeg;
    struct sluice_err err = {{0}};
    if (sluice_jpeg_parse(data, size, &jpeg, &err) != SLUICE_OK) {
        REQUIRE(err.text[0]);
        return 0;
    }
    check_header(&jpeg);
    REQUIRE(jpeg.scan >= data && jpeg.scan + jpeg.scan_len == data + size);
    struct sluice_jpeg_scan scan = {0};
    if (sluice_jpeg_scan_read(&jpeg, NULL, &scan, &err) != SLUICE_OK) {
        REQUIRE(err.text[0] && !scan.data);
        return 0;
    }
    REQUIRE(scan.num_segments >= 1 && scan.data->len <= jpeg.scan_len);
    for (size_t i = 0; i < scan.num_segments; i++)
        REQUIRE(scan.segment_ends[i] >= (i > 0 ? scan.segment_ends[i - 1] : 0));
    REQUIRE(scan.segment_ends[scan.num_segments - 1] == scan.data->len);
    for (size_t i = 0; i < SLUICE_JPEG_SCAN_SLACK; i++)
        REQUIRE(scan.data->data[scan.data->len + i] == 0);
    read_symbols(&jpeg, &scan);
    sluice_jpeg_scan_clear(&scan);
    return 0;
}
