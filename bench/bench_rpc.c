/* How much lib/rpc and the server add to a bare TCP connection: messages a second, and CPU per
 * message on both sides.  Server and client have a core each, loopback between them; transports
 * take turns, so a ratio compares neighbours in time.  docs/BENCHMARKING.md */

#include "bench/bench_rpc.h"

#include "base/cli.h"
#include "base/compiler.h"
#include "bench/bench.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const transport_names[NUM_TRANSPORTS] = {
    [TRANSPORT_TCP] = "tcp",
    [TRANSPORT_STREAM] = "stream",
    [TRANSPORT_COALESCED] = "coalesced",
    [TRANSPORT_FETCH] = "fetch",
};

/* A figure of every run of one transport at one size. */
struct cell {
    double *us, *server_us, *client_us, *ratio, *server_ratio, *busy_ratio;
};

static double *new_values(size_t num_values)
{
    double *values = calloc(num_values ? num_values : 1, sizeof(*values));
    if (!values)
        bench_die("no memory for the results");
    return values;
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

/* In the child: one end of a new socket pair; in the parent: 0, and the other end. */
static pid_t start(int *control)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        bench_die("socketpair: %s", strerror(errno));
    fflush(NULL);
    const pid_t pid = fork();
    if (pid < 0)
        bench_die("fork: %s", strerror(errno));
    *control = ends[pid == 0];
    close(ends[pid != 0]);
    return pid;
}

static uint64_t server_cpu_ns(int server)
{
    uint64_t cpu_ns = 0;
    bench_write_all(server, "", 1);
    if (!bench_read_all(server, &cpu_ns, sizeof(cpu_ns)))
        bench_die("the server is gone");
    return cpu_ns;
}

static void run_once(const int *servers, int client, const struct bench_ask *ask, struct cell *cell,
                     size_t repeat)
{
    const int server = servers[ask->transport];
    const uint64_t before_ns = server_cpu_ns(server);
    struct bench_answer answer;
    bench_write_all(client, ask, sizeof(*ask));
    if (!bench_read_all(client, &answer, sizeof(answer)))
        bench_die("the client is gone");
    const double count = (double)ask->count;
    if (!cell)
        return;
    cell->us[repeat] = answer.seconds * 1e6 / count;
    cell->server_us[repeat] = (double)(server_cpu_ns(server) - before_ns) * 1e-3 / count;
    cell->client_us[repeat] = (double)answer.cpu_ns * 1e-3 / count;
}

static void print_row(struct bench_report *report, const struct bench_setup *setup, size_t size,
                      int transport, struct cell *cell, struct cell *tcp, size_t repeats)
{
    char name[64];
    const double bytes = (double)setup->sizes[size];
    snprintf(name, sizeof(name), "%s %.0f kB", transport_names[transport], bytes / 1000);
    for (size_t r = 0; r < repeats; r++) {
        cell->ratio[r] = tcp->us[r] / cell->us[r];
        cell->server_ratio[r] = cell->server_us[r] / tcp->server_us[r];
        cell->busy_ratio[r] = fmax(tcp->server_us[r], tcp->client_us[r]) /
                              fmax(cell->server_us[r], cell->client_us[r]);
    }
    double *sorted = new_values(repeats);
#define MEDIAN(values)                                                                             \
    (memcpy(sorted, values, repeats * sizeof(*sorted)), bench_quantile(sorted, repeats, 0.5))
    const double us = MEDIAN(cell->us);
    bench_row_begin(report, name);
    bench_row_number(report, "us", 2, us);
    bench_row_number(report, "bytes", 0, bytes);
    bench_row_number(report, "messages_per_s", 0, 1e6 / us);
    if (setup->limit_bytes_per_s > 0)
        bench_row_number(report, "goodput_mbit", 1, bytes * 8 / us);
    bench_row_number(report, "server_cpu_us", 2, MEDIAN(cell->server_us));
    bench_row_number(report, "client_cpu_us", 2, MEDIAN(cell->client_us));
    bench_row_number(report, "reference_us", 2, MEDIAN(tcp->us));
    bench_row_number(report, "ratio", 3, MEDIAN(cell->ratio));
    bench_row_number(report, "busy_ratio", 3, MEDIAN(cell->busy_ratio));
    bench_row_number(report, "server_cpu_ratio", 2, MEDIAN(cell->server_ratio));
    bench_row_number(report, "ratio_min", 3, bench_quantile(cell->ratio, repeats, 0));
    bench_row_number(report, "ratio_max", 3, bench_quantile(cell->ratio, repeats, 1));
#undef MEDIAN
    bench_row_end(report);
    free(sorted);
}

static bool is_wanted(int transport, const char *only)
{
    return transport == TRANSPORT_TCP || strstr(transport_names[transport], only);
}

