#ifndef SLUICE_COMPUTE_CLIENT_LOADER_BATCH_BATCH_H
#define SLUICE_COMPUTE_CLIENT_LOADER_BATCH_BATCH_H

#include "base/error.h"
#include "compute_client/loader/batch/row_layout.h"
#include "sluice/sluice.h"

#include <stddef.h>
#include <stdint.h>

/* A batch: the rows of u8 pixels (row_layout.h) and labels that a trainer takes at once, and the
 * status of each row.  Sample n of the epoch is in row n % batch size.
 *
 * Threads: workers fill different rows at the same time; sluice_rows_settle() needs all rows to be
 * done. */

/* The policy for a sample that could not be read or decoded. */
enum sluice_on_error {
    /* The first bad sample in delivery order ends the run. */
    SLUICE_ON_ERROR_FAIL,
    /* The bad sample is left out, so its batch is shorter. */
    SLUICE_ON_ERROR_SKIP,
    /* The nearest good row before it in its batch replaces it, pixels, label, id and draw epoch; if
     * there is none before it, the nearest good row after it. */
    SLUICE_ON_ERROR_SUBSTITUTE,
};

struct sluice_rows {
    uint8_t *pixels; /* borrowed memory: capacity rows; NULL: pixels are on a device */
    const struct sluice_row_layout *layout; /* borrowed */
    unsigned capacity, n;
    unsigned num_padded; /* the last num_padded of the n rows repeat others, so that all ranks have
                          * the same number */

    /* Per row; owned. */
    uint32_t *labels;
    uint32_t *ids;         /* sample ids */
    uint32_t *draw_epochs; /* of the random crops and flips */
    sluice_status *status;
    struct sluice_hash128 *hashes; /* digest.h */
    uint32_t *from;                /* scratch of settle */
    /* View v of row r, of num_views views, is at v * capacity + r; NULL: it was not asked for. */
    struct sluice_geometry *geometry;
    unsigned num_views;
    /* Used if images have sizes of their own.  A row that stands in for
     * another shares the other's pixels. */
    bool has_images;
    struct sluice_row_image *images;
};

SLUICE_MUST_USE sluice_status sluice_rows_init(struct sluice_rows *batch, unsigned capacity,
                                               const struct sluice_row_layout *layout,
                                               uint8_t *pixels, struct sluice_err *err);
/* Adds the geometry of num_views views to the rows, for a batch after init. */
SLUICE_MUST_USE sluice_status sluice_rows_add_geometry(struct sluice_rows *batch,
                                                       unsigned num_views, struct sluice_err *err);
void sluice_rows_clear(struct sluice_rows *batch); /* idempotent; fine on {0} */

/* The result of settle: row i of n is taken from row from[i]. */
unsigned sluice_rows_plan(const struct sluice_rows *batch, enum sluice_on_error on_error,
                          uint32_t *from);

/* Applies `on_error` (not FAIL) to the rows whose status is not SLUICE_OK.  Afterwards rows
 * [0, n) are good; n is 0 if no row was good.  num_padded counts replaced rows, and not rows that
 * are left out.  The result depends on the statuses alone, so it is the same in every mode. */
void sluice_rows_settle(struct sluice_rows *batch, enum sluice_on_error on_error);

#endif
