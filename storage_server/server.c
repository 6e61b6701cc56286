#include "storage_server/server.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/log.h"
#include "base/text.h"
#include "datasets/manifest/manifest.h"
#include "host/disk_clock.h"
#include "rpc/rpc_server.h"
#include "storage_server/data/relist.h"
#include "storage_server/data/root_watch.h"
#include "storage_server/data/sample_list.h"
#include "storage_server/data/size_reader.h"
#include "storage_server/fetch/fetch.h"
#include "storage_server/isolation/decoders.h"
#include "storage_server/observe/metrics.h"
#include "storage_server/observe/stats.h"
#include "storage_server/observe/watchdog.h"
#include "storage_server/services/data_transfer.h"
#include "storage_server/services/health.h"
#include "storage_server/services/introduction.h"
#include "storage_server/services/list.h"
#include "storage_server/services/probe.h"
#include "storage_server/services/service.h"
#include "storage_server/services/sizes.h"
#include "storage_server/session/caller.h"
#include "storage_server/session/client_table.h"
#include "storage_server/session/memory_budget.h"
#include "storage_server/session/rate_limit.h"
#include "storage_server/session/security.h"
#include "storage_server/session/session.h"
#include "storage_server/tuning.h"
#include "storage_server/work/memory_limit.h"
#include "storage_server/work/preparer.h"
#include "storage_server/work/workers.h"
#include "store/store.h"
#include "store/store_cache.h"
#include "wire/wire.h"

#include <assert.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* Requests are some 30 bytes each, a thousand to a message at most. */
#define MAX_REQUEST_BYTES (256u << 10)

#define MAX_METHODS 16

struct sluice_storage_server {
    struct sluice_admission admission;
    struct sluice_roots roots;
    struct sluice_server_parts parts;
    struct sluice_sample_lists *lists;
    struct sluice_buf_pool *buffers;
    struct sluice_disk_clock disk;
    struct sluice_health *health;
    struct sluice_workers *workers;
    struct sluice_root_watch *root;
    struct sluice_watchdog *watchdog; /* of the workers and the root */
    struct sluice_memory_budget *memory;
    struct sluice_rate_limit link;
    struct sluice_client_table clients;
    struct sluice_stats stats;
    struct sluice_relist *relist;
    struct sluice_size_reader *size_reader;

    struct sluice_fetch *fetch; /* the services, from here on */
    struct sluice_offload offload;
    struct sluice_list_service listing;
    struct sluice_probe_service probe;
    struct sluice_sizes_service sizes;
    struct sluice_transfer_service transfers;
    struct sluice_rpc_method methods[MAX_METHODS];
    struct sluice_rpc_server *rpc;

    uint64_t memory_limit;
    unsigned io_workers;
    unsigned grace_ms;
    bool is_stopped;
};

/* Freed memory goes back to the system: the process comes near its limit. */
static void trim(void *buffers)
{
    sluice_buf_pool_trim(buffers);
    malloc_trim(0);
}

static size_t gather_methods(struct sluice_storage_server *server, bool has_data_transfer)
{
    struct sluice_rpc_method *end = server->methods;
    end = sluice_offload_methods(&server->offload, end);
    end = sluice_list_methods(&server->listing, end);
    end = sluice_sizes_methods(&server->sizes, end);
    end = sluice_probe_methods(&server->probe, end);
    end = sluice_fetch_methods(server->fetch, end);
    end = sluice_health_methods(server->health, end);
    if (has_data_transfer)
        end = sluice_transfer_methods(&server->transfers, end);
    assert(end <= server->methods + MAX_METHODS);
    return (size_t)(end - server->methods);
}

/* Where no good seed is to be had, the clock is unlike enough for draws. */
static uint64_t fresh_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed))
        seed = sluice_clock_ns();
    return seed;
}

static unsigned count_threads(const struct sluice_server_options *options, unsigned io_workers)
{
    const unsigned prep =
        options->prep_workers ? (unsigned)options->prep_workers : sluice_cpu_count();
    return prep + io_workers + (unsigned)options->grpc_workers;
}

/* --- its parts, in the order in which they need each other --- */

