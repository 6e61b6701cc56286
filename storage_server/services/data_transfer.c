#include "storage_server/services/data_transfer.h"

#include "base/buf.h"
#include "datasets/manifest/manifest.h"
#include "op/form.h"
#include "rpc/peer.h"
#include "rpc/rpc_call.h"
#include "storage_server/data/sample_file.h"
#include "storage_server/data/sample_list.h"
#include "storage_server/observe/stats.h"
#include "storage_server/observe/watchdog.h"
#include "storage_server/session/caller.h"
#include "storage_server/session/client_table.h"
#include "storage_server/session/grant.h"
#include "storage_server/session/memory_budget.h"
#include "storage_server/work/preparer.h"
#include "storage_server/work/workers.h"
#include "store/store.h"
#include "wire/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The original's stages.  After stage `pproc`, pproc + 1 of our ops are done. */
enum { PPROC_FILE = -1, PPROC_FLIPPED = 2, PPROC_NORMALIZED = 4 };

#define DEFAULT_SIZE 224
#define MAX_SIZE 4096

/* Bytes of pixels for each byte of an image's file, until they are known. */
#define PIXELS_PER_FILE_BYTE 16

#define NO_SAMPLE SIZE_MAX

enum method { NOOFF, ALLOFF, PILOFF, SOPHON };

/* Its references: the call until on_done, and the job until it has run or was cancelled. */
struct transfer {
    struct sluice_job job;
    struct sluice_waiter waiter;
    struct sluice_transfer_service *service;
    struct sluice_rpc_call *call;      /* a reference */
    struct sluice_work_client *client; /* joined */
    struct sluice_sample_list *list;   /* a reference */
    struct sluice_memory_holder *memory;
    size_t charged; /* bytes of the memory budget; 0: not yet */
    struct sluice_wire_data_request request;
    const char *path; /* relative to the root; the list's */
    size_t sample;
    unsigned split;
    atomic_uint refs;
    atomic_bool is_over;           /* the call is: nobody waits for the answer */
    atomic_bool is_answered;       /* counted as such */
    atomic_bool is_done;           /* the job has run, or will not: there is nothing to cancel */
    struct sluice_watched watched; /* while a worker has it */
};

/* The watchdog's, in place of a worker that hangs. */
struct transfer_answer {
    struct sluice_late_answer answer;
    struct sluice_transfer_service *service;
    struct sluice_rpc_call *call; /* a reference */
    char text[256];
};

static void unref_transfer(struct transfer *t)
{
    /* Acquire and release: the last one sees what the others wrote. */
    if (atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1)
        return;
    sluice_wire_data_request_clear(&t->request);
    sluice_sample_list_unref(t->list);
    sluice_workers_leave(t->service->workers, t->client);
    sluice_memory_give(t->memory, t->charged);
    sluice_memory_close(t->memory);
    sluice_rpc_call_unref(t->call);
#ifndef __clang_analyzer__ /* it does not understand reference counts and reports later uses */
    free(t);
#endif
}

/* The sample that the file is; NO_SAMPLE: none. */
static size_t sample_of(const struct sluice_manifest *manifest, const char *path)
{
    const size_t row = sluice_manifest_find_first(manifest, path);
    const bool is_found =
        row < manifest->num_entries && strcmp(sluice_manifest_at(manifest, row).path, path) == 0;
    return is_found ? row : NO_SAMPLE;
}

/* The memory that the call will hold, as far as is known: its file and the result. */
static size_t expected_charge(const struct transfer *t)
{
    const struct sluice_manifest *manifest = t->list->manifest;
    const struct sluice_manifest_entry entry = sluice_manifest_at(manifest, t->sample);
    const uint64_t file = entry.bytes;
    const uint64_t side = (uint64_t)(t->request.size ? t->request.size : DEFAULT_SIZE);
    const uint64_t pixels = side * side * 3;
    uint64_t bytes = file;
    if (t->split == 1)
        bytes =
            entry.width ? (uint64_t)entry.width * entry.height * 3 : file * PIXELS_PER_FILE_BYTE;
    else if (t->split)
        bytes = t->split > PPROC_FLIPPED + 1 ? pixels * sizeof(float) : pixels;
    return sizeof(*t) + sluice_buf_footprint(bytes > file ? bytes : file);
}

