#include "storage_server/fetch/stream.h"

#include "base/buf.h"
#include "rpc/peer.h"
#include "rpc/rpc_call.h"
#include "trace/tracer.h"

#include <stdio.h>

#define TEXT(key, value)                                                                           \
    {                                                                                              \
        .name = (key), .type = SLUICE_ATTRIBUTE_TEXT, .text = (value)                              \
    }
#define COUNT(key, value)                                                                          \
    {                                                                                              \
        .name = (key), .type = SLUICE_ATTRIBUTE_COUNT, .count = (value)                            \
    }
#define REAL(key, value)                                                                           \
    {                                                                                              \
        .name = (key), .type = SLUICE_ATTRIBUTE_REAL, .real = (value)                              \
    }

/* A sample that is asked for again has other ids each time. */
static uint64_t span_id(const struct sluice_fetch_job *job, uint64_t step)
{
    return sluice_trace_child(&job->request.trace, job->request.request_id << 3 | step);
}

/* One after the other, as the reply has them:
 *
 *     serve:  [backlog][queue][work: [disk]         ][send]                                     */
void sluice_fetch_trace(const struct sluice_fetch_job *job, uint64_t now_ns)
{
    const struct sluice_wire_sample_reply *reply = &job->reply;
    const struct sluice_trace_context *context = &job->request.trace;
    const bool is_good = reply->status == SLUICE_OK;
    char peer[SLUICE_PEER_TEXT], asked[32], got[32];
    sluice_peer_text(sluice_rpc_call_peer(job->stream->call), peer);
    snprintf(asked, sizeof(asked), "%s@%u", sluice_form_name(job->request.form),
             job->request.split);
    snprintf(got, sizeof(got), "%s@%u", sluice_form_name(reply->form), reply->ops_done);
    const struct sluice_attribute attributes[] = {
        TEXT("rpc.system", "grpc"),
        TEXT("rpc.service", "sluice.v1.Offload"),
        TEXT("rpc.method", "Fetch"),
        TEXT("client.address", peer),
        TEXT("file.path", sluice_fetch_path(job)),
        COUNT("sluice.sample", job->request.key.sample_id),
        COUNT("sluice.seed", job->request.key.seed),
        COUNT("sluice.epoch", job->request.key.epoch),
        TEXT("sluice.choice.asked", asked),
        COUNT("sluice.file.read_bytes", reply->read_bytes), /* 0: all of it */
        COUNT("sluice.payload_bytes", reply->payload ? reply->payload->len : 0),
        REAL("sluice.cpu_s", reply->cpu_us * 1e-6),
        /* The last: of what went well, or of what did not. */
        is_good ? (struct sluice_attribute)TEXT("sluice.choice.got", got)
                : (struct sluice_attribute)TEXT("error.type", sluice_status_name(reply->status)),
    };
    const uint64_t came_ns = job->accepted_ns - reply->backlog_us * UINT64_C(1000);
    const uint64_t begun_ns = job->accepted_ns + reply->queue_us * UINT64_C(1000);
    uint64_t done_ns = begun_ns + reply->work_us * UINT64_C(1000);
    done_ns = done_ns < now_ns ? done_ns : now_ns; /* they are rounded */
    const uint64_t own = span_id(job, 1), work = span_id(job, 4);
    const struct sluice_span spans[] = {
        {.name = "serve",
         .kind = SLUICE_SPAN_SERVER,
         .id = own,
         .parent = context->span,
         .start_ns = came_ns,
         .end_ns = now_ns,
         .attributes = attributes,
         .num_attributes = SLUICE_ARRAY_LEN(attributes),
         .error = is_good ? NULL : reply->error},
        {"backlog", SLUICE_SPAN_INTERNAL, span_id(job, 2), own, came_ns, job->accepted_ns, NULL, 0,
         NULL},
        {"queue", SLUICE_SPAN_INTERNAL, span_id(job, 3), own, job->accepted_ns, begun_ns, NULL, 0,
         NULL},
        {"work", SLUICE_SPAN_INTERNAL, work, own, begun_ns, done_ns, NULL, 0, NULL},
        {"send", SLUICE_SPAN_INTERNAL, span_id(job, 5), own, done_ns, now_ns, NULL, 0, NULL},
        /* Left out where the file was in memory. */
        {"disk", SLUICE_SPAN_INTERNAL, span_id(job, 6), work, begun_ns,
         begun_ns + reply->disk_us * UINT64_C(1000), NULL, 0, NULL},
    };
    /* A request that no worker had is refused in one step. */
    const size_t num_spans = !reply->work_us      ? 1
                             : reply->disk_us > 0 ? SLUICE_ARRAY_LEN(spans)
                                                  : SLUICE_ARRAY_LEN(spans) - 1;
    sluice_tracer_write(job->stream->fetch->options.tracer, context, spans, num_spans);
}
