#ifndef SLUICE_IMAGE_KERNELS_ROWS_H
#define SLUICE_IMAGE_KERNELS_ROWS_H

#include <stddef.h>
#include <stdint.h>

/* How the resizes of x86 share out the rows of an image. */

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

#endif
