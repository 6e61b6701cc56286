#include "compute_client/fetch/client.h"

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "compute_client/fetch/client_call.h"
#include "compute_client/fetch/outage.h"
#include "compute_client/loader/source/retry.h"
#include "compute_client/loader/tuning.h"
#include "rpc/rpc_client.h"
#include "wire/wire.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HELLO_TIMEOUT_MS 5000
#define STATS_TIMEOUT_MS 20000

/* The limit of messages before sluice_client_bound_messages(): those of Hello, ListSamples, Stats
 * and Probe are at most half as large. */
#define FIRST_MESSAGE_BYTES ((size_t)8 << 20)

struct sluice_client {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_stopped;
    bool has_told; /* that the server sends no hashes */
    struct sluice_outage outage;
    struct sluice_err told; /* the cause of the last warning, at told_ns */
    uint64_t told_ns;
    bool was_there;                     /* the server has answered at least once */
    struct sluice_rpc_channel *channel; /* constant once messages are bounded */

    /* Constant. */
    char *target, *advice, *token_file;
    char *ca, *cert, *key, *server_name; /* NULL: none */
    bool has_tls;
    double retry_for_s;
    struct sluice_live *live; /* or NULL */
};

static sluice_status make_channel(const struct sluice_client *client, size_t max_bytes,
                                  struct sluice_rpc_channel **channel, struct sluice_err *err)
{
    const struct sluice_rpc_client_tls tls = {.ca = client->ca,
                                              .cert = client->cert,
                                              .key = client->key,
                                              .server_name = client->server_name};
    const struct sluice_rpc_channel_options options = {
        .target = client->target,
        .max_receive_bytes = max_bytes,
        .tls = client->has_tls ? &tls : NULL,
        .token_file = client->token_file,
    };
    return sluice_rpc_channel_create(&options, channel, err);
}

/* NULL stays NULL; false: no memory. */
static bool copy_text(const char *text, char **copy)
{
    *copy = text ? strdup(text) : NULL;
    return *copy || !text;
}

static bool copy_texts(struct sluice_client *client, const struct sluice_client_options *options)
{
    static const struct sluice_rpc_client_tls none;
    const struct sluice_rpc_client_tls *tls = options->tls ? options->tls : &none;
    client->has_tls = options->tls != NULL;
    return copy_text(options->target, &client->target) &&
           copy_text(options->advice ? options->advice : "", &client->advice) &&
           copy_text(options->token_file, &client->token_file) && copy_text(tls->ca, &client->ca) &&
           copy_text(tls->cert, &client->cert) && copy_text(tls->key, &client->key) &&
           copy_text(tls->server_name, &client->server_name);
}

sluice_status sluice_client_create(const struct sluice_client_options *options,
                                   struct sluice_client **client, struct sluice_err *err)
{
    struct sluice_client *c = calloc(1, sizeof(*c));
    if (!c)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a client");
    pthread_mutex_init(&c->lock, NULL);
    sluice_cond_init(&c->changed);
    c->retry_for_s = options->retry_for_s;
    c->live = options->live;
    sluice_status status = copy_texts(c, options)
                               ? SLUICE_OK
                               : sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a client");
    if (status == SLUICE_OK)
        status = make_channel(c, FIRST_MESSAGE_BYTES, &c->channel, err);
    if (status == SLUICE_OK)
        *client = c;
    else
        sluice_client_destroy(c);
    return status;
}

void sluice_client_destroy(struct sluice_client *client)
{
    if (!client)
        return;
    sluice_rpc_channel_destroy(client->channel);
    pthread_cond_destroy(&client->changed);
    pthread_mutex_destroy(&client->lock);
    free(client->target);
    free(client->advice);
    free(client->token_file);
    free(client->ca);
    free(client->cert);
    free(client->key);
    free(client->server_name);
    free(client);
}

void sluice_client_stop(struct sluice_client *client)
{
    pthread_mutex_lock(&client->lock);
    client->is_stopped = true;
    pthread_cond_broadcast(&client->changed);
    sluice_rpc_channel_stop(client->channel);
    pthread_mutex_unlock(&client->lock);
}

