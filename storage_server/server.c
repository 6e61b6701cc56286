#include "storage_server/server.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/disk_clock.h"
#include "base/log.h"
#include "base/text.h"
#include "datasets/manifest.h"
#include "rpc/rpc_server.h"
#include "storage_server/client_table.h"
#include "storage_server/context.h"
#include "storage_server/health.h"
#include "storage_server/introduction.h"
#include "storage_server/memory_budget.h"
#include "storage_server/memory_limit.h"
#include "storage_server/metrics.h"
#include "storage_server/peer.h"
#include "storage_server/rate_limit.h"
#include "storage_server/relist.h"
#include "storage_server/root_watch.h"
#include "storage_server/sample_list.h"
#include "storage_server/service.h"
#include "storage_server/stats.h"
#include "storage_server/store.h"
#include "storage_server/watchdog.h"
#include "storage_server/workers.h"
#include "wire/wire.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* Requests are some 30 bytes each, a thousand to a message at most. */
#define MAX_REQUEST_BYTES (256u << 10)

#define MAX_METHODS 16

struct sluice_storage_server {
    struct sluice_context context;
    struct sluice_stats stats;
    struct sluice_client_table clients;
    struct sluice_disk_clock disk;
    struct sluice_rate_limit link;
    struct sluice_rpc_method methods[MAX_METHODS];
    struct sluice_rpc_server *rpc;
    struct sluice_root_watch *root;
    struct sluice_relist *relist;
    uint64_t memory_limit;
    unsigned grace_ms;
    bool is_stopped;
};

static uint64_t pace(void *ctx, void *client, size_t bytes)
{
    struct sluice_context *context = ctx;
    return sluice_rate_limit_take(context->link, client, bytes, sluice_clock_ns());
}

/* Freed memory goes back to the system: the process comes near its limit. */
static void trim(void *ctx)
{
    struct sluice_context *context = ctx;
    sluice_buf_pool_trim(context->buffers);
    malloc_trim(0);
}

static void *join_link(void *ctx, const char *peer)
{
    struct sluice_context *context = ctx;
    char host[SLUICE_PEER_HOST];
    sluice_peer_host(peer, host);
    return sluice_rate_limit_join(context->link, host);
}

static void leave_link(void *ctx, void *client)
{
    struct sluice_context *context = ctx;
    sluice_rate_limit_leave(context->link, client);
}

static size_t gather_methods(struct sluice_rpc_method *methods)
{
    const struct sluice_method_list lists[] = {
        sluice_offload_methods(), sluice_list_methods(),          sluice_probe_methods(),
        sluice_fetch_methods(),   sluice_data_transfer_methods(), sluice_health_methods(),
    };
    size_t count = 0;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(lists); i++) {
        for (size_t k = 0; k < lists[i].num_methods; k++)
            methods[count++] = lists[i].methods[k];
    }
    return count;
}

/* Where no good seed is to be had, the clock is unlike enough for draws. */
static uint64_t fresh_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed))
        seed = sluice_clock_ns();
    return seed;
}

static unsigned count_threads(const struct sluice_server_options *options)
{
    const unsigned prep =
        options->prep_workers ? (unsigned)options->prep_workers : sluice_cpu_count();
    return prep + (unsigned)options->io_workers + (unsigned)options->grpc_workers;
}

