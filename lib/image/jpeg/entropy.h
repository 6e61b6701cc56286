#ifndef SLUICE_IMAGE_JPEG_ENTROPY_H
#define SLUICE_IMAGE_JPEG_ENTROPY_H

#include "base/buf.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The entropy-coded layer of a JPEG, down to Huffman symbols.
 *
 * Covers nearly all files: sequential, 8 bits, Huffman-coded, all components in one scan, any
 * sampling, restart intervals, nothing unexpected between the markers, and EOI right after the
 * scan.  Other files get SLUICE_E_UNSUPPORTED or SLUICE_E_CORRUPT; such a file need not be bad, and
 * libjpeg-turbo must decide.  Accepted files mean the same here as to libjpeg-turbo.
 *
 *     sluice_jpeg_parse()      markers -> struct sluice_jpeg
 *     sluice_jpeg_scan_read()  the scan without stuffing, cut at its restart markers
 *     sluice_jpeg_lookup_init(), sluice_jpeg_bits_*()   symbols and bits
 *
 * Threads: pure functions. */

struct sluice_buf_pool;

#define SLUICE_JPEG_MAX_COMPONENTS 4
#define SLUICE_JPEG_MAX_BLOCKS_IN_MCU 10
#define SLUICE_JPEG_MAX_DC_CATEGORY 11

/* A Huffman table as DHT gives it; the canonical codes follow from it. */
struct sluice_jpeg_huffman {
    bool is_present;
    uint8_t counts[17];   /* codes of each length 1 .. 16; [0] is 0 */
    uint8_t symbols[256]; /* by increasing code */
    uint16_t num_symbols; /* the sum of counts */
};

struct sluice_jpeg_component {
    uint8_t id;
    uint8_t h, v;   /* sampling factors, 1 .. 4 */
    uint8_t quant;  /* table, 0 .. 3 */
    uint8_t dc, ac; /* tables, 0 .. 3 */
};

struct sluice_jpeg {
    uint32_t width, height; /* 1 .. 65,535 */
    unsigned num_components;
    struct sluice_jpeg_component components[SLUICE_JPEG_MAX_COMPONENTS];
    uint16_t quant[4][64]; /* zigzag order, as in the file */
    bool has_quant[4];
    struct sluice_jpeg_huffman dc[4], ac[4]; /* those in use are sound codes */
    uint32_t restart_interval;               /* in MCUs; 0: none */
    bool is_extended;                        /* SOF1 rather than SOF0 */
    bool has_jfif, has_adobe;                /* both decide what the colours mean */
    uint8_t adobe_transform;

    unsigned max_h, max_v;
    uint32_t mcu_width, mcu_height;  /* pixels; 8 x 8 with one component */
    uint32_t mcus_across, mcus_down; /* enough to cover the image */
    unsigned blocks_in_mcu;
    uint8_t block_component[SLUICE_JPEG_MAX_BLOCKS_IN_MCU]; /* in the order of the scan */

    const uint8_t *scan; /* borrowed: the bytes after SOS, up to the file's end */
    size_t scan_len;
};

/* Reads the markers up to the scan.  *jpeg borrows from `bytes`; untouched on failure. */
SLUICE_MUST_USE sluice_status sluice_jpeg_parse(const uint8_t *bytes, size_t len,
                                                struct sluice_jpeg *jpeg, struct sluice_err *err);

/* Zero bytes after the data, so that a reader may look behind the end after every 32
 * blocks rather than after each symbol: a block has at most 64 codes of 31 bits. */
#define SLUICE_JPEG_SCAN_SLACK 8192

/* The scan's bits.  Segment i is bytes [segment_ends[i - 1], segment_ends[i]) of `data`
 * (from 0 for the first) and holds the MCUs from i x restart_interval on; without
 * restart interval there is one.  Bits that fill up the last byte are among them. */
struct sluice_jpeg_scan {
    struct sluice_buf *data; /* owned; SLUICE_JPEG_SCAN_SLACK zero bytes follow data->len */
    size_t *segment_ends;    /* owned */
    size_t num_segments;     /* at least 1; may be fewer or more than the MCUs need */
    size_t one_segment_end;  /* where segment_ends points if there is one segment */
};

/* Rejects a scan that does not end in EOI, restart markers out of order, and restart markers in a
 * file without a restart interval. *scan must not be copied once made; it is untouched on failure.
 */
SLUICE_MUST_USE sluice_status sluice_jpeg_scan_read(const struct sluice_jpeg *jpeg,
                                                    struct sluice_buf_pool *pool,
                                                    struct sluice_jpeg_scan *scan,
                                                    struct sluice_err *err);
void sluice_jpeg_scan_clear(struct sluice_jpeg_scan *scan); /* idempotent; fine on {0} */

static inline const uint8_t *sluice_jpeg_segment_start(const struct sluice_jpeg_scan *scan,
                                                       size_t segment)
{
    return scan->data->data + (segment ? scan->segment_ends[segment - 1] : 0);
}

static inline const uint8_t *sluice_jpeg_segment_end(const struct sluice_jpeg_scan *scan,
                                                     size_t segment)
{
    return scan->data->data + scan->segment_ends[segment];
}

/* Codes and lengths by symbol; length 0: the table lacks it. */
struct sluice_jpeg_codes {
    uint16_t code[256];
    uint8_t length[256];
};
void sluice_jpeg_codes_init(struct sluice_jpeg_codes *codes,
                            const struct sluice_jpeg_huffman *huffman);