sluice_status sluice_client_bound_messages(struct sluice_client *client, size_t max_bytes,
                                           struct sluice_err *err)
{
    struct sluice_rpc_channel *channel = NULL;
    const sluice_status status = make_channel(client, max_bytes, &channel, err);
    if (status != SLUICE_OK)
        return status;
    pthread_mutex_lock(&client->lock);
    struct sluice_rpc_channel *old = client->channel;
    client->channel = channel;
    if (client->is_stopped)
        sluice_rpc_channel_stop(channel);
    pthread_mutex_unlock(&client->lock);
    sluice_rpc_channel_destroy(old);
    return SLUICE_OK;
}

bool sluice_client_is_stopped(struct sluice_client *client)
{
    pthread_mutex_lock(&client->lock);
    const bool is_stopped = client->is_stopped;
    pthread_mutex_unlock(&client->lock);
    return is_stopped;
}

struct sluice_rpc_channel *sluice_client_channel(struct sluice_client *client)
{
    return client->channel;
}

const char *sluice_client_target(const struct sluice_client *client)
{
    return client->target;
}

double sluice_client_retry_for_s(const struct sluice_client *client)
{
    return client->retry_for_s;
}

/* Under the lock. */
static void show_outage(const struct sluice_client *client)
{
    if (!client->live)
        return;
    sluice_live_set(&client->live->lost_since_ns, client->outage.since_ns);
    sluice_live_set(&client->live->outages, client->outage.num);
}

/* Under the lock, in an outage that was logged: whether it has another cause, and the last line is
 * old enough for another one. */
static bool has_new_cause(const struct sluice_client *client, const char *cause, uint64_t now_ns)
{
    return client->outage.is_told && strcmp(client->told.text, cause) != 0 &&
           now_ns - client->told_ns >= TUNING_TELL_AGAIN_NS;
}

void sluice_client_tell_lost(struct sluice_client *client, uint64_t at_ns, const char *cause,
                             bool has_others)
{
    uint64_t untold = 0;
    const uint64_t now = sluice_clock_ns();
    pthread_mutex_lock(&client->lock);
    const bool is_first =
        !client->is_stopped && sluice_outage_lost(&client->outage, at_ns, &untold);
    const bool must_tell = is_first || (!client->is_stopped && has_new_cause(client, cause, now));
    if (must_tell) {
        snprintf(client->told.text, sizeof(client->told.text), "%s", cause);
        client->told_ns = now;
    }
    const char *advice = client->was_there ? "" : client->advice;
    show_outage(client);
    pthread_mutex_unlock(&client->lock);
    if (!must_tell)
        return;
    char retries[300] = "", before[64] = "";
    if (is_first && has_others)
        snprintf(retries, sizeof(retries), " (it is used again once it is back)");
    else if (is_first && client->retry_for_s > 0)
        sluice_snprintf(retries, sizeof(retries), " (trying for up to %.7g s%s%s)",
                        client->retry_for_s, advice[0] ? "; " : "", advice);
    if (untold > 0)
        snprintf(before, sizeof(before), " (it was away %llu time%s more before)",
                 (unsigned long long)untold, untold == 1 ? "" : "s");
    sluice_log(SLUICE_LOG_WARN, "%s%s%s", cause, retries, before);
}

void sluice_client_tell_back(struct sluice_client *client)
{
    double away_s = 0;
    pthread_mutex_lock(&client->lock);
    const bool was_there = client->was_there;
    client->was_there = true;
    const bool must_tell = sluice_outage_back(&client->outage, sluice_clock_ns(), &away_s);
    show_outage(client);
    pthread_mutex_unlock(&client->lock);
    if (must_tell)
        sluice_log(SLUICE_LOG_INFO, "%s is %s after %.1f s", client->target,
                   was_there ? "back" : "there", away_s);
}

