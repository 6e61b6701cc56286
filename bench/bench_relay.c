#include "base/clock.h"
#include "bench/bench.h"
#include "bench/bench_rpc.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A link with a delay: what comes in at one end leaves at the other so many ns later, as much as
 * QUEUE_BYTES in between.  Each end talks to a TCP next door, so it is the round trips of what
 * runs above TCP that are delayed: HTTP/2's windows, credits, requests. */

#define CHUNK_BYTES (64u << 10)
#define NUM_CHUNKS 256
#define MAX_WAYS 16

struct way { /* from one socket to another; each connection has two */
    int from, to;
    bool is_open;
    size_t first, count;
    struct chunk {
        uint64_t due_ns;
        size_t len, sent;
        uint8_t *bytes;
    } chunks[NUM_CHUNKS];
};

static struct way *ways[MAX_WAYS];
static size_t num_ways;

static int listen_on(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (void *)&address, len) != 0 || listen(fd, 4) != 0 ||
        getsockname(fd, (void *)&address, &len) != 0)
        bench_die("cannot listen: %s", strerror(errno));
    *port = ntohs(address.sin_port);
    return fd;
}

static void add_way(int from, int to)
{
    struct way *way = calloc(1, sizeof(*way));
    if (!way || num_ways == MAX_WAYS)
        bench_die("too many connections through the relay");
    way->from = from;
    way->to = to;
    way->is_open = true;
    ways[num_ways++] = way;
}

static void connect_through(int listener, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int one = 1, near = accept(listener, NULL, NULL),
              far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (near < 0 || far < 0 || connect(far, (void *)&address, sizeof(address)) != 0)
        bench_die("the relay cannot connect: %s", strerror(errno));
    (void)setsockopt(near, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void)setsockopt(far, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    add_way(near, far);
    add_way(far, near);
}

static void take_in(struct way *way, uint64_t due_ns)
{
    struct chunk *chunk = &way->chunks[(way->first + way->count) % NUM_CHUNKS];
    if (!chunk->bytes)
        chunk->bytes = malloc(CHUNK_BYTES);
    if (!chunk->bytes)
        bench_die("no memory for the relay");
    const ssize_t got = recv(way->from, chunk->bytes, CHUNK_BYTES, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        way->is_open = false;
        return;
    }
    chunk->len = (size_t)got;
    chunk->sent = 0;
    chunk->due_ns = due_ns;
    way->count++;
}

static void let_out(struct way *way, uint64_t now_ns)
{
    while (way->count > 0) {
        struct chunk *chunk = &way->chunks[way->first];
        if (chunk->due_ns > now_ns)
            return;
        const ssize_t put = send(way->to, chunk->bytes + chunk->sent, chunk->len - chunk->sent,
                                 MSG_DONTWAIT | MSG_NOSIGNAL);
        if (put < 0 && errno != EAGAIN && errno != EINTR) {
            way->is_open = false;
            way->count = 0;
        }
        if (put < 0)
            return;
        chunk->sent += (size_t)put;
        if (chunk->sent < chunk->len)
            return;
        way->first = (way->first + 1) % NUM_CHUNKS;
        way->count--;
    }
}

/* Until something can be done, which is now or when the next chunk is due. */
static void wait_for(struct pollfd *polls, nfds_t num_polls, uint64_t now_ns)
{
    uint64_t due_ns = UINT64_MAX;
    for (size_t w = 0; w < num_ways; w++) {
        const struct way *way = ways[w];
        if (way->count > 0 && way->chunks[way->first].due_ns > now_ns &&
            way->chunks[way->first].due_ns < due_ns)
            due_ns = way->chunks[way->first].due_ns;
    }
    const uint64_t wait_ns = due_ns == UINT64_MAX ? 0 : due_ns - now_ns;
    const struct timespec wait = {.tv_sec = (time_t)(wait_ns / 1000000000u),
                                  .tv_nsec = (long)(wait_ns % 1000000000u)};
    (void)ppoll(polls, num_polls, due_ns == UINT64_MAX ? NULL : &wait, NULL);
}

void bench_relay(const struct bench_ports *ports, uint64_t delay_ns, int control)
{
    /* One listener for each transport; two of the ports may be the same server's. */
    struct bench_ports own;
    int listeners[NUM_TRANSPORTS];
    for (int t = 0; t < NUM_TRANSPORTS; t++)
        listeners[t] = listen_on(&own.of[t]);
    bench_write_all(control, &own, sizeof(own));

    for (;;) {
        struct pollfd polls[1 + NUM_TRANSPORTS + 2 * MAX_WAYS];
        nfds_t num_polls = 0;
        polls[num_polls++] = (struct pollfd){.fd = control, .events = POLLIN};
        for (int t = 0; t < NUM_TRANSPORTS; t++)
            polls[num_polls++] = (struct pollfd){.fd = listeners[t], .events = POLLIN};
        uint64_t now_ns = sluice_clock_ns();
        const size_t num_polled = num_ways;
        for (size_t w = 0; w < num_polled; w++) {
            const struct way *way = ways[w];
            const bool has_room = way->is_open && way->count < NUM_CHUNKS;
            const bool has_due = way->count > 0 && way->chunks[way->first].due_ns <= now_ns;
            polls[num_polls++] = (struct pollfd){.fd = has_room ? way->from : -1, .events = POLLIN};
            polls[num_polls++] = (struct pollfd){.fd = has_due ? way->to : -1, .events = POLLOUT};
        }
        wait_for(polls, num_polls, now_ns);
        now_ns = sluice_clock_ns();
        if (polls[0].revents)
            _exit(0); /* its other end is closed: the bench is over */
        for (size_t w = 0; w < num_polled; w++) {
            if (polls[1 + NUM_TRANSPORTS + 2 * w].revents)
                take_in(ways[w], now_ns + delay_ns);
            let_out(ways[w], now_ns);
        }
        for (int t = 0; t < NUM_TRANSPORTS; t++) {
            if (polls[1 + t].revents)
                connect_through(listeners[t], ports->of[t]);
        }
    }
}
