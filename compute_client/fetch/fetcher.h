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
 * then Fetch.  A lost stream is opened again, without end, at least every TUNING_REPLICA_WAIT_NS.
 * on_there and on_lost report it; without a stream a request fails with SLUICE_E_AGAIN.
 *
 * Each request is answered once, by on_result or, if the stream is lost before, by on_lost.  A
 * failure is an answer: the fetcher does not retry requests.
 *
 * Silence.  A request fails ("no answer within ...", is_overdue) in two cases:
 * - It was late for sample_timeout_s.  It is late once the server has answered a request that was
 *   sent later, and then the largest number of replies that could stand before it on the network
 *   (pending_table.h).  So the time in the server's backlog or behind others on a slow link does
 *   not count.
 * - The server answered nothing for sample_timeout_s plus the time of the largest message under way
 *   at 1 Mbit/s.  Then all requests under way fail, and the stream is lost.  Time without credit
 *   does not count, because then the server waits for the receiver.
 *
 * If the server sends hashes, they are checked before a reply is used: a damaged sample fails with
 * SLUICE_E_IO, a damaged message ends the stream.
 *
 * Credit-based flow control: the server may have sent at most window_bytes of payload that the
 * receiver has not consumed.  Consumed bytes are granted again in quarters of window_bytes.
 *
 * The server is not trusted.  A payload that begins above its credit ends the stream.  A request
 * fails if its file is longer than in the list (or, if the list has no length, than the server's
 * limit), if pixels do not fit the pipeline, or if more ops were run than requested.  Replies that
 * match no request do not count as an answer.
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
    bool is_refusal;  /* the server refused the client SLUICE_CLIENT_REFUSALS times (client.h) */
    bool is_silent;   /* it did not answer in time, and may answer Hello */
    uint64_t away_ns; /* since when the server is away; 0: it refuses, or is silent */
    const char *text; /* names the server */
    const struct sluice_fetcher_owed *owed; /* unanswered requests, dropped by the fetcher */
    size_t num_owed;
};

/* on_there and on_lost are called on the owner's thread; on_lost also after each failed attempt to
 * connect.  on_result as in source.h. */
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
    double sample_timeout_s;                /* 0: no limit */
    bool follows_price;                     /* the chooser plans by the server's CPU price */
    bool needs_listed_id;      /* items have one: a server that does not accept it is refused */
    bool wants_file_image;     /* of samples that are not files; such a server is needed */
    uint64_t max_image_pixels; /* for checks of samples that arrive; 0: no limit */
    struct sluice_live *live;  /* borrowed; NULL: no live counters */
    struct sluice_fetcher_events events;
};

struct sluice_fetcher_stats {
    uint64_t wire_bytes; /* of the messages received */
    uint64_t lost_streams;
    uint64_t repeated;    /* requests that were lost with a stream */
    uint64_t dropped;     /* replies that matched no pending request */
    uint64_t hash_errors; /* replies, and messages of replies, that were damaged on the network */
};

SLUICE_MUST_USE sluice_status sluice_fetcher_create(const struct sluice_fetcher_options *options,
                                                    struct sluice_fetcher **fetcher,
                                                    struct sluice_err *err);
/* Closes first. */
void sluice_fetcher_destroy(struct sluice_fetcher *fetcher);

/* After it returns, no event runs or will run; the other functions stay safe.  Twice is fine. */
void sluice_fetcher_close(struct sluice_fetcher *fetcher);
/* The first half of close(), which does not wait: several can be closed at the same time. */
void sluice_fetcher_begin_close(struct sluice_fetcher *fetcher);

/* SLUICE_E_AGAIN: it has lost its stream, or was closed. */
SLUICE_MUST_USE sluice_status sluice_fetcher_request(struct sluice_fetcher *fetcher,
                                                     const struct sluice_source_item *items,
                                                     size_t num_items);
void sluice_fetcher_consumed(struct sluice_fetcher *fetcher, size_t payload_bytes);

/* Drops a request, and its answer if it comes.  False: on_result was called with the answer, or
 * will be. */
bool sluice_fetcher_cancel(struct sluice_fetcher *fetcher, uint64_t ticket);

struct sluice_fetcher_pulse {
    /* Since when the server owes answers, has credit, and has not answered; 0: it owes none. */
    uint64_t quiet_since_ns;
    uint64_t heard_ns;      /* the last reply, also if it was dropped; 0: none yet */
    uint64_t largest_bytes; /* of all requested samples */
};

struct sluice_fetcher_pulse sluice_fetcher_pulse(struct sluice_fetcher *fetcher);

/* Ends the stream as if it were lost, for this reason. */
void sluice_fetcher_cut(struct sluice_fetcher *fetcher, const char *reason);

/* Sets the size of the window in bytes, > 0.  A smaller window takes effect as held payload is
 * consumed. */
void sluice_fetcher_set_window(struct sluice_fetcher *fetcher, uint64_t window_bytes);

struct sluice_fetcher_stats sluice_fetcher_stats(struct sluice_fetcher *fetcher);

#endif
