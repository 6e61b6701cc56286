#include "storage_server/server.h"

#include "base/cli_set.h"
#include "base/log.h"
#include "libsluice/process.h"
#include "rpc/rpc_server.h"
#include "storage_server/descriptors.h"
#include "storage_server/disk_gate.h"
#include "storage_server/options.h"
#include "storage_server/prep_limits.h"
#include "storage_server/self_watch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As storage_server/main.c, but for what belongs to a process: its limits on descriptors, signals,
 * standard output and end stay as they are. */
struct sluice_server {
    pid_t owner;
    struct sluice_cli_texts texts; /* what the options point to */
    struct sluice_server_options options;
    struct sluice_storage_server *storage;
    struct sluice_metrics_server *metrics;
    struct sluice_self_watch *self;
    char address[SLUICE_HOST_PORT_BYTES];
};

/* --- settings --- */

static sluice_status check_keys(const struct sluice_setting *settings, size_t num_settings,
                                struct sluice_err *err)
{
    for (size_t i = 0; i < num_settings; i++) {
        const char *key = settings[i].key;
        if (key && strcmp(key, "root") == 0)
            return sluice_fail(err, SLUICE_E_INVALID,
                               "root: the folder is the first argument, not a setting");
        if (key && strncmp(key, "max-connections", 15) == 0 && !sluice_rpc_server_can_limit())
            return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                               "%.64s: this library has gRPC from another one (libgrpc.so), where "
                               "it cannot limit connections; offload_server can",
                               key);
    }
    return SLUICE_OK;
}

static sluice_status read_settings(struct sluice_server *server, const char *root,
                                   const struct sluice_setting *settings, size_t num_settings,
                                   struct sluice_err *err)
{
    server->options = sluice_server_options_init();
    server->options.listen = "127.0.0.1:0";
    const struct sluice_setting folder = {"root", root};
    sluice_status status =
        sluice_server_options_set(&server->options, &folder, 1, &server->texts, err);
    if (status == SLUICE_OK)
        status = check_keys(settings, num_settings, err);
    if (status == SLUICE_OK)
        status = sluice_server_options_set(&server->options, settings, num_settings, &server->texts,
                                           err);
    if (status == SLUICE_OK && sluice_rpc_server_can_limit())
        status = sluice_descriptors_share(sluice_descriptors_limit(), &server->options, err);
    return status;
}

/* --- start --- */

/* NULL: not asked for, or not possible here; then the reads have their I/O class only. */
static struct sluice_disk_gate *open_gate(const struct sluice_server_options *options)
{
    struct sluice_disk_gate *gate = NULL;
    struct sluice_err err = {0};
    if (strcmp(options->prep_io, "idle") == 0 &&
        sluice_disk_gate_open("", options->root, &gate, &err) != SLUICE_OK)
        sluice_log(SLUICE_LOG_WARN, "prep-io idle: %s; other programs' reads are not seen",
                   err.text);
    return gate;
}

static sluice_status open_limits(struct sluice_server_options *options, struct sluice_err *err)
{
    options->disk_gate = open_gate(options);
    const struct sluice_prep_limits_options limits = {
        .has_nice = options->has_prep_nice,
        .nice = (int)options->prep_nice,
        .policy = options->prep_sched,
        .io_class = options->disk_gate ? "low" : options->prep_io, /* as in main.c */
        .cgroup = options->prep_cgroup,
        .cpu_max = options->prep_cpu_max,
    };
    return sluice_prep_limits_open(&limits, &options->prep_limits, err);
}

static sluice_status check_itself(void *ctx, unsigned timeout_ms, struct sluice_err *err)
{
    const struct sluice_server *server = ctx;
    return sluice_storage_server_check(server->storage, timeout_ms, err);
}

/* The process is not ours to end. */
static void tell_deaf(void *ctx)
{
    const struct sluice_server *server = ctx;
    sluice_log(SLUICE_LOG_ERROR, "nobody can connect to the server at %s any more",
               server->address);
}