sluice_status sluice_storage_server_create(const struct sluice_server_options *options,
                                           struct sluice_store *store,
                                           struct sluice_storage_server **server,
                                           struct sluice_err *err)
{
    struct sluice_storage_server *s = calloc(1, sizeof(*s));
    if (!s) {
        if (store)
            store->destroy(store);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a server");
    }
    uint64_t memory_limit = options->memory_limit;
    sluice_status status = SLUICE_OK;
    if (!memory_limit)
        status = sluice_memory_limit_default("", count_threads(options), &memory_limit, err);
    if (status != SLUICE_OK) {
        if (store)
            store->destroy(store);
        free(s);
        return status;
    }
    sluice_memory_limit_apply(memory_limit);
    const struct sluice_memory_parts memory = sluice_memory_limit_part(memory_limit);
    s->memory_limit = memory_limit;
    const uint64_t now_ns = sluice_clock_ns();
    sluice_stats_init(&s->stats, now_ns);
    sluice_client_table_init(&s->clients);
    s->disk = (struct sluice_disk_clock)SLUICE_DISK_CLOCK_INITIALIZER;
    sluice_rate_limit_init(&s->link, options->link_bytes_per_s, now_ns);
    s->grace_ms = (unsigned)(options->grace_s * 1000);
    s->context = (struct sluice_context){
        .store = store,
        .stats = &s->stats,
        .clients = &s->clients,
        .disk = &s->disk,
        .link = &s->link,
        .max_in_flight = (size_t)options->max_in_flight,
        .max_image_pixels = options->max_image_pixels,
        .max_file_bytes = options->max_file_bytes,
        .has_optimal_crops = strcmp(options->jpeg_crop_huffman, "optimal") == 0,
        .transfer_seed = fresh_seed(),
    };

    const struct sluice_sample_list_source source = {
        .root = options->root,
        .manifest = options->manifest,
        .jpeg_index = options->jpeg_index,
        .should_verify = options->should_verify,
        .is_strict = options->is_strict,
    };
    struct sluice_sample_list *list = NULL;
    if (!store) {
        const struct sluice_store_file_options file_options = {
            .root = options->root,
            .max_file_bytes = options->max_file_bytes,
            .gate = options->disk_gate,
        };
        status = sluice_store_file_open(&file_options, &s->context.store, err);
    }
    if (status == SLUICE_OK)
        status = sluice_sample_list_read(&source, &list, err);
    if (status == SLUICE_OK)
        status = sluice_sample_lists_create(list, &s->context.lists, err);
    if (status != SLUICE_OK)
        goto fail;
    status = sluice_buf_pool_create(memory.cached, &s->context.buffers, err);
    if (status != SLUICE_OK)
        goto fail;
    sluice_buf_pool_limit(s->context.buffers, memory.live);
    if (status == SLUICE_OK)
        status =
            sluice_fetch_create((uint64_t)(options->reply_wait_ms * 1e6), &s->context.fetch, err);
    if (status == SLUICE_OK)
        status = sluice_probes_create(&s->context.probes, err);
    if (status == SLUICE_OK)
        status = sluice_health_create(&s->context.health, err);
    if (status != SLUICE_OK)
        goto fail;

    const struct sluice_workers_options workers = {
        .prep_workers = (unsigned)options->prep_workers,
        .io_workers = (unsigned)options->io_workers,
        .queue = (size_t)options->queue,
        .max_image_pixels = options->max_image_pixels,
        .buffers = s->context.buffers,
        .limits = options->prep_limits,
    };
    status = sluice_workers_create(&workers, &s->context.workers, err);
    if (status != SLUICE_OK)
        goto fail;

    if (s->context.store->look)
        status = sluice_root_watch_open(s->context.store, s->context.lists, &s->root, err);
    const struct sluice_watchdog_options watchdog = {
        .timeout_ns = (uint64_t)(options->sample_timeout_s * 1e9),
        .workers = s->context.workers,
        .health = s->context.health,
        .root = s->root,
    };
    if (status == SLUICE_OK)
        status = sluice_watchdog_create(&watchdog, &s->context.watchdog, err);
    if (status != SLUICE_OK)
        goto fail;

    /* What the process has by now is what it is made of, and not its clients'. */
    const uint64_t resident = sluice_memory_resident();
    const struct sluice_memory_options budget = {
        .bytes = memory.budget,
        .most_resident = resident + memory_limit,
        .resident = resident ? sluice_memory_resident : NULL,
        .trim = trim,
        .ctx = &s->context,
    };
    status = sluice_memory_budget_create(&budget, &s->context.memory, err);
    if (status != SLUICE_OK)
        goto fail;
    sluice_log(SLUICE_LOG_DEBUG,
               "memory limit %llu MB beside the %llu MB at the start: %llu MB for clients, %llu MB "
               "for running work, %llu MB of unused buffers, %llu MB for connections",
               (unsigned long long)(memory_limit >> 20), (unsigned long long)(resident >> 20),
               (unsigned long long)(memory.budget >> 20),
               (unsigned long long)((memory.live - memory.budget) >> 20),
               (unsigned long long)(memory.cached >> 20), (unsigned long long)(memory.grpc >> 20));

