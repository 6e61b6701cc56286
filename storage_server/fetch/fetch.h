#ifndef SLUICE_STORAGE_SERVER_FETCH_FETCH_H
#define SLUICE_STORAGE_SERVER_FETCH_FETCH_H

#include "base/error.h"
#include "storage_server/fetch/options.h"

#include <stdint.h>

/* The Fetch service, which sends the samples.  The way of a stream's requests and replies:
 *
 *     message -> backlog -> queue of PREP or IO -> ready -> one message of replies
 *                   |           (workers.h)          |
 *             waits while too much              waits while the client's credit is used up,
 *             is in flight, or no               while an earlier message is on its way, and,
 *             queue has room                    for hold_ns at most, while others are worked
 *                                               on (so that replies share a message)
 *
 * Reading goes on while replies wait, since the grant of credit that they wait for may be behind
 * requests in the backlog.  It pauses only at a backlog that none of our clients comes near.
 *
 * Promises: every request of a live stream is answered exactly once; a completion thread never
 * waits.  If PREP's queue is full, fewer ops are run; if the server is full, answers take longer;
 * neither loses a request.
 *
 * Threads: any, except where noted. */

struct sluice_fetch;
struct sluice_rpc_method;

/* Borrows what the options point to. */
SLUICE_MUST_USE sluice_status sluice_fetch_create(const struct sluice_fetch_options *options,
                                                  struct sluice_fetch **fetch,
                                                  struct sluice_err *err);
void sluice_fetch_destroy(struct sluice_fetch *fetch); /* NULL is allowed; no call is left */

/* Adds the method to the server's table, and returns the table's end. */
struct sluice_rpc_method *sluice_fetch_methods(struct sluice_fetch *fetch,
                                               struct sluice_rpc_method *end);

/* From here on requests that arrive are refused: each stream ends as UNAVAILABLE once
 * it has answered what it took before.  Streams that end after cut_ns were cut off by us.  Once. */
void sluice_fetch_stop(struct sluice_fetch *fetch, uint64_t cut_ns);

/* Unanswered requests of live streams, plus those of streams that were cut off. */
uint64_t sluice_fetch_num_unanswered(struct sluice_fetch *fetch);

/* Ends the service's own thread, which may hold streams.  Call it once no call is left, and before
 * the workers are destroyed.  NULL is allowed. */
void sluice_fetch_close(struct sluice_fetch *fetch);

#endif
