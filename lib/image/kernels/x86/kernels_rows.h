#ifndef SLUICE_IMAGE_KERNELS_X86_KERNELS_ROWS_H
#define SLUICE_IMAGE_KERNELS_X86_KERNELS_ROWS_H

#include "image/kernels/kernels.h"

#include <stddef.h>
#include <stdint.h>

/* How the resizes of x86 share out the rows of an image, and the bytes of a row. */

#define ROWS_AT_ONCE 4
#define MAX_ROWS 8

/* Rows that one table of weights serves while it is in the first-level cache: four at a time, the
 * last one again where there are fewer. */
struct rows {
    uint32_t num; /* a multiple of ROWS_AT_ONCE */
    const uint8_t *in[MAX_ROWS];
    uint8_t *out[MAX_ROWS];
};

static inline struct rows list_rows(const uint8_t *in, size_t in_stride, uint32_t num_rows,
                                    uint8_t *out, size_t out_stride)
{
    const uint32_t most = num_rows < MAX_ROWS ? num_rows : MAX_ROWS;
    struct rows rows = {.num = (most + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE * ROWS_AT_ONCE,
                        .in = {in, in, in, in, in, in, in, in},
                        .out = {out, out, out, out, out, out, out, out}};
    for (uint32_t r = 0; r < rows.num; r++) {
        const size_t row = r < most ? r : most - 1;
        rows.in[r] = in + row * in_stride;
        rows.out[r] = out + row * out_stride;
    }
    return rows;
}

/* The last group begins where it ends with the row, unless the row is shorter than a group. */
static inline uint32_t group_first_byte(const struct sluice_taps *taps, uint32_t group_bytes,
                                        uint32_t group)
{
    const uint32_t num_bytes = taps->num_out * 3, at = group * group_bytes;
    if (at + group_bytes <= num_bytes || num_bytes < group_bytes)
        return at;
    return num_bytes - group_bytes;
}

#endif
