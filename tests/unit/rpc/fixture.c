#include "fixture.h"

#include "base/hash.h"
#include "base/worker_pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATIENCE_S 60

void latch_add(struct latch *latch)
{
    pthread_mutex_lock(&latch->lock);
    latch->count++;
    pthread_cond_broadcast(&latch->changed);
    pthread_mutex_unlock(&latch->lock);
}

unsigned latch_count(struct latch *latch)
{
    pthread_mutex_lock(&latch->lock);
    const unsigned count = latch->count;
    pthread_mutex_unlock(&latch->lock);
    return count;
}

bool latch_wait(struct latch *latch, unsigned count)
{
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += PATIENCE_S;
    bool is_there = true;
    pthread_mutex_lock(&latch->lock);
    while (is_there && latch->count < count)
        is_there = pthread_cond_timedwait(&latch->changed, &latch->lock, &deadline) != ETIMEDOUT;
    pthread_mutex_unlock(&latch->lock);
    return is_there;
}

/* --- messages --- */

static void *must(void *memory)
{
    if (!memory) {
        fprintf(stderr, "no memory\n");
        exit(1);
    }
    return memory;
}

static void release_owned(void *owner)
{
    struct owned *owned = owner;
    atomic_fetch_add(owned->released, 1);
    free(owned->data);
    free(owned);
}

void append_owned(struct sluice_message *message, size_t len, uint8_t fill, atomic_uint *released)
{
    struct owned *owned = must(malloc(sizeof(*owned)));
    owned->released = released;
    owned->data = must(malloc(len ? len : 1));
    memset(owned->data, fill, len);
    struct sluice_err err = {0};
    if (sluice_message_append_ref(message, owned->data, len, release_owned, owned, &err) !=
        SLUICE_OK)
        CU_FAIL_FATAL(err.text);
}

struct sluice_message text_message(const char *text)
{
    struct sluice_message message = {0};
    if (sluice_message_append_copy(&message, text, strlen(text), NULL) != SLUICE_OK)
        must(NULL);
    return message;
}

struct sluice_message filled_message(size_t len, uint8_t fill)
{
    uint8_t *bytes = must(malloc(len ? len : 1));
    memset(bytes, fill, len);
    struct sluice_message message = {0};
    if (sluice_message_append_ref(&message, bytes, len, free, bytes, NULL) != SLUICE_OK)
        must(NULL);
    return message;
}

static uint8_t *gather(const struct sluice_message *message)
{
    uint8_t *bytes = must(malloc(message->len + 1));
    struct sluice_cursor cursor = sluice_cursor_init(message);
    if (!sluice_cursor_read(&cursor, bytes, message->len))
        must(NULL);
    bytes[message->len] = 0;
    return bytes;
}

uint64_t message_hash(const struct sluice_message *message)
{
    uint8_t *bytes = gather(message);
    const uint64_t hash = sluice_hash64(bytes, message->len);
    free(bytes);
    return hash;
}

bool message_is(const struct sluice_message *message, const char *text)
{
    uint8_t *bytes = gather(message);
    const bool is_equal = message->len == strlen(text) && memcmp(bytes, text, message->len) == 0;
    free(bytes);
    return is_equal;
}

struct sluice_message take(struct sluice_message *message)
{
    const struct sluice_message taken = *message;
    *message = (struct sluice_message){0};
    return taken;
}

/* --- the server's methods --- */

/* Each call's state: what its worker jobs share, and how far a Pour is. */
struct call_state {
    atomic_uint open_jobs; /* +1 until the peer half-closes */
    bool is_done;
    unsigned pour_left;
    size_t pour_size;
};

static void reply(struct server *server, struct sluice_rpc_call *call,
                  struct sluice_message *message)
{
    const sluice_status status = sluice_rpc_call_send(call, message);
    CU_ASSERT(status == SLUICE_OK || status == SLUICE_E_CLOSED);
    CU_ASSERT(message->num_segments == 0 && message->len == 0);
    atomic_fetch_add(status == SLUICE_OK ? &server->replies_sent : &server->replies_refused, 1);
}

static struct call_state *state_of(struct server *server, struct sluice_rpc_call *call)
{
    struct call_state *state = sluice_rpc_call_state(call);
    if (state->is_done)
        server->called_after_done = true;
    return state;
}

