#ifndef SLUICE_COMPUTE_CLIENT_LOAD_FETCHER_H
#define SLUICE_COMPUTE_CLIENT_LOAD_FETCHER_H

#include "base/buf.h"
#include "base/error.h"
#include "compute_client/load/client.h"
#include "compute_client/load/source.h"

#include <stddef.h>
#include <stdint.h>

/* The source that asks a storage server, over one Fetch stream.
 *
 * Many requests are in flight, and replies come in any order.  Each attempt at a
 * sample has a request id of its own, so a reply that is late or comes twice
 * names nothing that is waited for, and is dropped.  When the stream is lost,
 * another is opened (the server says hello first: another pipeline or dataset is
 * a refusal) and everything unanswered is asked for again; no sample is lost or
 * seen twice.  A reply that says "again" or "closed" is asked for again as well.
 * on_failed comes when nothing was answered for the client's retry_for_s.
 *
 * Flow control: the server may have sent at most window_bytes of payload that
 * the receiver has not yet consumed; what was consumed is granted anew in
 * quarters of the window.
 *
 * One thread owns the stream: it opens, sends, grants and re-opens.  Everybody
 * else leaves it notes.
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
    bool follows_price;                     /* of storage CPU: asks for less where it rises */
    uint64_t max_image_pixels;              /* for checking what arrives; 0: no limit */
    struct sluice_source_events events;
};

struct sluice_fetcher_stats {
    uint64_t wire_bytes; /* of the messages received */
    uint64_t lost_streams;
    uint64_t repeated; /* samples asked for again, for whatever reason */
    uint64_t dropped;  /* replies that nobody waited for */
};

SLUICE_MUST_USE sluice_status sluice_fetcher_create(const struct sluice_fetcher_options *options,
                                                    struct sluice_source **source,
                                                    struct sluice_err *err);

/* `source` must come from sluice_fetcher_create. */
struct sluice_fetcher_stats sluice_fetcher_stats(struct sluice_source *source);

#endif
