#ifndef SLUICE_COMPUTE_CLIENT_FETCH_FETCHER_H
#define SLUICE_COMPUTE_CLIENT_FETCH_FETCHER_H

#include "base/buf.h"
#include "base/error.h"
#include "compute_client/fetch/client.h"
#include "compute_client/loader/batch/live.h"
#include "compute_client/loader/source/source.h"

#include <stddef.h>
#include <stdint.h>

/* The source that fetches samples from a storage server, over one Fetch stream.
 *
 * Many requests are in flight, and replies come in any order.  Each attempt at a sample has its own
 * request id, so a late or repeated reply matches no pending request and is dropped.  When the
 * stream is lost, the fetcher calls Hello (which fails if the server now has another pipeline or
 * dataset), opens a new stream and sends every unanswered request again.  So each sample is
 * delivered exactly once.  on_failed comes when no sample was answered for the client's
 * retry_for_s.
 *
 * A request is also sent again, with backoff (retry.h), after a failure that may pass
 * (sluice_retry_is_worth()), and after a reply that does not fit it.  When its own deadline,
 * retry_for_s after its first failure, is over, the failure is its answer.
 *
 * Silence.  A request fails ("no answer within ...") in two cases:
 * - It is late for sample_timeout_s.  It is late once the server has answered a request that was
 *   sent later, and then as many more as could stand before it on the wire (pending_table.h).  So
 *   the time in the server's backlog or behind others on a slow link does not count.  It is asked
 *   for again under a new id, and as a file: reading may be all right where decoding hangs.
 * - The server answered nothing for sample_timeout_s and the time that the largest message under
 * way takes at 1 Mbit/s.  Then all requests under way fail, and the stream with them. No time
 * counts while the server has no credit: then it is the receiver who holds it up.
 *
 * A sample that ends the connection.  After a lost stream one request is under way, then 2, 4 and
 * so on as they are answered (slow start), lowest ticket first.  So if one sample is to blame, it
 * is soon alone when the stream ends, and only then it is blamed.  A restarted server costs some
 * round trips.  A sample that is blamed twice is asked for as a file; after three times more it is
 * named and answered with SLUICE_E_INTERNAL.  Why so many: a link or a server that breaks at random
 * may hit a lone request as well, but hardly five times the same.
 *
 * Hashes of a server that sends them are checked before anything of a reply is used: a damaged
 * sample is requested again as SLUICE_E_IO, a damaged message ends the stream.
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

/* --- one of several (replicas.h) ---
 *
 * A fetcher with `replica` events gives back what it cannot do, as another server may do it:
 * - It opens its stream at once, and a lost one again, for ever and at least every
 *   TUNING_REPLICA_WAIT_NS.  While there is no stream a request fails with SLUICE_E_AGAIN.
 * - With the stream it loses all requests, and on_lost says which.  It blames none.
 * - A failure that may pass is an answer, too: it asks for nothing again by itself.
 * - on_failed never comes. */

struct sluice_fetcher_owed {
    uint64_t ticket;
    bool was_sent; /* the server had the request */
};

struct sluice_fetcher_loss {
    sluice_status status;
    bool is_refusal;  /* the server was there, and refused us for good; believed (client.h) */
    const char *text; /* names the server */
    const struct sluice_fetcher_owed *owed; /* not answered; the fetcher has forgotten them */
    size_t num_owed;
};

/* From the owner's thread, in turns: on_lost also after each attempt to connect that failed. */
struct sluice_fetcher_replica_events {
    void (*on_there)(void *ctx, const struct sluice_server_info *info);
    void (*on_lost)(void *ctx, const struct sluice_fetcher_loss *loss);
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
    struct sluice_source_events events;
    const struct sluice_fetcher_replica_events *replica; /* copied; NULL: it is the only one */
};

struct sluice_fetcher_stats {
    uint64_t wire_bytes; /* of the messages received */
    uint64_t lost_streams;
    uint64_t repeated;    /* requests that were sent again, for any reason */
    uint64_t dropped;     /* replies that matched no pending request */
    uint64_t hash_errors; /* replies and messages of them that were damaged on their way */
};

SLUICE_MUST_USE sluice_status sluice_fetcher_create(const struct sluice_fetcher_options *options,
                                                    struct sluice_source **source,
                                                    struct sluice_err *err);

/* `source` must come from sluice_fetcher_create() in what follows. */

/* Forgets a request, whose answer is dropped if it comes.  False: its answer is on the way to
 * on_result, or was there.  Of a replica only. */
bool sluice_fetcher_cancel(struct sluice_source *source, uint64_t ticket);

struct sluice_fetcher_pulse {
    /* Since when it owes answers, has credit, and has answered nothing; 0: it owes none. */
    uint64_t quiet_since_ns;
    uint64_t heard_ns;      /* the last reply, also if it was dropped; 0: none yet */
    uint64_t largest_bytes; /* of all that it was asked for */
};

struct sluice_fetcher_pulse sluice_fetcher_pulse(struct sluice_source *source);

/* Ends the stream as if it were lost, for this reason. */
void sluice_fetcher_cut(struct sluice_source *source, const char *reason);

/* Sets the size of the window in bytes, > 0.  A smaller one comes about as what is held is
 * consumed. */
void sluice_fetcher_set_window(struct sluice_source *source, uint64_t window_bytes);

/* The first half of close(), which does not wait: several can be closed at the same time. */
void sluice_fetcher_begin_close(struct sluice_source *source);

struct sluice_fetcher_stats sluice_fetcher_stats(struct sluice_source *source);

#endif
