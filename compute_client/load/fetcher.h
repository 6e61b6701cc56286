#ifndef SLUICE_COMPUTE_CLIENT_LOAD_FETCHER_H
#define SLUICE_COMPUTE_CLIENT_LOAD_FETCHER_H

#include "base/buf.h"
#include "base/error.h"
#include "compute_client/load/client.h"
#include "compute_client/load/source.h"

#include <stddef.h>
#include <stdint.h>

/* The source that fetches samples from a storage server, over one Fetch stream.
 *
 * Many requests are in flight, and replies come in any order.  Each attempt at a sample has its own
 * request id, so a late or repeated reply matches no pending request and is dropped.  When the
 * stream is lost, the fetcher calls Hello (which fails if the server now has another pipeline or
 * dataset), opens a new stream and sends every unanswered request again.  So each sample is
 * delivered exactly once.  A request is also sent again after a reply with SLUICE_E_AGAIN or
 * SLUICE_E_CLOSED.  on_failed comes when no sample was answered for the client's retry_for_s.
 *
 * Hashes of a server that sends them are checked before anything of a reply is used: a damaged
 * sample is requested again as SLUICE_E_IO, a damaged message ends the stream.
 *
 * Credit-based flow control: the server may have sent at most window_bytes of payload that the
 * receiver has not consumed.  Consumed bytes are granted again in quarters of window_bytes.
 *
 * One thread, the owner, opens the stream, sends, grants and opens it again.  All other threads
 * only change the fields under the lock, and signal the owner.
 *
 *                request()            consumed()
 *                    |                    |
 *     UNSENT list <--+      grant_bytes <-+        <- under the lock
 *         |                    |
 *      [ owner thread: connect, send, grant, re-open ] ---> server
 *                                                             |
 *      on_result <--- pending table <--- completion thread <--+  */

struct sluice_fetcher_options {
    struct sluice_client *client;           /* borrowed, outlives the fetcher */
    const struct sluice_pipeline *pipeline; /* borrowed */
    const char *dataset_id;                 /* 32 hex digits, or "": any; copied */
    size_t max_items;                       /* unanswered at once, < 2^20 */
    uint64_t window_bytes;                  /* > 0 */
    bool follows_price;                     /* the chooser plans by the server's CPU price */
    uint64_t max_image_pixels;              /* for checking what arrives; 0: no limit */
    struct sluice_source_events events;
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

/* `source` must come from sluice_fetcher_create. */
struct sluice_fetcher_stats sluice_fetcher_stats(struct sluice_source *source);

#endif
