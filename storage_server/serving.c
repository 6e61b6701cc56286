#include "storage_server/serving.h"

#include "base/log.h"
#include "metrics/metrics_server.h"
#include "storage_server/data/disk_gate.h"
#include "storage_server/data/disk_watch.h"
#include "storage_server/observe/self_watch.h"
#include "storage_server/server.h"
#include "storage_server/tuning.h"
#include "storage_server/work/prep_limits.h"
#include "store/open.h"
#include "store/store_cache.h"
#include "trace/tracer.h"

#include <string.h>
#include <sys/stat.h>

/* The gate of an earlier root on the same device, or a new one.  NULL: it is not possible here;
 * then the reads have their I/O class only. */
static struct sluice_disk_gate *open_gate(const struct sluice_serving *serving, size_t root)
{
    const struct sluice_roots *roots = &serving->options->roots;
    struct sluice_disk_gate *gate = NULL;
    struct sluice_err err = {0};
    struct stat st, other;
    const char *place = roots->at[root].place;
    for (size_t i = 0; stat(place, &st) == 0 && i < root; i++) {
        if (serving->gates[i] && stat(roots->at[i].place, &other) == 0 && st.st_dev == other.st_dev)
            return serving->gates[i];
    }
    if (sluice_disk_gate_open("", place, &gate, &err) != SLUICE_OK)
        sluice_log(SLUICE_LOG_WARN, "prep-io idle: %s; other programs' reads are not seen",
                   err.text);
    return gate;
}

/* Whether every folder has one, so that the I/O class is not needed. */
static bool open_gates(struct sluice_serving *serving)
{
    const struct sluice_server_options *options = serving->options;
    bool has_all = strcmp(options->prep_io, "idle") == 0, has_any = false;
    for (size_t i = 0; strcmp(options->prep_io, "idle") == 0 && i < options->roots.num; i++) {
        if (sluice_store_is_remote(options->roots.at[i].place))
            continue;
        serving->gates[i] = open_gate(serving, i);
        has_all &= serving->gates[i] != NULL;
        has_any |= serving->gates[i] != NULL;
    }
    return has_all && has_any;
}

static void close_gates(struct sluice_serving *serving)
{
    for (size_t i = 0; i < SLUICE_MAX_ROOTS; i++) {
        struct sluice_disk_gate *gate = serving->gates[i];
        for (size_t k = i; k < SLUICE_MAX_ROOTS; k++) {
            if (serving->gates[k] == gate)
                serving->gates[k] = NULL;
        }
        sluice_disk_gate_close(gate);
    }
}

sluice_status sluice_serving_limit(struct sluice_serving *serving, struct sluice_err *err)
{
    const struct sluice_server_options *options = serving->options;
    if (options->trace) {
        const struct sluice_tracer_options trace = {.path = options->trace,
                                                    .service = "offload_server",
                                                    .max_lines_per_s = TUNING_TRACES_PER_S};
        const sluice_status status = sluice_tracer_open(&trace, &serving->parts.tracer, err);
        if (status != SLUICE_OK)
            return status;
    }
    if (options->cache) {
        const sluice_status status = sluice_store_cache_prepare(options->cache, err);
        if (status != SLUICE_OK)
            return status;
    }
    const bool has_gates = open_gates(serving);
    const struct sluice_prep_limits_options limits = {
        .has_nice = options->has_prep_nice,
        .nice = (int)options->prep_nice,
        .policy = options->prep_sched,
        /* The scheduler bfq gives the idle class little even while nobody else reads.  With a gate
         * the class is not needed. */
        .io_class = has_gates ? "low" : options->prep_io,
        .cgroup = options->prep_cgroup,
        .cpu_max = options->prep_cpu_max,
    };
    return sluice_prep_limits_open(&limits, &serving->parts.limits, err);
}

static size_t take_turn(void *gate)
{
    return sluice_disk_gate_take(gate);
}

static void give_turn(void *gate)
{
    sluice_disk_gate_give(gate);
}

/* Where the samples come from. */
static sluice_status open_store(struct sluice_serving *serving, struct sluice_err *err)
{
    const struct sluice_server_options *options = serving->options;
    struct sluice_server_parts *parts = &serving->parts;
    struct sluice_store_options store_options = sluice_server_store_options(options, NULL);
    struct sluice_file_turns turns[SLUICE_MAX_ROOTS] = {{NULL, NULL, NULL}};
    store_options.is_cached = sluice_disk_is_cached;
    for (size_t i = 0; i < options->roots.num; i++) {
        if (serving->gates[i])
            turns[i] = (struct sluice_file_turns){take_turn, give_turn, serving->gates[i]};
    }
    sluice_status status =
        sluice_store_open_roots(&store_options, &options->roots, turns, &parts->store, err);
    if (status != SLUICE_OK || !options->cache)
        return status;
    const struct sluice_store_cache_options kept = {options->cache, options->cache_bytes};
    status = sluice_store_cache_open(&kept, parts->store, &parts->cache, err);
    parts->store = parts->cache;
    return status;
}

static sluice_status check_itself(void *ctx, unsigned timeout_ms, struct sluice_err *err)
{
    const struct sluice_serving *serving = ctx;
    return sluice_storage_server_check(serving->server, timeout_ms, err);
}

static void tell_deaf(void *ctx)
{
    const struct sluice_serving *serving = ctx;
    serving->on_deaf(serving->ctx);
}

static sluice_status watch_itself(struct sluice_serving *serving, struct sluice_err *err)
{
    const struct sluice_self_watch_options self = {
        .check = check_itself,
        .on_deaf = tell_deaf,
        .ctx = serving,
        .interval_ms = (unsigned)(serving->options->self_check_s * 1000 + 0.5),
    };
    return self.interval_ms > 0 ? sluice_self_watch_open(&self, &serving->watch, err) : SLUICE_OK;
}

sluice_status sluice_serving_open(struct sluice_serving *serving, struct sluice_err *err)
{
    const struct sluice_server_options *options = serving->options;
    sluice_status status = open_store(serving, err);
    if (status == SLUICE_OK)
        status = sluice_storage_server_create(options, &serving->parts, &serving->server, err);
    if (status != SLUICE_OK)
        return status;
    sluice_storage_server_address(serving->server, options->listen, serving->address);
    if (options->metrics)
        status = sluice_storage_server_serve_metrics(serving->server, options->metrics,
                                                     &serving->metrics, err);
    if (status == SLUICE_OK)
        status = watch_itself(serving, err);
    if (status != SLUICE_OK)
        return status;
    if (serving->metrics)
        sluice_log(SLUICE_LOG_INFO, "metrics at port %d",
                   sluice_metrics_server_port(serving->metrics));
    sluice_storage_server_introduce(serving->server, options);
    return SLUICE_OK;
}

uint64_t sluice_serving_stop(struct sluice_serving *serving)
{
    sluice_log(SLUICE_LOG_INFO, "stopping: answering what was accepted");
    sluice_self_watch_close(serving->watch);
    serving->watch = NULL;
    sluice_storage_server_stop(serving->server);
    return sluice_storage_server_num_unanswered(serving->server);
}

/* Stop the services before the objects that they borrow. */
void sluice_serving_close(struct sluice_serving *serving)
{
    sluice_self_watch_close(serving->watch);
    sluice_metrics_server_destroy(serving->metrics);
    sluice_storage_server_destroy(serving->server);
    sluice_prep_limits_close(serving->parts.limits);
    close_gates(serving);
    sluice_tracer_close(serving->parts.tracer);
}