static sluice_status watch_itself(struct sluice_server *server, struct sluice_err *err)
{
    const struct sluice_self_watch_options self = {
        .check = check_itself,
        .on_deaf = tell_deaf,
        .ctx = server,
        .interval_ms = (unsigned)(server->options.self_check_s * 1000 + 0.5),
    };
    return self.interval_ms > 0 ? sluice_self_watch_open(&self, &server->self, err) : SLUICE_OK;
}

/* What serves goes before what it borrows. */
static void free_server(struct sluice_server *server)
{
    sluice_self_watch_close(server->self);
    sluice_metrics_server_destroy(server->metrics);
    sluice_storage_server_destroy(server->storage);
    sluice_prep_limits_close(server->options.prep_limits);
    sluice_disk_gate_close(server->options.disk_gate);
    sluice_cli_texts_clear(&server->texts);
    free(server);
}

sluice_status sluice_server_start(const char *root, const struct sluice_setting *settings,
                                  size_t num_settings, struct sluice_server **server,
                                  struct sluice_err *err)
{
    sluice_status status = process_begin(err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_server *made = calloc(1, sizeof(*made));
    if (!made)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a server");
    made->owner = getpid();
    status = read_settings(made, root, settings, num_settings, err);
    if (status == SLUICE_OK)
        status = open_limits(&made->options, err);
    if (status == SLUICE_OK)
        status = sluice_storage_server_create(&made->options, NULL, &made->storage, err);
    if (status == SLUICE_OK)
        sluice_storage_server_address(made->storage, made->options.listen, made->address);
    if (status == SLUICE_OK && made->options.metrics)
        status = sluice_storage_server_serve_metrics(made->storage, made->options.metrics,
                                                     &made->metrics, err);
    if (status == SLUICE_OK)
        status = watch_itself(made, err);
    if (status != SLUICE_OK) {
        free_server(made);
        return status;
    }
    if (made->metrics)
        sluice_log(SLUICE_LOG_INFO, "metrics at port %d",
                   sluice_metrics_server_port(made->metrics));
    sluice_storage_server_introduce(made->storage, &made->options);
    *server = made;
    return SLUICE_OK;
}

/* --- while it serves --- */

const char *sluice_server_address(const struct sluice_server *server)
{
    return server->address;
}

sluice_status sluice_server_stats(struct sluice_server *server, char **json, struct sluice_err *err)
{
    const sluice_status status = process_check(server->owner, "server", err);
    return status == SLUICE_OK ? sluice_storage_server_stats_json(server->storage, json, err)
                               : status;
}

void sluice_server_reread(struct sluice_server *server)
{
    struct sluice_err err = {0};
    if (process_check(server->owner, "server", &err) == SLUICE_OK)
        sluice_storage_server_reread(server->storage);
    else
        sluice_log(SLUICE_LOG_ERROR, "%s", err.text);
}

void sluice_server_stop(struct sluice_server *server)
{
    /* A child has the memory, but none of the threads that would have to end: it stays. */
    if (!server || server->owner != getpid())
        return;
    sluice_log(SLUICE_LOG_INFO, "stopping: answering what was accepted");
    sluice_self_watch_close(server->self);
    server->self = NULL;
    sluice_storage_server_stop(server->storage);
    const uint64_t num_unanswered = sluice_storage_server_num_unanswered(server->storage);
    if (num_unanswered)
        sluice_log(SLUICE_LOG_ERROR, "%llu requests were not answered within the grace period",
                   (unsigned long long)num_unanswered);
    if (sluice_storage_server_num_hanging(server->storage)) {
        /* To free it is to wait for them, perhaps for ever. */
        sluice_log(SLUICE_LOG_WARN, "workers of the server at %s hang: its memory is not freed",
                   server->address);
        return;
    }
    free_server(server);
}