static void open_call(void *ctx, struct sluice_rpc_call *call)
{
    struct server *server = ctx;
    struct call_state *state = must(calloc(1, sizeof(*state)));
    atomic_init(&state->open_jobs, 1);
    sluice_rpc_call_set_state(call, state);
    /* Kept until the server is gone, so that a callback too many is seen. */
    pthread_mutex_lock(&server->lock);
    if (server->num_calls == server->capacity) {
        server->capacity = server->capacity ? server->capacity * 2 : 16;
        server->calls = must(realloc(server->calls, server->capacity * sizeof(void *)));
    }
    server->calls[server->num_calls++] = sluice_rpc_call_ref(call);
    pthread_mutex_unlock(&server->lock);
    latch_add(&server->opened);
}

static void end_call(void *ctx, struct sluice_rpc_call *call)
{
    struct server *server = ctx;
    struct call_state *state = state_of(server, call);
    state->is_done = true;
    struct sluice_message message = text_message("late");
    CU_ASSERT_EQUAL(sluice_rpc_call_send(call, &message), SLUICE_E_CLOSED);
    latch_add(&server->done);
}

static void echo_message(void *ctx, struct sluice_rpc_call *call, struct sluice_message *message)
{
    struct server *server = ctx;
    (void)state_of(server, call);
    struct sluice_message taken = take(message);
    reply(server, call, &taken);
    latch_add(&server->messages);
}

static void finish_call(void *ctx, struct sluice_rpc_call *call)
{
    struct server *server = ctx;
    (void)state_of(server, call);
    latch_add(&server->half_closes);
    sluice_rpc_call_finish(call, SLUICE_RPC_OK, NULL);
}

struct echo_job {
    struct sluice_job job;
    struct server *server;
    struct sluice_rpc_call *call;
    struct call_state *state;
    struct sluice_message message;
};

static void leave_workers(struct sluice_rpc_call *call, struct call_state *state)
{
    if (atomic_fetch_sub(&state->open_jobs, 1) == 1)
        sluice_rpc_call_finish(call, SLUICE_RPC_OK, NULL);
}

static void run_echo_job(struct sluice_job *job, enum sluice_job_fate fate, void *worker)
{
    (void)fate, (void)worker;
    struct echo_job *echo = SLUICE_CONTAINER_OF(job, struct echo_job, job);
    reply(echo->server, echo->call, &echo->message);
    leave_workers(echo->call, echo->state);
    sluice_rpc_call_unref(echo->call);
    free(echo);
}

static void give_to_worker(void *ctx, struct sluice_rpc_call *call, struct sluice_message *message)
{
    struct server *server = ctx;
    struct call_state *state = state_of(server, call);
    struct echo_job *echo = must(calloc(1, sizeof(*echo)));
    echo->job.fn = run_echo_job;
    echo->server = server;
    echo->call = sluice_rpc_call_ref(call);
    echo->state = state;
    echo->message = take(message);
    atomic_fetch_add(&state->open_jobs, 1);
    latch_add(&server->messages);
    if (sluice_worker_pool_try_submit(server->pool, &echo->job) != SLUICE_OK)
        run_echo_job(&echo->job, SLUICE_JOB_CANCEL, NULL);
}

static void close_workers(void *ctx, struct sluice_rpc_call *call)
{
    struct server *server = ctx;
    latch_add(&server->half_closes);
    leave_workers(call, state_of(server, call));
}

static void count_message(void *ctx, struct sluice_rpc_call *call, struct sluice_message *message)
{
    struct server *server = ctx;
    (void)message;
    (void)state_of(server, call);
    latch_add(&server->messages);
}

static void fail_message(void *ctx, struct sluice_rpc_call *call, struct sluice_message *message)
{
    (void)ctx;
    uint8_t *text = gather(message);
    sluice_rpc_call_finish(call, SLUICE_RPC_FAILED_PRECONDITION, (const char *)text);
    sluice_rpc_call_finish(call, SLUICE_RPC_INTERNAL, "only the first finish counts");
    free(text);
}

