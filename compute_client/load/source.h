#ifndef SLUICE_COMPUTE_CLIENT_LOAD_SOURCE_H
#define SLUICE_COMPUTE_CLIENT_LOAD_SOURCE_H

#include "base/error.h"
#include "base/message.h"
#include "pipeline/pipeline.h"

#include <stddef.h>
#include <stdint.h>

/* Where a loader's samples come from: the network (fetcher.h) or files of this
 * machine (local_source.h).
 *
 * The promise: every item of an accepted request is answered by exactly one
 * on_result, in any order, unless on_failed says that the source has given up or
 * it was closed; and no on_result comes without a request.
 *
 * Threads: request and consumed from any thread; events come from threads of the
 * source's own, several at a time. */

struct sluice_source_item {
    uint64_t ticket; /* the caller's, unique among the unanswered; comes back in the result */
    struct sluice_draw_key key;
    const char *path; /* borrowed until the answer */
    unsigned split;   /* a hint */
    enum sluice_form form;
    double storage_worth; /* what a storage core more is worth to who asks; 0: not said */
};

struct sluice_source_result {
    uint64_t ticket;
    sluice_status status; /* SLUICE_OK: there is a sample */
    char error[200];
    struct sluice_sample sample; /* checked against the pipeline; the receiver takes it */
    /* Until sluice_source_gather(): the sample's bytes, and a reference to what holds them, if they
     * came in a message; its data is NULL then.  The receiver takes it. */
    struct sluice_cursor arrived;
    struct sluice_shared_message *message;
    enum sluice_form form;
    size_t payload_bytes; /* to be told to consumed() once they are not needed any more */
    uint64_t backlog_ns;  /* waiting behind other items, whatever those waited for */
    uint64_t storage_ns;  /* waiting for a storage node's worker, and its time beside the disk's */
    uint64_t storage_queue_ns, storage_cpu_ns; /* the waiting alone; CPU time of the work */
    double storage_price;                      /* of a storage core, as last heard; 0 if never */
    double storage_cores;  /* that the storage node may use, as last heard; 0 if never */
    uint64_t disk_ns;      /* waiting for the disk; 0 if the file was in memory */
    uint64_t disk_busy_ns; /* its part of what the disk was busy (base/disk_clock.h) */
    uint64_t read_bytes;   /* of the file; 0: as many as the manifest says */
};

/* Brings the sample's bytes together in a buffer, unless they are: for the thread that goes on with
 * them, since it reads them next.  On failure the result is as it was. */
SLUICE_MUST_USE sluice_status sluice_source_gather(struct sluice_source_result *result,
                                                   struct sluice_buf_pool *pool,
                                                   struct sluice_err *err);
/* Lets go of the sample, wherever its bytes are; idempotent. */
void sluice_source_result_clear(struct sluice_source_result *result);

struct sluice_source_events {
    /* Must not block for long and may not call close or destroy. */
    void (*on_result)(void *ctx, struct sluice_source_result *result);
    /* No more results will come; once. */
    void (*on_failed)(void *ctx, sluice_status status, const char *text);
    void *ctx;
};

struct sluice_source {
    /* SLUICE_E_CLOSED after close or on_failed. */
    sluice_status (*request)(struct sluice_source *source, const struct sluice_source_item *items,
                             size_t num_items);
    void (*consumed)(struct sluice_source *source, size_t payload_bytes);
    /* Bytes of all messages received so far. */
    uint64_t (*wire_bytes)(struct sluice_source *source);
    /* When it returns, no event runs or will; the other functions stay harmless.  Idempotent.  Not
     * beside request. */
    void (*close)(struct sluice_source *source);
    void (*destroy)(struct sluice_source *source); /* closes first */
};

#endif
