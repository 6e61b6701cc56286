#include "storage_server/fetch/fetch.h"

#include "base/clock.h"
#include "base/log.h"
#include "rpc/peer.h"
#include "rpc/rpc_call.h"
#include "storage_server/data/sample_list.h"
#include "storage_server/fetch/stream.h"
#include "storage_server/observe/stats.h"
#include "storage_server/services/service.h"
#include "storage_server/session/caller.h"
#include "storage_server/session/client_table.h"
#include "storage_server/session/grant.h"
#include "storage_server/session/memory_budget.h"
#include "storage_server/session/security.h"
#include "storage_server/session/session.h"

#include <stdlib.h>

/* Bytes: more than any stream sends, and far from an overflow. */
#define MOST_CREDIT (INT64_MAX / 2)

sluice_status sluice_fetch_create(const struct sluice_fetch_options *options,
                                  struct sluice_fetch **fetch, struct sluice_err *err)
{
    struct sluice_fetch *f = calloc(1, sizeof(*f));
    if (!f)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the fetch service");
    pthread_mutex_init(&f->lock, NULL);
    f->options = *options;
    f->advance = sluice_fetch_stream_advance;
    atomic_init(&f->is_stopping, false);
    atomic_init(&f->cut_ns, UINT64_MAX);
    atomic_init(&f->num_cut, 0);
    const sluice_status status = sluice_fetch_hold_open(f, err);
    if (status != SLUICE_OK) {
        sluice_fetch_destroy(f);
        return status;
    }
    *fetch = f;
    return SLUICE_OK;
}

void sluice_fetch_close(struct sluice_fetch *fetch)
{
    if (fetch)
        sluice_fetch_hold_close(fetch);
}

void sluice_fetch_destroy(struct sluice_fetch *fetch)
{
    if (!fetch)
        return;
    sluice_fetch_close(fetch);
    pthread_mutex_destroy(&fetch->lock);
    free(fetch);
}

static void on_open(void *ctx, struct sluice_rpc_call *call)
{
    struct sluice_fetch *fetch = ctx;
    const struct sluice_fetch_options *options = &fetch->options;
    struct sluice_fetch_stream *s = calloc(1, sizeof(*s));
    const char *peer = sluice_rpc_call_peer(call);
    const struct sluice_caller *caller = sluice_rpc_call_client(call);
    struct sluice_session *session = caller->session;
    struct sluice_memory_holder *memory =
        s ? sluice_memory_open(options->memory, session, sluice_fetch_on_memory, s) : NULL;
    struct sluice_work_client *client =
        memory ? sluice_workers_join(options->workers, session, peer) : NULL;
    if (!client) {
        sluice_memory_close(memory);
        free(s);
        sluice_rpc_call_finish(call, SLUICE_RPC_RESOURCE_EXHAUSTED, "no memory for a stream");
        return;
    }
    pthread_mutex_init(&s->lock, NULL);
    s->backlog_end = &s->backlog_first;
    s->ready_end = &s->ready;
    s->fetch = fetch;
    s->call = sluice_rpc_call_ref(call);
    s->client = client;
    s->grant = sluice_grant_ref(caller->grant);
    s->memory = memory;
    s->waiter.fn = sluice_fetch_on_room;
    atomic_init(&s->refs, 1);
    sluice_rpc_call_set_state(call, s);
    sluice_stats_stream_opened(options->stats);

    pthread_mutex_lock(&fetch->lock);
    s->next = fetch->streams;
    s->link = &fetch->streams;
    if (s->next)
        s->next->link = &s->next;
    fetch->streams = s;
    pthread_mutex_unlock(&fetch->lock);
    /* After it is listed: a stop either finds the stream in the list or is seen here. */
    sluice_fetch_stream_end_if_answered(s);
}

