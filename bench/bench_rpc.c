/* How much lib/rpc and the server add to a bare TCP connection: messages a second, and CPU per
 * message on both sides.  Server and client have a core each, loopback between them; transports
 * take turns, so a ratio compares neighbours in time.  docs/BENCHMARKING.md */

#include "bench/bench_rpc.h"

#include "base/compiler.h"
#include "base/parse.h"
#include "bench/bench.h"
#include "cli/cli.h"

#include <errno.h>
#include <math.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const transport_names[NUM_TRANSPORTS] = {
    [TRANSPORT_TCP] = "tcp",
    [TRANSPORT_STREAM] = "stream",
    [TRANSPORT_COALESCED] = "coalesced",
    [TRANSPORT_FETCH] = "fetch",
    [TRANSPORT_FETCH_TLS] = "fetch_tls",
};

#define TCP_SETTINGS "/proc/sys/net/ipv4/tcp_"
#define MAX_REPEATS 1000
#define LIMITED_REPEATS 3 /* the bucket leaves little room for noise */

/* One run of one transport at one size, for each of its messages. */
struct run {
    double us;
    struct side {
        double us, faults, wakes;
    } server, client;
};

/* The processes that talk to each other. */
struct world {
    const struct bench_setup *setup;
    int servers[NUM_TRANSPORTS], clients[NUM_TRANSPORTS], relay;
    pid_t children[2 * NUM_TRANSPORTS + 1];
    size_t num_children;
};

static bool is_there(const struct bench_setup *setup, int transport)
{
    return transport != TRANSPORT_FETCH_TLS || setup->tls;
}

static void make_files(struct bench_setup *setup)
{
    snprintf(setup->root, sizeof(setup->root), "/tmp/sluice-bench-XXXXXX");
    if (!mkdtemp(setup->root))
        bench_die("cannot make a folder in /tmp: %s", strerror(errno));
    for (size_t s = 0; s < setup->num_sizes; s++) {
        for (size_t p = 0; p < NUM_PAYLOADS; p++) {
            char name[32], path[128];
            bench_payload_path(s, p, name, sizeof(name));
            snprintf(path, sizeof(path), "%s/%.3s", setup->root, name);
            if (p == 0 && mkdir(path, 0700) != 0)
                bench_die("cannot make %s: %s", path, strerror(errno));
            snprintf(path, sizeof(path), "%s/%s", setup->root, name);
            FILE *file = fopen(path, "wxe");
            /* Holes: the server takes the content from memory and only the size from here. */
            if (!file || ftruncate(fileno(file), (off_t)setup->sizes[s]) != 0)
                bench_die("cannot make %s: %s", path, strerror(errno));
            fclose(file);
        }
    }
}

static void remove_files(const struct bench_setup *setup)
{
    for (size_t s = 0; s < setup->num_sizes; s++) {
        char name[32], path[128];
        for (size_t p = 0; p < NUM_PAYLOADS; p++) {
            bench_payload_path(s, p, name, sizeof(name));
            snprintf(path, sizeof(path), "%s/%s", setup->root, name);
            (void)unlink(path);
        }
        snprintf(path, sizeof(path), "%s/%.3s", setup->root, name);
        (void)rmdir(path);
    }
    (void)rmdir(setup->root);
}

/* Without a delay there is no relay. */
static void start_world(struct world *world, struct bench_setup *setup, double delay_ms)
{
    *world = (struct world){.setup = setup, .relay = -1};
    struct bench_ports ports = {{0}};
    make_files(setup);
    for (int t = 0; t < NUM_TRANSPORTS; t++) {
        if (!is_there(setup, t))
            continue;
        if ((world->children[world->num_children++] = bench_fork(&world->servers[t])) == 0)
            bench_rpc_serve(setup, (enum transport)t, world->servers[t]);
        if (!bench_read_all(world->servers[t], &ports.of[t], sizeof(ports.of[t])))
            bench_die("a server did not start");
    }
    remove_files(setup); /* the server has its manifest */
    if (delay_ms > 0) {
        const struct bench_ports behind = ports;
        if ((world->children[world->num_children++] = bench_fork(&world->relay)) == 0)
            bench_relay(&behind, (uint64_t)(delay_ms * 0.5e6), world->relay);
        if (!bench_read_all(world->relay, &ports, sizeof(ports)))
            bench_die("the relay did not start");
    }
    for (int t = 0; t < NUM_TRANSPORTS; t++) {
        if (is_there(setup, t) &&
            (world->children[world->num_children++] = bench_fork(&world->clients[t])) == 0)
            bench_rpc_ask(setup, (enum transport)t, ports.of[t], world->clients[t]);
    }
}