/* The limit that memory_limit.h finds where none is given. */
static sluice_status find_memory_limit(const struct sluice_server_options *options,
                                       unsigned io_workers, uint64_t *limit, struct sluice_err *err)
{
    if (options->memory_limit) {
        *limit = options->memory_limit;
        return SLUICE_OK;
    }
    return sluice_memory_limit_default("", count_threads(options, io_workers), limit, err);
}

static sluice_status open_samples(struct sluice_storage_server *server,
                                  const struct sluice_sample_list_source *source,
                                  struct sluice_err *err)
{
    struct sluice_sample_list *list = NULL;
    sluice_status status = sluice_sample_list_read(source, &list, err);
    if (status == SLUICE_OK)
        status = sluice_sample_lists_create(list, &server->lists, err);
    return status;
}

static sluice_status create_buffers(struct sluice_storage_server *server,
                                    const struct sluice_memory_parts *memory,
                                    struct sluice_err *err)
{
    const sluice_status status = sluice_buf_pool_create(memory->cached, &server->buffers, err);
    if (status == SLUICE_OK)
        sluice_buf_pool_limit(server->buffers, memory->live);
    return status;
}

/* The workers, and who watches them and the root. */
static sluice_status create_workers(struct sluice_storage_server *server,
                                    const struct sluice_server_options *options,
                                    const struct sluice_memory_parts *memory,
                                    struct sluice_err *err)
{
    const uint64_t timeout_ns = (uint64_t)(options->sample_timeout_s * 1e9);
    const struct sluice_preparer_options preparer = {
        .max_image_pixels = options->max_image_pixels,
        .buffers = server->buffers,
        .decoders = server->parts.decoders,
        .limits = sluice_decoder_limits_for(options->max_image_pixels, options->max_file_bytes,
                                            memory->live),
        .timeout_ns = timeout_ns / 8 * DECODER_TIME_8THS,
        .worker = server->parts.limits,
    };
    const struct sluice_workers_options workers = {
        .prep_workers = (unsigned)options->prep_workers,
        .io_workers = server->io_workers,
        .queue = (size_t)options->queue,
        .limits = server->parts.limits,
        .preparer = &preparer,
    };
    sluice_status status = sluice_workers_create(&workers, &server->workers, err);
    if (status == SLUICE_OK && server->parts.store->look)
        status = sluice_root_watch_open(server->parts.store, &server->roots, server->lists,
                                        &server->root, err);
    if (status != SLUICE_OK)
        return status;
    const struct sluice_watchdog_options watchdog = {
        .timeout_ns = timeout_ns,
        .workers = server->workers,
        .health = server->health,
        .root = server->root,
    };
    return sluice_watchdog_create(&watchdog, &server->watchdog, err);
}

/* Memory resident now is the baseline; clients are not charged for it. */
static sluice_status create_memory_budget(struct sluice_storage_server *server,
                                          const struct sluice_memory_parts *memory,
                                          struct sluice_err *err)
{
    const uint64_t resident = sluice_memory_resident();
    const struct sluice_memory_options budget = {
        .bytes = memory->budget,
        .most_resident = resident + server->memory_limit,
        .resident = resident ? sluice_memory_resident : NULL,
        .trim = trim,
        .ctx = server->buffers,
    };
    const sluice_status status = sluice_memory_budget_create(&budget, &server->memory, err);
    if (status == SLUICE_OK)
        sluice_log(
            SLUICE_LOG_DEBUG,
            "memory limit %llu MB beside the %llu MB at the start: %llu MB for clients, %llu MB "
            "for running work, %llu MB of unused buffers, %llu MB for connections",
            (unsigned long long)(server->memory_limit >> 20), (unsigned long long)(resident >> 20),
            (unsigned long long)(memory->budget >> 20),
            (unsigned long long)((memory->live - memory->budget) >> 20),
            (unsigned long long)(memory->cached >> 20), (unsigned long long)(memory->grpc >> 20));
    return status;
}

