#ifndef SLUICE_COMPUTE_CLIENT_LOADER_SOURCE_SOURCE_H
#define SLUICE_COMPUTE_CLIENT_LOADER_SOURCE_SOURCE_H

#include "base/error.h"
#include "base/message.h"
#include "base/trace_context.h"
#include "op/pipeline.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where a prefetcher's samples come from: storage servers (replicas.h) or files of this machine
 * (local_source.h).
 *
 * The promise: every item of an accepted request is answered by exactly one on_result, in any
 * order, unless the source has failed (on_failed) or was closed.  No on_result comes without a
 * request.
 *
 * Threads: request and consumed from any thread; events come from the source's own threads, several
 * at a time. */

struct sluice_source_item {
    uint64_t ticket; /* chosen by the caller, unique among the unanswered; the result has it */
    struct sluice_draw_key key;
    /* The server's list has the sample under listed_id; the key's id is that of the whole dataset,
     * of which the server has a shard. */
    bool has_listed_id;
    uint32_t listed_id;
    const char *path;    /* borrowed until the answer */
    uint64_t file_bytes; /* length in the list of samples; 0: unknown */
    unsigned split;      /* requested; the source may do fewer ops */
    enum sluice_form form;
    /* Requested MCUs between restart markers of a JPEG crop, which the source may ignore; 0: one
     * marker for each row. */
    uint32_t jpeg_crop_restart;
    /* The value of one more storage core to this client (replan/cpu_share.h); 0: unknown. */
    double storage_worth;
    struct sluice_trace_context trace; /* for the server */
};

struct sluice_source_result {
    uint64_t ticket;
    uint32_t origin;      /* which of the source's servers it came from, for consumed() */
    sluice_status status; /* SLUICE_OK: there is a sample */
    bool is_overdue;      /* it failed because no answer came in time */
    char error[200];
    struct sluice_sample sample; /* checked against the pipeline; the receiver takes it */
    /* If the sample came in a message: its bytes there, and a reference to the message, until
     * sluice_source_gather(); sample.data is NULL until then.  The receiver takes the reference. */
    struct sluice_cursor arrived;
    struct sluice_shared_message *message;
    enum sluice_form form;
    /* Bytes to pass to consumed(), with the origin, when the receiver needs them no longer. */
    size_t payload_bytes;
    /* Waiting behind other items, before the storage node queued this one. */
    uint64_t backlog_ns;
    /* Waiting for a worker of the storage node, and the work, without disk_ns. */
    uint64_t storage_ns;
    uint64_t storage_queue_ns; /* of storage_ns, the wait for a worker */
    uint64_t storage_cpu_ns;   /* CPU time of the work */
    double storage_price;      /* the last CPU price received from the server; 0: none */
    double storage_cores;      /* the last number of cores of the server received; 0: none */
    uint64_t disk_ns;          /* waiting for the disk; 0 if the file was in memory */
    uint64_t disk_busy_ns;     /* its part of the disk's busy time (host/disk_clock.h) */
    uint64_t read_bytes;       /* of the file; 0: its length in the manifest */
};

/* Copies the sample's bytes from the message into one buffer, sample.data, if they are still in a
 * message.  The thread that works on the sample calls this, so that the bytes are in its cache.  On
 * failure the result is unchanged. */
SLUICE_MUST_USE sluice_status sluice_source_gather(struct sluice_source_result *result,
                                                   struct sluice_buf_pool *pool,
                                                   struct sluice_err *err);
/* Releases the sample and the message; idempotent. */
void sluice_source_result_clear(struct sluice_source_result *result);

struct sluice_source_events {
    /* Must not block for long and may not call close or destroy. */
    void (*on_result)(void *ctx, struct sluice_source_result *result);
    /* The source has failed for good: no more results will come.  Called at most once. */
    void (*on_failed)(void *ctx, sluice_status status, const char *text);
    void *ctx;
};

struct sluice_source {
    bool is_local; /* samples cross no network: time not spent on the disk is this machine's CPU */
    /* SLUICE_E_CLOSED after close or on_failed. */
    sluice_status (*request)(struct sluice_source *source, const struct sluice_source_item *items,
                             size_t num_items);
    void (*consumed)(struct sluice_source *source, uint32_t origin, size_t payload_bytes);
    /* Bytes of all messages received so far. */
    uint64_t (*wire_bytes)(struct sluice_source *source);
    /* After it returns, no event runs or will run; the other functions stay safe.  Idempotent.
     * Not at the same time as request. */
    void (*close)(struct sluice_source *source);
    void (*destroy)(struct sluice_source *source); /* closes first */
};

#endif
