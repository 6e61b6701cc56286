#ifndef SLUICE_COMPUTE_CLIENT_LOADER_BATCH_HELD_H
#define SLUICE_COMPUTE_CLIENT_LOADER_BATCH_HELD_H

#include "base/error.h"
#include "compute_client/loader/batch/row_layout.h"
#include "plan/resource.h"
#include "sluice/sluice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Batches that a prefetcher has handed out.  Any number may be held, and released in any order;
 * each stays unchanged until then, also after the prefetcher is destroyed.
 *
 * A held batch is a header from its prefetcher's home and a block of the prefetcher's memory for
 * pixels.  The home reuses the headers, so that a batch needs no allocation, and lives until the
 * prefetcher is destroyed and the last batch is released.  A batch on a device has a block of the
 * device's place (gpu/place.h) instead, and the home keeps that place alive.
 *
 * Threads: a held batch belongs to one thread at a time; release may be called from any thread,
 * several at once. */

struct sluice_gpu_block; /* gpu/place.h */
struct sluice_gpu_place;
struct sluice_held_home;

struct sluice_held {
    struct sluice_row_layout layout;
    bool has_images; /* rows are images of their own sizes (row_layout.h) */
    struct sluice_row_image *images;
    /* num_rows good rows. */
    uint8_t *pixels;                /* a block (row_layout.h); the holder may write to it */
    struct sluice_gpu_block *block; /* whose rows the pixels are; NULL: the host's memory */
    int64_t *labels;
    uint64_t *ids;         /* sample ids */
    uint32_t *draw_epochs; /* of the random crops and flips */
    /* View v of row r is at v * batch size + r; NULL: it was not asked for. */
    struct sluice_geometry *geometry;
    unsigned num_rows;
    unsigned num_padded; /* the last num_padded rows repeat others */
    /* Place in the whole epoch: batches before first_item and skipped ones count. */
    uint64_t index;
    /* How long the trainer waited for the batch, by the resource that its slowest sample waited for
     * (stall.h).  SLUICE_GPU is 0. */
    uint64_t stall_ns[SLUICE_NUM_RESOURCES];
    /* The number of failed samples of the epoch so far, by status, including this batch and the
     * part before first_item. */
    uint64_t errors[SLUICE_NUM_STATUS];

    /* Private to the home. */
    struct sluice_held_home *home;
    struct sluice_held *next;
};

/* Gives the batch back.  NULL is allowed.  May call the prefetcher's `free`. */
void sluice_held_release(struct sluice_held *held);
/* The same for a batch on a device that work on `stream` may still use
 * (sluice_gpu_block_give_after()). */
void sluice_held_release_after(struct sluice_held *held, void *stream);

/* --- the prefetcher's side --- */

struct sluice_held_home_options {
    unsigned batch_size;
    unsigned geometry_views; /* views that have geometry; 0: none was asked for */
    size_t bytes;            /* of a block */
    /* Takes the batch's block back; returns it if it must be freed, or else NULL.  A block of a
     * device was given back to its place before.  Called with the home's lock held, never after
     * close. */
    void *(*take_back)(void *ctx, const struct sluice_held *held);
    void *ctx; /* borrowed until close */
    /* Called without a lock, until the last batch is released. */
    void (*free)(void *ctx, void *memory, size_t bytes);
    void *memory_ctx;
};

SLUICE_MUST_USE sluice_status
sluice_held_home_create(const struct sluice_held_home_options *options,
                        struct sluice_held_home **home, struct sluice_err *err);
/* Releases of batches free their blocks from now on.  NULL is allowed. */
void sluice_held_home_close(struct sluice_held_home *home);
/* The end of the prefetcher, after close: the home is freed with the last batch.  NULL is
 * allowed. */
void sluice_held_home_unref(struct sluice_held_home *home);
/* Takes the place, and destroys it when the home is freed. */
void sluice_held_home_take_place(struct sluice_held_home *home, struct sluice_gpu_place *place);

/* A header without pixels, which is released as a batch is. */
SLUICE_MUST_USE sluice_status sluice_held_create(struct sluice_held_home *home,
                                                 struct sluice_held **held, struct sluice_err *err);

#endif
