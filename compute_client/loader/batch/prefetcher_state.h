#ifndef SLUICE_COMPUTE_CLIENT_LOADER_BATCH_PREFETCHER_STATE_H
#define SLUICE_COMPUTE_CLIENT_LOADER_BATCH_PREFETCHER_STATE_H

#include "compute_client/loader/batch/prefetcher.h"

#include "base/worker_pool.h"
#include "compute_client/loader/batch/batch_memory.h"
#include "compute_client/loader/batch/prefetch_depth.h"
#include "gpu/place.h"
#include "plan/op_meter.h"

#include <pthread.h>

/* Private to prefetcher.c (prefetching, and the epochs), prefetcher_slot.c (a batch before its
 * rows), prefetcher_row.c (a row on the workers,
 * and its end), prefetcher_gpu.c (a batch on a device) and prefetcher_next.c (the trainer's side).
 */

/* One row of a slot: the item that fills it, and the item's job on the workers. */
struct row {
    struct sluice_job job;
    struct sluice_prefetcher *prefetcher;
    struct slot *slot;
    unsigned index;

    size_t item; /* its number among those of the epoch that are left */
    uint32_t position, sample_id;
    struct sluice_choice choice;
    struct sluice_box crop; /* in its draw key */
    uint64_t requested_ns, arrived_ns, started_ns, done_ns;
    uint64_t cpu_ns;                    /* of the worker; only if the chooser has on_row */
    struct sluice_source_result result; /* its sample is taken by the job */
    unsigned ops_done;                  /* of the reply */
    size_t charged;                     /* the item's part of charged_bytes */
    struct sluice_expected expected;
    struct row_trace *trace; /* owned; NULL: the item is not traced */
    char error[200];
    /* The device decodes the result's sample, a file, which stays until the batch is made. */
    bool is_for_gpu;
    /* The parts of the file that the device needs, in the staging buffer or in memory of their
     * own. */
    struct sluice_gpu_prepared prepared;
    struct sluice_gpu_staging *staging; /* the slot's when the sample arrived; NULL: it had none */
    /* JPEG rows came that could not be decoded: the whole file is requested. */
    bool asks_file;
    struct row *next_again;
};

struct slot {
    struct sluice_row_layout layout; /* of the batch */
    unsigned drawn_bucket;           /* the batch's, if it is drawn for the batch; else 0 */
    struct sluice_rows batch;        /* has pixels from the job of its first row until next() */
    struct row *rows;
    unsigned num_missing;   /* under the lock */
    const struct row *last; /* the row that made it ready */
    /* With a device, under the lock: the batch is made, in `block`. */
    bool is_made;
    uint64_t made_ns;
    uint64_t lane_ns, gpu_ns; /* how long a lane had it, and the part that it waited for the GPU */
    size_t kept_bytes;        /* of its files, and of parts prepared outside the staging buffer */
    struct sluice_gpu_block *block;
    struct sluice_gpu_staging
        *staging; /* until a lane takes the slot; NULL: none was free so far */
};

/* The resources of a thread that makes rows. */
struct maker {
    struct sluice_scratch *scratch;
    struct sluice_op_meter meter; /* only if the prefetcher measures ops */
    struct sluice_hasher *hasher;
    struct sluice_jpeg_stretch stretch;
    struct sluice_kernel_work *works; /* of a sample's views; only with a device */
};

/* A thread that makes batches on the device. */
struct lane {
    struct sluice_prefetcher *prefetcher;
    struct sluice_gpu_lane *gpu;
    struct maker *maker;
    uint64_t gpu_ns; /* time that it waited for the device since it began the batch */
    pthread_t thread;
    bool is_started;
};