bool sluice_client_is_passing(enum sluice_rpc_code code)
{
    switch (code) {
    case SLUICE_RPC_INVALID_ARGUMENT:
    case SLUICE_RPC_NOT_FOUND:
    case SLUICE_RPC_PERMISSION_DENIED:
    case SLUICE_RPC_UNAUTHENTICATED:
    case SLUICE_RPC_FAILED_PRECONDITION:
    case SLUICE_RPC_UNIMPLEMENTED:
        return false;
    default:
        /* When a server is killed, its calls end with UNAVAILABLE, INTERNAL or UNKNOWN, depending
         * on how far they were. */
        return true;
    }
}

bool sluice_client_wait(struct sluice_client *client, uint64_t ns)
{
    const uint64_t until_ns = sluice_clock_ns() + ns;
    bool has_time = true;
    pthread_mutex_lock(&client->lock);
    while (has_time && !client->is_stopped)
        has_time = sluice_cond_wait_until(&client->changed, &client->lock, until_ns);
    const bool is_stopped = client->is_stopped;
    pthread_mutex_unlock(&client->lock);
    return !is_stopped;
}

static sluice_status check_hello(struct sluice_client *client,
                                 const struct sluice_pipeline *pipeline, const char *dataset_id,
                                 const struct sluice_wire_hello *reply, struct sluice_err *err)
{
    if (reply->protocol_version != SLUICE_WIRE_PROTOCOL_VERSION)
        return sluice_fail(err, SLUICE_E_INVALID, "%s speaks protocol %u, and we speak %u",
                           client->target, reply->protocol_version, SLUICE_WIRE_PROTOCOL_VERSION);
    const uint64_t ours = sluice_pipeline_fingerprint(pipeline);
    if (reply->pipeline_fingerprint != ours)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%s reads the pipeline as %016llx, and we as %016llx: another version",
                           client->target, (unsigned long long)reply->pipeline_fingerprint,
                           (unsigned long long)ours);
    if (dataset_id[0] && strcmp(dataset_id, reply->dataset_id) != 0)
        return sluice_fail(err, SLUICE_E_INVALID, "%s has dataset %s, and we began with %s",
                           client->target, reply->dataset_id, dataset_id);
    return SLUICE_OK;
}

static void tell_without_hashes(struct sluice_client *client)
{
    pthread_mutex_lock(&client->lock);
    const bool is_first = !client->has_told;
    client->has_told = true;
    pthread_mutex_unlock(&client->lock);
    if (is_first)
        sluice_log(SLUICE_LOG_WARN,
                   "%s is of a version that sends no hashes: what changes on the way here is not "
                   "noticed",
                   client->target);
}

/* The cause in our words, where we have some; `text` is gRPC's or the server's. */
static sluice_status fail_call(const struct sluice_client *client, sluice_status status,
                               enum sluice_rpc_code code, const char *text, struct sluice_err *err)
{
    const char *why = sluice_rpc_why_unreachable(code, text);
    if (!why)
        return sluice_fail(err, status, "%s: %s", client->target, text);
    sluice_log(SLUICE_LOG_DEBUG, "%s: %s", client->target, text);
    return sluice_fail(err, status, "cannot reach %s: %s", client->target, why);
}

