#ifndef SLUICE_COMPUTE_CLIENT_LOADER_BATCH_PREFETCHER_H
#define SLUICE_COMPUTE_CLIENT_LOADER_BATCH_PREFETCHER_H

#include "base/error.h"
#include "compute_client/loader/batch/batch.h"
#include "compute_client/loader/batch/held.h"
#include "compute_client/loader/batch/live.h"
#include "compute_client/loader/choose/chooser.h"
#include "compute_client/loader/order/bucket_order.h"
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
 * With a device (`gpu`) a batch only gathers in its slot: rows that the CPU made, and the JPEGs of
 * samples that the device decodes (sluice_choice.on_gpu).  The thread of a lane makes the batch
 * from them in a block of the device, and next() hands out the block.
 *
 *     [workers] -> slot row -> [a thread for each lane] -> block -> next()
 *
 * If the device refuses a sample or finds a fault in it, the CPU decodes it, and reports the error
 * if there is one.
 *
 * Item n of an epoch always ends in row n % batch_size of batch n / batch_size; of an epoch with
 * buckets in row n - start of the batch that it belongs to.
 *
 * Three bounds limit how far ahead it requests:
 * - the slots, of which prefetch_depth.h says how many are used;
 * - payload_bytes, the bytes of samples that were requested and are not finished: their expected
 *   size until they arrive, then their true size (one sample alone may be larger).  A JPEG for the
 *   device counts until its batch is made, but never against samples of the batch that is made
 *   next;
 * - the chooser's bounds on items that have not arrived or are not finished (chooser.h).
 *
 * Threads: all functions but stop belong to one thread at a time, the trainer's; stop, and the
 * release of batches, may be called from any thread; events come from the source's threads. */

struct sluice_gpu_place; /* gpu/place.h */
struct sluice_lend;      /* sluice/lend.h */
struct sluice_prefetcher;
struct sluice_tracer; /* trace/tracer.h */

