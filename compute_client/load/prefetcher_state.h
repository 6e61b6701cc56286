#ifndef SLUICE_COMPUTE_CLIENT_LOAD_PREFETCHER_STATE_H
#define SLUICE_COMPUTE_CLIENT_LOAD_PREFETCHER_STATE_H

#include "compute_client/load/prefetcher.h"

#include "base/worker_pool.h"
#include "compute_client/load/batch_memory.h"
#include "compute_client/load/digest.h"
#include "compute_client/load/prefetch_depth.h"

#include <pthread.h>

/* Private to prefetcher.c (prefetching, and the epochs), prefetcher_row.c (a row on the workers,
 * and its end) and prefetcher_next.c (the trainer's side). */

/* One row of a slot: the item that fills it, and the item's job on the workers. */
struct row {
    struct sluice_job job;
    struct sluice_prefetcher *prefetcher;
    struct slot *slot;
    unsigned index;

    uint32_t position, sample_id;
    struct sluice_choice choice;
    uint64_t requested_ns, arrived_ns, started_ns, done_ns;
    uint64_t cpu_ns;                    /* of the worker; only if the chooser has on_row */
    struct sluice_source_result result; /* its sample is taken by the job */
    unsigned ops_done;                  /* of the reply */
    size_t charged;                     /* its part of charged_bytes */
    struct sluice_expected expected;
    char error[200];
};

struct slot {
    struct sluice_rows batch; /* has its pixels from the first row's job to next() */
    struct row *rows;
    unsigned num_missing;   /* under the lock */
    const struct row *last; /* the row that made it ready */
};

struct sluice_prefetcher {
    pthread_mutex_t lock;
    pthread_cond_t ready;              /* for the trainer: a slot is ready, or the epoch is over */
    pthread_cond_t room;               /* for the loader thread: it may request another item */
    size_t next_item;                  /* to request; written by the loader's thread alone */
    size_t num_away, num_unfinished;   /* requested and not arrived; and not in their batch */
    struct sluice_expected under_way;  /* chooser.h */
    size_t num_taken;                  /* batches that next() has returned or skipped */
    size_t num_released;               /* batches whose slot is free again */
    const struct sluice_held *current; /* the batch num_released, if next() has returned it */
    size_t charged_bytes;              /* payload of unfinished items; payload_bytes bounds it */
    struct sluice_prefetch_depth depth;
    bool is_running;                   /* an epoch is under way */
    struct sluice_batch_memory memory; /* as many as slots; lent: batches other than `current` */
    size_t num_rows_ready;             /* completed, in batches that next() has not taken */
    size_t num_rows_working;           /* rows that arrived and are not completed */
    pthread_cond_t idle;               /* for abandon(): none of them is left */
    bool is_stopped, has_failed;
    sluice_status failure;
    char failure_text[256];
    /* choices, reduced and payload_bytes: under the lock.  The rest: the trainer's thread alone. */
    struct sluice_epoch_stats stats;

    /* Constant during an epoch. */
    struct sluice_epoch epoch;
    size_t num_batches;
    uint64_t wire_bytes_before;
    pthread_t thread;

    /* The trainer thread's alone. */
    uint64_t errors[SLUICE_NUM_STATUS]; /* with the epoch's errors_before */
    bool has_lost_source;
    struct sluice_hasher *chain;
    struct sluice_held *spare; /* the header for the next batch; NULL: none yet */
    uint64_t waited_ns;        /* for the next batch, in calls that returned SLUICE_E_AGAIN */
    uint64_t outside_since_ns; /* the caller has a batch, or nothing yet; 0: neither */

    /* The loader thread's alone. */
    struct sluice_ask ask; /* for the next item */
    bool has_ask;
    struct sluice_expected seen_under_way; /* under_way after the item before it was requested */

    /* Constant. */
    struct sluice_prefetcher_options options;
    struct sluice_worker_pool *workers;
    struct sluice_held_home *home; /* its lock is taken before this one's */
    struct slot *slots;
};

/* The row's job, and the start and stop of a worker's state; ctx is the loader. */
void prefetcher_row_job(struct sluice_job *job, enum sluice_job_fate fate, void *state);
SLUICE_MUST_USE sluice_status prefetcher_worker_start(void *ctx, unsigned index, void **state);
void prefetcher_worker_stop(void *ctx, void *state);

/* Finishes a row, on any thread. */
void prefetcher_complete_row(struct row *row, sluice_status status);

static inline struct slot *prefetcher_slot_of(struct sluice_prefetcher *prefetcher, size_t batch)
{
    return &prefetcher->slots[batch % prefetcher->options.num_slots];
}

/* The pixels of a batch that was not handed out.  Under the lock, or when nobody else is left. */
void prefetcher_give_memory_back(struct sluice_prefetcher *prefetcher, struct slot *slot);
/* The release of a batch: sluice_held_home_options; ctx is the loader. */
void *prefetcher_take_back(void *ctx, const struct sluice_held *held);
/* Frees the slot of the batch that was returned last, if that is still held: its block is lent, and
 * another one takes the block's place. */
SLUICE_MUST_USE sluice_status prefetcher_lend_current(struct sluice_prefetcher *prefetcher,
                                                      struct sluice_err *err);
/* So many rows are ready no longer. */
void prefetcher_see_taken(struct sluice_prefetcher *prefetcher, size_t num_rows);
/* The caller's own time, since next() returned, ends. */
void prefetcher_end_outside(struct sluice_prefetcher *prefetcher);

#endif
