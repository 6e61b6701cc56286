#ifndef SLUICE_COMPUTE_CLIENT_FETCH_FETCHER_H
#define SLUICE_COMPUTE_CLIENT_FETCH_FETCHER_H

#include "base/error.h"
#include "compute_client/fetch/client.h"
#include "compute_client/loader/batch/live.h"
#include "compute_client/loader/source/source.h"

#include <stddef.h>
#include <stdint.h>

/* The stream of samples from one storage server of a source (replicas.h).
 *
 * Many requests are in flight, and replies come in any order.  Each request has its own id, so a
 * late or repeated reply matches no pending request and is dropped.
 *
 * The stream is opened at once: Hello (which fails if the server has another pipeline or dataset),
 * then Fetch.  A lost one is opened again, for ever and at least every TUNING_REPLICA_WAIT_NS.
 * on_there and on_lost say which it is; without a stream a request fails with SLUICE_E_AGAIN.
 *
 * Each request is answered once, by on_result or, if the stream is lost before, by on_lost.  A
 * failure is an answer: nothing is asked for again here.
 *
 * Silence.  A request fails ("no answer within ...", is_overdue) in two cases:
 * - It is late for sample_timeout_s.  It is late once the server has answered a request that was
 *   sent later, and then as many more as could stand before it on the wire (pending_table.h).  So
 *   the time in the server's backlog or behind others on a slow link does not count.
 * - The server answered nothing for sample_timeout_s and the time that the largest message under
 * way takes at 1 Mbit/s.  Then all requests under way fail, and the stream is lost.  No time
 * counts while the server has no credit: then it is the receiver who holds it up.
 *
 * Hashes of a server that sends them are checked before anything of a reply is used: a damaged
 * sample fails with SLUICE_E_IO, a damaged message ends the stream.
 *
 * Credit-based flow control: the server may have sent at most window_bytes of payload that the
 * receiver has not consumed.  Consumed bytes are granted again in quarters of window_bytes.
 *
 * The server is not trusted.  A payload that begins above its credit ends the stream.  A file that
 * is longer than the list says (or, if that says nothing, than the server's limit), pixels that do
 * not fit the pipeline, and more ops than were asked for are failures of that request.  Replies
 * that nobody asked for count as no answer.
 *
 * One thread, the owner, opens the stream, sends, grants and opens it again.  All other threads
 * only change the fields under the lock, and signal the owner.
 *
 *                request()            consumed()
 *                    |                    |
 *     UNSENT list <--+      grant_bytes <-+        <- under the lock
 *         |                    |
 *      [ owner thread: connect, send, grant, watch, re-open ] ---> server
 *                                                             |
 *      on_result <--- pending table <--- completion thread <--+  */

struct sluice_fetcher;

struct sluice_fetcher_owed {
    uint64_t ticket;
    bool was_sent; /* the server had the request */
};

struct sluice_fetcher_loss {
    sluice_status status;
    bool is_refusal;  /* the server was there, and refused us for good; believed (client.h) */
    bool is_silent;   /* it did not answer in time, and may answer Hello */
    uint64_t away_ns; /* the server is away, since then; 0: it refuses us, or is silent */
    const char *text; /* names the server */
    const struct sluice_fetcher_owed *owed; /* not answered; the fetcher has forgotten them */
    size_t num_owed;
};

/* on_there and on_lost come from the owner's thread: on_lost also after each attempt to connect
 * that failed.  on_result as in source.h. */
struct sluice_fetcher_events {
    void (*on_there)(void *ctx, const struct sluice_server_info *info);
    void (*on_lost)(void *ctx, const struct sluice_fetcher_loss *loss);
    void (*on_result)(void *ctx, struct sluice_source_result *result);
    void *ctx;
};

struct sluice_fetcher_options {
    struct sluice_client *client;           /* borrowed, outlives the fetcher */
    const struct sluice_pipeline *pipeline; /* borrowed */
    const char *dataset_id;                 /* 32 hex digits, or "": any; copied */
    size_t max_items;                       /* unanswered at once, < 2^20 */
    uint64_t window_bytes;                  /* > 0 */
    double sample_timeout_s;                /* 0: wait for ever */
    bool follows_price;                     /* the chooser plans by the server's CPU price */
    bool needs_listed_id;      /* items have one: a server that knows none is refused */
    uint64_t max_image_pixels; /* for checking what arrives; 0: no limit */
    struct sluice_live *live;  /* borrowed; or NULL: nobody looks on */
    struct sluice_fetcher_events events;
};

struct sluice_fetcher_stats {
    uint64_t wire_bytes; /* of the messages received */
    uint64_t lost_streams;
    uint64_t repeated;    /* requests that were lost with a stream */
    uint64_t dropped;     /* replies that matched no pending request */
    uint64_t hash_errors; /* replies and messages of them that were damaged on their way */
};

SLUICE_MUST_USE sluice_status sluice_fetcher_create(const struct sluice_fetcher_options *options,
                                                    struct sluice_fetcher **fetcher,
                                                    struct sluice_err *err);
/* Closes first. */
void sluice_fetcher_destroy(struct sluice_fetcher *fetcher);

/* When it returns, no event runs or will run; the other functions stay harmless.  Twice is fine. */
void sluice_fetcher_close(struct sluice_fetcher *fetcher);
/* The first half of close(), which does not wait: several can be closed at the same time. */
void sluice_fetcher_begin_close(struct sluice_fetcher *fetcher);

/* SLUICE_E_AGAIN: it has lost its stream, or was closed. */
SLUICE_MUST_USE sluice_status sluice_fetcher_request(struct sluice_fetcher *fetcher,
                                                     const struct sluice_source_item *items,
                                                     size_t num_items);
void sluice_fetcher_consumed(struct sluice_fetcher *fetcher, size_t payload_bytes);

/* Forgets a request, whose answer is dropped if it comes.  False: its answer is on the way to
 * on_result, or was there. */
bool sluice_fetcher_cancel(struct sluice_fetcher *fetcher, uint64_t ticket);

struct sluice_fetcher_pulse {
    /* Since when it owes answers, has credit, and has answered nothing; 0: it owes none. */
    uint64_t quiet_since_ns;
    uint64_t heard_ns;      /* the last reply, also if it was dropped; 0: none yet */
    uint64_t largest_bytes; /* of all that it was asked for */
};

struct sluice_fetcher_pulse sluice_fetcher_pulse(struct sluice_fetcher *fetcher);

/* Ends the stream as if it were lost, for this reason. */
void sluice_fetcher_cut(struct sluice_fetcher *fetcher, const char *reason);

/* Sets the size of the window in bytes, > 0.  A smaller one comes about as what is held is
 * consumed. */
void sluice_fetcher_set_window(struct sluice_fetcher *fetcher, uint64_t window_bytes);

struct sluice_fetcher_stats sluice_fetcher_stats(struct sluice_fetcher *fetcher);

#endif
