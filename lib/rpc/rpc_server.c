#include "rpc/rpc_server.h"

#include "base/clock.h"
#include "base/cond.h"
#include "base/host_port.h"
#include "base/log.h"
#include "rpc/credentials.h"
#include "rpc/exchange.h"
#include "rpc/grpc151/door.h"
#include "rpc/grpc151/interpose.h"
#include "rpc/grpc151/self_check.h"
#include "rpc/grpc_library.h"
#include "rpc/rpc_call_internal.h"

#include <grpc/grpc_security.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Before the listener closes, new calls are answered UNAVAILABLE for this long.  Afterwards the
 * library cancels them, and the client cannot tell why. */
#define REFUSE_MS 100

/* How long an idle connection has to close by itself (GOAWAY) before it is cut. */
#define GOODBYE_MS 100

/* The shortest interval of pings that a client may use.  Half of rpc_client's shortest, because two
 * pings may arrive closer together than they were sent, and the third early one ends the
 * connection. */
#define MIN_PING_INTERVAL_MS 500

#define KEEPALIVE_MS 20000
#define KEEPALIVE_TIMEOUT_MS 10000

/* From accept to the client's HTTP/2 settings.  A round trip or two in good faith. */
#define HANDSHAKE_MS 10000

/* A connection without a call is closed (GOAWAY) after this time: it holds a place that others may
 * want, and a client connects again by itself when it calls. */
#define IDLE_MS 300000

/* Bytes of one call's header fields, with 32 for each as HTTP/2 counts them.  Ours have 300. */
#define MAX_METADATA_BYTES (16 << 10)

struct sluice_rpc_server {
    grpc_server *server;
    struct rpc_queue *queues;
    unsigned num_queues;
    const struct sluice_rpc_method *methods;
    void **handles;
    size_t num_methods;
    char *listen;
    struct rpc_identity *identity; /* NULL: no TLS */
    int port;
    struct door *door;
    struct rpc_calls calls;
    bool is_stopped; /* the library has reported the end; under calls.lock */
    struct rpc_tag stop_tag;
};

static void on_stopped(struct rpc_tag *tag, bool ok)
{
    (void)ok;
    struct sluice_rpc_server *server = SLUICE_CONTAINER_OF(tag, struct sluice_rpc_server, stop_tag);
    pthread_mutex_lock(&server->calls.lock);
    server->is_stopped = true;
    pthread_cond_broadcast(&server->calls.changed);
    pthread_mutex_unlock(&server->calls.lock);
}

static grpc_server *create_library_server(const struct sluice_rpc_server_options *options)
{
    const size_t max_receive = options->max_receive_bytes ? options->max_receive_bytes : 4u << 20;
    const unsigned max_streams =
        options->max_concurrent_streams ? options->max_concurrent_streams : 128;
    grpc_arg args[] = {
        /* Otherwise two servers could share a port, and each would get some of the connections. */
        rpc_arg(GRPC_ARG_ALLOW_REUSEPORT, 0),
        rpc_arg(GRPC_ARG_MAX_CONCURRENT_STREAMS, (int)max_streams),
        rpc_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
                max_receive > INT32_MAX ? INT32_MAX : (int)max_receive),
        rpc_arg(GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, RPC_WRITE_BUFFER_BYTES),
        rpc_arg(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, RPC_READ_BYTES),
        rpc_arg(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, RPC_ALGORITHMS),
        rpc_arg(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, HANDSHAKE_MS),
        rpc_arg(GRPC_ARG_MAX_CONNECTION_IDLE_MS, IDLE_MS),
        rpc_arg(GRPC_ARG_MAX_METADATA_SIZE, MAX_METADATA_BYTES),
        /* Keepalive: a peer that does not answer a ping is gone. */
        rpc_arg(GRPC_ARG_KEEPALIVE_TIME_MS, KEEPALIVE_MS),
        rpc_arg(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, KEEPALIVE_TIMEOUT_MS),
        rpc_arg(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1),
        rpc_arg(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
        rpc_arg(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, MIN_PING_INTERVAL_MS),
        {.key = NULL}, /* room for the quota */
    };
    size_t num_args = SLUICE_ARRAY_LEN(args) - 1;
    grpc_resource_quota *quota = NULL;
    if (options->memory_bytes) {
        quota = grpc_resource_quota_create("sluice");
        grpc_resource_quota_resize(quota, options->memory_bytes);
        args[num_args++] = (grpc_arg){
            .type = GRPC_ARG_POINTER,
            .key = (char *)GRPC_ARG_RESOURCE_QUOTA,
            .value.pointer = {.p = quota, .vtable = grpc_resource_quota_arg_vtable()},
        };
    }
    const grpc_channel_args channel_args = {num_args, args};
    grpc_server *server = grpc_server_create(&channel_args, NULL);
    if (quota)
        grpc_resource_quota_unref(quota);
    return server;
}