/* False: the stream was ended. */
static bool open_stream(struct sluice_fetch_stream *s, const struct sluice_wire_fetch_open *open)
{
    if (s->list) {
        sluice_fetch_stream_end(s, SLUICE_RPC_INVALID_ARGUMENT, "a second FetchOpen");
        return false;
    }
    struct sluice_err err = {0};
    struct sluice_pipeline *pipeline = NULL;
    struct sluice_sample_list *list = sluice_sample_lists_now(s->fetch->options.lists);
    const enum sluice_rpc_code code =
        sluice_service_agree(list, open->protocol_version, open->pipeline,
                             open->pipeline_fingerprint, open->dataset_id, &pipeline, &err);
    if (code != SLUICE_RPC_OK) {
        sluice_sample_list_unref(list);
        sluice_fetch_stream_end(s, code, err.text);
        return false;
    }
    /* No job of this stream exists yet, so nobody else reads these. */
    if (open->follows_price)
        sluice_workers_follow(s->fetch->options.workers, s->client);
    s->list = list;
    s->pipeline = pipeline;
    s->num_ops = pipeline ? sluice_pipeline_num_ops(pipeline) : 0;
    s->wants_file_image = open->wants_file_image;
    /* A token's name is to be relied on; a client's own is not. */
    const char *name = s->grant ? sluice_grant_name(s->grant) : open->client;
    const struct sluice_caller *caller = sluice_rpc_call_client(s->call);
    s->client_row = sluice_client_table_join(s->fetch->options.clients, name, s->grant != NULL,
                                             caller->session->host);
    pthread_mutex_lock(&s->lock);
    if (s->phase == SLUICE_FETCH_NEW)
        s->phase = SLUICE_FETCH_OPEN;
    const bool is_limited = open->window_bytes && open->window_bytes < MOST_CREDIT;
    s->credit_bytes = is_limited ? (int64_t)open->window_bytes : MOST_CREDIT;
    pthread_mutex_unlock(&s->lock);
    return true;
}

static void on_message(void *ctx, struct sluice_rpc_call *call, struct sluice_message *message)
{
    struct sluice_fetch *fetch = ctx;
    struct sluice_fetch_stream *s = sluice_rpc_call_state(call);
    if (!s)
        return;
    if (sluice_grant_is_revoked(s->grant)) {
        sluice_fetch_stream_end(s, SLUICE_RPC_UNAUTHENTICATED, SLUICE_TOKEN_REVOKED);
        return;
    }
    struct sluice_err err = {0};
    struct sluice_wire_fetch_request request = {0};
    const sluice_status read = sluice_wire_get_fetch_request(message, &request, &err);
    if (read == SLUICE_E_IO)
        sluice_stats_count_damaged(fetch->options.stats);
    if (read != SLUICE_OK) {
        sluice_fetch_stream_end(s, sluice_rpc_code_of_request(read), err.text);
        return;
    }
    if (request.open.is_present && !open_stream(s, &request.open)) {
        sluice_wire_fetch_request_clear(&request);
        return;
    }

    struct sluice_fetch_backlog *backlog = NULL;
    /* Requests after the stop are not accepted; credit still counts. */
    const bool is_stopping = atomic_load(&fetch->is_stopping);
    const size_t charged = sizeof(*backlog) + request.num_samples * sizeof(*request.samples);
    if (request.num_samples && !is_stopping) {
        if (!s->list) {
            sluice_fetch_stream_end(s, SLUICE_RPC_INVALID_ARGUMENT,
                                    "the first message must hold a FetchOpen");
        } else if (!sluice_memory_take(s->memory, charged, SLUICE_MEMORY_REQUEST)) {
            sluice_fetch_stream_end(s, SLUICE_RPC_RESOURCE_EXHAUSTED,
                                    "this client's share of the server's memory is used up");
        } else if (!(backlog = malloc(sizeof(*backlog)))) {
            sluice_memory_give(s->memory, charged);
            sluice_fetch_stream_end(s, SLUICE_RPC_RESOURCE_EXHAUSTED, "no memory for a request");
        } else {
            *backlog = (struct sluice_fetch_backlog){
                .requests = request.samples,
                .num_requests = request.num_samples,
                .charged = charged,
                .received_ns = sluice_clock_ns(),
            };
            sluice_workers_hear_worth(fetch->options.workers, s->client, request.cpu_worth);
            request.samples = NULL;
            request.num_samples = 0;
        }
    }

    pthread_mutex_lock(&s->lock);
    if (backlog) {
        *s->backlog_end = backlog;
        s->backlog_end = &backlog->next;
        s->backlog_requests += backlog->num_requests;
    }
    const int64_t room = MOST_CREDIT - s->credit_bytes;
    s->credit_bytes += request.grant_bytes < (uint64_t)room ? (int64_t)request.grant_bytes : room;
    pthread_mutex_unlock(&s->lock);
    sluice_wire_fetch_request_clear(&request);
    sluice_fetch_stream_advance(s);
}