sluice_status sluice_client_hello_once(struct sluice_client *client,
                                       const struct sluice_pipeline *pipeline,
                                       const char *dataset_id, struct sluice_server_info *info,
                                       bool *is_passing, struct sluice_err *err)
{
    *is_passing = false;
    struct sluice_wire_hello hello = {
        .protocol_version = SLUICE_WIRE_PROTOCOL_VERSION,
        .peer = (char *)(uintptr_t) "offload_train " SLUICE_VERSION,
        .pipeline = (char *)(uintptr_t)sluice_pipeline_spec(pipeline),
        .pipeline_fingerprint = sluice_pipeline_fingerprint(pipeline),
        .has_fields = true,
    };
    memcpy(hello.dataset_id, dataset_id, strnlen(dataset_id, sizeof(hello.dataset_id) - 1));
    struct sluice_message request = {0}, reply = {0};
    sluice_status status = sluice_wire_put_hello_request(&hello, &request, err);
    if (status != SLUICE_OK) {
        sluice_message_clear(&request);
        return status;
    }
    enum sluice_rpc_code code = SLUICE_RPC_UNKNOWN;
    struct sluice_err cause = {0};
    status = sluice_rpc_unary(client->channel, SLUICE_METHOD_HELLO, &request, HELLO_TIMEOUT_MS,
                              &reply, &code, &cause);
    sluice_message_clear(&request);
    if (status != SLUICE_OK) {
        *is_passing = sluice_client_is_passing(code);
        sluice_message_clear(&reply);
        return fail_call(client, status, code, cause.text, err);
    }
    struct sluice_wire_hello said = {0};
    status = sluice_wire_get_hello_reply(&reply, &said, &cause);
    sluice_message_clear(&reply);
    if (status != SLUICE_OK) {
        *is_passing = status == SLUICE_E_IO; /* damaged on its way */
        return sluice_fail(err, status, "%s: %s", client->target, cause.text);
    }
    status = check_hello(client, pipeline, dataset_id, &said, err);
    if (status == SLUICE_OK) {
        *info = (struct sluice_server_info){
            .num_samples = said.num_samples,
            .prep_cores = said.prep_cores > 0 ? said.prep_cores : said.prep_workers,
            .max_in_flight = said.max_in_flight ? said.max_in_flight : 1,
            .forms = said.forms,
            .max_image_pixels = said.max_image_pixels,
            .max_file_bytes = said.max_file_bytes,
            .has_jpeg_index = said.has_jpeg_index,
            .has_hashes = said.has_hashes,
            .has_jpeg_crop_restart = said.has_jpeg_crop_restart,
            .has_listed_id = said.has_listed_id,
            .has_file_image = said.has_file_image,
            .list_hash = said.list_hash,
            .machine = said.machine,
        };
        snprintf(info->name, sizeof(info->name), "%s", said.peer ? said.peer : "");
        memcpy(info->dataset_id, said.dataset_id, sizeof(info->dataset_id));
        if (!said.has_hashes)
            tell_without_hashes(client);
    }
    sluice_wire_hello_clear(&said);
    return status;
}

sluice_status sluice_client_call(struct sluice_client *client, sluice_client_attempt_fn *attempt,
                                 void *ctx, struct sluice_err *err)
{
    return sluice_client_call_for(client, client->retry_for_s, attempt, ctx, err);
}

sluice_status sluice_client_call_for(struct sluice_client *client, double patience_s,
                                     sluice_client_attempt_fn *attempt, void *ctx,
                                     struct sluice_err *err)
{
    if (patience_s > client->retry_for_s)
        patience_s = client->retry_for_s;
    struct sluice_retry retry =
        sluice_retry_init(patience_s, sluice_clock_ns() ^ (uint64_t)getpid());
    unsigned refusals = 0;
    for (;;) {
        bool is_passing = false;
        struct sluice_err cause = {0};
        const sluice_status status = attempt(client, ctx, &is_passing, &cause);
        if (status == SLUICE_OK) {
            sluice_client_tell_back(client);
            return SLUICE_OK;
        }
        if (sluice_client_is_stopped(client))
            return sluice_fail(err, SLUICE_E_CLOSED, "stopped while waiting for %s",
                               client->target);
        uint64_t wait = 0;
        const uint64_t now = sluice_clock_ns();
        sluice_rpc_channel_renew(client->channel);
        refusals = is_passing ? 0 : refusals + 1;
        if (refusals == SLUICE_CLIENT_REFUSALS || patience_s <= 0)
            return sluice_fail(err, status, "%s", cause.text);
        if (!sluice_retry_failed(&retry, now, &wait))
            return sluice_fail(err, status, "%s (tried for %.7g s)", cause.text, patience_s);
        if (patience_s < client->retry_for_s) { /* the server may be there: it is slow */
            if (retry.attempt == 1)
                sluice_log(SLUICE_LOG_WARN, "%s (trying for up to %.7g s)", cause.text, patience_s);
        } else if (is_passing) {
            sluice_client_tell_lost(client, now, cause.text, false);
        }
        if (!sluice_client_wait(client, wait))
            return sluice_fail(err, SLUICE_E_CLOSED, "stopped while waiting for %s",
                               client->target);
    }
}