static enum sluice_rpc_code code_of(sluice_status status)
{
    /* For a file "invalid" means that its path leaves the root (store.h). */
    return status == SLUICE_E_INVALID ? SLUICE_RPC_PERMISSION_DENIED
                                      : sluice_rpc_code_from_status(status);
}

static sluice_status preprocess(struct transfer *t, struct sluice_preparer *preparer,
                                struct sluice_sample *sample, struct sluice_err *err)
{
    char spec[128];
    snprintf(spec, sizeof(spec),
             "decode,random_resized_crop=%d,hflip=0.5,to_tensor,normalize=imagenet",
             t->request.size ? t->request.size : DEFAULT_SIZE);
    struct sluice_pipeline *pipeline;
    sluice_status status = sluice_pipeline_parse(spec, &pipeline, err);
    if (status != SLUICE_OK)
        return status;
    sample->key = (struct sluice_draw_key){
        .seed = t->service->seed,
        .sample_id = atomic_fetch_add_explicit(&t->service->num_draws, 1, memory_order_relaxed),
    };
    struct sluice_decoder_work work = {.end = t->split, .path = t->path};
    status = sluice_preparer_run(preparer, pipeline, &work, sample, err);
    sluice_pipeline_destroy(pipeline);
    return status;
}

static void count(struct sluice_transfer_service *service, struct sluice_rpc_call *call,
                  sluice_status status, unsigned split, enum sluice_form form, uint64_t bytes)
{
    char host[SLUICE_PEER_HOST];
    sluice_peer_host(sluice_rpc_call_peer(call), host);
    sluice_stats_count_transfer(service->stats, status, split, form, bytes);
    const size_t row = sluice_client_table_join(service->clients, NULL, false, host);
    sluice_client_table_count(service->clients, row, status == SLUICE_OK, bytes,
                              status != SLUICE_OK);
    sluice_client_table_leave(service->clients, row);
}

static sluice_status send_response(struct transfer *t, const struct sluice_sample *sample,
                                   struct sluice_err *err)
{
    char label[16]; /* the index of the class */
    snprintf(label, sizeof(label), "%u", sluice_manifest_at(t->list->manifest, t->sample).label);
    struct sluice_wire_data_response response = {
        .image = sample->data,
        .label = label,
        .fname = t->request.fname,
        .pproc = t->request.pproc,
    };
    if (sample->kind == SLUICE_KIND_U8) {
        response.pil_mode = "RGB";
        response.width = (int32_t)sample->width;
        response.height = (int32_t)sample->height;
    } else if (sample->kind == SLUICE_KIND_F32) {
        response.dtype = "float32";
        response.shape[0] = (int32_t)sample->channels;
        response.shape[1] = (int32_t)sample->height;
        response.shape[2] = (int32_t)sample->width;
        response.num_shape = 3;
    }
    struct sluice_message message = {0};
    const sluice_status status = sluice_wire_put_data_response(&response, &message, err);
    if (status != SLUICE_OK) {
        sluice_message_clear(&message);
        return status;
    }
    count(t->service, t->call, SLUICE_OK, t->split, sluice_sample_form(sample), sample->data->len);
    sluice_rpc_call_send(t->call, &message);
    return SLUICE_OK;
}

/* The job will not run, or not once more.  Gives its reference back. */
static void end_transfer(struct transfer *t)
{
    if (!atomic_exchange(&t->is_answered, true))
        atomic_fetch_sub(&t->service->num_open, 1);
    atomic_store(&t->is_done, true);
    unref_transfer(t);
}

static void give_answer(struct sluice_late_answer *base)
{
    struct transfer_answer *answer = SLUICE_CONTAINER_OF(base, struct transfer_answer, answer);
    count(answer->service, answer->call, SLUICE_E_IO, 0, sluice_form_plain(SLUICE_KIND_FILE), 0);
    sluice_rpc_call_finish(answer->call, code_of(SLUICE_E_IO), answer->text);
    sluice_rpc_call_unref(answer->call);
    free(answer);
}

static struct sluice_late_answer *make_answer(struct sluice_watched *watched, const char *text)
{
    struct transfer *t = SLUICE_CONTAINER_OF(watched, struct transfer, watched);
    struct transfer_answer *answer = malloc(sizeof(*answer));
    if (!answer)
        return NULL;
    *answer = (struct transfer_answer){.answer = {.give = give_answer}, .service = t->service};
    answer->call = sluice_rpc_call_ref(t->call);
    if (!atomic_exchange(&t->is_answered, true))
        atomic_fetch_sub(&t->service->num_open, 1);
    snprintf(answer->text, sizeof(answer->text), "%.120s: %.120s", t->path, text);
    return &answer->answer;
}

