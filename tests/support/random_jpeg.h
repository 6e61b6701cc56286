#ifndef SLUICE_TESTS_SUPPORT_RANDOM_JPEG_H
#define SLUICE_TESTS_SUPPORT_RANDOM_JPEG_H

#include "base/buf.h"
#include "base/rng.h"

#include <stdbool.h>
#include <stdint.h>

/* Random sequential JPEGs with tables of their own (ITU-T T.81), which no usual encoder writes.
 *
 * Huffman codes of random lengths up to 16 bits, complete and not, also of symbols that the file
 * does not use; up to four tables of each kind (two in a baseline file), shared by components or
 * not, in one segment or in several, some of them replaced before the scan; quantisers of 8 bits,
 * or of 16 in an extended file; gray, 4:4:4, 4:2:2, 4:2:0, 4:4:0 or 4:1:1; up to 120 pixels a side,
 * often thin; a restart interval of 1 to 16 MCUs or none.
 *
 * The coefficients are random and of any density, and such that no pixel of a block is further than
 * 500 from the middle: there the inverse DCT is defined, and clamps are met on both sides.
 *
 * Threads: pure functions. */

struct random_jpeg {
    struct sluice_buf *file; /* the caller's */
    uint32_t width, height;
    unsigned num_components, h, v; /* sampling factors of luma; 1 x 1 means 4:4:4 or gray */
    unsigned interval;             /* of restart markers; 0: none */
    unsigned longest_code;         /* bits, of any table that the scan uses */
    unsigned num_huffman;          /* tables that the scan uses */
    bool is_extended;              /* SOF1 */
    bool has_wide_quantisers;      /* above 255, 16 bits in the file */
};

/* Ends the program if there is no memory. */
struct random_jpeg random_jpeg_make(struct sluice_rng *rng);

#endif