static void pour_on(void *ctx, struct sluice_rpc_call *call)
{
    struct server *server = ctx;
    struct call_state *state = state_of(server, call);
    while (state->pour_left && sluice_rpc_call_queued_bytes(call) < POUR_BYTES) {
        struct sluice_message message = filled_message(state->pour_size, (uint8_t)state->pour_left);
        reply(server, call, &message);
        const size_t queued = sluice_rpc_call_queued_bytes(call);
        if (queued > atomic_load(&server->most_queued))
            atomic_store(&server->most_queued, queued);
        if (--state->pour_left == 0)
            sluice_rpc_call_finish(call, SLUICE_RPC_OK, NULL);
    }
}

static void pour_message(void *ctx, struct sluice_rpc_call *call, struct sluice_message *message)
{
    struct call_state *state = sluice_rpc_call_state(call);
    char *text = (char *)gather(message);
    if (sscanf(text, "%u %zu", &state->pour_left, &state->pour_size) != 2)
        CU_FAIL("a Pour without its numbers");
    free(text);
    pour_on(ctx, call);
}

static void open_paused(void *ctx, struct sluice_rpc_call *call)
{
    sluice_rpc_call_pause(call);
    open_call(ctx, call);
}

static void first_message(void *ctx, struct sluice_rpc_call *call, struct sluice_message *message)
{
    count_message(ctx, call, message);
    sluice_rpc_call_finish(call, SLUICE_RPC_OK, NULL);
}

static const struct sluice_rpc_method methods[] = {
    {.path = "/t/Unary",
     .is_unary = true,
     .on_open = open_call,
     .on_message = echo_message,
     .on_half_close = finish_call,
     .on_done = end_call},
    {.path = "/t/Echo",
     .on_open = open_call,
     .on_message = echo_message,
     .on_half_close = finish_call,
     .on_done = end_call},
    {.path = "/t/Workers",
     .on_open = open_call,
     .on_message = give_to_worker,
     .on_half_close = close_workers,
     .on_done = end_call},
    {.path = "/t/Hold", .on_open = open_call, .on_message = count_message, .on_done = end_call},
    {.path = "/t/Fail", .on_open = open_call, .on_message = fail_message, .on_done = end_call},
    {.path = "/t/Pour",
     .on_open = open_call,
     .on_message = pour_message,
     .on_writable = pour_on,
     .on_done = end_call},
    {.path = "/t/Paused",
     .on_open = open_paused,
     .on_message = echo_message,
     .on_half_close = finish_call,
     .on_done = end_call},
    {.path = "/t/First",
     .on_open = open_call,
     .on_message = first_message,
     .on_half_close = finish_call,
     .on_done = end_call},
};

static uint64_t pace(void *ctx, void *client, size_t bytes)
{
    (void)client;
    struct server *server = ctx;
    return server->pace(server, bytes);
}

void server_start(struct server *server, const struct server_options *options)
{
    *server = (struct server){.opened = LATCH_INIT,
                              .done = LATCH_INIT,
                              .messages = LATCH_INIT,
                              .half_closes = LATCH_INIT,
                              .lock = PTHREAD_MUTEX_INITIALIZER,
                              .pace = options->pace,
                              .pace_ctx = options->pace_ctx};
    struct sluice_err err = {0};
    sluice_status status = sluice_worker_pool_create(
        &(struct sluice_worker_pool_options){
            .name = "echo", .num_workers = 3, .queue_capacity = 100000},
        &server->pool, &err);
    if (status == SLUICE_OK)
        status = sluice_rpc_server_create(
            &(struct sluice_rpc_server_options){
                .listen = options->listen ? options->listen : "127.0.0.1:0",
                .num_threads = options->num_threads ? options->num_threads : 2,
                .methods = methods,
                .num_methods = SLUICE_ARRAY_LEN(methods),
                .ctx = server,
                .max_receive_bytes = options->max_receive_bytes,
                .tls = options->tls,
                .admit = options->admit,
                .release = options->release,
                .pace = options->pace ? pace : NULL},
            &server->rpc, &err);
    if (status != SLUICE_OK) {
        fprintf(stderr, "%s\n", err.text);
        CU_FAIL_FATAL("the server does not start");
    }
    snprintf(server->target, sizeof(server->target), "127.0.0.1:%d",
             sluice_rpc_server_port(server->rpc));
}

void server_stop(struct server *server, unsigned grace_ms)
{
    sluice_rpc_server_shutdown(server->rpc, grace_ms);
    server_free(server);
}