/* Charges the call what its reply takes rather than what was expected.  The buffer gives it back.
 */
static sluice_status settle(struct transfer *t, struct sluice_buf *data, struct sluice_err *err)
{
    const size_t bytes = sizeof(*t) + sluice_buf_footprint(data->capacity);
    if (bytes > t->charged &&
        !sluice_memory_take(t->memory, bytes - t->charged, SLUICE_MEMORY_REPLY))
        return sluice_fail(err, SLUICE_E_NO_MEMORY,
                           "the server has no memory left for this client now");
    if (bytes < t->charged)
        sluice_memory_give(t->memory, t->charged - bytes);
    t->charged = sizeof(*t);
    sluice_buf_on_last(data, sluice_memory_give_hook, t->memory, bytes - sizeof(*t));
    return SLUICE_OK;
}

static void run_transfer(struct sluice_job *base, enum sluice_job_fate fate, void *worker)
{
    struct transfer *t = SLUICE_CONTAINER_OF(base, struct transfer, job);
    if (fate == SLUICE_JOB_RUN)
        sluice_workers_started(t->service->workers);
    if (fate == SLUICE_JOB_CANCEL || atomic_load(&t->is_over)) {
        sluice_rpc_call_finish(t->call, SLUICE_RPC_UNAVAILABLE,
                               "not read: the call is over, or every worker hangs at another file");
        end_transfer(t);
        return;
    }

    struct sluice_err err = {0};
    struct sluice_sample sample = {.kind = SLUICE_KIND_FILE};
    struct sluice_watchdog *watchdog = t->service->watchdog;
    t->watched = (struct sluice_watched){
        .path = t->path,
        .group = worker ? SLUICE_GROUP_PREP : SLUICE_GROUP_IO,
        .answer = make_answer,
    };
    sluice_status status = sluice_watchdog_begin(watchdog, &t->watched, &err);
    const bool is_watched = status == SLUICE_OK;
    const struct sluice_sample_want want = {
        .store = t->service->store,
        .buffers = t->service->buffers,
        .list = t->list,
        .sample = t->sample,
        .path = t->path,
    };
    if (is_watched)
        status = sluice_sample_file_read_whole(&want, &sample.data, &err);
    sluice_watchdog_note(&t->watched, false);
    enum sluice_rpc_code code = code_of(status);
    if (status == SLUICE_OK && t->split) {
        status = preprocess(t, worker, &sample, &err);
        code = sluice_rpc_code_from_status(status);
    }
    const bool is_ours = !is_watched || sluice_watchdog_end(watchdog, &t->watched);
    if (status == SLUICE_OK && is_ours) {
        status = settle(t, sample.data, &err);
        if (status == SLUICE_OK)
            status = send_response(t, &sample, &err);
        code = sluice_rpc_code_from_status(status);
    }
    sluice_sample_clear(&sample);

    if (!is_ours) {
        /* The watchdog has finished the call. */
    } else if (status != SLUICE_OK) {
        count(t->service, t->call, status, 0, sluice_form_plain(SLUICE_KIND_FILE), 0);
        struct sluice_err named = {0};
        sluice_fail(&named, status, "%.120s: %.120s", t->path, err.text);
        sluice_rpc_call_finish(t->call, code, named.text);
    } else {
        sluice_rpc_call_finish(t->call, SLUICE_RPC_OK, NULL);
    }
    (void)sluice_workers_job_cpu_ns(); /* else the next job would be charged for this one */
    end_transfer(t);
}

/* Takes memory for the call.  False: it waits for some, and is called again. */
static bool charge(struct transfer *t)
{
    const size_t bytes = expected_charge(t);
    while (!t->charged && !atomic_load(&t->is_over)) {
        if (sluice_memory_take(t->memory, bytes, SLUICE_MEMORY_REPLY))
            t->charged = bytes;
        else if (sluice_memory_wait(t->memory, bytes))
            return false;
    }
    return true;
}