    const struct sluice_rpc_server_options rpc = {
        .listen = options->listen,
        .num_threads = (unsigned)options->grpc_workers,
        .methods = s->methods,
        .num_methods = gather_methods(s->methods),
        .ctx = &s->context,
        .max_receive_bytes = MAX_REQUEST_BYTES,
        .max_connections = (unsigned)options->max_connections,
        .max_connections_per_host = (unsigned)options->max_connections_per_host,
        .memory_bytes = memory.grpc,
        .pace = options->link_bytes_per_s > 0 ? pace : NULL,
        .pace_join = join_link,
        .pace_leave = leave_link,
    };
    status = sluice_rpc_server_create(&rpc, &s->rpc, err);
    if (status != SLUICE_OK)
        goto fail;
    atomic_store(&s->context.rpc, s->rpc);
    const struct sluice_relist_options relist = {
        .source = source,
        .lists = s->context.lists,
        .memory = s->context.memory,
    };
    status = sluice_relist_open(&relist, &s->relist, err);
    if (status != SLUICE_OK)
        goto fail;
    *server = s;
    return SLUICE_OK;

fail:
    sluice_storage_server_destroy(s);
    return status;
}

int sluice_storage_server_port(const struct sluice_storage_server *server)
{
    return sluice_rpc_server_port(server->rpc);
}

void sluice_storage_server_address(const struct sluice_storage_server *server, const char *listen,
                                   char out[SLUICE_HOST_PORT_BYTES])
{
    struct sluice_host_port address;
    if (sluice_host_port_parse(listen, -1, &address, NULL) == SLUICE_OK) {
        address.port = (uint16_t)sluice_storage_server_port(server);
        sluice_host_port_format(&address, "0.0.0.0", out);
    } else { /* "unix:PATH" */
        (void)sluice_print(out, SLUICE_HOST_PORT_BYTES, "%s", listen);
    }
}

void sluice_storage_server_introduce(struct sluice_storage_server *server,
                                     const struct sluice_server_options *options)
{
    struct sluice_sample_list *list = sluice_sample_lists_now(server->context.lists);
    char address[SLUICE_HOST_PORT_BYTES];
    sluice_storage_server_address(server, options->listen, address);
    const struct sluice_introduction facts = {
        .root = options->root,
        .listen = address,
        .manifest = options->manifest,
        .list = list,
        .prep_cores = sluice_workers_prep_cores(server->context.workers),
        .prep_workers = sluice_workers_num_prep(server->context.workers),
        .io_workers = (unsigned)options->io_workers,
        .memory_limit = server->memory_limit,
    };
    sluice_introduce(&facts);
    sluice_sample_list_unref(list);
}

sluice_status sluice_storage_server_check(struct sluice_storage_server *server, unsigned timeout_ms,
                                          struct sluice_err *err)
{
    return sluice_rpc_server_check(server->rpc, timeout_ms, err);
}

void sluice_storage_server_reread(struct sluice_storage_server *server)
{
    sluice_relist_request(server->relist);
}

struct sluice_wire_stats sluice_storage_server_stats(struct sluice_storage_server *server)
{
    return sluice_context_stats(&server->context);
}

sluice_status sluice_storage_server_stats_json(struct sluice_storage_server *server, char **json,
                                               struct sluice_err *err)
{
    const struct sluice_wire_stats stats = sluice_storage_server_stats(server);
    return sluice_stats_json(&stats, json, err);
}

