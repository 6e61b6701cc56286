#ifndef SLUICE_COMPUTE_CLIENT_FETCH_SERVERS_H
#define SLUICE_COMPUTE_CLIENT_FETCH_SERVERS_H

#include "base/error.h"
#include "base/host_port.h"
#include "compute_client/fetch/client.h"
#include "compute_client/fetch/fetcher.h"
#include "compute_client/fetch/replicas.h"
#include "datasets/manifest/manifest.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All servers that hold a dataset, as the user names them.
 *
 *     one shard:     HOST[:PORT]            a server
 *                    HOST,HOST,...          replicas: each has the whole shard
 *                    dns:NAME[:PORT]        replicas: every address of NAME, looked up again every
 *                                           TUNING_LOOKUP_S while there is a source
 *     the dataset:   one such text for each shard
 *
 * Replicas of a shard must have the same dataset id; shards must not share a path.  The whole
 * dataset is the list of one server over all the files: the rows of all shards by path, classes by
 * name (datasets/manifest/join.h).  So its dataset id, labels, sample ids, draws and digests do not
 * depend on the number of shards.
 *
 * A name stands for its IPv4 addresses, or for its IPv6 addresses if it has only those.  With TLS
 * the certificates of all have the name.  A server whose address is gone is removed, and its items
 * go to others; a failed look-up changes nothing.
 *
 * Threads: stop, target and the sources' functions from any thread; all other functions from one
 * thread.  An internal thread looks names up.
 *
 * Lock order:
 * changing: guards the set of servers and sources.  Held during calls to servers, and while a
 *     server is added or removed; nested in it are the locks of the sources, and `lock`.
 * lock: guards the same set for stop(), and the states of calls.  Nested in it: sluice_client.lock.
 */

struct sluice_image_sizes;
struct sluice_servers;

/* The addresses of `name` in any order, as "10.0.0.1:50051"; at most `most`.  SLUICE_E_IO. */
typedef sluice_status sluice_resolve_fn(void *ctx, const char *name, uint16_t port, size_t most,
                                        char (*found)[SLUICE_HOST_PORT_BYTES], size_t *num_found,
                                        struct sluice_err *err);

struct sluice_servers_options {
    const char *const *shards; /* texts as above; copied */
    size_t num_shards;         /* >= 1 */
    bool hedges;
    bool needs_file_image; /* servers that cannot say the size of a file's image are refused */
    struct sluice_client_options client; /* options of each client, except target */
    sluice_resolve_fn *resolve;          /* NULL: getaddrinfo() */
    void *resolve_ctx;
    double lookup_s; /* between look-ups; 0: TUNING_LOOKUP_S */
};

/* Parses the texts and creates a client for each server, without connecting.  SLUICE_E_INVALID
 * names the malformed part. */
SLUICE_MUST_USE sluice_status sluice_servers_create(const struct sluice_servers_options *options,
                                                    struct sluice_servers **servers,
                                                    struct sluice_err *err);
/* Destroy its sources first, after sluice_servers_end_lookups().  NULL is allowed. */
void sluice_servers_destroy(struct sluice_servers *servers);

/* Calls sluice_client_stop() on all current and later clients. */
void sluice_servers_stop(struct sluice_servers *servers);

/* Call it after stop().  After it returns, look-ups change no source.  Waits for a look-up under
 * way.  Twice is fine. */
void sluice_servers_end_lookups(struct sluice_servers *servers);

/* Calls Hello of all servers at the same time, and fetches the list of each shard.  If a replica
 * does not answer but another one of its shard does, that is a warning, and the replica is used
 * once it answers.  *info describes the whole: the sum of cores, the largest of the size limits,
 * and the abilities that all servers have.  SLUICE_E_INVALID, with both sides' values, if servers
 * do not fit one another. */
SLUICE_MUST_USE sluice_status sluice_servers_open(struct sluice_servers *servers,
                                                  const struct sluice_pipeline *pipeline,
                                                  struct sluice_server_info *info,
                                                  struct sluice_manifest **manifest,
                                                  struct sluice_err *err);

/* The functions below are for servers that are open. */

/* Calls sluice_client_bound_messages() on all current and later clients.  Before the first
 * source. */
SLUICE_MUST_USE sluice_status sluice_servers_bound_messages(struct sluice_servers *servers,
                                                            size_t max_bytes,
                                                            struct sluice_err *err);

/* Probes all servers that answered at the same time, with sluice_client_probe(): the rate is the
 * sum, limited by this node's link or theirs; the CPU time per byte is a mean.  A server that fails
 * is left out, with a warning; it is an error if all fail. */
SLUICE_MUST_USE sluice_status sluice_servers_probe(struct sluice_servers *servers,
                                                   uint64_t max_bytes,
                                                   struct sluice_client_probed *probed,
                                                   struct sluice_err *err);
/* The sum of sluice_client_server_cpu() of all that answered at open; 0 if one does not report it.
 */
SLUICE_MUST_USE sluice_status sluice_servers_cpu(struct sluice_servers *servers, double *cpu_s,
                                                 struct sluice_err *err);

/* Fills in the sizes of the images of the list that open() gave, of `num` samples, from one replica
 * of each shard (sluice_client_read_sizes()).  Progress is logged. */
SLUICE_MUST_USE sluice_status sluice_servers_read_sizes(struct sluice_servers *servers, size_t num,
                                                        struct sluice_image_sizes *sizes,
                                                        struct sluice_err *err);

/* A source over them (replicas.h), of which there may be SLUICE_SERVERS_MAX_SOURCES; client,
 * dataset_id and events of `options` are not used. */
#define SLUICE_SERVERS_MAX_SOURCES 4
SLUICE_MUST_USE sluice_status sluice_servers_source(struct sluice_servers *servers,
                                                    const struct sluice_fetcher_options *options,
                                                    const struct sluice_source_events *events,
                                                    struct sluice_source **source,
                                                    struct sluice_err *err);

/* For lines of the log: "a:50051", or "a:50051 and 2 more".  Constant. */
const char *sluice_servers_target(const struct sluice_servers *servers);

#endif
