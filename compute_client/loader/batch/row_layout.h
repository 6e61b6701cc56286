#ifndef SLUICE_COMPUTE_CLIENT_LOADER_BATCH_ROW_LAYOUT_H
#define SLUICE_COMPUTE_CLIENT_LOADER_BATCH_ROW_LAYOUT_H

#include "base/hash.h"
#include "op/pipeline.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The views of a row, and where they stand in the memory of a batch.
 *
 * A row's bytes are its views in the order of the pipeline's text, each height x width x 3, as a
 * sample has them at the u8 split.  The memory of a batch has room for `capacity` rows and is
 * view-major, so that each view of a batch is one array:
 *
 *     row      [view 0][view 1]...
 *     batch    [view 0 of rows 0, 1, ... capacity - 1][view 1 of rows 0, 1, ...]...
 *
 * With one view both are the same.
 *
 * Threads: pure functions; different rows of a batch may be written to at the same time. */

struct sluice_row_view {
    uint32_t height, width;
    size_t offset, bytes; /* within a row's bytes */
};

struct sluice_row_layout {
    unsigned num_views; /* >= 1 */
    bool is_bucket;     /* rows of other batches may have other sizes */
    size_t bytes;       /* of a row */
    struct sluice_row_view views[SLUICE_MAX_VIEWS];
};

/* A row of a batch whose images have sizes of their own: one view, with rows one after the
 * other. */
struct sluice_row_image {
    size_t at; /* in the memory of the batch, in bytes */
    uint32_t height, width;
};
static inline size_t sluice_row_image_bytes(const struct sluice_row_image *image)
{
    return (size_t)image->height * image->width * 3;
}

/* Whether the images of a pipeline end in sizes of their own: it has neither one size nor buckets.
 * Their layout has one view, of 0 x 0. */
bool sluice_row_has_own_size(const struct sluice_pipeline *pipeline);

/* The layout of a row of this bucket, or of every row if the pipeline has no buckets
 * (sluice_pipeline_num_buckets()). */
struct sluice_row_layout sluice_row_layout_of(const struct sluice_pipeline *pipeline,
                                              unsigned bucket);

/* The place of a row's view in the memory of a batch, in bytes. */
static inline size_t sluice_row_place(const struct sluice_row_layout *layout, unsigned capacity,
                                      unsigned row, unsigned view)
{
    const struct sluice_row_view *of = &layout->views[view];
    return capacity * of->offset + row * of->bytes;
}

/* Copies row `from` to row `to`, another one. */
void sluice_row_copy(const struct sluice_row_layout *layout, unsigned capacity, unsigned to,
                     unsigned from, uint8_t *batch);
/* The hash of a row's bytes, read from its places, and of its label (digest.h). */
struct sluice_hash128 sluice_row_digest(const struct sluice_row_layout *layout, unsigned capacity,
                                        unsigned row, const uint8_t *batch, uint32_t label,
                                        struct sluice_hasher *hasher);

/* The same for an image of a size of its own. */
struct sluice_hash128 sluice_row_image_digest(const struct sluice_row_image *image,
                                              const uint8_t *batch, uint32_t label,
                                              struct sluice_hasher *hasher);

#endif