/* Waits until is_true() or until the deadline `until_ns` (sluice_clock_ns); UINT64_MAX: no
 * deadline. */
static void wait_for(struct sluice_rpc_server *server, bool (*is_true)(struct sluice_rpc_server *),
                     uint64_t until_ns)
{
    pthread_mutex_lock(&server->calls.lock);
    bool has_time = true;
    while (has_time && !is_true(server))
        has_time = sluice_cond_wait_until(&server->calls.changed, &server->calls.lock, until_ns);
    pthread_mutex_unlock(&server->calls.lock);
}

static bool is_never(struct sluice_rpc_server *server)
{
    (void)server;
    return false;
}

static bool is_quiet(struct sluice_rpc_server *server)
{
    return server->calls.num_live == 0;
}

static bool is_gone(struct sluice_rpc_server *server)
{
    return server->calls.num_live == 0 && server->is_stopped;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void sluice_rpc_server_shutdown(struct sluice_rpc_server *server, unsigned grace_ms)
{
    const uint64_t start = sluice_clock_ns();
    const uint64_t deadline = start + grace_ms * 1000000ull;

    pthread_mutex_lock(&server->calls.lock);
    server->calls.is_draining = true;
    pthread_mutex_unlock(&server->calls.lock);
    wait_for(server, is_never, earlier(deadline, start + REFUSE_MS * 1000000ull));

    rpc_hand_over(&server->queues[0], &server->stop_tag);
    grpc_server_shutdown_and_notify(server->server, server->queues[0].cq, &server->stop_tag);
    wait_for(server, is_quiet, deadline);
    wait_for(server, is_gone, earlier(deadline, sluice_clock_ns() + GOODBYE_MS * 1000000ull));
    grpc_server_cancel_all_calls(server->server);
    wait_for(server, is_gone, UINT64_MAX);

    for (unsigned i = 0; i < server->num_queues; i++)
        rpc_queue_stop(&server->queues[i]);
}

/* Frees the server, which may be half made and no longer runs. */
static void free_server(struct sluice_rpc_server *server)
{
    if (server->server)
        grpc_server_destroy(server->server);
    for (unsigned i = 0; server->queues && i < server->num_queues; i++)
        rpc_queue_stop(&server->queues[i]);
    rpc_identity_destroy(server->identity);
    door_close(server->door);
    free(server->listen);
    free(server->queues);
    free(server->handles);
    pthread_cond_destroy(&server->calls.changed);
    pthread_mutex_destroy(&server->calls.lock);
    free(server);
}

void sluice_rpc_server_destroy(struct sluice_rpc_server *server)
{
    if (server)
        free_server(server);
}

/* gRPC tells of a port only its lowest 16 bits, and its complaints are pages long: the address is
 * checked before, and the failure explained after. */
static sluice_status listen_on(struct sluice_rpc_server *server, const char *given,
                               struct sluice_err *err)
{
    const bool is_unix = self_check_is_unix(given);
    struct sluice_host_port parsed = {.port = 0};
    char written[SLUICE_HOST_PORT_BYTES];
    const char *address = given;
    if (!is_unix) {
        const sluice_status status = sluice_host_port_parse(given, -1, &parsed, err);
        if (status != SLUICE_OK)
            return status;
        sluice_host_port_format(&parsed, "0.0.0.0", written);
        address = written;
    } else if (self_check_is_taken(given)) {
        return sluice_fail(err, SLUICE_E_IO,
                           "cannot listen on %s: another program listens there already", given);
    }
    (void)rpc_library_complaint();
    grpc_server_credentials *credentials = server->identity
                                               ? rpc_identity_credentials(server->identity)
                                               : grpc_insecure_server_credentials_create();
    server->port = grpc_server_add_http2_port(server->server, address, credentials);
    grpc_server_credentials_release(credentials);
    if (server->port > 0) {
        door_set_port(server->door, is_unix ? DOOR_UNIX : server->port);
        return SLUICE_OK;
    }
    const char *why = rpc_library_complaint();
    if (!is_unix && sluice_host_port_try_listen(&parsed, err) != SLUICE_OK)
        return SLUICE_E_IO;
    return sluice_fail(err, SLUICE_E_IO, "cannot listen on %s: %s", address,
                       why[0] ? why : "no such address");
}

sluice_status sluice_rpc_server_create(const struct sluice_rpc_server_options *options,
                                       struct sluice_rpc_server **out, struct sluice_err *err)
{
    if (options->num_threads < 1)
        return sluice_fail(err, SLUICE_E_INVALID, "a server needs at least one thread");
    rpc_library_init();

    struct sluice_rpc_server *server = calloc(1, sizeof(*server));
    if (!server)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a server");
    pthread_mutex_init(&server->calls.lock, NULL);
    sluice_cond_init(&server->calls.changed);
    server->methods = options->methods;
    server->num_methods = options->num_methods;
    server->calls.ctx = options->ctx;
    server->calls.admit = options->admit;
    server->calls.release = options->release;
    server->calls.has_tls = options->tls != NULL;
    server->stop_tag.fn = on_stopped;
    server->num_queues = options->num_threads;
    server->queues = calloc(server->num_queues, sizeof(*server->queues));
    server->handles = calloc(server->num_methods + 1, sizeof(*server->handles));
    server->listen = strdup(options->listen);

    sluice_status status = SLUICE_OK;
    if (!server->queues || !server->handles || !server->listen)
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a server");
    if (status == SLUICE_OK && options->tls) {
        const struct sluice_tls_files files = {
            .cert = options->tls->cert, .key = options->tls->key, .ca = options->tls->client_ca};
        status = rpc_identity_create(&files, &server->identity, err);
    }
    const struct door_limits limits = {options->max_connections, options->max_connections_per_host,
                                       options->tls != NULL, options->is_over, options->ctx};
    if (status == SLUICE_OK)
        status = door_open(&limits, &server->door, err);
    if (options->is_over) /* it may have to cut strangers' connections */
        server->calls.door = server->door;
    for (unsigned i = 0; status == SLUICE_OK && i < server->num_queues; i++) {
        char name[16];
        snprintf(name, sizeof(name), "rpc-%u", i);
        server->queues[i].pace = options->pace;
        server->queues[i].pace_ctx = options->ctx;
        status = rpc_queue_start(&server->queues[i], name, err);
    }
    if (status != SLUICE_OK) {
        free_server(server);
        return status;
    }

    server->server = create_library_server(options);
    server->calls.server = server->server;
    for (unsigned i = 0; i < server->num_queues; i++)
        grpc_server_register_completion_queue(server->server, server->queues[i].cq, NULL);
    for (size_t m = 0; status == SLUICE_OK && m < server->num_methods; m++) {
        const struct sluice_rpc_method *method = &server->methods[m];
        server->handles[m] = grpc_server_register_method(
            server->server, method->path, NULL,
            method->is_unary ? GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER : GRPC_SRM_PAYLOAD_NONE,
            0);
        if (!server->handles[m])
            status =
                sluice_fail(err, SLUICE_E_INVALID, "the method %s is there twice", method->path);
    }
    if (status == SLUICE_OK)
        status = listen_on(server, options->listen, err);
    if (status != SLUICE_OK) {
        sluice_rpc_server_shutdown(server, 0);
        free_server(server);
        return status;
    }

    /* One call waits per method and queue, and one more per queue for any other method; all are
     * there before the first client can come. */
    grpc_server_start(server->server);
    for (unsigned i = 0; i < server->num_queues; i++) {
        for (size_t m = 0; m <= server->num_methods; m++) {
            const bool is_known = m < server->num_methods;
            if (!rpc_call_await(&server->calls, &server->queues[i],
                                is_known ? &server->methods[m] : NULL,
                                is_known ? server->handles[m] : NULL)) {
                sluice_rpc_server_shutdown(server, 0);
                free_server(server);
                return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a server's calls");
            }
        }
    }
    *out = server;
    return SLUICE_OK;
}

int sluice_rpc_server_port(const struct sluice_rpc_server *server)
{
    return server->port;
}

uint64_t sluice_rpc_server_bytes_sent(const struct sluice_rpc_server *server)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < server->num_queues; i++)
        sum += atomic_load_explicit(&server->queues[i].bytes_sent, memory_order_relaxed);
    return sum;
}

bool sluice_rpc_server_can_limit(void)
{
    return interpose_is_before_grpc();
}

struct sluice_rpc_connections sluice_rpc_server_connections(struct sluice_rpc_server *server)
{
    return door_read(server->door);
}

uint64_t sluice_rpc_server_num_refused(struct sluice_rpc_server *server)
{
    return door_num_refused(server->door);
}

sluice_status sluice_rpc_server_check(struct sluice_rpc_server *server, unsigned timeout_ms,
                                      struct sluice_err *err)
{
    const struct self_check_target target = {
        .listen = server->listen,
        .port = server->port,
        .has_tls = server->identity != NULL,
        .door = server->door,
    };
    return self_check(&target, timeout_ms, err);
}

int64_t sluice_rpc_server_certificate_end(struct sluice_rpc_server *server)
{
    return server->identity ? rpc_identity_certificate_end(server->identity) : 0;
}

sluice_status sluice_rpc_server_reload(struct sluice_rpc_server *server, struct sluice_err *err)
{
    return server->identity ? rpc_identity_reload(server->identity, err) : SLUICE_OK;
}
