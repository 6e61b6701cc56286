#ifndef SLUICE_STORAGE_SERVER_CONTEXT_H
#define SLUICE_STORAGE_SERVER_CONTEXT_H

#include "host/machine.h"
#include "op/form.h"
#include "rpc/rpc_server.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Shared by the handlers of one server: every callback of rpc_server gets it as its ctx.  All of
 * it is made before the first call and outlives the last one.
 *
 * Lock order of the whole server.  Who holds a lock takes only locks further to the right:
 *
 *     sluice_fetch.lock  ->  sluice_fetch_stream.lock          (fetch/stream.h)
 *     sluice_fetch_stream.lock  ->  sluice_memory_budget.lock  (memory_budget.h)
 *     sluice_workers.lock  ->  the lock of a base/worker_pool  (workers.c)
 *     sluice_workers.lock  ->  sluice_sessions.lock            (session.c)
 *     sluice_security.lock  ->  sluice_grant.lock              (security.c)
 *
 * Each of these is a leaf and taken alone: sluice_watchdog.lock, sluice_root_watch.lock,
 * sluice_core_watch.lock, sluice_sample_lists.lock, sluice_relist.lock, sluice_stats.lock,
 * sluice_client_table.lock, sluice_health.lock, sluice_rate_limit.lock, that of probe.c,
 * sluice_disk_gate.lock, sluice_decoders.fork_lock, sluice_decoders.lock, sluice_tracer.lock, and
 * those of host/disk_clock and the pool of base/buf.  lib/rpc has locks of its own, of which it
 * holds none during a callback, and none of ours is held while it is called.
 *
 * Threads: constant while serving, except for what locks itself. */

struct sluice_buf_pool;
struct sluice_client_table;
struct sluice_decoders;
struct sluice_disk_clock;
struct sluice_fetch;
struct sluice_health;
struct sluice_memory_budget;
struct sluice_rate_limit;
struct sluice_sample_lists;
struct sluice_security;
struct sluice_sessions;
struct sluice_stats;
struct sluice_store;
struct sluice_tracer;
struct sluice_watchdog;
struct sluice_workers;

struct sluice_context {
    struct sluice_sample_lists *lists;
    struct sluice_store *store;
    struct sluice_store *cache; /* the same, if it is a store_cache.h; NULL: it is none */
    struct sluice_workers *workers;
    struct sluice_watchdog *watchdog; /* of the workers */
    struct sluice_stats *stats;
    struct sluice_sessions *sessions;
    struct sluice_client_table *clients;
    struct sluice_disk_clock *disk;
    struct sluice_buf_pool *buffers;
    struct sluice_memory_budget *memory;
    struct sluice_rate_limit *link;
    struct sluice_fetch *fetch;
    struct sluice_health *health;
    struct sluice_security *security; /* NULL: whoever connects may call */
    struct sluice_tracer *tracer;     /* NULL: nothing is traced */
    struct sluice_decoders *decoders; /* NULL: images are decoded in this process */
    size_t max_in_flight;
    uint64_t max_image_pixels, max_file_bytes;
    bool reads_first;              /* IO reads, then PREP works: the store is remote */
    bool has_data_transfer;        /* the original's service is there, too */
    bool has_optimal_crops;        /* Huffman tables made for each JPEG crop */
    uint32_t min_crop_restart;     /* MCUs; 0: no restart markers but one for each row of a crop */
    struct sluice_machine machine; /* that the server runs on, for clients that may be there, too */

    /* NULL until it is known, when calls may come already. */
    struct sluice_rpc_server *_Atomic rpc;

    /* For DataTransfer's random draws: a seed of this process and a number for each call. */
    uint64_t transfer_seed;
    atomic_uint_fast64_t transfers;      /* relaxed: the numbers need only differ */
    atomic_uint_fast64_t open_transfers; /* calls of DataTransfer whose job is not done */
};

/* The forms that a sample can be sent in, as in Hello: a bit for each enum sluice_form. */
static inline uint32_t sluice_server_forms(bool has_jpeg_index)
{
    uint32_t forms = 0;
    for (unsigned form = 0; form < sluice_num_forms(); form++) {
        if (has_jpeg_index || !sluice_form_type((enum sluice_form)form)->needs_index)
            forms |= 1u << form;
    }
    return forms;
}

/* The methods of each service, for the server's table. */
struct sluice_method_list {
    const struct sluice_rpc_method *methods;
    size_t num_methods;
};
struct sluice_method_list sluice_offload_methods(void);       /* service.c: Hello, Stats */
struct sluice_method_list sluice_list_methods(void);          /* services/list.c */
struct sluice_method_list sluice_probe_methods(void);         /* services/probe.c */
struct sluice_method_list sluice_fetch_methods(void);         /* services/fetch.c */
struct sluice_method_list sluice_data_transfer_methods(void); /* services/data_transfer.c */
struct sluice_method_list sluice_health_methods(void);        /* health.c */

/* Every counter there is, for the Stats call and for the JSON line. */
struct sluice_wire_stats;
struct sluice_wire_stats sluice_context_stats(struct sluice_context *context);

#endif