struct sluice_prefetcher_options {
    unsigned num_workers; /* >= 1 */
    unsigned batch_size;  /* >= 1 */
    unsigned num_slots;   /* batches in memory, one that the trainer holds included; >= 2 */
    unsigned usual_slots; /* slots used at least, even for a slow trainer; <= num_slots, 0: all */
    /* A sample's u8 views, the largest of any epoch and bucket; images of their own sizes do
     * not count. */
    size_t row_bytes;
    size_t batch_bytes; /* of the largest batch; 0: batch_size x row_bytes */
    /* Items of an epoch.  The memory of the usual slots that they fill is touched at creation. */
    size_t num_items;
    size_t payload_bytes; /* with all slots; in proportion if fewer are used */
    enum sluice_on_error on_error;
    bool has_digest;
    unsigned geometry_views; /* batches have the geometry of this many views: the most of any epoch;
                              * 0: none */
    bool measures_ops;       /* needed for epochs with a profile */
    double retry_for_s;      /* how long a sample is retried while memory is short */
    uint64_t max_image_pixels;    /* 0: the codec's default */
    struct sluice_buf_pool *pool; /* borrowed; holds the results of ops */
    /* Taken, if create succeeds: destroyed with the prefetcher and the last batch.  Batches are on
     * the device, and `alloc` allocates the rows that the CPU makes for them.  NULL: batches are in
     * the host's memory. */
    struct sluice_gpu_place *gpu;
    struct sluice_lend *lend;     /* borrowed; is told when next() waits for a batch; or NULL */
    struct sluice_live *live;     /* borrowed; NULL: no live counters */
    struct sluice_tracer *tracer; /* borrowed; NULL: no sample is traced */

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
/* Close the sources that send it events first.  Held batches stay valid.  NULL is allowed. */
void sluice_prefetcher_destroy(struct sluice_prefetcher *prefetcher);

/* The events to create this prefetcher's sources with. */
struct sluice_source_events sluice_prefetcher_events(struct sluice_prefetcher *prefetcher);
/* The most items that can be unanswered at once. */
size_t sluice_prefetcher_max_items(const struct sluice_prefetcher *prefetcher);

/* Pointers are borrowed until the epoch is finished; if it is finished before its last batch, until
 * abandon or destroy. */
struct sluice_epoch {
    struct sluice_source *source;
    const struct sluice_pipeline *pipeline;
    const struct sluice_manifest *manifest;
    const uint32_t *ids; /* sample ids of the subset, by position */
    /* Sizes of decoded images, by sample id, where those of results follow from them; NULL: the
     * manifest's. */
    const struct sluice_size *sizes;
    struct sluice_chooser chooser;
    uint64_t seed;
    uint32_t schedule; /* epoch of the training; in draw keys if the pipeline has a schedule */
    const struct sluice_sampler_item *items;
    size_t num_items;
    size_t num_padded; /* the last num_padded items repeat others */
    size_t first_item; /* where a resumed epoch continues; a multiple of the batch size */
    /* With buckets: num_batches batches of the items, and one more that begins at the end
     * (order/bucket_order.h).  Then num_padded is not used, and first_item is 0.  NULL: every
     * batch but the last has batch_size items. */
    const struct sluice_order_batch *batches;
    size_t num_batches;
    /* If not NULL: filled with the measured costs, by position.  Needs measures_ops. */
    struct sluice_cost_table *profile;
    /* With has_max_errors the epoch ends as soon as more than max_errors samples failed with one
     * status, errors_before included. */
    bool has_max_errors;
    uint64_t max_errors;
    uint64_t errors_before[SLUICE_NUM_STATUS]; /* in the part of the epoch before first_item */
};

#define SLUICE_MAX_NAMED_ERRORS 32

struct sluice_prefetcher_error {
    uint32_t sample_id;
    sluice_status status;
    char text[200];
};

struct sluice_epoch_stats {
    uint64_t samples; /* rows delivered, substitutes included */
    uint64_t padded;  /* of these rows, those that repeat others so that all ranks have as many */
    uint64_t errors;  /* bad samples, in delivered batches */
    uint64_t reduced; /* samples that came with fewer ops done than requested */
    uint64_t payload_bytes;
    uint64_t wire_bytes;
    uint64_t choices[SLUICE_PIPELINE_MAX_OPS + 1]
                    [SLUICE_MAX_FORMS]; /* what arrived, by split and form */
    uint64_t on_gpu[SLUICE_MAX_FORMS];  /* samples of split 0 that the device decoded */
    /* How long next() waited, by the resource that the slowest sample of each batch waited for
     * (stall.h).  SLUICE_GPU: the caller's time, from each return of next() with a batch, or with
     * SLUICE_E_AGAIN, to the following call of next() or finish().  (In live.h the prefetcher
     * counts the waits alone; the caller adds its own time.) */
    uint64_t stall_ns[SLUICE_NUM_RESOURCES];
    char digest[33];                                               /* empty without has_digest */
    struct sluice_prefetcher_error named[SLUICE_MAX_NAMED_ERRORS]; /* the first, in order */
    size_t num_named;
};

SLUICE_MUST_USE sluice_status sluice_prefetcher_start(struct sluice_prefetcher *prefetcher,
                                                      const struct sluice_epoch *epoch,
                                                      struct sluice_err *err);

/* The next batch, which the caller holds until sluice_held_release(); *batch is NULL at the epoch's
 * end.  Batches without a good row are skipped.  Waits for timeout_ms at most; < 0: without limit.
 * SLUICE_E_AGAIN: no batch is ready yet.  SLUICE_E_CLOSED: the prefetcher was stopped.
 * SLUICE_E_NO_MEMORY: `alloc` failed, or needs_release(); the epoch can go on, for example when a
 * batch is released.
 *
 * With SLUICE_ON_ERROR_FAIL the first failed sample ends the epoch, with an error that names it.
 * Else more than max_errors samples of one status end it, with an error that counts them and names
 * the first. */
SLUICE_MUST_USE sluice_status sluice_prefetcher_next(struct sluice_prefetcher *prefetcher,
                                                     int timeout_ms, struct sluice_held **batch,
                                                     struct sluice_err *err);

/* Whether next() failed because every batch on the device is held. */
bool sluice_prefetcher_needs_release(const struct sluice_prefetcher *prefetcher);

/* Batches of this epoch that next has returned or skipped. */
size_t sluice_prefetcher_position(const struct sluice_prefetcher *prefetcher);
/* The number of failed samples in these batches, by status, errors_before included. */
const uint64_t *sluice_prefetcher_errors(const struct sluice_prefetcher *prefetcher);
/* Whether next() failed because the source is lost: it has failed, or too many samples failed for
 * reasons other than their data (retry.h).  The epoch can be resumed later, after the last batch
 * that was returned. */
bool sluice_prefetcher_has_lost_source(const struct sluice_prefetcher *prefetcher);

/* Ends the epoch.  If it ends before its last batch, only abandon or destroy may follow, once the
 * source is closed. */
struct sluice_epoch_stats sluice_prefetcher_finish(struct sluice_prefetcher *prefetcher);

/* Throws away the rest of an epoch that finished early, and its failure; another epoch can start,
 * on another source.  Waits until the workers have left its rows.  Held batches stay valid.  Does
 * nothing after an epoch that ended with its last batch. */
void sluice_prefetcher_abandon(struct sluice_prefetcher *prefetcher);

/* Makes next() return SLUICE_E_CLOSED, also a call under way.  Any thread. */
void sluice_prefetcher_stop(struct sluice_prefetcher *prefetcher);

#endif
