#include "storage_server/server.h"

#include "base/log.h"
#include "cli/cli_set.h"
#include "lib/base/process.h"
#include "rpc/rpc_server.h"
#include "storage_server/data/descriptors.h"
#include "storage_server/options.h"
#include "storage_server/serving.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As storage_server/main.c, but for what belongs to a process: its limits on descriptors, signals,
 * standard output and end stay as they are. */
struct sluice_server {
    pid_t owner;
    struct sluice_cli_texts texts; /* what the options point to */
    struct sluice_server_options options;
    struct sluice_serving serving;
};

/* --- settings --- */

static sluice_status check_keys(const char *root, const struct sluice_setting *settings,
                                size_t num_settings, struct sluice_err *err)
{
    bool has_root = root != NULL;
    for (size_t i = 0; i < num_settings; i++) {
        const char *key = settings[i].key;
        if (key && strcmp(key, "root") == 0 && root)
            return sluice_fail(err, SLUICE_E_INVALID,
                               "root: the root is the first argument; several are settings alone");
        has_root |= key && strcmp(key, "root") == 0;
        if (key && strcmp(key, "sandbox") == 0)
            return sluice_fail(err, SLUICE_E_INVALID,
                               "sandbox: for offload_server alone; this process stays as it is");
        if (key && strcmp(key, "isolate-decoders") == 0)
            return sluice_fail(err, SLUICE_E_INVALID,
                               "isolate-decoders: for offload_server alone, which starts its "
                               "decoders before it has threads and secrets");
        if (key && strncmp(key, "max-connections", 15) == 0 && !sluice_rpc_server_can_limit())
            return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                               "%.64s: this library has gRPC from another one (libgrpc.so), where "
                               "it cannot limit connections; offload_server can",
                               key);
    }
    return has_root ? SLUICE_OK
                    : sluice_fail(err, SLUICE_E_INVALID, "root: there is none to serve");
}

static sluice_status read_settings(struct sluice_server *server, const char *root,
                                   const struct sluice_setting *settings, size_t num_settings,
                                   struct sluice_err *err)
{
    server->options = sluice_server_options_init();
    server->options.listen = "127.0.0.1:0";
    const struct sluice_setting folder = {"root", root};
    sluice_status status = check_keys(root, settings, num_settings, err);
    if (status == SLUICE_OK && root)
        status = sluice_server_options_set(&server->options, &folder, 1, &server->texts, err);
    if (status == SLUICE_OK)
        status = sluice_server_options_set(&server->options, settings, num_settings, &server->texts,
                                           err);
    if (status == SLUICE_OK && sluice_rpc_server_can_limit())
        status = sluice_descriptors_share(sluice_descriptors_limit(), &server->options, err);
    return status;
}

/* --- start --- */

/* The process is not ours to end. */
static void tell_deaf(void *ctx)
{
    const struct sluice_serving *serving = ctx;
    sluice_log(SLUICE_LOG_ERROR, "nobody can connect to the server at %s any more",
               serving->address);
}

static void free_server(struct sluice_server *server)
{
    sluice_serving_close(&server->serving);
    sluice_cli_texts_clear(&server->texts);
    free(server);
}

sluice_status sluice_server_start(const char *root, const struct sluice_setting *settings,
                                  size_t num_settings, struct sluice_server **server,
                                  struct sluice_err *err)
{
    sluice_status status = sluice_process_begin(err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_server *made = calloc(1, sizeof(*made));
    if (!made)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a server");
    made->owner = getpid();
    made->serving = (struct sluice_serving){
        .options = &made->options, .on_deaf = tell_deaf, .ctx = &made->serving};
    status = read_settings(made, root, settings, num_settings, err);
    if (status == SLUICE_OK)
        status = sluice_serving_limit(&made->serving, err);
    if (status == SLUICE_OK)
        status = sluice_serving_open(&made->serving, err);
    if (status != SLUICE_OK) {
        free_server(made);
        return status;
    }
    *server = made;
    return SLUICE_OK;
}

/* --- while it serves --- */

const char *sluice_server_address(const struct sluice_server *server)
{
    return server->serving.address;
}

sluice_status sluice_server_stats(struct sluice_server *server, char **json, struct sluice_err *err)
{
    const sluice_status status = sluice_process_check(server->owner, "server", err);
    return status == SLUICE_OK ? sluice_storage_server_stats_json(server->serving.server, json, err)
                               : status;
}

void sluice_server_reread(struct sluice_server *server)
{
    struct sluice_err err = {0};
    if (sluice_process_check(server->owner, "server", &err) == SLUICE_OK)
        sluice_storage_server_reread(server->serving.server);
    else
        sluice_log(SLUICE_LOG_ERROR, "%s", err.text);
}

void sluice_server_stop(struct sluice_server *server)
{
    /* A child has the memory, but none of the threads that would have to end: it stays. */
    if (!server || server->owner != getpid())
        return;
    const uint64_t num_unanswered = sluice_serving_stop(&server->serving);
    if (num_unanswered)
        sluice_log(SLUICE_LOG_ERROR, "%llu requests were not answered within the grace period",
                   (unsigned long long)num_unanswered);
    if (sluice_storage_server_num_hanging(server->serving.server)) {
        /* To free it is to wait for them, perhaps for ever. */
        sluice_log(SLUICE_LOG_WARN, "workers of the server at %s hang: its memory is not freed",
                   server->serving.address);
        return;
    }
    free_server(server);
}
