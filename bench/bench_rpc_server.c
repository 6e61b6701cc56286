#include "base/buf.h"
#include "base/clock.h"
#include "base/message.h"
#include "bench/bench.h"
#include "bench/bench_rpc.h"
#include "rpc/rpc.h"
#include "rpc/rpc_server.h"
#include "storage_server/server.h"
#include "storage_server/session/rate_limit.h"
#include "store/store.h"
#include "wire/wire.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* What is handed to the transport before it asks for more. */
#define AHEAD_BYTES (1u << 20)

static struct sluice_buf *payloads[MAX_SIZES][NUM_PAYLOADS];
static struct sluice_rate_limit limit; /* but for the whole server, which has its own */

struct bench_usage bench_usage_so_far(void)
{
    struct timespec now;
    struct rusage usage;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    getrusage(RUSAGE_SELF, &usage);
    return (struct bench_usage){
        .cpu_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
        .faults = (uint64_t)usage.ru_minflt,
        .wakes = (uint64_t)usage.ru_nvcsw + (uint64_t)usage.ru_nivcsw,
    };
}

static void make_payloads(const struct bench_setup *setup)
{
    for (size_t s = 0; s < setup->num_sizes; s++) {
        for (size_t p = 0; p < NUM_PAYLOADS; p++) {
            struct sluice_buf *buf;
            if (sluice_buf_create(NULL, setup->sizes[s], &buf, NULL))
                bench_die("no memory for the payloads");
            buf->len = setup->sizes[s];
            memset(buf->data, (int)(s * NUM_PAYLOADS + p + 1), buf->len);
            payloads[s][p] = buf;
        }
    }
}

/* --- raw TCP --- */

static void serve_tcp_run(int socket, const struct bench_ask *ask)
{
    uint8_t header[BENCH_TCP_HEADER] = {0};
    for (uint64_t i = 0; i < ask->count; i++) {
        const struct sluice_buf *payload = payloads[ask->size][i % NUM_PAYLOADS];
        for (;;) {
            const uint64_t wait_ns = sluice_rate_limit_take(
                &limit, NULL, sizeof(header) + payload->len, sluice_clock_ns());
            if (!wait_ns)
                break;
            const struct timespec wait = sluice_clock_timespec(wait_ns);
            nanosleep(&wait, NULL);
        }
        memcpy(header, &i, sizeof(i));
        struct iovec parts[2] = {{header, sizeof(header)}, {payload->data, payload->len}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        size_t left = sizeof(header) + payload->len;
        while (left > 0) {
            const ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);
            if (sent < 0 && errno == EINTR)
                continue;
            if (sent < 0)
                return; /* the client is gone */
            left -= (size_t)sent;
            for (size_t skip = (size_t)sent; skip > 0;) {
                struct iovec *part = message.msg_iov;
                const size_t step = skip < part->iov_len ? skip : part->iov_len;
                part->iov_base = (char *)part->iov_base + step;
                part->iov_len -= step;
                skip -= step;
                if (part->iov_len == 0 && message.msg_iovlen > 1) {
                    message.msg_iov++;
                    message.msg_iovlen--;
                }
            }
        }
    }
}

static void *serve_tcp(void *arg)
{
    const int listener = *(int *)arg;
    for (;;) {
        const int socket = accept(listener, NULL, NULL);
        if (socket < 0)
            return NULL;
        const int one = 1;
        (void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        struct bench_ask ask;
        while (bench_read_all(socket, &ask, sizeof(ask)))
            serve_tcp_run(socket, &ask);
        close(socket);
    }
}

static int listen_tcp(int *listener)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    *listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*listener < 0 || bind(*listener, (void *)&address, len) != 0 || listen(*listener, 4) != 0 ||
        getsockname(*listener, (void *)&address, &len) != 0)
        bench_die("cannot listen: %s", strerror(errno));
    return ntohs(address.sin_port);
}

/* --- the bare stream --- */

struct run {
    struct bench_ask ask;
    uint64_t sent;
};

static void put_sample(struct run *run, struct sluice_message *message)
{
    const uint64_t i = run->sent++;
    const struct sluice_wire_sample_reply reply = {
        .request_id = i,
        .payload = payloads[run->ask.size][i % NUM_PAYLOADS],
    };
    if (sluice_wire_put_sample_reply(&reply, message, NULL))
        bench_die("no memory for a message");
}

static void send_more(struct sluice_rpc_call *call, struct run *run)
{
    const size_t size = payloads[run->ask.size][0]->len;
    const bool is_coalesced = run->ask.transport == TRANSPORT_COALESCED;
    for (size_t ahead = 0; run->sent < run->ask.count && ahead < AHEAD_BYTES;) {
        struct sluice_message message = {0};
        do
            put_sample(run, &message);
        while (is_coalesced && run->sent < run->ask.count &&
               message.len + size <= BENCH_COALESCE_BYTES);
        ahead += message.len;
        (void)sluice_rpc_call_send(call, &message); /* a lost call ends in on_done */
    }
    if (run->sent == run->ask.count)
        sluice_rpc_call_finish(call, SLUICE_RPC_OK, NULL);
}

static void on_message(void *ctx, struct sluice_rpc_call *call, struct sluice_message *message)
{
    (void)ctx;
    struct run *run = calloc(1, sizeof(*run));
    struct sluice_cursor cursor = sluice_cursor_init(message);
    if (!run || !sluice_cursor_read(&cursor, &run->ask, sizeof(run->ask)))
        bench_die("not an ask");
    sluice_rpc_call_set_state(call, run);
    send_more(call, run);
}

