#ifndef SLUICE_IMAGE_JPEG_CROP_WRITE_H
#define SLUICE_IMAGE_JPEG_CROP_WRITE_H

#include "image/jpeg/crop_plan.h"
#include "image/jpeg/entropy.h"

/* Writes a crop's headers and byte stuffing; jpeg/crop_cut.h makes its coefficients.
 *
 * Threads: pure functions. */

/* SOI and our segment: "Sluice", a version, then the sizes of the whole image and
 * the window's origin, 16 bits each. */
#define SLUICE_JPEG_CROP_HEAD 22
void sluice_jpeg_crop_put_head(uint8_t head[SLUICE_JPEG_CROP_HEAD],
                               const struct sluice_jpeg_crop_box *window);

/* Sets all but the window's size.  False: not the head of a crop. */
bool sluice_jpeg_crop_get_head(const uint8_t head[SLUICE_JPEG_CROP_HEAD],
                               struct sluice_jpeg_crop_box *window);

/* Writes a crop from SOI to SOS, with the tables that it uses; returns the length. */
#define SLUICE_JPEG_CROP_MAX_HEADERS                                                               \
    (SLUICE_JPEG_CROP_HEAD + 18 + 16 + 4 + 4 * (1 + 128) + 4 + 8 * (1 + 16 + 256) + 4 + 6 +        \
     3 * 4 + 6 + 4 + 4 + 2 * 4)
size_t sluice_jpeg_crop_put_headers(uint8_t headers[SLUICE_JPEG_CROP_MAX_HEADERS],
                                    const struct sluice_jpeg *jpeg,
                                    const struct sluice_jpeg_crop_box *window);

/* Byte stuffing: copies bytes and puts a zero after each 0xFF.  Returns the end of the output; NULL
 * if that would not leave a byte free before `end`. */
uint8_t *sluice_jpeg_put_stuffed(uint8_t *out, const uint8_t *end, const uint8_t *in, size_t len);

/* As sluice_jpeg_put_stuffed() for a whole scan, with restart markers between its segments. */
uint8_t *sluice_jpeg_put_segments(uint8_t *out, const uint8_t *end,
                                  const struct sluice_jpeg_scan *scan);

#endif