static void measure(struct bench_report *report, const struct bench_setup *setup,
                    const int *servers, int client, size_t repeats, double run_bytes,
                    const char *only)
{
    for (size_t s = 0; s < setup->num_sizes; s++) {
        struct cell cells[NUM_TRANSPORTS];
        struct bench_ask ask = {.size = (uint32_t)s};
        ask.count = (uint64_t)ceil(run_bytes / (double)setup->sizes[s]);
        for (int t = 0; t < NUM_TRANSPORTS; t++) {
            cells[t] = (struct cell){new_values(repeats), new_values(repeats), new_values(repeats),
                                     new_values(repeats), new_values(repeats), new_values(repeats)};
            const struct bench_ask warm_up = {(uint32_t)t, (uint32_t)s, ask.count / 4 + 1};
            if (is_wanted(t, only))
                run_once(servers, client, &warm_up, NULL, 0);
        }
        for (size_t r = 0; r < repeats; r++) {
            for (int t = 0; t < NUM_TRANSPORTS; t++) {
                ask.transport = (uint32_t)t;
                if (is_wanted(t, only))
                    run_once(servers, client, &ask, &cells[t], r);
            }
        }
        for (int t = 0; t < NUM_TRANSPORTS; t++) {
            if (is_wanted(t, only))
                print_row(report, setup, s, t, &cells[t], &cells[TRANSPORT_TCP], repeats);
        }
        for (int t = 0; t < NUM_TRANSPORTS; t++) {
            free(cells[t].us);
            free(cells[t].server_us);
            free(cells[t].client_us);
            free(cells[t].ratio);
            free(cells[t].server_ratio);
            free(cells[t].busy_ratio);
        }
    }
}

int main(int argc, char **argv)
{
    struct sluice_option_strings sizes = {{"20000", "110000", "150000", "600000"}, 4};
    struct sluice_option_strings given = {{0}, 0};
    uint64_t repeats = 7, run_bytes = 512 << 20;
    double limit = 0, delay_ms = 0;
    bool has_run_bytes = false;
    const char *only = "";
    const struct sluice_option options[] = {
        {.name = "size",
         .type = SLUICE_OPTION_STRINGS,
         .value = &given,
         .arg = "BYTES",
         .help = "A payload's size; may be given up to 8 times (20000, 110000, 150000, 600000)."},
        {.name = "repeats",
         .type = SLUICE_OPTION_UINT,
         .value = &repeats,
         .arg = "N",
         .help = "Runs of each transport, taking turns; medians are shown.",
         .min = 1,
         .max = 1000},
        {.name = "run-bytes",
         .type = SLUICE_OPTION_BYTES,
         .value = &run_bytes,
         .arg = "BYTES",
         .help = "Payload in one run; with --limit, what the link takes in one second.",
         .min = 1,
         .max = 1e12,
         .is_given = &has_run_bytes},
        {.name = "limit",
         .type = SLUICE_OPTION_RATE,
         .value = &limit,
         .arg = "RATE",
         .help = "Send everything through a token bucket of this rate and compare goodput."},
        {.name = "only",
         .type = SLUICE_OPTION_STRING,
         .value = &only,
         .arg = "TEXT",
         .help = "Beside tcp only the transports whose name holds this."},
        {.name = "delay-ms",
         .type = SLUICE_OPTION_DOUBLE,
         .value = &delay_ms,
         .arg = "MS",
         .help = "Round trip that a relay between the two adds.",
         .min = 0,
         .max = 1000},
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

    struct bench_setup setup = {.limit_bytes_per_s = limit};
    if (given.num_items)
        sizes = given;
    if (sizes.num_items > MAX_SIZES)
        return sluice_cli_usage_error(&cli, "at most %d sizes", MAX_SIZES);
    for (size_t i = 0; i < sizes.num_items; i++) {
        struct sluice_err err = {0};
        if (sluice_parse_bytes(sizes.items[i], &setup.sizes[i], &err) || setup.sizes[i] < 1 ||
            setup.sizes[i] > 32u << 20)
            return sluice_cli_usage_error(&cli, "--size %s: 1 byte to 32M", sizes.items[i]);
    }
    setup.num_sizes = sizes.num_items;
    if (limit > 0 && !has_run_bytes)
        run_bytes = (uint64_t)limit;

    signal(SIGPIPE, SIG_IGN);
    bench_print_machine();
    make_files(&setup);
    int servers[NUM_TRANSPORTS], client, relay = -1;
    pid_t children[NUM_TRANSPORTS + 2];
    size_t num_children = 0;
    struct bench_ports ports;
    bool is_up = true;
    for (int t = 0; t < NUM_TRANSPORTS; t++) {
        if ((children[num_children++] = start(&servers[t])) == 0)
            bench_rpc_serve(&setup, (enum transport)t, servers[t]);
        is_up &= bench_read_all(servers[t], &ports.of[t], sizeof(ports.of[t]));
    }
    remove_files(&setup); /* the server has its manifest */
    if (!is_up)
        bench_die("a server did not start");
    if (delay_ms > 0) {
        const struct bench_ports behind = ports;
        if ((children[num_children++] = start(&relay)) == 0)
            bench_relay(&behind, (uint64_t)(delay_ms * 0.5e6), relay);
        if (!bench_read_all(relay, &ports, sizeof(ports)))
            bench_die("the relay did not start");
    }
    if ((children[num_children++] = start(&client)) == 0)
        bench_rpc_ask(&setup, &ports, client);

    struct bench_report report = {.is_json = args.is_json};
    measure(&report, &setup, servers, client, repeats, (double)run_bytes, only);

    /* They end when their control ends; the relay after those who talk through it. */
    close(client);
    for (int t = 0; t < NUM_TRANSPORTS; t++)
        close(servers[t]);
    if (relay >= 0)
        close(relay);
    for (size_t i = 0; i < num_children; i++)
        (void)waitpid(children[i], NULL, 0);
    return 0;
}