struct sluice_prefetcher {
    pthread_mutex_t lock;
    pthread_cond_t ready;              /* for the trainer: a slot is ready, or the epoch is over */
    pthread_cond_t room;               /* for `thread`: it may request another item */
    size_t next_item;                  /* to request; written by `thread` alone, as its place is: */
    size_t next_batch;                 /* the batch that it goes to */
    unsigned next_row;                 /* and the row */
    struct row *again;                 /* to request once more, before that */
    size_t num_away, num_unfinished;   /* items requested and not arrived; not in their batch */
    struct sluice_expected under_way;  /* chooser.h */
    size_t num_taken;                  /* batches that next() has returned or skipped */
    size_t num_released;               /* batches whose slot is free again */
    const struct sluice_held *current; /* the batch num_released, if next() has returned it */
    size_t charged_bytes;              /* payload of unfinished items; payload_bytes bounds it */
    struct sluice_prefetch_depth depth;
    bool is_running;                   /* an epoch is under way */
    struct sluice_batch_memory memory; /* a block for each slot; lent: batches before `current` */
    size_t num_rows_ready;             /* completed, in batches that next() has not taken */
    size_t num_rows_working;           /* rows that arrived and are not completed */
    pthread_cond_t idle;               /* for abandon(): num_rows_working is 0 */
    bool is_stopped, has_failed, has_failed_source;
    sluice_status failure;
    char failure_text[256];
    /* With a device. */
    pthread_cond_t makeable; /* for lanes: a batch is complete, a block is free, or they must end */
    bool is_ending;
    size_t num_begun;    /* batches that a lane has taken */
    unsigned num_making; /* batches begun and not made */
    unsigned num_lent;   /* blocks that the trainer has */
    size_t kept_bytes;   /* of slots whose batch is not made */
    bool lacks_block;    /* a lane waits for one */
    /* choices, on_gpu, reduced and payload_bytes: under the lock.  The rest: the trainer's thread
     * alone. */
    struct sluice_epoch_stats stats;

    /* Constant during an epoch. */
    struct sluice_epoch epoch;
    size_t num_batches;
    uint64_t wire_bytes_before;
    pthread_t thread;

    /* The trainer thread's alone. */
    uint64_t errors[SLUICE_NUM_STATUS]; /* with the epoch's errors_before */
    bool has_lost_source, needs_release;
    struct sluice_hasher *chain;
    struct sluice_held *spare; /* the header for the next batch; NULL: none yet */
    uint64_t waited_ns;        /* for the next batch, in calls that returned SLUICE_E_AGAIN */
    uint64_t outside_since_ns; /* when next() returned; 0: it has not, or its end was counted */

    /* `thread`'s alone. */
    struct sluice_ask ask; /* for the next item */
    struct sluice_box ask_crop;
    bool has_ask;
    struct sluice_expected seen_under_way; /* under_way after the item before it was requested */

    /* Constant. */
    struct sluice_prefetcher_options options;
    struct sluice_worker_pool *workers;
    struct sluice_held_home *home; /* its lock is taken before this one's */
    struct slot *slots;
    struct lane *lanes;
    unsigned num_lanes; /* 0: batches are in the host's memory */
};

static inline size_t prefetcher_items_left(const struct sluice_prefetcher *prefetcher)
{
    return prefetcher->epoch.num_items - prefetcher->epoch.first_item;
}

/* The next item to request. */
static inline const struct sluice_sampler_item *
prefetcher_next_drawn(const struct sluice_prefetcher *prefetcher)
{
    return &prefetcher->epoch.items[prefetcher->epoch.first_item + prefetcher->next_item];
}

/* Under the lock: how many rows the batch of the next item has, and where they go. */
void prefetcher_begin_slot(struct sluice_prefetcher *prefetcher, struct slot *slot);
/* The draw key of an item, without its batch's bucket. */
SLUICE_MUST_USE sluice_status prefetcher_draw_key(const struct sluice_epoch *epoch,
                                                  const struct sluice_sampler_item *item,
                                                  struct sluice_draw_key *key,
                                                  struct sluice_err *err);