/* They end when their control ends; the relay after those who talk through it. */
static void stop_world(struct world *world)
{
    for (int t = 0; t < NUM_TRANSPORTS; t++) {
        if (!is_there(world->setup, t))
            continue;
        close(world->clients[t]);
        close(world->servers[t]);
    }
    if (world->relay >= 0)
        close(world->relay);
    for (size_t i = 0; i < world->num_children; i++)
        (void)waitpid(world->children[i], NULL, 0);
}

static struct bench_usage usage_of(int server)
{
    struct bench_usage usage;
    bench_write_all(server, "", 1);
    if (!bench_read_all(server, &usage, sizeof(usage)))
        bench_die("the server is gone");
    return usage;
}

static struct side per_message(const struct bench_usage *from, const struct bench_usage *to,
                               double count)
{
    return (struct side){.us = (double)(to->cpu_ns - from->cpu_ns) * 1e-3 / count,
                         .faults = (double)(to->faults - from->faults) / count,
                         .wakes = (double)(to->wakes - from->wakes) / count};
}

static struct run run_once(const struct world *world, const struct bench_ask *ask)
{
    const int server = world->servers[ask->transport], client = world->clients[ask->transport];
    const struct bench_usage before = usage_of(server);
    struct bench_answer answer;
    bench_write_all(client, ask, sizeof(*ask));
    if (!bench_read_all(client, &answer, sizeof(answer)))
        bench_die("the client is gone");
    const struct bench_usage after = usage_of(server);
    const double count = (double)ask->count;
    return (struct run){.us = answer.seconds * 1e6 / count,
                        .server = per_message(&before, &after, count),
                        .client = per_message(&answer.before, &answer.after, count)};
}

/* Of runs that took turns with those of tcp. */
struct against {
    double ratio, busy_ratio, server_cpu_ratio;
};

static struct against compare(const struct run *run, const struct run *tcp)
{
    return (struct against){
        .ratio = tcp->us / run->us,
        .busy_ratio = fmax(tcp->server.us, tcp->client.us) / fmax(run->server.us, run->client.us),
        .server_cpu_ratio = run->server.us / tcp->server.us,
    };
}

/* Of the doubles that stand `offset` bytes into each of `rows`. */
static double quantile_of(const void *rows, size_t stride, size_t offset, size_t num_rows, double q)
{
    double values[MAX_REPEATS];
    for (size_t r = 0; r < num_rows; r++)
        memcpy(&values[r], (const char *)rows + r * stride + offset, sizeof(values[r]));
    return bench_quantile(values, num_rows, q);
}

static void print_row(struct bench_report *report, const struct world *world, const char *name,
                      double bytes, const struct run *runs, const struct run *tcp, size_t repeats)
{
    static struct against against[MAX_REPEATS];
    for (size_t r = 0; r < repeats; r++)
        against[r] = compare(&runs[r], &tcp[r]);
#define OF_RUNS(rows, field)                                                                       \
    quantile_of(rows, sizeof(struct run), offsetof(struct run, field), repeats, 0.5)
#define AGAINST(field, q)                                                                          \
    quantile_of(against, sizeof(struct against), offsetof(struct against, field), repeats, q)
    const double us = OF_RUNS(runs, us);
    const bool is_limited = world->setup->limit_bytes_per_s > 0;
    bench_row_begin(report, name);
    bench_row_number(report, "us", 2, us);
    bench_row_number(report, "bytes", 0, bytes);
    bench_row_number(report, "messages_per_s", 0, 1e6 / us);
    if (is_limited)
        bench_row_number(report, "goodput_mbit", 1, bytes * 8 / us);
    bench_row_number(report, "server_cpu_us", 2, OF_RUNS(runs, server.us));
    bench_row_number(report, "client_cpu_us", 2, OF_RUNS(runs, client.us));
    bench_row_number(report, "server_cpu_s_per_gb", 3, OF_RUNS(runs, server.us) * 1e3 / bytes);
    bench_row_number(report, "client_cpu_s_per_gb", 3, OF_RUNS(runs, client.us) * 1e3 / bytes);
    if (!is_limited) {
        bench_row_number(report, "server_faults", 2, OF_RUNS(runs, server.faults));
        bench_row_number(report, "client_faults", 2, OF_RUNS(runs, client.faults));
        bench_row_number(report, "server_wakes", 2, OF_RUNS(runs, server.wakes));
        bench_row_number(report, "client_wakes", 2, OF_RUNS(runs, client.wakes));
    }
    bench_row_number(report, "reference_us", 2, OF_RUNS(tcp, us));
    bench_row_number(report, "ratio", 3, AGAINST(ratio, 0.5));
    if (!is_limited)
        bench_row_number(report, "busy_ratio", 3, AGAINST(busy_ratio, 0.5));
    bench_row_number(report, "server_cpu_ratio", 2, AGAINST(server_cpu_ratio, 0.5));
    bench_row_number(report, "ratio_min", 3, AGAINST(ratio, 0));
    bench_row_number(report, "ratio_max", 3, AGAINST(ratio, 1));
#undef OF_RUNS
#undef AGAINST
    bench_row_end(report);
}

