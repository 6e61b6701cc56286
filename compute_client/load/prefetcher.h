#ifndef SLUICE_COMPUTE_CLIENT_LOAD_PREFETCHER_H
#define SLUICE_COMPUTE_CLIENT_LOAD_PREFETCHER_H

#include "base/error.h"
#include "compute_client/load/batch.h"
#include "compute_client/load/chooser.h"
#include "compute_client/load/live.h"
#include "compute_client/load/sampler.h"
#include "compute_client/load/source.h"
#include "compute_client/load/stall.h"
#include "datasets/manifest.h"
#include "pipeline/pipeline.h"
#include "plan/sample_cost.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Keeps batches ready for a trainer.  The loader prefetches samples from a source, runs the
 * remaining ops on its workers, which write into the batch directly, and returns batches in the
 * sampler's order.
 *
 *     sampler -> [loader thread] -> source -> [workers] -> slot row
 *                      ^                                      |
 *                      |      a ring of slots, one batch each v
 *                  release() <------- trainer <-------- next() when all rows are in
 *
 * Item n of an epoch always ends in row n % batch_size of batch n / batch_size.
 *
 * Three bounds limit how far the loader prefetches:
 * - the slots, of which prefetch_depth.h says how many are used;
 * - payload_bytes, the bytes of samples that were requested and are not finished: their expected
 *   size until they arrive, then their true size (a sample that is larger alone may pass);
 * - the chooser's bounds on items that have not arrived or are not finished (chooser.h).
 *
 * Threads: next and release belong to one thread, the trainer's; stop may be called from any
 * thread; events come from the source's threads. */

struct sluice_prefetcher;

struct sluice_prefetcher_options {
    unsigned num_workers; /* >= 1 */
    unsigned batch_size;  /* >= 1 */
    unsigned num_slots;   /* batches in memory, the trainer's one included; >= 2 */
    unsigned usual_slots; /* slots used at least, even for a slow trainer; <= num_slots, 0: all */
    size_t row_bytes;     /* of one sample's u8 image */
    /* Items of an epoch.  The memory of the usual slots that they fill is touched at creation. */
    size_t num_items;
    size_t payload_bytes; /* with all slots; in proportion if fewer are used */
    enum sluice_on_error on_error;
    bool has_digest;
    bool measures_ops;            /* needed for epochs with a profile */
    double retry_for_s;           /* how long a sample is tried for which memory is short */
    uint64_t max_image_pixels;    /* 0: the codec's default */
    struct sluice_buf_pool *pool; /* borrowed; where the ops' results live */
    struct sluice_live *live;     /* borrowed; or NULL: nobody looks on */

    /* Allocates the memory of batches, for example as pinned memory; borrowed context. */
    sluice_status (*alloc)(void *ctx, size_t bytes, void **memory, struct sluice_err *err);
    void (*free)(void *ctx, void *memory, size_t bytes);
    void *memory_ctx;
};

SLUICE_MUST_USE sluice_status
sluice_prefetcher_create(const struct sluice_prefetcher_options *options,
                         struct sluice_prefetcher **prefetcher, struct sluice_err *err);
/* Close the sources that send it events first.  NULL is allowed. */
void sluice_prefetcher_destroy(struct sluice_prefetcher *prefetcher);

/* The events to create this loader's sources with. */
struct sluice_source_events sluice_prefetcher_events(struct sluice_prefetcher *prefetcher);
/* The most items that can be unanswered at once. */
size_t sluice_prefetcher_max_items(const struct sluice_prefetcher *prefetcher);

/* Everything is borrowed until the epoch is finished. */
struct sluice_epoch {
    struct sluice_source *source;
    const struct sluice_pipeline *pipeline;
    const struct sluice_manifest *manifest;
    const uint32_t *ids; /* sample ids of the subset, by position */
    struct sluice_chooser chooser;
    uint64_t seed;
    const struct sluice_sampler_item *items;
    size_t num_items;
    size_t first_item; /* where a resumed epoch continues; a multiple of the batch size */
    /* If not NULL: filled with the measured costs, by position.  The loader must measure ops. */
    struct sluice_cost_table *profile;
    /* With has_max_errors the epoch ends as soon as more than so many samples failed with one
     * status, those of errors_before included: the part of the epoch before first_item. */
    bool has_max_errors;
    uint64_t max_errors;
    uint64_t errors_before[SLUICE_NUM_STATUS];
};

#define SLUICE_MAX_NAMED_ERRORS 32

struct sluice_prefetcher_error {
    uint32_t sample_id;
    sluice_status status;
    char text[200];
};

struct sluice_epoch_stats {
    uint64_t samples; /* rows delivered, substitutes included */
    uint64_t errors;  /* bad samples, in delivered batches */
    uint64_t reduced; /* samples that came with fewer ops done than requested */
    uint64_t payload_bytes;
    uint64_t wire_bytes;
    uint64_t choices[SLUICE_MAX_OPS + 1][SLUICE_NUM_FORMS]; /* what arrived, by split and form */
    /* How long next() waited, by the resource that the slowest sample of each batch waited for
     * (stall.h).  The caller fills SLUICE_GPU, the time outside next(). */
    uint64_t stall_ns[SLUICE_NUM_RESOURCES];
    char digest[33];                                               /* empty without has_digest */
    struct sluice_prefetcher_error named[SLUICE_MAX_NAMED_ERRORS]; /* the first, in order */
    size_t num_named;
};

SLUICE_MUST_USE sluice_status sluice_prefetcher_start(struct sluice_prefetcher *prefetcher,
                                                      const struct sluice_epoch *epoch,
                                                      struct sluice_err *err);

/* The next batch, borrowed until release; *batch is NULL at the epoch's end.  Batches without a
 * good row are skipped.  SLUICE_E_CLOSED: the loader was stopped.
 *
 * With SLUICE_ON_ERROR_FAIL the first sample that fails ends the epoch with an error that names it.
 * Otherwise too many of one status do, with an error that counts them and names the first. */
SLUICE_MUST_USE sluice_status sluice_prefetcher_next(struct sluice_prefetcher *prefetcher,
                                                     const struct sluice_rows **batch,
                                                     struct sluice_err *err);
void sluice_prefetcher_release(struct sluice_prefetcher *prefetcher);

/* Batches of this epoch that next has returned or skipped. */
size_t sluice_prefetcher_position(const struct sluice_prefetcher *prefetcher);
/* How many samples of them failed, by status, with errors_before. */
const uint64_t *sluice_prefetcher_errors(const struct sluice_prefetcher *prefetcher);
/* Whether next() failed because samples cannot be had now: the source has failed, or too many
 * samples for other reasons than their own data (retry.h).  The epoch can go on later, after the
 * last batch. */
bool sluice_prefetcher_has_lost_source(const struct sluice_prefetcher *prefetcher);

/* Ends the epoch.  If it ends before its last batch, only destroy may follow. */
struct sluice_epoch_stats sluice_prefetcher_finish(struct sluice_prefetcher *prefetcher);

/* Makes next() return SLUICE_E_CLOSED, now and later.  Any thread. */
void sluice_prefetcher_stop(struct sluice_prefetcher *prefetcher);

#endif
