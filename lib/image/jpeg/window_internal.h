#ifndef SLUICE_IMAGE_JPEG_WINDOW_INTERNAL_H
#define SLUICE_IMAGE_JPEG_WINDOW_INTERNAL_H

#include "image/image.h"
#include "image/jpeg/lanes.h"
#include "image/jpeg/window_kernels.h"

#include <stdalign.h>

/* The window decoder's parts, in the order in which a file passes through them:
 *
 *     jpeg/window.c         what is covered, and where its samples go
 *     jpeg/window_points.c  where in the scan the rows begin
 *     jpeg/window_rows.c    bits to samples
 *     jpeg/window_pixels.c  samples to pixels */

/* Samples of one component: those of the blocks [first_column, end_column) x
 * [first_row, end_row). */
struct sluice_jpeg_plane {
    unsigned h, v;
    uint32_t width, height; /* samples of the whole image */
    uint32_t first_column, end_column, first_row, end_row;
    uint8_t *samples;
    size_t stride;
    alignas(64) int16_t quantisers[64]; /* in the order that the kernels want */
};

struct sluice_jpeg_window {
    struct sluice_jpeg_lanes lanes;
    struct sluice_jpeg_plane planes[3];
    unsigned num_planes;
    const struct sluice_jpeg_window_kernels *kernels;

    uint8_t *memory; /* planes, rows of upsampling and points */
    size_t memory_capacity;
    uint16_t *sums;                   /* a row with one more sum before and after it */
    uint8_t *row[2];                  /* chroma at full width */
    struct sluice_jpeg_point *points; /* one for each MCU row needed */
};

/* The MCU rows and columns that hold a block of any plane. */
struct sluice_jpeg_mcu_range {
    uint32_t first_row, end_row, first_column, end_column;
};

/* The part to read: a whole scan, or rows found by an index. */
struct sluice_jpeg_source {
    const struct sluice_jpeg *jpeg;
    struct sluice_jpeg_mcu_range wanted;
    const struct sluice_jpeg_scan *scan;   /* NULL: use the index */
    const struct sluice_jpeg_index *index; /* it fits the file */
    const uint8_t *bytes;                  /* of the file */
    struct sluice_buf_pool *pool;
};

/* Fills window->points: one for each row of MCUs, at wanted->first_column or before it.  False: the
 * bits are faulty before the last point, or memory is short. */
bool sluice_jpeg_window_find_points(struct sluice_jpeg_window *window,
                                    const struct sluice_jpeg_source *source);

/* Fills the planes.  False: the bits are faulty, or a value is one for which builds of
 * libjpeg-turbo differ. */
bool sluice_jpeg_window_read(struct sluice_jpeg_window *window,
                             const struct sluice_jpeg_source *source);

/* The box's pixels from the planes, three bytes each, row after row. */
void sluice_jpeg_window_write_pixels(struct sluice_jpeg_window *window,
                                     const struct sluice_box *box, uint8_t *pixels);

#endif
