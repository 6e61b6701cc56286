#include "base/clock.h"
#include "base/compiler.h"
#include "bench/bench.h"
#include "bench/bench_way.h"
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A link of a given rate and delay between two programs of one machine, whose rate may be changed
 * while it is in use, without root:
 *
 *     client -> (listening) bench_link (connecting) -> server
 *
 * Each direction passes so many bytes a second, whatever the number of connections; a chunk is
 * delivered when it would be through a wire of that rate, and the delay later.  What waits in
 * front of the wire is little, so that the senders feel it.  Lines on the standard input say
 * "rate MBIT"; its end ends the program. */

#define NUM_CHUNKS 64
#define MAX_WAYS 256

/* Limit of the bytes that wait for the wire, in seconds of it; at least one chunk may wait. */
#define QUEUE_S 0.01

/* The kernel's part of the queue. */
#define SOCKET_BYTES (128 << 10)

struct wire { /* one for each direction */
    uint64_t free_ns;
};

static struct way { /* each connection has two; way is NULL where there is none */
    struct bench_way *way;
    struct wire *wire;
} ways[MAX_WAYS];
static size_t num_ways;
static struct wire there, back;
static double bytes_per_s;
static uint64_t delay_ns;

static int make_socket(void)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        bench_die("no socket: %s", strerror(errno));
    const int size = SOCKET_BYTES, one = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

static int listen_on(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    const int fd = make_socket(); /* what it accepts inherits the sizes */
    if (bind(fd, (void *)&address, len) != 0 || listen(fd, 16) != 0 ||
        getsockname(fd, (void *)&address, &len) != 0)
        bench_die("cannot listen: %s", strerror(errno));
    *port = ntohs(address.sin_port);
    return fd;
}

static void add_way(int from, int to, struct wire *wire)
{
    size_t at = 0;
    while (at < num_ways && ways[at].way)
        at++;
    if (at == MAX_WAYS)
        bench_die("too many connections");
    ways[at] = (struct way){bench_way_create(from, to, NUM_CHUNKS), wire};
    if (at == num_ways)
        num_ways++;
}

static void connect_through(int listener, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int near = accept(listener, NULL, NULL);
    if (near < 0)
        return;
    const int far = make_socket();
    if (connect(far, (void *)&address, sizeof(address)) != 0) {
        close(near); /* the server is away: the client tries again */
        close(far);
        return;
    }
    add_way(near, far, &there);
    add_way(far, near, &back);
}

static void take_in(struct way *way, uint64_t now_ns)
{
    struct bench_chunk *chunk = bench_way_take_in(way->way);
    if (!chunk)
        return;
    struct wire *wire = way->wire;
    wire->free_ns = (wire->free_ns > now_ns ? wire->free_ns : now_ns) +
                    (uint64_t)((double)chunk->len * 1e9 / bytes_per_s);
    chunk->due_ns = wire->free_ns + delay_ns;
}

/* Either way that ends takes its connection along, once both are empty. */
static void clear_closed(void)
{
    for (size_t w = 0; w + 1 < num_ways; w += 2) {
        struct bench_way *near = ways[w].way, *far = ways[w + 1].way;
        if (!near || (near->is_open && far->is_open) || near->count > 0 || far->count > 0)
            continue;
        close(near->from);
        close(near->to);
        bench_way_destroy(near);
        bench_way_destroy(far);
        ways[w].way = ways[w + 1].way = NULL;
    }
}

/* Reads standard input: whole lines as they come. */
static void obey(void)
{
    static char line[128];
    static size_t used;
    const ssize_t got = read(STDIN_FILENO, line + used, sizeof(line) - 1 - used);
    if (got <= 0)
        exit(0);
    used += (size_t)got;
    line[used] = '\0';
    char *end;
    while ((end = strchr(line, '\n'))) {
        double mbit;
        if (sscanf(line, "rate %lf", &mbit) != 1 || !(mbit > 0))
            bench_die("not \"rate MBIT\": %s", line);
        bytes_per_s = mbit * 125e3;
        used -= (size_t)(end + 1 - line);
        memmove(line, end + 1, used + 1);
    }
    if (used == sizeof(line) - 1)
        bench_die("a line without end");
}

static void run(int listener, int port)
{
    for (;;) {
        struct pollfd polls[2 + 2 * MAX_WAYS];
        nfds_t num_polls = 0;
        polls[num_polls++] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
        polls[num_polls++] = (struct pollfd){.fd = listener, .events = POLLIN};
        uint64_t now_ns = sluice_clock_ns(), wake_ns = UINT64_MAX;
        const size_t num_polled = num_ways;
        for (size_t w = 0; w < num_polled; w++) {
            const struct bench_way *way = ways[w].way;
            const uint64_t free_ns = way ? ways[w].wire->free_ns : 0;
            const uint64_t full_ns = now_ns + (uint64_t)(QUEUE_S * 1e9);
            const bool is_full = free_ns > full_ns;
            const bool has_room = way && bench_way_has_room(way) && !is_full;
            const uint64_t due_ns = way ? bench_way_due_ns(way) : UINT64_MAX;
            const bool has_due = way && due_ns <= now_ns;
            if (is_full && way->is_open && free_ns - (full_ns - now_ns) < wake_ns)
                wake_ns = free_ns - (full_ns - now_ns);
            if (due_ns > now_ns && due_ns < wake_ns)
                wake_ns = due_ns;
            polls[num_polls++] = (struct pollfd){.fd = has_room ? way->from : -1, .events = POLLIN};
            polls[num_polls++] = (struct pollfd){.fd = has_due ? way->to : -1, .events = POLLOUT};
        }
        bench_way_poll(polls, num_polls, now_ns, wake_ns);
        now_ns = sluice_clock_ns();
        if (polls[0].revents)
            obey();
        for (size_t w = 0; w < num_polled; w++) {
            if (!ways[w].way)
                continue;
            if (polls[2 + 2 * w].revents)
                take_in(&ways[w], now_ns);
            bench_way_let_out(ways[w].way, now_ns);
        }
        clear_closed();
        if (polls[1].revents)
            connect_through(listener, port);
    }
}

int main(int argc, char **argv)
{
    uint64_t port = 0;
    double mbit = 1000, delay_ms = 0;
    const struct sluice_option options[] = {
        {.name = "to",
         SLUICE_VALUE_UINT(port, "PORT"),
         SLUICE_RANGE(1, 65535),
         .is_required = true,
         .help = "Of the server, on this machine."},
        {.name = "rate",
         SLUICE_VALUE_DOUBLE(mbit, "MBIT"),
         SLUICE_RANGE(0.001, 1e6),
         .help = "Of each direction, to begin with."},
        {.name = "delay",
         SLUICE_VALUE_DOUBLE(delay_ms, "MS"),
         SLUICE_RANGE(0, 10000),
         .help = "One way."},
    };
    const struct sluice_cli cli = {
        .program = argv[0],
        .summary = "A link between two programs, whose rate lines on the standard input change.",
        .options = options,
        .num_options = SLUICE_ARRAY_LEN(options),
    };
    const struct sluice_cli_result parsed = sluice_cli_parse(&cli, argc, argv);
    if (parsed.should_exit)
        return parsed.exit_code;
    bytes_per_s = mbit * 125e3;
    delay_ns = (uint64_t)(delay_ms * 1e6);
    int own;
    const int listener = listen_on(&own);
    printf("listening on 127.0.0.1:%d\n", own);
    fflush(stdout);
    run(listener, (int)port);
}
