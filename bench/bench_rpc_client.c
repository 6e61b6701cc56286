#include "base/buf.h"
#include "base/clock.h"
#include "base/message.h"
#include "bench/bench.h"
#include "bench/bench_rpc.h"
#include "rpc/rpc.h"
#include "rpc/rpc_client.h"
#include "wire/wire.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define WINDOW_BYTES (32u << 20)
#define MAX_PER_MESSAGE 1000

static void work(uint64_t ns)
{
    const uint64_t end_ns = sluice_clock_ns() + ns;
    while (ns && sluice_clock_ns() < end_ns)
        ;
}

/* --- raw TCP --- */

static int connect_tcp(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (void *)&address, sizeof(address)) != 0)
        bench_die("cannot connect: %s", strerror(errno));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

/* Takes whatever is there, as much as fits: waiting for whole samples would put the reader to sleep
 * and wake it up for every segment. */
static uint64_t ask_tcp(int socket, const struct bench_ask *ask, size_t size, uint64_t work_ns)
{
    static uint8_t bytes[1 << 20];
    bench_write_all(socket, ask, sizeof(*ask));
    const uint64_t sample = BENCH_TCP_HEADER + size;
    for (uint64_t left = ask->count * sample; left > 0;) {
        const ssize_t got = recv(socket, bytes, left < sizeof(bytes) ? left : sizeof(bytes), 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            bench_die("the server is gone");
        const uint64_t samples = (left + sample - 1) / sample;
        left -= (uint64_t)got;
        work((samples - (left + sample - 1) / sample) * work_ns);
    }
    return sluice_clock_ns();
}

/* --- lib/rpc --- */

struct run {
    struct sluice_rpc_stream *stream;
    size_t size;
    uint64_t work_ns;
    uint64_t want, seen, to_grant;
    bool is_fetch;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_opened, is_complete, is_done;
    uint64_t complete_ns;
};

static void on_sample(void *ctx, const struct sluice_wire_sample_reply *reply)
{
    struct run *run = ctx;
    if (reply->status != SLUICE_OK || sluice_cursor_left(&reply->arrived) != run->size)
        bench_die("a reply without its payload: %s", reply->error);
    work(run->work_ns);
    run->seen++;
    run->to_grant += run->size;
}

static void send_request(struct run *run, const struct sluice_wire_fetch_request *request)
{
    struct sluice_message message = {0};
    if (sluice_wire_put_fetch_request(request, &message, NULL) ||
        sluice_rpc_stream_send(run->stream, &message))
        bench_die("cannot send a request");
}

static void on_message(void *ctx, struct sluice_message *message)
{
    struct run *run = ctx;
    struct sluice_err err = {0};
    if (sluice_wire_get_fetch_reply(message, run->size, on_sample, run, NULL, &err))
        bench_die("%s", err.text);
    if (run->is_fetch && run->to_grant >= WINDOW_BYTES / 4) {
        const struct sluice_wire_fetch_request grant = {.grant_bytes = run->to_grant};
        run->to_grant = 0;
        pthread_mutex_lock(&run->lock);
        while (!run->is_opened) /* run->stream is set by the thread that opens */
            pthread_cond_wait(&run->changed, &run->lock);
        pthread_mutex_unlock(&run->lock);
        send_request(run, &grant);
    }
    if (run->seen == run->want) {
        pthread_mutex_lock(&run->lock);
        run->is_complete = true;
        run->complete_ns = sluice_clock_ns();
        pthread_cond_broadcast(&run->changed);
        pthread_mutex_unlock(&run->lock);
    }
}

static void on_done(void *ctx, enum sluice_rpc_code code, const char *text)
{
    struct run *run = ctx;
    if (run->seen != run->want)
        bench_die("the stream ended early: %s %s", sluice_rpc_code_name(code), text);
    pthread_mutex_lock(&run->lock);
    run->is_done = true;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

static void request_samples(struct run *run, const struct bench_ask *ask)
{
    static struct sluice_wire_sample_request samples[MAX_PER_MESSAGE];
    struct sluice_wire_fetch_request request = {
        .open = {.is_present = true,
                 .protocol_version = SLUICE_WIRE_PROTOCOL_VERSION,
                 .window_bytes = WINDOW_BYTES},
        .samples = samples,
    };
    for (uint64_t i = 0; i < ask->count;) {
        request.num_samples = 0;
        while (request.num_samples < MAX_PER_MESSAGE && i < ask->count) {
            samples[request.num_samples++] = (struct sluice_wire_sample_request){
                .request_id = i + 1,
                .key.sample_id = ask->size * NUM_PAYLOADS + i % NUM_PAYLOADS,
            };
            i++;
        }
        send_request(run, &request);
        request.open.is_present = false;
    }
}

static uint64_t ask_rpc(struct sluice_rpc_channel *channel, const struct bench_ask *ask,
                        size_t size, uint64_t work_ns)
{
    struct run run = {
        .size = size,
        .work_ns = work_ns,
        .want = ask->count,
        .is_fetch = ask->transport == TRANSPORT_FETCH || ask->transport == TRANSPORT_FETCH_TLS,
    };
    pthread_mutex_init(&run.lock, NULL);
    pthread_cond_init(&run.changed, NULL);
    const struct sluice_rpc_stream_events events = {
        .on_message = on_message, .on_done = on_done, .ctx = &run};
    struct sluice_err err = {0};
    struct sluice_rpc_stream *stream;
    if (sluice_rpc_stream_open(channel, run.is_fetch ? SLUICE_METHOD_FETCH : BENCH_METHOD, 0,
                               &events, &stream, &err))
        bench_die("%s", err.text);
    pthread_mutex_lock(&run.lock);
    run.stream = stream;
    run.is_opened = true;
    pthread_cond_broadcast(&run.changed);
    pthread_mutex_unlock(&run.lock);

    if (run.is_fetch) {
        request_samples(&run, ask);
    } else {
        struct sluice_message message = {0};
        if (sluice_message_append_copy(&message, ask, sizeof(*ask), &err) ||
            sluice_rpc_stream_send(stream, &message))
            bench_die("cannot send a request");
    }
    /* Grants go until everything is there, so our half ends only then. */
    pthread_mutex_lock(&run.lock);
    while (!run.is_complete)
        pthread_cond_wait(&run.changed, &run.lock);
    pthread_mutex_unlock(&run.lock);
    sluice_rpc_stream_half_close(stream);
    pthread_mutex_lock(&run.lock);
    while (!run.is_done)
        pthread_cond_wait(&run.changed, &run.lock);
    pthread_mutex_unlock(&run.lock);
    sluice_rpc_stream_destroy(stream);
    pthread_cond_destroy(&run.changed);
    pthread_mutex_destroy(&run.lock);
    return run.complete_ns;
}

void bench_rpc_ask(const struct bench_setup *setup, enum transport transport, int port, int control)
{
    bench_pin(1);
    sluice_rpc_process_init();
    struct sluice_err err = {0};
    struct sluice_rpc_channel *channel = NULL;
    int tcp = -1;
    if (transport == TRANSPORT_TCP) {
        tcp = connect_tcp(port);
    } else {
        char target[32];
        snprintf(target, sizeof(target), "127.0.0.1:%d", port);
        char ca[4096];
        snprintf(ca, sizeof(ca), "%s/ca.pem", setup->tls ? setup->tls : "");
        const struct sluice_rpc_client_tls tls = {.ca = ca};
        const struct sluice_rpc_channel_options options = {
            .target = target,
            .tls = transport == TRANSPORT_FETCH_TLS ? &tls : NULL,
        };
        if (sluice_rpc_channel_create(&options, &channel, &err))
            bench_die("%s", err.text);
    }

    struct bench_ask ask;
    while (bench_read_all(control, &ask, sizeof(ask))) {
        const size_t size = setup->sizes[ask.size];
        struct bench_answer answer = {.before = bench_usage_so_far()};
        const uint64_t start_ns = sluice_clock_ns();
        const uint64_t end_ns = transport == TRANSPORT_TCP
                                    ? ask_tcp(tcp, &ask, size, setup->work_ns)
                                    : ask_rpc(channel, &ask, size, setup->work_ns);
        answer.seconds = (double)(end_ns - start_ns) * 1e-9;
        answer.after = bench_usage_so_far();
        bench_write_all(control, &answer, sizeof(answer));
    }
    _exit(0);
}
