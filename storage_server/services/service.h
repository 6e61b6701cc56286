#ifndef SLUICE_STORAGE_SERVER_SERVICES_SERVICE_H
#define SLUICE_STORAGE_SERVER_SERVICES_SERVICE_H

#include "base/error.h"
#include "rpc/rpc.h"

#include <stdint.h>

/* sluice.v1.Offload.  service.c answers what is about the server (Hello, Stats), services/list.c
 * lists the dataset, services/probe.c sends probes, one at a time to each client, services/fetch.c
 * and the files below it (fetch/stream.h) move the samples.
 *
 * A Fetch stream, its requests and its replies:
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

struct sluice_context;
struct sluice_pipeline;
struct sluice_fetch;
struct sluice_sample_list;

/* hold_ns: how long a reply waits for others at most, see above. */
SLUICE_MUST_USE sluice_status sluice_fetch_create(uint64_t hold_ns, struct sluice_fetch **fetch,
                                                  struct sluice_err *err);
void sluice_fetch_destroy(struct sluice_fetch *fetch); /* NULL is allowed; no call is left */

/* From here on requests that arrive are refused: each stream ends as UNAVAILABLE once
 * it has answered what it took before.  Streams that end after cut_ns were cut off by us.  Once. */
void sluice_fetch_stop(struct sluice_fetch *fetch, uint64_t cut_ns);

/* Requests of streams that live which are not answered yet, and those of streams that were cut
 * off. */
uint64_t sluice_fetch_num_unanswered(struct sluice_fetch *fetch);

/* Ends the service's own thread, which may hold streams.  Once no call is left, and before the
 * workers go.  NULL is allowed. */
void sluice_fetch_close(struct sluice_fetch *fetch);

/* What Hello and Fetch compare, the dataset id with that of `list`.  An empty text, a fingerprint
 * of 0 and an empty dataset id are not compared; *pipeline (owned by the caller) is NULL without a
 * text. */
enum sluice_rpc_code sluice_service_agree(const struct sluice_sample_list *list,
                                          uint32_t protocol_version, const char *text,
                                          uint64_t fingerprint, const char *dataset_id,
                                          struct sluice_pipeline **pipeline,
                                          struct sluice_err *err);

#endif
