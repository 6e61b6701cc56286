#ifndef SLUICE_TESTS_JPEG_SUPPORT_H
#define SLUICE_TESTS_JPEG_SUPPORT_H

#include "image/codecs/codec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What libjpeg-turbo sees in a JPEG, and files to look at. */

struct jpeg_test_coefficients {
    unsigned num_components;
    uint32_t width, height;
    uint32_t max_h, max_v;
    uint32_t h[4], v[4]; /* sampling factors */
    uint16_t quant[4][64];
    uint32_t wide[4], high[4]; /* blocks that the component's pixels need */
    int16_t (*blocks[4])[64];  /* natural order, row by row; malloc'ed */
    long num_warnings;
};

/* False where libjpeg-turbo fails. */
bool jpeg_test_read_coefficients(const uint8_t *bytes, size_t len,
                                 struct jpeg_test_coefficients *coefficients);
void jpeg_test_free_coefficients(struct jpeg_test_coefficients *coefficients);

/* The pixels by libjpeg-turbo with its default settings, RGB; malloc'ed.  NULL where it fails or
 * warns. */
uint8_t *jpeg_test_read_pixels(const uint8_t *bytes, size_t len, uint32_t *width, uint32_t *height);

/* A picture with smooth parts, edges and noise, from a seed; malloc'ed. */
uint8_t *jpeg_test_picture(uint32_t width, uint32_t height, uint64_t seed);

/* Such a picture as a file from plain memory; fails the test if it cannot. */
struct sluice_buf *jpeg_test_file(uint32_t width, uint32_t height, uint64_t seed,
                                  const struct sluice_jpeg_encode_options *options);

/* The same coefficients with a restart marker every so many MCUs, of whatever row. */
struct sluice_buf *jpeg_test_with_restarts(const struct sluice_buf *file, unsigned interval);

/* Every sampling, gray, inks, restart intervals, optimised tables, progressive. */
extern const struct sluice_jpeg_encode_options jpeg_test_options[];
extern const size_t jpeg_test_num_options;

#endif
