#ifndef SLUICE_STORAGE_SERVER_SERVICE_H
#define SLUICE_STORAGE_SERVER_SERVICE_H

#include "base/error.h"
#include "rpc/rpc.h"

#include <stdint.h>

/* sluice.v1.Offload.  service.c answers what is about the server (Hello,
 * ListSamples, Probe, Stats), service_fetch.c moves the samples.
 *
 * A Fetch stream, its requests and its replies:
 *
 *     message -> backlog -> PREP or IO lane -> ready -> one message of replies
 *                  |            (workers.h)      |
 *             waits while too much is       waits while the client's window
 *             in flight, or no lane          is used up, and while an earlier
 *             has room                       message is on its way or others are
 *                                            worked on, the latter for hold_ns at
 *                                            most (so that replies share one)
 *
 * Reading goes on meanwhile, since the grant that ready waits for may stand behind requests
 * that the backlog holds; it pauses when the backlog is absurdly long.
 *
 * The promises: every request of a stream that lives is answered exactly once; a
 * completion thread never waits; a full PREP lane costs ops, a full server time,
 * neither costs a request.
 *
 * Threads: any, except where noted. */

struct sluice_context;
struct sluice_pipeline;
struct sluice_fetch;

/* hold_ns: how long a reply waits for others, see above. */
SLUICE_MUST_USE sluice_status sluice_fetch_create(uint64_t hold_ns, struct sluice_fetch **fetch,
                                                  struct sluice_err *err);
void sluice_fetch_destroy(struct sluice_fetch *fetch); /* NULL is allowed; no call is left */

/* From here on requests that arrive are refused: each stream ends as UNAVAILABLE once
 * it has answered what it took before.  Once. */
void sluice_fetch_stop(struct sluice_fetch *fetch);

/* Once no call is left, and before the workers go: no thread of the service's own holds a stream
 * from here on.  NULL is allowed. */
void sluice_fetch_close(struct sluice_fetch *fetch);

/* What Hello and Fetch compare.  An empty text, a fingerprint of 0 and an empty dataset id
 * are not compared; *pipeline (owned by the caller) is NULL without a text. */
enum sluice_rpc_code sluice_service_agree(struct sluice_context *context, uint32_t protocol_version,
                                          const char *text, uint64_t fingerprint,
                                          const char *dataset_id, struct sluice_pipeline **pipeline,
                                          struct sluice_err *err);

#endif