static void on_half_close(void *ctx, struct sluice_rpc_call *call)
{
    (void)ctx;
    struct sluice_fetch_stream *s = sluice_rpc_call_state(call);
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    if (s->phase != SLUICE_FETCH_OVER)
        s->phase = SLUICE_FETCH_DRAINING;
    pthread_mutex_unlock(&s->lock);
    sluice_fetch_stream_end_if_answered(s);
}

static void on_writable(void *ctx, struct sluice_rpc_call *call)
{
    (void)ctx;
    struct sluice_fetch_stream *s = sluice_rpc_call_state(call);
    if (s)
        sluice_fetch_stream_advance(s);
}

/* Under the stream's lock.  What is being sent counts as answered: the client may have it, and end
 * the call, before the thread that sends comes to note it. */
static size_t count_unanswered(const struct sluice_fetch_stream *s)
{
    size_t count = s->in_flight - s->sending;
    for (const struct sluice_fetch_backlog *b = s->backlog_first; b; b = b->next)
        count += b->num_requests - b->taken;
    return count;
}

uint64_t sluice_fetch_num_unanswered(struct sluice_fetch *fetch)
{
    uint64_t count = atomic_load(&fetch->num_cut);
    pthread_mutex_lock(&fetch->lock);
    for (struct sluice_fetch_stream *s = fetch->streams; s; s = s->next) {
        pthread_mutex_lock(&s->lock);
        count += s->phase == SLUICE_FETCH_OVER ? 0 : count_unanswered(s);
        pthread_mutex_unlock(&s->lock);
    }
    pthread_mutex_unlock(&fetch->lock);
    return count;
}

static void on_done(void *ctx, struct sluice_rpc_call *call)
{
    struct sluice_fetch *fetch = ctx;
    struct sluice_fetch_stream *s = sluice_rpc_call_state(call);
    if (!s)
        return;
    pthread_mutex_lock(&fetch->lock);
    *s->link = s->next;
    if (s->next)
        s->next->link = s->link;
    pthread_mutex_unlock(&fetch->lock);

    pthread_mutex_lock(&s->lock);
    const bool is_lost = s->phase != SLUICE_FETCH_OVER;
    const size_t unanswered = count_unanswered(s);
    s->phase = SLUICE_FETCH_OVER;
    pthread_mutex_unlock(&s->lock);
    if (is_lost && sluice_clock_ns() >= atomic_load(&fetch->cut_ns))
        atomic_fetch_add(&fetch->num_cut, unanswered);
    if (is_lost && unanswered) {
        char peer[SLUICE_PEER_TEXT];
        sluice_peer_text(sluice_rpc_call_peer(call), peer);
        sluice_log(SLUICE_LOG_WARN, "lost %s with %zu samples unanswered", peer, unanswered);
    }
    sluice_stats_stream_closed(fetch->options.stats);
    sluice_fetch_cancel(s);
    if (sluice_memory_forget(s->memory))
        sluice_fetch_on_memory(s);
    sluice_fetch_stream_advance(s); /* drops the requests that are left */
    sluice_fetch_stream_unref(s);
}

void sluice_fetch_stop(struct sluice_fetch *fetch, uint64_t cut_ns)
{
    atomic_store(&fetch->cut_ns, cut_ns);
    atomic_store(&fetch->is_stopping, true);
    /* A list of its own, since a stream that ends leaves fetch->streams. */
    struct sluice_fetch_stream *chain = NULL;
    pthread_mutex_lock(&fetch->lock);
    for (struct sluice_fetch_stream *s = fetch->streams; s; s = s->next) {
        s->stop_next = chain;
        chain = sluice_fetch_stream_ref(s);
    }
    pthread_mutex_unlock(&fetch->lock);
    while (chain) {
        struct sluice_fetch_stream *s = chain;
        chain = s->stop_next;
        sluice_fetch_stream_end_if_answered(s);
        sluice_fetch_stream_unref(s);
    }
}

struct sluice_rpc_method *sluice_fetch_methods(struct sluice_fetch *fetch,
                                               struct sluice_rpc_method *end)
{
    *end++ = (struct sluice_rpc_method){
        .path = SLUICE_METHOD_FETCH,
        .ctx = fetch,
        .on_open = on_open,
        .on_message = on_message,
        .on_half_close = on_half_close,
        .on_writable = on_writable,
        .on_done = on_done,
    };
    return end;
}
