#include "storage_server/fetch/stream.h"

#include "base/log.h"
#include "datasets/manifest/manifest.h"
#include "op/pipeline.h"
#include "rpc/peer.h"
#include "rpc/rpc_call.h"
#include "storage_server/data/sample_list.h"
#include "storage_server/session/client_table.h"
#include "storage_server/session/grant.h"
#include "storage_server/session/memory_budget.h"

#include <stdlib.h>

const char *sluice_fetch_path(const struct sluice_fetch_job *job)
{
    const struct sluice_manifest *manifest = job->stream->list->manifest;
    const uint64_t sample = sluice_wire_listed_id(&job->request);
    return sample < manifest->num_entries ? sluice_manifest_at(manifest, sample).path : "";
}

struct sluice_fetch_stream *sluice_fetch_stream_ref(struct sluice_fetch_stream *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void sluice_fetch_stream_unref(struct sluice_fetch_stream *s)
{
    /* Acquire and release: the last one sees what the others wrote. */
    if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (s->list)
        sluice_client_table_leave(s->fetch->options.clients, s->client_row);
    sluice_pipeline_destroy(s->pipeline);
    sluice_sample_list_unref(s->list);
    sluice_workers_leave(s->fetch->options.workers, s->client);
    sluice_memory_close(s->memory);
    sluice_grant_unref(s->grant);
    sluice_rpc_call_unref(s->call);
    pthread_mutex_destroy(&s->lock);
#ifndef __clang_analyzer__ /* it does not understand reference counts and reports later uses */
    free(s);
#endif
}

bool sluice_fetch_stream_is_over(struct sluice_fetch_stream *s)
{
    pthread_mutex_lock(&s->lock);
    const bool is_over = s->phase == SLUICE_FETCH_OVER;
    pthread_mutex_unlock(&s->lock);
    return is_over;
}

void sluice_fetch_stream_end(struct sluice_fetch_stream *s, enum sluice_rpc_code code,
                             const char *text)
{
    pthread_mutex_lock(&s->lock);
    const bool is_first = s->phase != SLUICE_FETCH_OVER;
    s->phase = SLUICE_FETCH_OVER;
    pthread_mutex_unlock(&s->lock);
    if (!is_first)
        return;
    if (code != SLUICE_RPC_OK && code != SLUICE_RPC_UNAVAILABLE) {
        char peer[SLUICE_PEER_TEXT];
        sluice_peer_text(sluice_rpc_call_peer(s->call), peer);
        sluice_log(SLUICE_LOG_WARN, "fetch stream of %s refused: %s", peer, text);
    }
    sluice_rpc_call_finish(s->call, code, text);
}

void sluice_fetch_stream_end_if_answered(struct sluice_fetch_stream *s)
{
    const bool is_stopping = atomic_load(&s->fetch->is_stopping);
    pthread_mutex_lock(&s->lock);
    const bool is_answered = !s->in_flight && !s->backlog_first;
    const bool is_draining = s->phase == SLUICE_FETCH_DRAINING;
    pthread_mutex_unlock(&s->lock);
    if (!is_answered)
        return;
    if (is_draining)
        sluice_fetch_stream_end(s, SLUICE_RPC_OK, NULL);
    else if (is_stopping)
        sluice_fetch_stream_end(s, SLUICE_RPC_UNAVAILABLE, "the server is stopping");
}