void server_free(struct server *server)
{
    sluice_worker_pool_destroy(server->pool, SLUICE_POOL_DRAIN);
    sluice_rpc_server_destroy(server->rpc);
    CU_ASSERT_EQUAL(latch_count(&server->opened), latch_count(&server->done));
    CU_ASSERT_FALSE(server->called_after_done);
    for (unsigned i = 0; i < server->num_calls; i++) {
        struct sluice_rpc_call *call = server->calls[i];
        struct sluice_message message = text_message("after the end");
        CU_ASSERT_EQUAL(sluice_rpc_call_send(call, &message), SLUICE_E_CLOSED);
        CU_ASSERT_EQUAL(sluice_rpc_call_queued_bytes(call), 0);
        free(sluice_rpc_call_state(call));
        sluice_rpc_call_unref(call);
    }
    free(server->calls);
}

/* --- the client --- */

struct sluice_rpc_channel *connect_to(const char *target)
{
    struct sluice_rpc_channel *channel = NULL;
    struct sluice_err err = {0};
    if (sluice_rpc_channel_create(&(struct sluice_rpc_channel_options){.target = target}, &channel,
                                  &err) != SLUICE_OK)
        CU_FAIL_FATAL(err.text);
    return channel;
}

struct sluice_rpc_channel *pair_start(struct server *server, const struct server_options *options)
{
    server_start(server, options ? options : &(struct server_options){0});
    return connect_to(server->target);
}

void pair_stop(struct server *server, struct sluice_rpc_channel *channel)
{
    sluice_rpc_channel_destroy(channel);
    server_stop(server, 5000);
}

static void client_message(void *ctx, struct sluice_message *message)
{
    struct client *client = ctx;
    const uint64_t hash = message_hash(message);
    pthread_mutex_lock(&client->lock);
    client->hash_sum += hash;
    client->last_hash = hash;
    client->last_len = message->len;
    pthread_mutex_unlock(&client->lock);
    atomic_fetch_add(&client->bytes, message->len);
    if (client->on_message)
        client->on_message(client, message);
    CU_ASSERT_EQUAL(latch_count(&client->done), 0);
    latch_add(&client->messages);
}

static void client_done(void *ctx, enum sluice_rpc_code code, const char *text)
{
    struct client *client = ctx;
    client->code = code;
    snprintf(client->text, sizeof(client->text), "%s", text);
    latch_add(&client->done);
}

void client_open(struct client *client, struct sluice_rpc_channel *channel, const char *path)
{
    *client = (struct client){.messages = LATCH_INIT,
                              .done = LATCH_INIT,
                              .lock = PTHREAD_MUTEX_INITIALIZER,
                              .on_message = client->on_message,
                              .ctx = client->ctx};
    struct sluice_err err = {0};
    if (sluice_rpc_stream_open(
            channel, path, 0,
            &(struct sluice_rpc_stream_events){client_message, client_done, client},
            &client->stream, &err) != SLUICE_OK)
        CU_FAIL_FATAL(err.text);
}

void client_send(struct client *client, const char *text)
{
    struct sluice_message message = text_message(text);
    CHECK_OK(sluice_rpc_stream_send(client->stream, &message));
}

void client_close(struct client *client)
{
    sluice_rpc_stream_half_close(client->stream);
    CU_ASSERT(latch_wait(&client->done, 1));
    sluice_rpc_stream_destroy(client->stream);
    CU_ASSERT_EQUAL(latch_count(&client->done), 1);
}

enum sluice_rpc_code ping(struct sluice_rpc_channel *channel)
{
    struct sluice_message request = text_message("ping"), answer = {0};
    enum sluice_rpc_code code = SLUICE_RPC_UNKNOWN;
    struct sluice_err err = {0};
    const sluice_status status =
        sluice_rpc_unary(channel, "/t/Unary", &request, 20000, &answer, &code, &err);
    CU_ASSERT_EQUAL(status, sluice_rpc_code_to_status(code));
    CU_ASSERT_EQUAL(request.num_segments, 0);
    if (status == SLUICE_OK)
        CU_ASSERT(message_is(&answer, "ping"));
    sluice_message_clear(&answer);
    return code;
}
