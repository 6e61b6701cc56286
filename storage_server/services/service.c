#include "storage_server/services/service.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "datasets/manifest/manifest.h"
#include "op/form.h"
#include "op/pipeline.h"
#include "rpc/peer.h"
#include "rpc/rpc_server.h"
#include "storage_server/data/sample_list.h"
#include "storage_server/observe/stats.h"
#include "storage_server/observe/watchdog.h"
#include "storage_server/services/health.h"
#include "storage_server/session/caller.h"
#include "storage_server/session/client_table.h"
#include "storage_server/session/grant.h"
#include "storage_server/session/memory_budget.h"
#include "storage_server/session/security.h"
#include "storage_server/work/workers.h"
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

#define OUR_NAME "offload_server " SLUICE_VERSION

static void finish_with(struct sluice_rpc_call *call, sluice_status status,
                        const struct sluice_err *err)
{
    sluice_rpc_call_finish(call, sluice_rpc_code_from_status(status), err->text);
}

static void reply_and_finish(struct sluice_rpc_call *call, sluice_status status,
                             struct sluice_message *reply, const struct sluice_err *err)
{
    if (status != SLUICE_OK) {
        sluice_message_clear(reply);
        finish_with(call, status, err);
        return;
    }
    sluice_rpc_call_send(call, reply);
    sluice_rpc_call_finish(call, SLUICE_RPC_OK, NULL);
}

/* --- Hello --- */

enum sluice_rpc_code sluice_service_agree(const struct sluice_sample_list *list,
                                          uint32_t protocol_version, const char *text,
                                          uint64_t fingerprint, const char *dataset_id,
                                          struct sluice_pipeline **pipeline, struct sluice_err *err)
{
    if (protocol_version != SLUICE_WIRE_PROTOCOL_VERSION) {
        sluice_fail(err, SLUICE_E_INVALID, "protocol version: the client speaks %u, the server %u",
                    protocol_version, SLUICE_WIRE_PROTOCOL_VERSION);
        return SLUICE_RPC_FAILED_PRECONDITION;
    }
    if (dataset_id[0] && strcmp(dataset_id, list->dataset_id) != 0) {
        sluice_fail(err, SLUICE_E_INVALID,
                    "other data: the client has dataset %s, the server %s; if its list was read "
                    "again, start the client anew",
                    dataset_id, list->dataset_id);
        return SLUICE_RPC_FAILED_PRECONDITION;
    }

    struct sluice_pipeline *parsed = NULL;
    if (text && text[0]) {
        const sluice_status status = sluice_pipeline_parse(text, &parsed, err);
        if (status != SLUICE_OK)
            return sluice_rpc_code_from_status(status);
        const uint64_t ours = sluice_pipeline_fingerprint(parsed);
        if (fingerprint && fingerprint != ours) {
            sluice_fail(err, SLUICE_E_INVALID,
                        "other pipeline: the client's fingerprint is %016llx, the server's %016llx",
                        (unsigned long long)fingerprint, (unsigned long long)ours);
            sluice_pipeline_destroy(parsed);
            return SLUICE_RPC_FAILED_PRECONDITION;
        }
    }
    *pipeline = parsed;
    return SLUICE_RPC_OK;
}

uint32_t sluice_offload_forms(bool has_jpeg_index)
{
    uint32_t forms = 0;
    for (unsigned form = 0; form < sluice_num_forms(); form++) {
        if (has_jpeg_index || !sluice_form_type((enum sluice_form)form)->needs_index)
            forms |= 1u << form;
    }
    return forms;
}

static uint32_t whole_cores(double cores)
{
    return cores < 1 ? 1 : (uint32_t)(cores + 0.5);
}

static void on_hello(void *ctx, struct sluice_rpc_call *call, struct sluice_message *message)
{
    struct sluice_offload *offload = ctx;
    struct sluice_err err = {0};
    struct sluice_wire_hello hello = {0};
    sluice_status status = sluice_wire_get_hello_request(message, &hello, &err);
    if (status != SLUICE_OK) {
        sluice_rpc_call_finish(call, sluice_rpc_code_of_request(status), err.text);
        return;
    }

    struct sluice_sample_list *list = sluice_sample_lists_now(offload->lists);
    struct sluice_pipeline *pipeline = NULL;
    char peer[SLUICE_PEER_TEXT];
    sluice_peer_text(sluice_rpc_call_peer(call), peer);
    const enum sluice_rpc_code code =
        sluice_service_agree(list, hello.protocol_version, hello.pipeline,
                             hello.pipeline_fingerprint, hello.dataset_id, &pipeline, &err);
    if (code != SLUICE_RPC_OK) {
        sluice_log(SLUICE_LOG_WARN, "refused %.100s (%s): %s", hello.peer ? hello.peer : "a client",
                   peer, err.text);
        sluice_rpc_call_finish(call, code, err.text);
    } else {
        const struct sluice_caller *caller = sluice_rpc_call_client(call);
        struct sluice_grant *grant = caller->grant;
        double cores = sluice_workers_prep_cores(offload->workers);
        if (sluice_grant_cores(grant) > 0 && sluice_grant_cores(grant) < cores)
            cores = sluice_grant_cores(grant);
        if (grant)
            sluice_log(SLUICE_LOG_INFO, "token %s: %.100s at %s", sluice_grant_name(grant),
                       hello.peer ? hello.peer : "a client", peer);
        struct sluice_wire_hello answer = {
            .protocol_version = SLUICE_WIRE_PROTOCOL_VERSION,
            .peer = (char[]){OUR_NAME},
            .pipeline_fingerprint = pipeline ? sluice_pipeline_fingerprint(pipeline) : 0,
            .num_samples = list->manifest->num_entries,
            .prep_cores = cores,
            .prep_workers = whole_cores(cores),
            .max_in_flight = offload->max_in_flight,
            .max_image_pixels = offload->max_image_pixels,
            .max_file_bytes = offload->max_file_bytes,
            .has_jpeg_index = list->jpeg_indexes != NULL,
            .has_hashes = true,
            .has_jpeg_crop_restart = offload->has_crop_restart,
            .has_listed_id = true,
            .has_file_image = true,
            .forms = sluice_offload_forms(list->jpeg_indexes != NULL),
            .list_hash = hello.has_fields ? list->list_hash : list->plain_list_hash,
            .machine = offload->machine,
        };
        memcpy(answer.dataset_id, list->dataset_id, sizeof(answer.dataset_id));
        struct sluice_message reply = {0};
        status = sluice_wire_put_hello_reply(&answer, &reply, &err);
        reply_and_finish(call, status, &reply, &err);
        sluice_pipeline_destroy(pipeline);
    }
    sluice_sample_list_unref(list);
    sluice_wire_hello_clear(&hello);
}