static sluice_status create_services(struct sluice_storage_server *server,
                                     const struct sluice_server_options *options,
                                     struct sluice_err *err)
{
    struct sluice_store_limits limits;
    server->parts.store->limits(server->parts.store, &limits);
    server->admission.link = &server->link;
    server->admission.memory = server->memory;
    server->offload = (struct sluice_offload){
        .lists = server->lists,
        .store = server->parts.store,
        .workers = server->workers,
        .watchdog = server->watchdog,
        .memory = server->memory,
        .clients = &server->clients,
        .stats = &server->stats,
        .health = server->health,
        .security = server->admission.security,
        .max_in_flight = (uint32_t)options->max_in_flight,
        .max_image_pixels = options->max_image_pixels,
        .max_file_bytes = options->max_file_bytes,
        .has_crop_restart = options->jpeg_crop_restart > 0,
    };
    sluice_machine_here("", &server->offload.machine);
    server->listing = (struct sluice_list_service){
        .lists = server->lists,
        .memory = server->memory,
    };
    server->probe = (struct sluice_probe_service){
        .memory = server->memory,
        .buffers = server->buffers,
    };
    server->transfers = (struct sluice_transfer_service){
        .lists = server->lists,
        .store = server->parts.store,
        .buffers = server->buffers,
        .workers = server->workers,
        .watchdog = server->watchdog,
        .memory = server->memory,
        .clients = &server->clients,
        .stats = &server->stats,
        .seed = fresh_seed(),
    };
    const struct sluice_size_reader_options sizes = {
        .store = server->parts.store,
        .num_threads = server->io_workers,
        .parses_no_images = server->parts.decoders != NULL,
    };
    const sluice_status status = sluice_size_reader_create(&sizes, &server->size_reader, err);
    if (status != SLUICE_OK)
        return status;
    server->sizes =
        (struct sluice_sizes_service){.lists = server->lists, .reader = server->size_reader};
    const struct sluice_fetch_options fetch = {
        .lists = server->lists,
        .store = server->parts.store,
        .disk = &server->disk,
        .buffers = server->buffers,
        .workers = server->workers,
        .watchdog = server->watchdog,
        .memory = server->memory,
        .clients = &server->clients,
        .stats = &server->stats,
        .tracer = server->parts.tracer,
        .max_in_flight = (size_t)options->max_in_flight,
        .hold_ns = (uint64_t)(options->reply_wait_ms * 1e6),
        .reads_first = limits.is_remote,
        .has_optimal_crops = strcmp(options->jpeg_crop_huffman, "optimal") == 0,
        .min_crop_restart = (uint32_t)options->jpeg_crop_restart,
    };
    return sluice_fetch_create(&fetch, &server->fetch, err);
}

/* From here on clients come. */
static sluice_status listen_to_clients(struct sluice_storage_server *server,
                                       const struct sluice_server_options *options,
                                       uint64_t memory_bytes, struct sluice_err *err)
{
    const struct sluice_rpc_server_tls tls = {
        .cert = options->tls_cert, .key = options->tls_key, .client_ca = options->tls_client_ca};
    const bool is_paced = options->link_bytes_per_s > 0 || server->admission.security;
    const struct sluice_rpc_server_options rpc = {
        .listen = options->listen,
        .num_threads = (unsigned)options->grpc_workers,
        .methods = server->methods,
        .num_methods = gather_methods(server, options->has_data_transfer),
        .ctx = &server->admission,
        .max_receive_bytes = MAX_REQUEST_BYTES,
        .max_connections = (unsigned)options->max_connections,
        .max_connections_per_host = (unsigned)options->max_connections_per_host,
        .memory_bytes = memory_bytes,
        .is_over = server->parts.owns_process ? sluice_caller_is_over : NULL,
        .tls = options->tls_cert ? &tls : NULL,
        .admit = sluice_caller_admit,
        .release = sluice_caller_release,
        .pace = is_paced ? sluice_caller_pace : NULL,
    };
    const sluice_status status = sluice_rpc_server_create(&rpc, &server->rpc, err);
    if (status == SLUICE_OK)
        atomic_store(&server->offload.rpc, server->rpc);
    return status;
}

/* --- the whole --- */

