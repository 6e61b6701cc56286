#ifndef SLUICE_IMAGE_JPEG_CROP_INTERNAL_H
#define SLUICE_IMAGE_JPEG_CROP_INTERNAL_H

#include "image/jpeg_crop.h"
#include "image/jpeg_entropy.h"

/* Between jpeg_crop.c, which plans, and what it leans on. */

struct sluice_jpeg_index;

/* SOI and our segment: "Sluice", a version, then the sizes of the whole image and
 * the window's origin, 16 bits each. */
#define SLUICE_JPEG_CROP_HEAD 22
void sluice_jpeg_crop_put_head(uint8_t head[SLUICE_JPEG_CROP_HEAD],
                               const struct sluice_jpeg_crop_box *window);

/* False: not such a head.  Sets all but the window's size. */
bool sluice_jpeg_crop_get_head(const uint8_t head[SLUICE_JPEG_CROP_HEAD],
                               struct sluice_jpeg_crop_box *window);

static inline uint32_t sluice_divide_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

/* What the window of a box follows from. */
struct sluice_jpeg_grid {
    uint32_t width, height;              /* of the image */
    uint32_t mcu_width, mcu_height;      /* what windows begin at multiples of */
    unsigned min_h, max_h, min_v, max_v; /* sampling factors over the components */
};

/* SLUICE_E_INVALID: the box is not inside the image. */
SLUICE_MUST_USE sluice_status sluice_jpeg_crop_plan(const struct sluice_jpeg_grid *grid,
                                                    const struct sluice_box *box,
                                                    struct sluice_jpeg_crop_box *window,
                                                    struct sluice_err *err);

/* Behind sluice_jpeg_crop(), through the coefficients (codec_jpeg.c); max_pixels is
 * not 0.  Does not look at whether the crop is smaller. */
SLUICE_MUST_USE sluice_status
sluice_jpeg_crop_libjpeg(const uint8_t *bytes, size_t len, const struct sluice_box *box,
                         const struct sluice_jpeg_crop_options *options, uint64_t max_pixels,
                         struct sluice_buf_pool *pool, struct sluice_buf **crop,
                         struct sluice_jpeg_crop_box *window, struct sluice_err *err);

/* What is cut out of what. */
struct sluice_jpeg_cut {
    struct sluice_jpeg *jpeg; /* its tables become those of the crop */
    const uint8_t *bytes;     /* of the file */
    const struct sluice_jpeg_crop_box *window;
    const struct sluice_box *box;
    const struct sluice_jpeg_index *index; /* it fits the file; NULL: the whole scan is read */
};

/* The bits of the window's MCUs as whole bytes without stuffing, the last filled up with
 * ones, in a new buffer with room for SLUICE_JPEG_SCAN_SLACK bytes behind them.  *jpeg is of no
 * use after a failure, which with an index says that the file must be read without. */
SLUICE_MUST_USE sluice_status sluice_jpeg_cut_mcus(const struct sluice_jpeg_cut *cut,
                                                   struct sluice_buf_pool *pool,
                                                   struct sluice_buf **kept,
                                                   struct sluice_err *err);

/* SOI to SOS of a crop, with the tables that it uses; returns the length. */
#define SLUICE_JPEG_CROP_MAX_HEADERS                                                               \
    (SLUICE_JPEG_CROP_HEAD + 18 + 16 + 4 + 4 * (1 + 128) + 4 + 8 * (1 + 16 + 256) + 4 + 6 +        \
     3 * 4 + 4 + 4 + 2 * 4)
size_t sluice_jpeg_crop_put_headers(uint8_t headers[SLUICE_JPEG_CROP_MAX_HEADERS],
                                    const struct sluice_jpeg *jpeg,
                                    const struct sluice_jpeg_crop_box *window);

/* Bits to file bytes: a zero follows each 0xFF.  Returns the end of what it wrote; NULL: that would
 * not leave a byte free before `end`. */
uint8_t *sluice_jpeg_put_stuffed(uint8_t *out, const uint8_t *end, const uint8_t *in, size_t len);

/* Bits to the end of memory that has 8 bytes of room behind the last bit. */
struct sluice_jpeg_bit_writer {
    uint64_t bits;  /* not yet stored, from the top */
    unsigned count; /* 0 .. 7 between calls */
    uint8_t *next;
};

/* The lowest `num_bits` (0 .. 56) of value, which has no higher ones. */
static inline void sluice_jpeg_put_bits(struct sluice_jpeg_bit_writer *out, uint64_t value,
                                        unsigned num_bits)
{
    out->count += num_bits;
    uint64_t word = out->bits | (num_bits ? value << (64 - out->count) : 0);
    out->bits = word << (out->count & ~7u);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    memcpy(out->next, &word, sizeof(word));
    out->next += out->count >> 3;
    out->count &= 7;
}

/* Codes num_mcus MCUs again, with tables of `jpeg` replaced by the best for them.  The
 * bits at `in` (SLUICE_JPEG_SCAN_SLACK bytes behind in_len) are sound by jpeg's tables,
 * without restart markers.  `out` has room for in_len + SLUICE_JPEG_RECODE_ROOM bytes; *out_len
 * counts whole bytes, the last filled up with ones. */
#define SLUICE_JPEG_RECODE_ROOM 64
SLUICE_MUST_USE sluice_status sluice_jpeg_recode_optimal(struct sluice_jpeg *jpeg, size_t num_mcus,
                                                         const uint8_t *in, uint8_t *out,
                                                         size_t room, size_t *out_len,
                                                         struct sluice_err *err);

/* The best code of at most 16 bits for symbols that occur so often, without the
 * code of all ones. */
void sluice_jpeg_optimal_huffman(const uint32_t occurrences[256],
                                 struct sluice_jpeg_huffman *huffman);

#endif
