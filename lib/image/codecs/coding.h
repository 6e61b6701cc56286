#ifndef SLUICE_IMAGE_CODECS_CODING_H
#define SLUICE_IMAGE_CODECS_CODING_H

#include "image/image.h"

#include <stdbool.h>
#include <stdint.h>

/* How an image file is coded, in one byte.  A dataset's list has it for each file, so that the cost
 * of a file can be estimated without reading it.
 *
 * The values are written to manifests (by name) and cross the wire (as they are): none may change.
 *
 * Threads: pure functions. */

enum sluice_coding {
    SLUICE_CODING_UNKNOWN,
    SLUICE_CODING_JPEG_444,
    SLUICE_CODING_JPEG_422, /* chroma of half the columns */
    SLUICE_CODING_JPEG_420, /* of half the columns and rows */
    SLUICE_CODING_JPEG_440, /* of half the rows */
    SLUICE_CODING_JPEG_GRAY,
    SLUICE_CODING_JPEG_OTHER, /* four components, or sampled in another way */
    SLUICE_CODING_PNG,
    SLUICE_CODING_WEBP,
    SLUICE_CODING_BMP,
    SLUICE_CODING_GIF,
    SLUICE_CODING_TIFF,
    SLUICE_CODING_PNM,
    SLUICE_NUM_CODINGS,
    SLUICE_CODING_PROGRESSIVE = 0x80, /* added to one of the above; PNG: interlaced */
};

uint8_t sluice_coding_of(const struct sluice_image_info *info);

/* The coding without the flag; SLUICE_CODING_UNKNOWN for an unknown value. */
enum sluice_coding sluice_coding_kind(uint8_t coding);
bool sluice_coding_is_progressive(uint8_t coding);

/* "jpeg-420", "jpeg-444-progressive", "-" for an unknown one ... */
const char *sluice_coding_name(uint8_t coding);

/* The inverse of sluice_coding_name(); SLUICE_CODING_UNKNOWN for any other text. */
uint8_t sluice_coding_parse(const char *name);

#endif