/* Submits the job, or waits for memory or room.  False: it waits. */
static bool submit(struct transfer *t)
{
    if (!charge(t))
        return false;
    struct sluice_workers *workers = t->service->workers;
    const enum sluice_worker_group group = t->split ? SLUICE_GROUP_PREP : SLUICE_GROUP_IO;
    for (;;) {
        const uint64_t moment = sluice_workers_moment(workers);
        const bool is_over = atomic_load(&t->is_over);
        const sluice_status status =
            is_over ? SLUICE_E_CLOSED : sluice_workers_try(workers, t->client, group, &t->job);
        if (status == SLUICE_OK)
            return true;
        if (status != SLUICE_E_AGAIN) {
            sluice_rpc_call_finish(t->call, SLUICE_RPC_UNAVAILABLE, "the server is stopping");
            end_transfer(t);
            return true;
        }
        if (sluice_workers_wait(workers, t->client, &t->waiter, moment))
            return false;
    }
}

static bool on_room(struct sluice_waiter *waiter)
{
    return submit(SLUICE_CONTAINER_OF(waiter, struct transfer, waiter));
}

static void on_memory(void *ctx)
{
    (void)submit(ctx);
}

/* Ops to run; false: refused, and the call is finished. */
static bool choose_split(struct sluice_rpc_call *call, enum method method,
                         const struct sluice_wire_data_request *request, unsigned *split)
{
    if (method == NOOFF) {
        *split = 0;
        return true;
    }
    if (request->size < 0 || request->size > MAX_SIZE) {
        struct sluice_err err = {0};
        sluice_fail(&err, SLUICE_E_INVALID, "size %d is not in 0 .. %d", request->size, MAX_SIZE);
        sluice_rpc_call_finish(call, SLUICE_RPC_INVALID_ARGUMENT, err.text);
        return false;
    }
    int32_t pproc = request->pproc;
    if (method == ALLOFF)
        pproc = PPROC_NORMALIZED;
    else if (method == PILOFF)
        pproc = PPROC_FLIPPED;
    if (pproc < PPROC_FILE || pproc > PPROC_NORMALIZED) {
        struct sluice_err err = {0};
        sluice_fail(&err, SLUICE_E_INVALID, "pproc %d is not in -1 .. 4", pproc);
        sluice_rpc_call_finish(call, SLUICE_RPC_INVALID_ARGUMENT, err.text);
        return false;
    }
    *split = (unsigned)(pproc + 1);
    return true;
}

/* The sample of this path; false: refused, and the call is finished.  Whether there is another file
 * is not told. */
static bool find_sample(struct sluice_transfer_service *service, struct sluice_rpc_call *call,
                        const struct sluice_sample_list *list, const char *fname, size_t *sample)
{
    struct sluice_err err = {0};
    const struct sluice_caller *caller = sluice_rpc_call_client(call);
    const char *path = service->store->relative(service->store, fname);
    const size_t found = path ? sample_of(list->manifest, path) : NO_SAMPLE;
    enum sluice_rpc_code code = SLUICE_RPC_OK;
    if (!path) {
        sluice_fail(&err, SLUICE_E_INVALID, "%.200s: not under the server's root", fname);
        code = SLUICE_RPC_PERMISSION_DENIED;
    } else if (found == NO_SAMPLE) {
        sluice_fail(&err, SLUICE_E_NOT_FOUND, "%.200s: no sample of this server", fname);
        code = SLUICE_RPC_NOT_FOUND;
    } else if (!sluice_grant_may_read(caller->grant,
                                      sluice_manifest_at(list->manifest, found).subset)) {
        sluice_fail(&err, SLUICE_E_INVALID, "%.200s: not for the token %s", fname,
                    sluice_grant_name(caller->grant));
        code = SLUICE_RPC_PERMISSION_DENIED;
    }
    *sample = found;
    if (code == SLUICE_RPC_OK)
        return true;
    sluice_rpc_call_finish(call, code, err.text);
    return false;
}