/* The size of a sample's decoded image, if the epoch knows it. */
struct sluice_size prefetcher_image_size(const struct sluice_epoch *epoch, uint32_t sample_id);
/* The expected payload of the next item, for the choice that was made for it. */
size_t prefetcher_expected_bytes(const struct sluice_prefetcher *prefetcher);

/* The row's job, and the start and stop of a worker's state; ctx is the prefetcher. */
void prefetcher_row_job(struct sluice_job *job, enum sluice_job_fate fate, void *state);
SLUICE_MUST_USE sluice_status prefetcher_worker_start(void *ctx, unsigned index, void **state);
void prefetcher_worker_stop(void *ctx, void *state);

/* Fields of an item in a trace in addition to those of its row. */
struct row_trace {
    struct sluice_trace_context context;
    uint64_t seed;
    uint32_t epoch;
    double storage_worth;
    bool has_prices;
    double prices[SLUICE_NUM_RESOURCES];
};
/* Under the lock, with a tracer: traces the item of the row, if it is picked.  Without memory it is
 * not traced. */
void prefetcher_begin_trace(struct row *row, uint32_t draw_epoch);
/* Writes the spans of the batch's rows that are traced, before it is settled. */
void prefetcher_trace_batch(struct sluice_prefetcher *prefetcher, const struct slot *slot);

/* Has `thread` ask for the file of a row of which rows came.  False: the epoch has ended. */
bool prefetcher_ask_file(struct row *row);

/* The row's file is of use no longer. */
void prefetcher_forget_file(struct row *row);
/* Under the lock: wakes `thread` if there may be room for the next item. */
void prefetcher_see_room(struct sluice_prefetcher *prefetcher);
/* Finishes a row, on any thread. */
void prefetcher_complete_row(struct row *row, sluice_status status);
/* Makes the row's pixels and hash in the slot's memory; row->error says what is wrong.
 * SLUICE_E_CLOSED: the epoch has ended. */
SLUICE_MUST_USE sluice_status prefetcher_make_row(struct row *row, struct maker *maker);
/* Under the lock: counts a row that is good. */
void prefetcher_count_row(struct sluice_prefetcher *prefetcher, const struct row *row);

/* Ends the epoch, unless it has failed already. */
void prefetcher_fail(struct sluice_prefetcher *prefetcher, sluice_status status, const char *text,
                     bool is_source);

/* The lanes' threads.  stop after a start that failed, too. */
SLUICE_MUST_USE sluice_status prefetcher_start_lanes(struct sluice_prefetcher *prefetcher,
                                                     struct sluice_err *err);
void prefetcher_stop_lanes(struct sluice_prefetcher *prefetcher);
/* Under the lock: a block was given back to the place. */
void prefetcher_see_block(struct sluice_prefetcher *prefetcher);

static inline struct slot *prefetcher_slot_of(struct sluice_prefetcher *prefetcher, size_t batch)
{
    return &prefetcher->slots[batch % prefetcher->options.num_slots];
}

/* Gives back the pixels of a batch that was not handed out.  Under the lock, or when no other
 * thread is left. */
void prefetcher_give_memory_back(struct sluice_prefetcher *prefetcher, struct slot *slot);
/* The release of a batch: sluice_held_home_options; ctx is the prefetcher. */
void *prefetcher_take_back(void *ctx, const struct sluice_held *held);
/* Frees the slot of the batch that was returned last, if that is still held: its block is lent, and
 * another one takes the block's place. */
SLUICE_MUST_USE sluice_status prefetcher_lend_current(struct sluice_prefetcher *prefetcher,
                                                      struct sluice_err *err);
/* The trainer took num_rows of the rows that were ready. */
void prefetcher_see_taken(struct sluice_prefetcher *prefetcher, size_t num_rows);
/* Ends the caller's own time, which began when next() returned, and counts it. */
void prefetcher_end_outside(struct sluice_prefetcher *prefetcher);

#endif
