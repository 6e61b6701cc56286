#ifndef SLUICE_IMAGE_IMAGE_H
#define SLUICE_IMAGE_IMAGE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Images: facts from a file's header (codecs/probe.c), decoded pixels, and boxes of pixels.
 *
 * The format is determined by the content, never by the file's name.
 *
 * Threads: pure functions. */

struct sluice_buf;

enum sluice_image_format {
    SLUICE_IMAGE_JPEG,
    SLUICE_IMAGE_PNG,
    SLUICE_IMAGE_WEBP,
    SLUICE_IMAGE_BMP,
    SLUICE_IMAGE_GIF,
    SLUICE_IMAGE_TIFF,
    SLUICE_IMAGE_PNM,
};

/* Whether this build decodes the format: some need a library that a build may be without. */
bool sluice_image_format_is_decoded(enum sluice_image_format format);

/* The facts in a file's header; nothing is decoded. */
struct sluice_image_info {
    enum sluice_image_format format;
    uint32_t width, height;
    uint8_t num_components; /* JPEG: 1, 3 or 4; else as stored (palette: 1) */
    uint8_t h_samp, v_samp; /* JPEG: luma sampling over chroma's where whole (1 .. 4); else 1 */
    bool is_progressive;    /* JPEG: SOF2; PNG: interlaced */
};

/* Reads the header.  SLUICE_E_UNSUPPORTED: another format (the message names it if it is known), or
 * a variant of a format that is not decoded; SLUICE_E_CORRUPT: the header is truncated or
 * contradicts itself. */
SLUICE_MUST_USE sluice_status sluice_image_probe(const uint8_t *bytes, size_t len,
                                                 struct sluice_image_info *info,
                                                 struct sluice_err *err);

/* The suffix for a file that begins with these bytes (16 are enough): ".jpg", ".png", ...; NULL:
 * not one of the formats. */
const char *sluice_image_suffix(const uint8_t *bytes, size_t len);
/* Lists all suffixes, from index 0; NULL: past the last. */
const char *sluice_image_suffix_at(unsigned i);

struct sluice_rgb {
    uint32_t width, height;    /* 1 .. 65,535 */
    struct sluice_buf *pixels; /* height x width x 3 u8, rows packed; owns one reference */
};

/* A part of an image. */
struct sluice_box {
    uint32_t left, top, width, height;
};

static inline bool sluice_box_is_within(const struct sluice_box *box, uint32_t width,
                                        uint32_t height)
{
    return box->width >= 1 && box->width <= width && box->left <= width - box->width &&
           box->height >= 1 && box->height <= height && box->top <= height - box->height;
}

/* The smallest box that contains both. */
static inline struct sluice_box sluice_box_union(const struct sluice_box *a,
                                                 const struct sluice_box *b)
{
    const uint32_t left = a->left < b->left ? a->left : b->left;
    const uint32_t top = a->top < b->top ? a->top : b->top;
    const uint32_t a_right = a->left + a->width, b_right = b->left + b->width;
    const uint32_t a_bottom = a->top + a->height, b_bottom = b->top + b->height;
    return (struct sluice_box){left, top, (a_right > b_right ? a_right : b_right) - left,
                               (a_bottom > b_bottom ? a_bottom : b_bottom) - top};
}

#endif
