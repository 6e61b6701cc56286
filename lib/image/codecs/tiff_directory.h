#ifndef SLUICE_IMAGE_CODECS_TIFF_DIRECTORY_H
#define SLUICE_IMAGE_CODECS_TIFF_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first directory of a TIFF or of EXIF, which has the same format: numbered tags with values.
 *
 * Threads: pure functions. */

#define SLUICE_TIFF_WIDTH 256u
#define SLUICE_TIFF_HEIGHT 257u
#define SLUICE_TIFF_ORIENTATION 274u
#define SLUICE_TIFF_SAMPLES 277u

struct sluice_tiff_directory {
    const uint8_t *entries; /* borrowed from the file */
    size_t num_entries;     /* as many as are there */
    bool is_cut;            /* the file says that there are more */
    bool is_big_endian;
};

/* Finds the first directory.  False: not the header of a TIFF, or its offset is invalid. */
bool sluice_tiff_directory_find(const uint8_t *bytes, size_t len,
                                struct sluice_tiff_directory *directory);

/* The value of a tag with a whole number of 16 or 32 bits; `otherwise` if it is missing. */
uint32_t sluice_tiff_directory_get(const struct sluice_tiff_directory *directory, unsigned tag,
                                   uint32_t otherwise);

#endif