static void on_writable(void *ctx, struct sluice_rpc_call *call)
{
    (void)ctx;
    struct run *run = sluice_rpc_call_state(call);
    if (run)
        send_more(call, run);
}

static void on_done(void *ctx, struct sluice_rpc_call *call)
{
    (void)ctx;
    free(sluice_rpc_call_state(call));
}

static uint64_t pace(void *ctx, void *client, size_t bytes)
{
    (void)ctx, (void)client;
    return sluice_rate_limit_take(&limit, NULL, bytes, sluice_clock_ns());
}

/* --- the whole server, its files in memory --- */

void bench_payload_path(size_t size, size_t payload, char *path, size_t room)
{
    snprintf(path, room, "%03zu/%02zx.jpg", size, payload);
}

static unsigned digit(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* All of it, whatever is chosen: it is in memory. */
static sluice_status read_payload(struct sluice_store *store, const struct sluice_store_read *read,
                                  struct sluice_buf **file, struct sluice_err *err)
{
    (void)store;
    const char *path = read->key;
    /* As bench_payload_path() makes them; there are no others. */
    const unsigned size = (unsigned)(path[2] - '0');
    const unsigned payload = digit(path[4]) * 16 + digit(path[5]);
    if (size >= MAX_SIZES || payload >= NUM_PAYLOADS || !payloads[size][payload])
        return sluice_fail(err, SLUICE_E_NOT_FOUND, "no such payload");
    struct sluice_file_part parts[SLUICE_STORE_MAX_PARTS];
    unsigned num_parts;
    const sluice_status status =
        read->choose
            ? read->choose(read->ctx, payloads[size][payload]->len, 0, parts, &num_parts, err)
            : SLUICE_OK;
    if (status == SLUICE_OK)
        *file = sluice_buf_ref(payloads[size][payload]);
    return status;
}

static void cancel(struct sluice_store *store, const void *owner)
{
    (void)store, (void)owner;
}

static void limits(struct sluice_store *store, struct sluice_store_limits *out)
{
    (void)store;
    *out = (struct sluice_store_limits){.max_object_bytes = SIZE_MAX, .parallel_reads = 1};
}

static const char *relative(struct sluice_store *store, const char *path)
{
    (void)store;
    return path;
}

static uint64_t refused(struct sluice_store *store)
{
    (void)store;
    return 0;
}

static void destroy(struct sluice_store *store)
{
    (void)store;
}

static struct sluice_store memory_store = {.read = read_payload,
                                           .cancel = cancel,
                                           .limits = limits,
                                           .relative = relative,
                                           .refused = refused,
                                           .destroy = destroy};

void bench_rpc_serve(const struct bench_setup *setup, enum transport transport, int control)
{
    static const struct sluice_rpc_method methods[] = {
        {.path = BENCH_METHOD,
         .on_message = on_message,
         .on_writable = on_writable,
         .on_done = on_done},
    };
    bench_pin(0);
    sluice_rpc_process_init();
    make_payloads(setup);
    sluice_rate_limit_init(&limit, setup->limit_bytes_per_s, sluice_clock_ns());

    static char cert[4096], key[4096]; /* as long as the server */
    int port = 0, listener;
    pthread_t thread;
    struct sluice_err err = {0};
    struct sluice_rpc_server *rpc;
    struct sluice_storage_server *server;
    switch (transport) {
    case TRANSPORT_TCP:
        port = listen_tcp(&listener);
        if (pthread_create(&thread, NULL, serve_tcp, &listener))
            bench_die("cannot start a thread");
        break;
    case TRANSPORT_FETCH:
    case TRANSPORT_FETCH_TLS: {
        struct sluice_server_options options = sluice_server_options_init();
        options.roots = sluice_roots_one(setup->root);
        options.listen = "127.0.0.1:0";
        options.grpc_workers = 1;
        options.prep_workers = 1;
        options.io_workers = 1;
        /* A reply's memory counts until its payload goes, and these payloads stay. */
        options.memory_limit = (uint64_t)1 << 50;
        options.link_bytes_per_s = setup->limit_bytes_per_s;
        if (transport == TRANSPORT_FETCH_TLS) {
            snprintf(cert, sizeof(cert), "%s/server.pem", setup->tls);
            snprintf(key, sizeof(key), "%s/server-key.pem", setup->tls);
            options.tls_cert = cert;
            options.tls_key = key;
        }
        if (sluice_storage_server_create(
                &options, &(struct sluice_server_parts){.store = &memory_store}, &server, &err))
            bench_die("%s", err.text);
        port = sluice_storage_server_port(server);
        break;
    }
    default: {
        const struct sluice_rpc_server_options options = {
            .listen = "127.0.0.1:0",
            .num_threads = 1,
            .methods = methods,
            .num_methods = SLUICE_ARRAY_LEN(methods),
            .pace = setup->limit_bytes_per_s > 0 ? pace : NULL,
        };
        if (sluice_rpc_server_create(&options, &rpc, &err))
            bench_die("%s", err.text);
        port = sluice_rpc_server_port(rpc);
    }
    }

    bench_write_all(control, &port, sizeof(port));
    char question;
    while (bench_read_all(control, &question, 1)) {
        const struct bench_usage usage = bench_usage_so_far();
        bench_write_all(control, &usage, sizeof(usage));
    }
    _exit(0);
}
