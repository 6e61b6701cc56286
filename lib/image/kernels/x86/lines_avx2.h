#ifndef SLUICE_IMAGE_KERNELS_X86_LINES_AVX2_H
#define SLUICE_IMAGE_KERNELS_X86_LINES_AVX2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* struct sluice_color_kernels.map of tables that are straight lines, rounded down and clipped, as
 * those of brightness, contrast and autocontrast: two operations instead of a lookup.  Returns
 * false and does nothing for other tables, and for images too small to search for a line. */
bool sluice_map_lines_avx2(const uint8_t *in, size_t num_pixels, const uint8_t table[3][256],
                           uint8_t *out);

#endif