static bool is_wanted(const struct bench_setup *setup, int transport, const char *only)
{
    return is_there(setup, transport) &&
           (transport == TRANSPORT_TCP || strstr(transport_names[transport], only));
}

/* A row for each size and transport; `link` is the end of its name. */
static void measure(struct bench_report *report, const struct world *world, size_t repeats,
                    double run_bytes, const char *only, const char *link)
{
    static struct run runs[NUM_TRANSPORTS][MAX_REPEATS];
    for (size_t s = 0; s < world->setup->num_sizes; s++) {
        const double bytes = (double)world->setup->sizes[s];
        struct bench_ask ask = {.size = (uint32_t)s};
        ask.count = (uint64_t)ceil(run_bytes / bytes);
        for (int t = 0; t < NUM_TRANSPORTS; t++) {
            const struct bench_ask warm_up = {(uint32_t)t, (uint32_t)s, ask.count / 4 + 1};
            if (is_wanted(world->setup, t, only))
                (void)run_once(world, &warm_up);
        }
        for (size_t r = 0; r < repeats; r++) {
            for (int t = 0; t < NUM_TRANSPORTS; t++) {
                ask.transport = (uint32_t)t;
                if (is_wanted(world->setup, t, only))
                    runs[t][r] = run_once(world, &ask);
            }
        }
        for (int t = 0; t < NUM_TRANSPORTS; t++) {
            char name[96];
            snprintf(name, sizeof(name), "%s %.0f kB%s", transport_names[t], bytes / 1000, link);
            if (is_wanted(world->setup, t, only))
                print_row(report, world, name, bytes, runs[t], runs[TRANSPORT_TCP], repeats);
        }
    }
}

static void set(const char *path, const char *value)
{
    FILE *file = fopen(path, "we");
    const bool is_put = file && fputs(value, file) >= 0;
    if (!file || fclose(file) != 0 || !is_put)
        bench_die("%s: %s", path, strerror(errno));
}

/* A network of our own, in which this process and its children alone are: its loopback is up, TCP
 * has that congestion control, and as many bytes in its buffers as Linux allows by default. */
static void enter_network(const char *congestion)
{
    struct ifreq loopback = {.ifr_name = "lo"};
    if (unshare(CLONE_NEWNET) != 0)
        bench_die("a network of our own: %s", strerror(errno));
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    loopback.ifr_flags = IFF_UP | IFF_RUNNING;
    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &loopback) != 0)
        bench_die("its loopback: %s", strerror(errno));
    close(fd);
    set(TCP_SETTINGS "congestion_control", congestion);
    set(TCP_SETTINGS "rmem", "4096 131072 6291456");
    set(TCP_SETTINGS "wmem", "4096 16384 4194304");
}

/* What decides how full the sockets of all transports are. */
static void print_tcp_setting(const char *name)
{
    char path[96], value[96] = "";
    snprintf(path, sizeof(path), TCP_SETTINGS "%s", name);
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    if (fgets(value, sizeof(value), file))
        fprintf(stderr, "TCP's %s: %s", name, value);
    fclose(file);
}

static void parse_sizes(const struct sluice_cli *cli, const struct sluice_option_strings *given,
                        struct bench_setup *setup)
{
    if (given->num_items > MAX_SIZES)
        exit(sluice_cli_usage_error(cli, "at most %d sizes", MAX_SIZES));
    for (size_t i = 0; i < given->num_items; i++) {
        struct sluice_err err = {0};
        if (sluice_parse_bytes(given->items[i], &setup->sizes[i], &err) || setup->sizes[i] < 1 ||
            setup->sizes[i] > 32u << 20)
            exit(sluice_cli_usage_error(cli, "--size %s: 1 byte to 32M", given->items[i]));
    }
    setup->num_sizes = given->num_items;
}

