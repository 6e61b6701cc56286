#ifndef SLUICE_COMPUTE_CLIENT_FETCH_SERVERS_STATE_H
#define SLUICE_COMPUTE_CLIENT_FETCH_SERVERS_STATE_H

#include "compute_client/fetch/servers.h"

#include "compute_client/fetch/host_text.h"

#include <pthread.h>

/* Private to servers.c (the set, and calls to all of it), servers_open.c (what they say at the
 * start) and servers_follow.c (sources, and names that change). */

struct sizing;

struct server {
    struct sluice_client *client;
    const struct sluice_host_item *item;
    char target[SLUICE_HOST_PORT_BYTES];

    /* Used by the opening thread alone. */
    bool has_answered;
    struct sluice_server_info info;
};

struct shard {
    char *text;          /* as given */
    char dataset_id[33]; /* "" before it is open */
    struct sluice_manifest *manifest;
};

struct sluice_servers {
    pthread_mutex_t changing;
    struct sluice_source *sources[SLUICE_SERVERS_MAX_SOURCES]; /* those of replicas.h */
    size_t num_sources;
    size_t max_bytes; /* of messages; 0: not bounded yet */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_stopped;
    struct server *at[SLUICE_MAX_SERVERS]; /* constant while either lock is held */
    size_t num;

    pthread_t lookup;
    bool has_lookup;
    bool is_lookup_lost[SLUICE_MAX_SERVERS]; /* by item; the thread's, or the opening one's */

    /* Constant. */
    struct sluice_host_items items;
    struct shard *shards;
    size_t num_shards;
    bool is_single; /* one server for all time: its client has the caller's live */
    bool has_dns, hedges, needs_file_image;
    struct sluice_client_options client; /* its texts and files are copies */
    struct sluice_rpc_client_tls tls;
    char *texts[6]; /* what the two point to */
    sluice_resolve_fn *resolve;
    void *resolve_ctx;
    double lookup_s;
    struct sluice_manifest_place *places; /* NULL: one shard */
    char target[SLUICE_HOST_ITEMS_BYTES];
};

/* A call to one server or one shard, among others at the same time. */
struct call {
    void (*run)(struct call *call);
    struct sluice_servers *servers;
    struct server *server; /* or: */
    struct shard *shard;
    pthread_t thread;
    bool has_thread;
    bool is_done; /* under the servers' lock */
    sluice_status status;
    struct sluice_err err;
    /* The request of an opening thread, and its result. */
    const struct sluice_pipeline *pipeline;
    uint64_t max_bytes;
    struct sluice_client_probed probed;
    double cpu_s;
    struct sizing *sizing;
};

/* --- servers.c --- */

SLUICE_MUST_USE sluice_status servers_resolve(struct sluice_servers *s,
                                              const struct sluice_host_item *item,
                                              char (*found)[SLUICE_HOST_PORT_BYTES],
                                              size_t *num_found, struct sluice_err *err);
bool servers_has(const struct sluice_servers *s, const struct sluice_host_item *item,
                 const char *target);

SLUICE_MUST_USE sluice_status servers_make_client(struct sluice_servers *s, struct server *server,
                                                  struct sluice_client **client,
                                                  struct sluice_err *err);
/* Under `changing`, or before anybody else is there. */
SLUICE_MUST_USE sluice_status servers_add(struct sluice_servers *s,
                                          const struct sluice_host_item *item, const char *target,
                                          struct server **added, struct sluice_err *err);
/* Under `changing`; no source has it. */
void servers_remove(struct sluice_servers *s, struct server *server);

bool servers_is_stopped(struct sluice_servers *s);
/* False: stopped meanwhile. */
bool servers_wait_until(struct sluice_servers *s, uint64_t until_ns);

/* Under `changing`, or from open: calls to the servers that are there, or to those that answered;
 * NULL: no memory. */
struct call *servers_make_calls(struct sluice_servers *s, bool answered_only,
                                void (*run)(struct call *), size_t *num);
/* One thread for each, but for one alone, which is done when this returns. */
void servers_start_calls(struct call *calls, size_t num);
void servers_join_calls(struct call *calls, size_t num);

#endif