static void write_metrics(void *ctx, struct sluice_exposition *page)
{
    struct sluice_storage_server *server = ctx;
    struct sluice_context *context = &server->context;
    struct sluice_sample_list *list = sluice_sample_lists_now(context->lists);
    char reason[SLUICE_HEALTH_REASON];
    struct sluice_server_counts counts = {
        .stats = sluice_storage_server_stats(server),
        .service = sluice_stats_read_service(&server->stats),
        .connections = sluice_rpc_server_connections(server->rpc),
        .memory = sluice_memory_stats(context->memory),
        .resident_bytes = sluice_memory_resident(),
        .dataset = {.id = list->dataset_id,
                    .samples = list->manifest->num_entries,
                    .classes = list->manifest->num_classes,
                    .bytes = list->dataset_bytes},
        .groups = {sluice_workers_stats(context->workers, SLUICE_GROUP_PREP),
                   sluice_workers_stats(context->workers, SLUICE_GROUP_IO)},
        .unanswered = sluice_storage_server_num_unanswered(server),
        .timeouts = sluice_watchdog_num_timeouts(context->watchdog),
        .hanging = sluice_storage_server_num_hanging(server),
        .is_serving = sluice_health_read(context->health, reason, sizeof(reason)),
    };
    counts.num_clients = sluice_client_table_read(&server->clients, counts.clients);
    sluice_metrics_write(&counts, page);
    sluice_sample_list_unref(list);
}

static bool is_well(void *ctx, char *reason)
{
    const struct sluice_storage_server *server = ctx;
    return sluice_health_read(server->context.health, reason, SLUICE_HEALTH_REASON);
}

sluice_status sluice_storage_server_serve_metrics(struct sluice_storage_server *server,
                                                  const char *listen,
                                                  struct sluice_metrics_server **metrics,
                                                  struct sluice_err *err)
{
    const struct sluice_metrics_pages pages = {
        .program = "offload_server",
        .write = write_metrics,
        .is_well = is_well,
        .ctx = server,
    };
    return sluice_metrics_server_create(listen, &pages, metrics, err);
}

void sluice_storage_server_stop(struct sluice_storage_server *server)
{
    if (server->is_stopped)
        return;
    server->is_stopped = true;
    sluice_health_stop(server->context.health);
    sluice_fetch_stop(server->context.fetch,
                      sluice_clock_ns() + server->grace_ms * UINT64_C(1000000));
    sluice_rpc_server_shutdown(server->rpc, server->grace_ms);
}

uint64_t sluice_storage_server_num_unanswered(struct sluice_storage_server *server)
{
    return sluice_fetch_num_unanswered(server->context.fetch) +
           atomic_load(&server->context.open_transfers);
}

unsigned sluice_storage_server_num_hanging(struct sluice_storage_server *server)
{
    return sluice_watchdog_num_stuck(server->context.watchdog);
}

void sluice_storage_server_destroy(struct sluice_storage_server *server)
{
    if (!server)
        return;
    struct sluice_context *context = &server->context;
    if (server->rpc)
        sluice_storage_server_stop(server);
    sluice_relist_close(server->relist);
    sluice_memory_budget_close(context->memory); /* streams of waiters go before the workers */
    sluice_fetch_close(context->fetch);
    sluice_watchdog_stop(context->watchdog);
    sluice_root_watch_close(server->root);
    /* Jobs of cancelled calls still hold their calls: they end before the rpc server does. */
    sluice_workers_destroy(context->workers);
    sluice_watchdog_destroy(context->watchdog);
    sluice_rpc_server_destroy(server->rpc);
    sluice_fetch_destroy(context->fetch);
    sluice_probes_destroy(context->probes);
    sluice_health_destroy(context->health);
    sluice_memory_budget_destroy(context->memory);
    sluice_buf_pool_destroy(context->buffers);
    if (context->store)
        context->store->destroy(context->store);
    sluice_sample_lists_destroy(context->lists);
    sluice_rate_limit_clear(&server->link);
    sluice_client_table_clear(&server->clients);
    sluice_stats_clear(&server->stats);
    free(server);
}