int main(int argc, char **argv)
{
    struct sluice_option_strings given = {{0}, 0};
    struct sluice_option_strings sizes = {{"20000", "110000", "150000", "600000"}, 4};
    struct sluice_option_strings limited_sizes = {{"110000", "150000"}, 2};
    struct sluice_option_strings given_delays = {{0}, 0}, delays = {{"0", "1", "10"}, 3};
    uint64_t repeats = 7, run_bytes = 512 << 20;
    double limit = 500e6 / 8, limit_seconds = 0.5, work_us = 0;
    const char *only = "", *congestion = "", *tls = NULL;
    const struct sluice_option options[] = {
        {.name = "size",
         SLUICE_VALUE_STRINGS(given, "BYTES"),
         .help = "A payload's size; may be given up to 8 times (20000, 110000, 150000, 600000; "
                 "through the bucket 110000, 150000)."},
        {.name = "repeats",
         SLUICE_VALUE_UINT(repeats, "N"),
         .help = "Runs of each transport, taking turns; medians are shown.",
         SLUICE_RANGE(1, MAX_REPEATS)},
        {.name = "run-bytes",
         SLUICE_VALUE_BYTES(run_bytes, "BYTES"),
         .help = "Payload in one run; 0 leaves out all that does not go through the bucket.",
         SLUICE_RANGE(0, 1e12)},
        {.name = "only",
         SLUICE_VALUE_STRING(only, "TEXT"),
         .help = "Beside tcp only the transports whose name holds this."},
        {.name = "tls",
         SLUICE_VALUE_STRING(tls, "DIR"),
         .help = "Measure fetch_tls, too: fetch over TLS, with the certificates that "
                 "scripts/dev-certs makes in DIR.",
         .default_text = "no TLS"},
        {.name = "work-us",
         SLUICE_VALUE_DOUBLE(work_us, "US"),
         .help = "CPU that the client's reading thread spends on each sample, so that it is late.",
         SLUICE_RANGE(0, 1e6)},
        {.name = "limit",
         SLUICE_VALUE_RATE(limit, "RATE"),
         .help = "The rate of a token bucket that everything goes through in the second part."},
        {.name = "limit-seconds",
         SLUICE_VALUE_DOUBLE(limit_seconds, "S"),
         .help = "How long the bucket takes for one run; 0 leaves the second part out.",
         SLUICE_RANGE(0, 1000)},
        {.name = "delay-ms",
         SLUICE_VALUE_STRINGS(given_delays, "MS"),
         .help = "A round trip that a relay adds in the second part; may be given several times "
                 "(0, which is without the relay, 1, 10)."},
        {.name = "congestion",
         SLUICE_VALUE_STRING(congestion, "NAME"),
         .help = "Run in a network of our own, where TCP has this congestion control and Linux's "
                 "default buffers (for root)."},
    };
    const struct sluice_cli cli = {
        .program = "bench_rpc",
        .summary = "Compare lib/rpc and the server with bare TCP, a core for each side.",
        .options = options,
        .num_options = SLUICE_ARRAY_LEN(options),
    };
    const struct sluice_cli_result args = sluice_cli_parse(&cli, argc, argv);
    if (args.should_exit)
        return args.exit_code;

    struct bench_setup setup = {.work_ns = (uint64_t)(work_us * 1e3), .tls = tls};
    struct bench_setup limited = {.work_ns = setup.work_ns, .limit_bytes_per_s = limit, .tls = tls};
    parse_sizes(&cli, given.num_items ? &given : &sizes, &setup);
    parse_sizes(&cli, given.num_items ? &given : &limited_sizes, &limited);
    if (given_delays.num_items)
        delays = given_delays;
    double delays_ms[SLUICE_ARRAY_LEN(delays.items)];
    for (size_t i = 0; i < delays.num_items; i++) {
        struct sluice_err err = {0};
        if (sluice_parse_double(delays.items[i], &delays_ms[i], &err) || delays_ms[i] < 0 ||
            delays_ms[i] > 1000)
            return sluice_cli_usage_error(&cli, "--delay-ms %s: 0 to 1000", delays.items[i]);
    }

    signal(SIGPIPE, SIG_IGN);
    if (congestion[0])
        enter_network(congestion);
    bench_print_machine();
    print_tcp_setting("congestion_control");
    print_tcp_setting("rmem");
    print_tcp_setting("wmem");
    struct bench_report report = {.is_json = args.is_json};
    struct world world;
    if (run_bytes > 0) {
        start_world(&world, &setup, 0);
        measure(&report, &world, repeats, (double)run_bytes, only, "");
        stop_world(&world);
    }
    for (size_t i = 0; i < delays.num_items && limit_seconds > 0; i++) {
        char link[64];
        snprintf(link, sizeof(link), ", %.0f Mbit/s, %g ms", limit * 8e-6, delays_ms[i]);
        start_world(&world, &limited, delays_ms[i]);
        measure(&report, &world, repeats < LIMITED_REPEATS ? repeats : LIMITED_REPEATS,
                limit * limit_seconds, only, link);
        stop_world(&world);
    }
    return 0;
}