static void on_request(struct sluice_transfer_service *service, struct sluice_rpc_call *call,
                       const struct sluice_message *message, enum method method)
{
    struct sluice_err err = {0};
    struct sluice_wire_data_request request = {0};
    unsigned split;
    if (sluice_rpc_call_state(call))
        return;
    const sluice_status read = sluice_wire_get_data_request(message, &request, &err);
    if (read != SLUICE_OK) {
        sluice_rpc_call_finish(call, sluice_rpc_code_of_request(read), err.text);
        return;
    }
    if (!choose_split(call, method, &request, &split)) {
        sluice_wire_data_request_clear(&request);
        return;
    }
    struct sluice_sample_list *list = sluice_sample_lists_now(service->lists);
    size_t sample = 0;
    if (!find_sample(service, call, list, request.fname, &sample)) {
        sluice_sample_list_unref(list);
        sluice_wire_data_request_clear(&request);
        return;
    }
    struct transfer *t = malloc(sizeof(*t));
    const char *peer = sluice_rpc_call_peer(call);
    const struct sluice_caller *caller = sluice_rpc_call_client(call);
    struct sluice_work_client *client =
        t ? sluice_workers_join(service->workers, caller->session, peer) : NULL;
    struct sluice_memory_holder *memory =
        client ? sluice_memory_open(service->memory, caller->session, on_memory, t) : NULL;
    if (!memory) {
        sluice_workers_leave(service->workers, client);
        free(t);
        sluice_sample_list_unref(list);
        sluice_rpc_call_finish(call, SLUICE_RPC_RESOURCE_EXHAUSTED, "no memory for a request");
        sluice_wire_data_request_clear(&request);
        return;
    }
    *t = (struct transfer){
        .job = {.fn = run_transfer},
        .waiter = {.fn = on_room},
        .service = service,
        .call = sluice_rpc_call_ref(call),
        .client = client,
        .list = list,
        .memory = memory,
        .request = request,
        .path = sluice_manifest_at(list->manifest, sample).path,
        .sample = sample,
        .split = split,
    };
    atomic_init(&t->refs, 2);
    atomic_init(&t->is_over, false);
    atomic_init(&t->is_done, false);
    atomic_init(&t->is_answered, false);
    atomic_fetch_add(&service->num_open, 1);
    sluice_rpc_call_set_state(call, t);
    if (!sluice_memory_could_fit(service->memory, expected_charge(t))) {
        sluice_rpc_call_finish(call, SLUICE_RPC_UNIMPLEMENTED,
                               "needs more memory than --memory-limit allows");
        end_transfer(t);
        return;
    }
    submit(t);
}

static bool is_job(const struct sluice_job *job, const void *sought)
{
    return job == sought;
}

static void on_done(void *ctx, struct sluice_rpc_call *call)
{
    struct sluice_transfer_service *service = ctx;
    struct transfer *t = sluice_rpc_call_state(call);
    if (!t)
        return;
    atomic_store(&t->is_over, true); /* a job that still waits for room is not submitted then */
    if (!atomic_load(&t->is_done))
        (void)sluice_workers_cancel(service->workers, t->client,
                                    t->split ? SLUICE_GROUP_PREP : SLUICE_GROUP_IO, is_job,
                                    &t->job);
    if (sluice_memory_forget(t->memory))
        end_transfer(t);
    unref_transfer(t);
}

static void on_nooff(void *ctx, struct sluice_rpc_call *call, struct sluice_message *message)
{
    on_request(ctx, call, message, NOOFF);
}

static void on_alloff(void *ctx, struct sluice_rpc_call *call, struct sluice_message *message)
{
    on_request(ctx, call, message, ALLOFF);
}

static void on_piloff(void *ctx, struct sluice_rpc_call *call, struct sluice_message *message)
{
    on_request(ctx, call, message, PILOFF);
}

static void on_sophon(void *ctx, struct sluice_rpc_call *call, struct sluice_message *message)
{
    on_request(ctx, call, message, SOPHON);
}

struct sluice_rpc_method *sluice_transfer_methods(struct sluice_transfer_service *service,
                                                  struct sluice_rpc_method *end)
{
    static const struct {
        const char *path;
        void (*on_message)(void *ctx, struct sluice_rpc_call *call, struct sluice_message *message);
    } methods[] = {
        {SLUICE_METHOD_DT_NOOFF, on_nooff},     {SLUICE_METHOD_DT_ALLOFF, on_alloff},
        {SLUICE_METHOD_DT_PILOFF, on_piloff},   {SLUICE_METHOD_DT_SOPHON, on_sophon},
        {SLUICE_METHOD_DT_SMARTOFF, on_sophon},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(methods); i++) {
        *end++ = (struct sluice_rpc_method){
            .path = methods[i].path,
            .is_unary = true,
            .ctx = service,
            .on_message = methods[i].on_message,
            .on_done = on_done,
        };
    }
    return end;
}