struct stats_call {
    unsigned timeout_ms;
    struct sluice_wire_stats *stats;
};

static sluice_status try_stats(struct sluice_client *client, void *ctx, bool *is_passing,
                               struct sluice_err *err)
{
    const struct stats_call *call = ctx;
    *is_passing = false;
    struct sluice_message request = {0}, reply = {0};
    sluice_status status = sluice_wire_put_stats_request(&request, err);
    if (status == SLUICE_OK) {
        enum sluice_rpc_code code = SLUICE_RPC_UNKNOWN;
        struct sluice_err cause = {0};
        status = sluice_rpc_unary(client->channel, SLUICE_METHOD_STATS, &request, call->timeout_ms,
                                  &reply, &code, &cause);
        if (status != SLUICE_OK) {
            *is_passing = sluice_client_is_passing(code);
            status = fail_call(client, status, code, cause.text, err);
        }
    }
    if (status == SLUICE_OK)
        status = sluice_wire_get_stats_reply(&reply, call->stats, err);
    sluice_message_clear(&request);
    sluice_message_clear(&reply);
    return status;
}

sluice_status sluice_client_stats(struct sluice_client *client, unsigned timeout_ms,
                                  struct sluice_wire_stats *stats, struct sluice_err *err)
{
    struct stats_call call = {timeout_ms, stats};
    return sluice_client_call_for(client, 0, try_stats, &call, err);
}

sluice_status sluice_client_server_cpu(struct sluice_client *client, double *cpu_s,
                                       struct sluice_err *err)
{
    struct sluice_wire_stats stats;
    struct stats_call call = {STATS_TIMEOUT_MS, &stats};
    const sluice_status status = sluice_client_call(client, try_stats, &call, err);
    if (status != SLUICE_OK)
        return status;
    *cpu_s = stats.process_cpu_s > 0 ? stats.process_cpu_s : 0;
    sluice_wire_stats_clear(&stats);
    return SLUICE_OK;
}

/* `what` the server does, if it lacks an ability. */
static sluice_status check_ability(const struct sluice_client *client,
                                   const struct sluice_server_info *info, bool has,
                                   const char *what, struct sluice_err *err)
{
    return has ? SLUICE_OK
               : sluice_fail(err, SLUICE_E_INVALID,
                             "%s is of a version (%s) that %s; a newer offload_server does",
                             client->target, info->name, what);
}

sluice_status sluice_client_check_listed_id(struct sluice_client *client,
                                            const struct sluice_server_info *info,
                                            struct sluice_err *err)
{
    return check_ability(client, info, info->has_listed_id,
                         "serves whole datasets alone, and no part of one", err);
}

sluice_status sluice_client_check_file_image(struct sluice_client *client,
                                             const struct sluice_server_info *info,
                                             struct sluice_err *err)
{
    return check_ability(client, info, info->has_file_image,
                         "does not send the sizes of images, which --geometry needs", err);
}

struct greeting {
    const struct sluice_pipeline *pipeline;
    const char *dataset_id;
    struct sluice_server_info *info;
};

static sluice_status try_hello(struct sluice_client *client, void *ctx, bool *is_passing,
                               struct sluice_err *err)
{
    const struct greeting *greeting = ctx;
    return sluice_client_hello_once(client, greeting->pipeline, greeting->dataset_id,
                                    greeting->info, is_passing, err);
}

sluice_status sluice_client_hello(struct sluice_client *client,
                                  const struct sluice_pipeline *pipeline, const char *dataset_id,
                                  struct sluice_server_info *info, struct sluice_err *err)
{
    struct greeting greeting = {pipeline, dataset_id, info};
    return sluice_client_call(client, try_hello, &greeting, err);
}
