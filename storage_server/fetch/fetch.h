#ifndef SLUICE_STORAGE_SERVER_FETCH_FETCH_H
#define SLUICE_STORAGE_SERVER_FETCH_FETCH_H

#include "base/error.h"
#include "storage_server/fetch/options.h"

#include <stdint.h>

/* The Fetch service, which moves the samples.  A stream, its requests and its replies:
 *
 *     message -> backlog -> queue of PREP or IO -> ready -> one message of replies
 *                   |           (workers.h)          |
 *             waits while too much              waits while the client's credit is used up,
 *             is in flight, or no               while an earlier message is on its way, and,
 *             queue has room                    for hold_ns at most, while others are worked
 *                                               on (so that replies share a message)
 *
 * Reading goes on while replies wait, since the grant that they wait for may stand behind requests
 * that wait in the backlog.  It pauses only at a backlog that no client of ours comes near.
 *
 * Promises: every request of a stream that lives is answered exactly once; a completion thread
 * never waits; a full queue of PREP costs ops, a full server costs time, and neither costs a
 * request.
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

/* Requests of streams that live which are not answered yet, and those of streams that were cut
 * off. */
uint64_t sluice_fetch_num_unanswered(struct sluice_fetch *fetch);

/* Ends the service's own thread, which may hold streams.  Once no call is left, and before the
 * workers go.  NULL is allowed. */
void sluice_fetch_close(struct sluice_fetch *fetch);

#endif
