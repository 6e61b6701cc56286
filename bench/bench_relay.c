#include "base/clock.h"
#include "bench/bench.h"
#include "bench/bench_rpc.h"
#include "bench/bench_way.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A link with a delay: what comes in at one end leaves at the other so many ns later, as much as
 * NUM_CHUNKS chunks in between.  Each end talks to a TCP next door, so it is the round trips of
 * what runs above TCP that are delayed: HTTP/2's windows, credits, requests. */

#define NUM_CHUNKS 256
#define MAX_WAYS 16

static struct bench_way *ways[MAX_WAYS];
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
    if (num_ways == MAX_WAYS)
        bench_die("too many connections through the relay");
    ways[num_ways++] = bench_way_create(from, to, NUM_CHUNKS);
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
        uint64_t now_ns = sluice_clock_ns(), wake_ns = UINT64_MAX;
        const size_t num_polled = num_ways;
        for (size_t w = 0; w < num_polled; w++) {
            const struct bench_way *way = ways[w];
            const uint64_t due_ns = bench_way_due_ns(way);
            if (due_ns > now_ns && due_ns < wake_ns)
                wake_ns = due_ns;
            polls[num_polls++] =
                (struct pollfd){.fd = bench_way_has_room(way) ? way->from : -1, .events = POLLIN};
            polls[num_polls++] =
                (struct pollfd){.fd = due_ns <= now_ns ? way->to : -1, .events = POLLOUT};
        }
        bench_way_poll(polls, num_polls, now_ns, wake_ns);
        now_ns = sluice_clock_ns();
        if (polls[0].revents)
            _exit(0); /* its other end is closed: the bench is over */
        for (size_t w = 0; w < num_polled; w++) {
            struct bench_chunk *chunk = NULL;
            if (polls[1 + NUM_TRANSPORTS + 2 * w].revents)
                chunk = bench_way_take_in(ways[w]);
            if (chunk)
                chunk->due_ns = now_ns + delay_ns;
            bench_way_let_out(ways[w], now_ns);
        }
        for (int t = 0; t < NUM_TRANSPORTS; t++) {
            if (polls[1 + t].revents)
                connect_through(listeners[t], ports->of[t]);
        }
    }
}