sluice_status sluice_storage_server_create(const struct sluice_server_options *options,
                                           const struct sluice_server_parts *parts,
                                           struct sluice_storage_server **server,
                                           struct sluice_err *err)
{
    struct sluice_storage_server *s = calloc(1, sizeof(*s));
    if (!s) {
        parts->store->destroy(parts->store);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a server");
    }
    const uint64_t now_ns = sluice_clock_ns();
    s->parts = *parts;
    s->roots = options->roots;
    s->disk = (struct sluice_disk_clock)SLUICE_DISK_CLOCK_INITIALIZER;
    s->io_workers = sluice_server_io_workers(options);
    s->grace_ms = (unsigned)(options->grace_s * 1000);
    sluice_rate_limit_init(&s->link, options->link_bytes_per_s, now_ns);
    sluice_client_table_init(&s->clients);
    sluice_stats_init(&s->stats, now_ns);
    struct sluice_sample_list_source source = {
        .roots = &s->roots,
        .manifest = options->manifest,
        .jpeg_index = options->jpeg_index,
        .should_verify = options->should_verify,
        .is_strict = options->is_strict,
    };
    sluice_sample_list_source_find(&source, parts->store);
    sluice_status status = find_memory_limit(options, s->io_workers, &s->memory_limit, err);
    if (status == SLUICE_OK && parts->owns_process)
        sluice_memory_limit_apply(s->memory_limit);
    const struct sluice_memory_parts memory = sluice_memory_limit_part(s->memory_limit);
    if (status == SLUICE_OK)
        status = sluice_security_open(options, &s->admission.security, err);
    if (status == SLUICE_OK)
        status = sluice_sessions_create(&s->admission.sessions, err);
    if (status == SLUICE_OK)
        status = open_samples(s, &source, err);
    if (status == SLUICE_OK)
        status = create_buffers(s, &memory, err);
    if (status == SLUICE_OK)
        status = sluice_health_create(options->has_data_transfer, &s->health, err);
    if (status == SLUICE_OK)
        status = create_workers(s, options, &memory, err);
    if (status == SLUICE_OK)
        status = create_memory_budget(s, &memory, err);
    if (status == SLUICE_OK)
        status = create_services(s, options, err);
    if (status == SLUICE_OK)
        status = listen_to_clients(s, options, memory.grpc, err);
    if (status == SLUICE_OK) {
        const struct sluice_relist_options relist = {
            .source = source,
            .lists = s->lists,
            .memory = s->memory,
        };
        status = sluice_relist_open(&relist, &s->relist, err);
    }
    if (status != SLUICE_OK) {
        sluice_storage_server_destroy(s);
        return status;
    }
    *server = s;
    return SLUICE_OK;
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
    struct sluice_sample_list *list = sluice_sample_lists_now(server->lists);
    char address[SLUICE_HOST_PORT_BYTES];
    sluice_storage_server_address(server, options->listen, address);
    struct sluice_introduction facts = {
        .roots = &options->roots,
        .listen = address,
        .manifest = options->manifest,
        .cache = options->cache,
        .list = list,
        .prep_cores = sluice_workers_prep_cores(server->workers),
        .prep_workers = sluice_workers_num_prep(server->workers),
        .io_workers = server->io_workers,
        .has_decoders = server->parts.decoders != NULL,
        .memory_limit = server->memory_limit,
        .access = {.has_tls = options->tls_cert != NULL,
                   .has_client_ca = options->tls_client_ca != NULL,
                   .has_tokens = options->tokens != NULL},
    };
    if (server->parts.cache)
        facts.cache_counts = sluice_store_cache_count(server->parts.cache);
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
    struct sluice_err certificates = {0}, tokens = {0};
    sluice_relist_request(server->relist);
    if (sluice_rpc_server_reload(server->rpc, &certificates) != SLUICE_OK)
        sluice_log(SLUICE_LOG_ERROR, "the certificate stays the one of before: %s",
                   certificates.text);
    if (sluice_security_reload(server->admission.security, &tokens) != SLUICE_OK)
        sluice_log(SLUICE_LOG_ERROR, "the tokens stay those of before: %s", tokens.text);
}

struct sluice_wire_stats sluice_storage_server_stats(struct sluice_storage_server *server)
{
    return sluice_offload_stats(&server->offload);
}

sluice_status sluice_storage_server_stats_json(struct sluice_storage_server *server, char **json,
                                               struct sluice_err *err)
{
    const struct sluice_wire_stats stats = sluice_storage_server_stats(server);
    struct sluice_store *cache = server->parts.cache;
    struct sluice_store_cache_counts counts;
    if (cache)
        counts = sluice_store_cache_count(cache);
    return sluice_stats_json(&stats, cache ? &counts : NULL, json, err);
}

