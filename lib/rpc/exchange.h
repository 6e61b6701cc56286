#ifndef SLUICE_RPC_EXCHANGE_H
#define SLUICE_RPC_EXCHANGE_H

#include "base/error.h"
#include "base/message.h"

#include <grpc/grpc.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Private to lib/rpc: an exchange, the common part of a call on the server and a stream on the
 * client.
 *
 *     any thread:         send -> ring --wake--> |
 *     completion thread:                         | write, one at a time -> gRPC
 *                         on_message <- read, one at a time <- gRPC
 *
 * A queue is a completion queue with the one thread that serves it.  Every operation of an exchange
 * is started on that thread and ends there, so only the ring and a few flags need the lock; other
 * threads reach it by a wake.
 *
 * An exchange counts pending events: +1 for each operation started and each wake, -1 when its event
 * has been handled.  The operation that reports the call's end (RECV_CLOSE_ON_SERVER,
 * RECV_STATUS_ON_CLIENT) is among them from the start, so zero means the end: no event follows. */

struct exchange;

/* The tag that gRPC returns when an operation completes; embedded in the operation's owner. */
struct rpc_tag {
    void (*fn)(struct rpc_tag *tag, bool ok);
    bool is_under_way; /* catches a tag that is used twice at a time */
};

struct rpc_queue {
    grpc_completion_queue *cq;
    pthread_t thread;
    char name[16]; /* of the thread */

    /* See rpc_server.h.  Set before the thread starts. */
    uint64_t (*pace)(void *ctx, void *client, size_t bytes);
    void *pace_ctx;

    _Atomic uint64_t bytes_sent; /* relaxed: a statistic */

    /* Incremented before an operation starts and read when its event comes, so that the completing
     * thread sees the starter's writes.  gRPC guarantees that, too, but ThreadSanitizer cannot see
     * it. */
    atomic_uint hand_overs;

    /* The thread's own: exchanges to handle after the current event, and those that wait for the
     * pace, oldest first. */
    struct exchange *woken_first, *woken_last;
    struct exchange *paced_first, *paced_last;
    uint64_t paced_until_ns;
};

SLUICE_MUST_USE sluice_status rpc_queue_start(struct rpc_queue *queue, const char *name,
                                              struct sluice_err *err);
/* Handles the remaining events, joins, frees.  All exchanges must have ended.  A queue that was
 * never started ({0}) is fine. */
void rpc_queue_stop(struct rpc_queue *queue);
bool rpc_queue_is_current(const struct rpc_queue *queue); /* on its thread? */

/* Call it before passing `tag` to the library other than by rpc_start_batch(). */
void rpc_hand_over(struct rpc_queue *queue, struct rpc_tag *tag);

/* Starts operations of a call that is bound to the queue.  The library rejects only our bugs, so a
 * rejection ends the process. */
void rpc_start_batch(struct rpc_queue *queue, grpc_call *call, const grpc_op *ops, size_t num_ops,
                     struct rpc_tag *tag);

/* Callbacks of one side (server or client); all run on the completion thread. */
struct exchange_side {
    /* Called once, first: starts the side's own operations. */
    void (*begin)(struct exchange *x);
    void (*on_message)(struct exchange *x, struct sluice_message *message);
    void (*on_read_end)(struct exchange *x); /* may be NULL */
    void (*on_drained)(struct exchange *x);  /* may be NULL */
    /* Fills the operation that ends our half. */
    void (*end_op)(struct exchange *x, grpc_op *op);
    /* The count is zero; the exchange may be freed. */
    void (*on_end)(struct exchange *x);
    /* Whether messages are delivered after our half has ended.  (A server that finished needs
     * none.) */
    bool reads_after_end;
};

struct outgoing {
    grpc_byte_buffer *bytes;
    size_t len;
};

struct exchange {
    pthread_mutex_t lock;
    /* Under the lock: */
    struct outgoing *ring;
    size_t ring_capacity, ring_first, ring_count;
    size_t queued_bytes; /* in the ring and in the write under way */
    bool is_idle;        /* the writer has nothing to do and must be woken */
    bool is_woken;       /* a wake is on its way */
    bool is_closed;      /* the call is over or lost: nothing is sent any more */
    bool is_ending;      /* our half ends after what is in the ring */
    bool is_paused;
    bool is_short;  /* a message was lost for want of memory: the call is cancelled */
    int end_code;   /* server */
    char *end_text; /* server; owned */

    atomic_uint pending;

    /* The completion thread's: */
    const struct exchange_side *side;
    struct rpc_queue *queue;
    grpc_call *call; /* owned */
    bool has_begun;
    bool needs_metadata; /* initial metadata go out with the first write */
    bool is_writing, is_granted, is_waiting, is_end_sent;
    bool is_reading, has_read_all;
    grpc_slice end_slice; /* end_text as a slice */
    struct outgoing writing;
    size_t waiting_len; /* of the message that waits for the pace */
    void *client;       /* the client of the call (rpc_server.h); also for the pace */
    grpc_byte_buffer *received;
    struct rpc_tag wake_tag, write_tag, read_tag;
    struct exchange *next_woken, *next_paced;
};

void exchange_init(struct exchange *x, const struct exchange_side *side, struct rpc_queue *queue);
/* Releases the library's objects, after on_end or if the exchange never began.  The any-thread
 * functions below still work and find the exchange closed. */
void exchange_release(struct exchange *x);
void exchange_clear(struct exchange *x); /* frees the rest, before the struct itself */

/* From any thread; `call` is set.  The rest happens on the completion thread. */
void exchange_begin(struct exchange *x);

/* Starts another operation of a side; its tag's fn must end with exchange_settle(). */
void exchange_start(struct exchange *x, const grpc_op *ops, size_t num_ops, struct rpc_tag *tag);
void exchange_settle(struct exchange *x);

/* Whether a message was lost in either direction for want of memory.  The other side may have ended
 * without an error. */
bool exchange_is_short(struct exchange *x);

/* Whether the side still takes messages.  On the completion thread. */
bool exchange_is_wanted(struct exchange *x);

/* Marks the call as over or lost and drops the queued messages.  On the completion thread. */
void exchange_close(struct exchange *x);

/* From any thread.  The public functions describe them. */
sluice_status exchange_send(struct exchange *x, struct sluice_message *message);
void exchange_end(struct exchange *x, int code, const char *text);
size_t exchange_queued_bytes(struct exchange *x);
void exchange_set_paused(struct exchange *x, bool is_paused);

#endif
