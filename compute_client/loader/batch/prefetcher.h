#ifndef SLUICE_COMPUTE_CLIENT_LOADER_BATCH_PREFETCHER_H
#define SLUICE_COMPUTE_CLIENT_LOADER_BATCH_PREFETCHER_H

#include "base/error.h"
#include "compute_client/loader/batch/batch.h"
#include "compute_client/loader/batch/held.h"
#include "compute_client/loader/batch/live.h"
#include "compute_client/loader/choose/chooser.h"
#include "compute_client/loader/order/sampler.h"
#include "compute_client/loader/source/source.h"
#include "datasets/manifest/manifest.h"
#include "op/pipeline.h"
#include "plan/resource.h"
#include "plan/sample_cost.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Keeps batches ready for a trainer.  The prefetcher requests samples from a source ahead of time,
 * runs the remaining ops on its workers, which write into the batch directly, and returns batches
 * in the sampler's order.
 *
 *     sampler -> [prefetcher's thread] -> source -> [workers] -> slot row
 *                          ^                                        |
 *                          |        a ring of slots, one batch each v
 *                      release() <-------- trainer <--------- next() when all rows are in
 *
 * next() hands a batch out of its slot (held.h).  The slot is free for another batch when the
 * trainer releases that one, or asks for the next.  So a trainer that holds one batch at a time
 * works with the memory of the slots; one that holds k makes next() allocate k - 1 blocks more.
 *
 * With a device (`gpu`) a slot is only where a batch gathers: its lanes' threads make it in a block
 * of the device from the rows that are complete, those that the CPU made and the cut files of
 * samples that are for the device (sluice_choice.on_gpu), and next() hands out the block.
 *
 *     [workers] -> slot row -> [a thread for each lane] -> block -> next()
 *
 * The CPU makes the samples that the device refuses or finds a fault in, and reports the error.
 *
 * Item n of an epoch always ends in row n % batch_size of batch n / batch_size.
 *
 * Three bounds limit how far ahead it requests:
 * - the slots, of which prefetch_depth.h says how many are used;
 * - payload_bytes, the bytes of samples that were requested and are not finished: their expected
 *   size until they arrive, then their true size (a sample that is larger alone may pass).  A cut
 *   file for the device counts until its batch is made, but never against samples of the batch that
 *   is made next;
 * - the chooser's bounds on items that have not arrived or are not finished (chooser.h).
 *
 * Threads: all functions but stop belong to one thread at a time, the trainer's; stop, and the
 * release of batches, may be called from any thread; events come from the source's threads. */

struct sluice_gpu_place; /* gpu/place.h */
struct sluice_prefetcher;
struct sluice_tracer; /* trace/tracer.h */

struct sluice_prefetcher_options {
    unsigned num_workers; /* >= 1 */
    unsigned batch_size;  /* >= 1 */
    unsigned num_slots;   /* batches in memory, one of the trainer's included; >= 2 */
    unsigned usual_slots; /* slots used at least, even for a slow trainer; <= num_slots, 0: all */
    size_t row_bytes;     /* of one sample's u8 image, of the largest in any epoch */
    /* Items of an epoch.  The memory of the usual slots that they fill is touched at creation. */
    size_t num_items;
    size_t payload_bytes; /* with all slots; in proportion if fewer are used */
    enum sluice_on_error on_error;
    bool has_digest;
    bool measures_ops;            /* needed for epochs with a profile */
    double retry_for_s;           /* how long a sample is tried for which memory is short */
    uint64_t max_image_pixels;    /* 0: the codec's default */
    struct sluice_buf_pool *pool; /* borrowed; where the ops' results live */
    /* Taken, if create succeeds: destroyed with the prefetcher and the last batch.  Batches are on
     * the device, and `alloc` is of the rows that the CPU makes for them.  NULL: batches are in the
     * host's memory. */
    struct sluice_gpu_place *gpu;
    struct sluice_live *live;     /* borrowed; or NULL: nobody looks on */
    struct sluice_tracer *tracer; /* borrowed; or NULL: no sample is traced */

    /* The memory of batches, for example pinned memory.  alloc is called by create, start and next,
     * free by destroy and by the release of batches.  The context is borrowed until the prefetcher
     * is destroyed and the last batch is released. */
    sluice_status (*alloc)(void *ctx, size_t bytes, void **memory, struct sluice_err *err);
    void (*free)(void *ctx, void *memory, size_t bytes);
    void *memory_ctx;
};

SLUICE_MUST_USE sluice_status
sluice_prefetcher_create(const struct sluice_prefetcher_options *options,
                         struct sluice_prefetcher **prefetcher, struct sluice_err *err);
/* Close the sources that send it events first.  Batches that are held stay.  NULL is allowed. */
void sluice_prefetcher_destroy(struct sluice_prefetcher *prefetcher);

/* The events to create this prefetcher's sources with. */
struct sluice_source_events sluice_prefetcher_events(struct sluice_prefetcher *prefetcher);
/* The most items that can be unanswered at once. */
size_t sluice_prefetcher_max_items(const struct sluice_prefetcher *prefetcher);

/* Everything is borrowed until the epoch is finished; if that is before its last batch, until
 * abandon or destroy. */
struct sluice_epoch {
    struct sluice_source *source;
    const struct sluice_pipeline *pipeline;
    const struct sluice_manifest *manifest;
    const uint32_t *ids; /* sample ids of the subset, by position */
    struct sluice_chooser chooser;
    uint64_t seed;
    uint32_t schedule; /* the training's epoch; in draw keys if the pipeline has a schedule */
    const struct sluice_sampler_item *items;
    size_t num_items;
    size_t num_padded; /* the number of last ones that repeat others */
    size_t first_item; /* where a resumed epoch continues; a multiple of the batch size */
    /* If not NULL: filled with the measured costs, by position.  Needs measures_ops. */
    struct sluice_cost_table *profile;
    /* With has_max_errors the epoch ends as soon as more than that number of samples failed with
     * one status, those of errors_before included: the part of the epoch before first_item. */
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
    uint64_t choices[SLUICE_PIPELINE_MAX_OPS + 1]
                    [SLUICE_MAX_FORMS]; /* what arrived, by split and form */
    uint64_t on_gpu[SLUICE_MAX_FORMS];  /* of those with split 0, what was decoded on the device */
    /* How long next() waited, by the resource that the slowest sample of each batch waited for
     * (stall.h).  SLUICE_GPU: the caller's time, from each return of next() with a batch, or with
     * SLUICE_E_AGAIN, to the following call of next() or finish().  (live.h's has only the waits:
     * the caller adds its own time there.) */
    uint64_t stall_ns[SLUICE_NUM_RESOURCES];
    char digest[33];                                               /* empty without has_digest */
    struct sluice_prefetcher_error named[SLUICE_MAX_NAMED_ERRORS]; /* the first, in order */
    size_t num_named;
};

SLUICE_MUST_USE sluice_status sluice_prefetcher_start(struct sluice_prefetcher *prefetcher,
                                                      const struct sluice_epoch *epoch,
                                                      struct sluice_err *err);

/* The next batch, the caller's until sluice_held_release(); *batch is NULL at the epoch's end.
 * Batches without a good row are skipped.  Waits for timeout_ms at most; < 0: for ever.
 * SLUICE_E_AGAIN: none is ready yet.  SLUICE_E_CLOSED: the prefetcher was stopped.
 * SLUICE_E_NO_MEMORY of `alloc`, or with needs_release(): the epoch can go on, for example when a
 * batch is released.
 *
 * With SLUICE_ON_ERROR_FAIL the first sample that fails ends the epoch with an error that names it.
 * Otherwise too many of one status do, with an error that counts them and names the first. */
SLUICE_MUST_USE sluice_status sluice_prefetcher_next(struct sluice_prefetcher *prefetcher,
                                                     int timeout_ms, struct sluice_held **batch,
                                                     struct sluice_err *err);

/* Whether next() failed because every batch on the device is held. */
bool sluice_prefetcher_needs_release(const struct sluice_prefetcher *prefetcher);

/* Batches of this epoch that next has returned or skipped. */
size_t sluice_prefetcher_position(const struct sluice_prefetcher *prefetcher);
/* How many samples of them failed, by status, with errors_before. */
const uint64_t *sluice_prefetcher_errors(const struct sluice_prefetcher *prefetcher);
/* Whether next() failed because samples cannot be had now: the source has failed, or too many
 * samples for other reasons than their own data (retry.h).  The epoch can go on later, after the
 * last batch. */
bool sluice_prefetcher_has_lost_source(const struct sluice_prefetcher *prefetcher);

/* Ends the epoch.  If it ends before its last batch, only abandon or destroy may follow, once the
 * source is closed. */
struct sluice_epoch_stats sluice_prefetcher_finish(struct sluice_prefetcher *prefetcher);

/* Throws away what is left of a finished epoch, and what failed in it; another one can start, on
 * another source.  Waits for the workers to leave its rows.  Batches that are held stay.  Nothing
 * is left of an epoch that ended with its last batch. */
void sluice_prefetcher_abandon(struct sluice_prefetcher *prefetcher);

/* Makes next() return SLUICE_E_CLOSED, now and later.  Any thread. */
void sluice_prefetcher_stop(struct sluice_prefetcher *prefetcher);

#endif