static void write_metrics(void *ctx, struct sluice_exposition *page)
{
    struct sluice_storage_server *server = ctx;
    struct sluice_sample_list *list = sluice_sample_lists_now(server->lists);
    char reason[SLUICE_HEALTH_REASON];
    struct sluice_server_counts counts = {
        .stats = sluice_storage_server_stats(server),
        .service = sluice_stats_read_service(&server->stats),
        .connections = sluice_rpc_server_connections(server->rpc),
        .memory = sluice_memory_stats(server->memory),
        .resident_bytes = sluice_memory_resident(),
        .dataset = {.id = list->dataset_id,
                    .samples = list->manifest->num_entries,
                    .classes = list->manifest->num_classes,
                    .bytes = list->dataset_bytes},
        .groups = {sluice_workers_stats(server->workers, SLUICE_GROUP_PREP),
                   sluice_workers_stats(server->workers, SLUICE_GROUP_IO)},
        .unanswered = sluice_storage_server_num_unanswered(server),
        .timeouts = sluice_watchdog_num_timeouts(server->watchdog),
        .hanging = sluice_storage_server_num_hanging(server),
        .refused_calls = sluice_security_refusals(server->admission.security),
        .certificate_end = sluice_rpc_server_certificate_end(server->rpc),
        .has_root = !sluice_health_has(server->health, SLUICE_HEALTH_ROOT),
        .is_serving = sluice_health_read(server->health, reason, sizeof(reason)),
    };
    if (server->parts.decoders) {
        counts.has_decoders = true;
        counts.decoders = sluice_decoders_count(server->parts.decoders);
    }
    if (server->parts.cache) {
        counts.has_cache = true;
        counts.cache = sluice_store_cache_count(server->parts.cache);
    }
    counts.num_clients = sluice_client_table_read(&server->clients, counts.clients);
    sluice_metrics_write(&counts, page);
    sluice_sample_list_unref(list);
}

static bool is_well(void *ctx, char *reason)
{
    const struct sluice_storage_server *server = ctx;
    return sluice_health_read(server->health, reason, SLUICE_HEALTH_REASON);
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
    sluice_health_stop(server->health);
    sluice_fetch_stop(server->fetch, sluice_clock_ns() + server->grace_ms * UINT64_C(1000000));
    sluice_rpc_server_shutdown(server->rpc, server->grace_ms);
}

uint64_t sluice_storage_server_num_unanswered(struct sluice_storage_server *server)
{
    return sluice_fetch_num_unanswered(server->fetch) + atomic_load(&server->transfers.num_open);
}

unsigned sluice_storage_server_num_hanging(struct sluice_storage_server *server)
{
    return sluice_watchdog_num_stuck(server->watchdog);
}

void sluice_storage_server_destroy(struct sluice_storage_server *server)
{
    if (!server)
        return;
    if (server->rpc)
        sluice_storage_server_stop(server);
    sluice_relist_close(server->relist);
    sluice_memory_budget_close(server->memory); /* streams of waiters go before the workers */
    sluice_fetch_close(server->fetch);
    sluice_watchdog_stop(server->watchdog);
    sluice_root_watch_close(server->root);
    /* Jobs of cancelled calls still hold their calls: they end before the rpc server does. */
    sluice_workers_destroy(server->workers);
    sluice_watchdog_destroy(server->watchdog);
    sluice_rpc_server_destroy(server->rpc);
    sluice_size_reader_destroy(server->size_reader);
    sluice_fetch_destroy(server->fetch);
    sluice_health_destroy(server->health);
    sluice_memory_budget_destroy(server->memory);
    sluice_buf_pool_destroy(server->buffers);
    server->parts.store->destroy(server->parts.store);
    sluice_sample_lists_destroy(server->lists);
    sluice_security_close(server->admission.security);
    sluice_rate_limit_clear(&server->link);
    sluice_sessions_destroy(server->admission.sessions);
    sluice_client_table_clear(&server->clients);
    sluice_stats_clear(&server->stats);
    free(server);
}