/* --- Stats --- */

struct sluice_wire_stats sluice_offload_stats(struct sluice_offload *offload)
{
    struct sluice_wire_stats stats = sluice_stats_read(offload->stats, sluice_clock_ns());
    const struct sluice_worker_pool_stats prep =
        sluice_workers_stats(offload->workers, SLUICE_GROUP_PREP);
    struct sluice_rpc_server *rpc = atomic_load(&offload->rpc);
    stats.wire_bytes = rpc ? sluice_rpc_server_bytes_sent(rpc) : 0;
    stats.refused_paths = offload->store->refused(offload->store);
    stats.queue_depth = (uint32_t)prep.queue_depth;
    stats.queue_peak = (uint32_t)prep.queue_peak;
    stats.prep_cores = sluice_workers_prep_cores(offload->workers);
    stats.prep_workers = whole_cores(stats.prep_cores);
    stats.cpu_price = sluice_workers_offer(offload->workers).cpu_price;
    stats.process_cpu_s = (double)sluice_process_cpu_ns() * 1e-9;
    stats.busy_cores = stats.uptime_s > 0 ? (double)prep.busy_ns * 1e-9 / stats.uptime_s : 0;
    return stats;
}

_Static_assert(CLIENT_TABLE_NAME <= SLUICE_WIRE_CLIENT_NAME &&
                   SLUICE_PEER_HOST <= SLUICE_WIRE_CLIENT_NAME,
               "a row's texts fit");
_Static_assert(CLIENT_TABLE_ROWS + 1 <= SLUICE_WIRE_MAX_CLIENTS, "so do the rows");

static void add_clients(struct sluice_offload *offload, struct sluice_wire_stats *stats,
                        struct sluice_wire_client clients[CLIENT_TABLE_ROWS + 1])
{
    struct sluice_client_row rows[CLIENT_TABLE_ROWS + 1];
    stats->num_clients = sluice_client_table_read(offload->clients, rows);
    stats->clients = clients;
    for (size_t i = 0; i < stats->num_clients; i++) {
        struct sluice_wire_client *client = &clients[i];
        *client = (struct sluice_wire_client){.samples = rows[i].samples,
                                              .payload_bytes = rows[i].payload_bytes,
                                              .errors = rows[i].errors,
                                              .streams = rows[i].streams};
        memcpy(client->name, rows[i].name, sizeof(rows[i].name));
        memcpy(client->address, rows[i].address, sizeof(rows[i].address));
        if (rows[i].has_token)
            memcpy(client->token, rows[i].name, sizeof(rows[i].name));
    }
}

/* Shown by the Stats call, not by the JSON line. */
static void add_state(struct sluice_offload *offload, struct sluice_wire_stats *stats)
{
    char reason[64];
    struct sluice_rpc_server *rpc = atomic_load(&offload->rpc);
    const struct sluice_memory_stats memory = sluice_memory_stats(offload->memory);
    const struct sluice_refusals refusals = sluice_security_refusals(offload->security);
    (void)sluice_print(stats->server, sizeof(stats->server), "%s", OUR_NAME);
    stats->is_not_serving = !sluice_health_read(offload->health, reason, sizeof(reason));
    stats->hanging_workers = sluice_watchdog_num_stuck(offload->watchdog);
    stats->refused_connections = rpc ? sluice_rpc_server_num_refused(rpc) : 0;
    for (int i = 0; i < SLUICE_NUM_REFUSALS; i++)
        stats->refused_calls += refusals.calls[i];
    stats->memory_limit = memory.bytes;
    stats->memory_used = memory.used;
}

static void on_stats(void *ctx, struct sluice_rpc_call *call, struct sluice_message *message)
{
    (void)message; /* StatsRequest has no fields */
    struct sluice_offload *offload = ctx;
    struct sluice_wire_stats stats = sluice_offload_stats(offload);
    struct sluice_wire_client clients[CLIENT_TABLE_ROWS + 1];
    add_clients(offload, &stats, clients);
    add_state(offload, &stats);
    struct sluice_err err = {0};
    struct sluice_message reply = {0};
    const sluice_status status = sluice_wire_put_stats_reply(&stats, &reply, &err);
    reply_and_finish(call, status, &reply, &err);
}

struct sluice_rpc_method *sluice_offload_methods(struct sluice_offload *offload,
                                                 struct sluice_rpc_method *end)
{
    *end++ = (struct sluice_rpc_method){
        .path = SLUICE_METHOD_HELLO,
        .is_unary = true,
        .ctx = offload,
        .on_message = on_hello,
    };
    *end++ = (struct sluice_rpc_method){
        .path = SLUICE_METHOD_STATS,
        .is_unary = true,
        .ctx = offload,
        .on_message = on_stats,
    };
    return end;
}
