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
 * Replicas of a shard must have the same dataset id; shards must not share a path.  The whole is
 * what one server over all the files would list: the rows of all shards by path, classes by name
 * (datasets/manifest/join.h).  So its dataset id, labels, sample ids, draws and digests do not
 * depend on how it is spread.
 *
 * Addresses of a name are its IPv4 ones, or the IPv6 ones if there are no others.  With TLS their
 * certificates have the name.  An address that is gone is given up, and its items go to others; a
 * look-up that fails changes nothing.
 *
 * Threads: stop, target and the sources' own functions from any; all else from one thread.  One
 * thread of this looks names up.
 *
 * changing: which servers and sources there are.  Held while servers are asked, and while one comes
 *     or goes; nested in it are the locks of the sources, and:
 * lock: the same for stop(), and the states of calls.  Nested in it: sluice_client.lock. */

struct sluice_servers;

/* The addresses of `name` in any order, as "10.0.0.1:50051"; at most `most`.  SLUICE_E_IO. */
typedef sluice_status sluice_resolve_fn(void *ctx, const char *name, uint16_t port, size_t most,
                                        char (*found)[SLUICE_HOST_PORT_BYTES], size_t *num_found,
                                        struct sluice_err *err);

struct sluice_servers_options {
    const char *const *shards; /* texts as above; copied */
    size_t num_shards;         /* >= 1 */
    bool hedges;
    struct sluice_client_options client; /* what each client is made with, but for target */
    sluice_resolve_fn *resolve;          /* NULL: getaddrinfo() */
    void *resolve_ctx;
    double lookup_s; /* between look-ups; 0: TUNING_LOOKUP_S */
};

/* Reads the texts, and makes a client for each server; connects to none.  SLUICE_E_INVALID names
 * what cannot be read. */
SLUICE_MUST_USE sluice_status sluice_servers_create(const struct sluice_servers_options *options,
                                                    struct sluice_servers **servers,
                                                    struct sluice_err *err);
/* Destroy its sources first, after sluice_servers_end_lookups().  NULL is allowed. */
void sluice_servers_destroy(struct sluice_servers *servers);

/* sluice_client_stop() of all clients, those to come included. */
void sluice_servers_stop(struct sluice_servers *servers);

/* After stop(): when it returns no source is changed any more.  A look-up under way is waited for.
 * Twice is fine. */
void sluice_servers_end_lookups(struct sluice_servers *servers);

/* Says hello to all of them at once and takes the list of each shard.  A replica that does not
 * answer is not an error if another one of its shard does: a warning, and it is used once it
 * answers. *info is of the whole: cores are sums, sizes the largest that any of them sends,
 * abilities what all have.  SLUICE_E_INVALID, with both sides' values, if they do not fit one
 * another. */
SLUICE_MUST_USE sluice_status sluice_servers_open(struct sluice_servers *servers,
                                                  const struct sluice_pipeline *pipeline,
                                                  struct sluice_server_info *info,
                                                  struct sluice_manifest **manifest,
                                                  struct sluice_err *err);

/* The functions below are for servers that are open. */

/* sluice_client_bound_messages() of all, and of those to come.  Before the first source. */
SLUICE_MUST_USE sluice_status sluice_servers_bound_messages(struct sluice_servers *servers,
                                                            size_t max_bytes,
                                                            struct sluice_err *err);

/* sluice_client_probe() of all that answered, at the same time: what the link of this node or
 * theirs moves together; the CPU time per byte is a mean.  One that fails is left out, with a
 * warning; it fails if all do. */
SLUICE_MUST_USE sluice_status sluice_servers_probe(struct sluice_servers *servers,
                                                   uint64_t max_bytes,
                                                   struct sluice_client_probed *probed,
                                                   struct sluice_err *err);
/* The sum of sluice_client_server_cpu() of all that answered at open; 0 if one does not report it.
 */
SLUICE_MUST_USE sluice_status sluice_servers_cpu(struct sluice_servers *servers, double *cpu_s,
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