/* Symbols by comparing the next bits with the codes of each length. */
struct sluice_jpeg_ranks {
    uint32_t limit[18]; /* of length n: the next 16 bits are below it; [17] ends the search */
    int32_t offset[17]; /* symbol number = (next 16 bits >> (16 - n)) + offset[n] */
    uint8_t symbols[256];
};
void sluice_jpeg_ranks_init(struct sluice_jpeg_ranks *ranks,
                            const struct sluice_jpeg_huffman *huffman);

/* Symbols by the next bits. */
#define SLUICE_JPEG_LOOKUP_BITS 11
struct sluice_jpeg_lookup {
    /* length << 8 | symbol for codes of up to SLUICE_JPEG_LOOKUP_BITS bits, else 0 */
    uint16_t fast[1 << SLUICE_JPEG_LOOKUP_BITS];
    struct sluice_jpeg_ranks ranks;
};
void sluice_jpeg_lookup_init(struct sluice_jpeg_lookup *lookup,
                             const struct sluice_jpeg_huffman *huffman);

/* Bits from the front of unstuffed bytes.  Reads up to 8 bytes ahead of the last bit taken, and
 * does not check for the end: compare sluice_jpeg_bits_position(). */
struct sluice_jpeg_bits {
    uint64_t bits;       /* the next bit is the top one; true ones below `count` as well */
    unsigned count;      /* that may be taken before the next refill */
    const uint8_t *next; /* what refill reads */
};

static inline uint64_t sluice_jpeg_load64(const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

/* The position of the first 0xFF among 8 bytes; 8: not found. */
static inline unsigned sluice_jpeg_bytes_before_ff(const uint8_t *bytes)
{
    const uint64_t inverse = ~sluice_jpeg_load64(bytes);
    /* The top bit of each byte that is zero; no carry leaves a byte. */
    const uint64_t low = inverse & 0x7F7F7F7F7F7F7F7F;
    const uint64_t zeros = ~((low + 0x7F7F7F7F7F7F7F7F) | inverse | 0x7F7F7F7F7F7F7F7F);
    return zeros ? (unsigned)__builtin_clzll(zeros) >> 3 : 8;
}

/* Copies the bytes before the next 0xFF among `len` bytes, and possibly up to
 * SLUICE_JPEG_COPY_SLACK bytes behind it, but at most len in all.  Returns the number of bytes
 * before the 0xFF; len: not found. */
#define SLUICE_JPEG_COPY_SLACK 16
size_t sluice_jpeg_copy_before_ff(uint8_t *out, const uint8_t *in, size_t len);

/* At least 56 bits may be taken afterwards. */
static inline void sluice_jpeg_bits_refill(struct sluice_jpeg_bits *in)
{
    in->bits |= sluice_jpeg_load64(in->next) >> in->count;
    in->next += (63 - in->count) >> 3;
    in->count |= 56;
}

static inline void sluice_jpeg_bits_start(struct sluice_jpeg_bits *in, const uint8_t *bytes)
{
    *in = (struct sluice_jpeg_bits){.next = bytes};
    sluice_jpeg_bits_refill(in);
}

static inline void sluice_jpeg_bits_skip(struct sluice_jpeg_bits *in, unsigned num_bits)
{
    in->bits <<= num_bits;
    in->count -= num_bits;
}

/* Bits taken since `base`, where reading started. */
static inline size_t sluice_jpeg_bits_position(const struct sluice_jpeg_bits *in,
                                               const uint8_t *base)
{
    return (size_t)(in->next - base) * 8 - in->count;
}

/* length << 8 | symbol of the next code, whose length is at least `length`; 0: no such code.  A
 * length is at most 16. */
static inline unsigned sluice_jpeg_ranks_find(const struct sluice_jpeg_ranks *ranks, uint64_t bits,
                                              unsigned length)
{
    const uint32_t next16 = (uint32_t)(bits >> 48);
    while (next16 >= ranks->limit[length])
        length++;
    if (length > 16)
        return 0;
    const int32_t number = (int32_t)(next16 >> (16 - length)) + ranks->offset[length];
    return length << 8 | ranks->symbols[number & 255];
}

/* Finds length << 8 | symbol by a lookup.  Does not take the code. */
static inline unsigned sluice_jpeg_bits_peek_symbol(const struct sluice_jpeg_bits *in,
                                                    const struct sluice_jpeg_lookup *lookup)
{
    const unsigned entry = lookup->fast[in->bits >> (64 - SLUICE_JPEG_LOOKUP_BITS)];
    if (__builtin_expect(entry != 0, 1))
        return entry;
    return sluice_jpeg_ranks_find(&lookup->ranks, in->bits, SLUICE_JPEG_LOOKUP_BITS + 1);
}

/* The value behind a code: `size` bits (0 .. 15) at the top of `bits`, a leading
 * zero for negative ones (T.81, F.2.2.1). */
static inline int32_t sluice_jpeg_extend(uint64_t bits, unsigned size)
{
    const int32_t value = (int32_t)(bits >> 1 >> (63 - size));
    const int32_t is_negative = (int32_t)(bits >> 63) ^ 1;
    return value - (is_negative ? (1 << size) - 1 : 0);
}

#endif
