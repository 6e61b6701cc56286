#include "base/clock.h"
#include "base/host_port.h"
#include "base/log.h"
#include "base/quit.h"
#include "rpc/rpc.h"
#include "storage_server/descriptors.h"
#include "storage_server/disk_gate.h"
#include "storage_server/last_words.h"
#include "storage_server/options.h"
#include "storage_server/prep_limits.h"
#include "storage_server/self_watch.h"
#include "storage_server/server.h"
#include "storage_server/tuning.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Requests were left without an answer. */
#define EXIT_CUT_OFF 3

/* No client can connect any more. */
#define EXIT_DEAF 4

static atomic_bool is_deaf;

static void end_deaf(void *ctx)
{
    (void)ctx;
    sluice_log(SLUICE_LOG_ERROR, "nobody can connect to the server any more: it ends");
    atomic_store(&is_deaf, true);
    sluice_quit_request();
}

static sluice_status check_itself(void *ctx, unsigned timeout_ms, struct sluice_err *err)
{
    return sluice_storage_server_check(ctx, timeout_ms, err);
}

/* NULL: not asked for. */
static sluice_status watch_itself(const struct sluice_server_options *options,
                                  struct sluice_storage_server *server,
                                  struct sluice_self_watch **watch, struct sluice_err *err)
{
    const struct sluice_self_watch_options self = {
        .check = check_itself,
        .on_deaf = end_deaf,
        .ctx = server,
        .interval_ms = (unsigned)(options->self_check_s * 1000 + 0.5),
    };
    return self.interval_ms > 0 ? sluice_self_watch_open(&self, watch, err) : SLUICE_OK;
}

static void print_stats(struct sluice_storage_server *server)
{
    struct sluice_err err = {0};
    char *json;
    if (sluice_storage_server_stats_json(server, &json, &err) != SLUICE_OK) {
        sluice_log(SLUICE_LOG_WARN, "%s", err.text);
        return;
    }
    if (!sluice_write_line_now(STDOUT_FILENO, json))
        sluice_log(SLUICE_LOG_WARN, "standard output does not take the counters");
    free(json);
}

/* What the end has come to, for whoever ends the process. */
struct ending {
    pthread_mutex_t lock;
    struct sluice_storage_server *server; /* NULL once it may go, or before it is there */
    bool has_stats;                       /* they are printed, or about to be */
    uint64_t num_unanswered;              /* once there is no server */
};

static int exit_code(uint64_t num_unanswered)
{
    if (atomic_load(&is_deaf))
        return EXIT_DEAF;
    return num_unanswered ? EXIT_CUT_OFF : 0;
}

#define UNANSWERED "%llu requests were not answered within --grace"

static void tell_unanswered(uint64_t count)
{
    if (count)
        sluice_log(SLUICE_LOG_ERROR, UNANSWERED, (unsigned long long)count);
}

static void write_log_now(char *line, size_t room, enum sluice_log_level level, const char *text)
{
    const size_t len = sluice_log_line(line, room, level, text);
    line[len - 1] = '\0'; /* its newline */
    (void)sluice_write_line_now(STDERR_FILENO, line);
}

/* At the deadline.  What it writes must not wait for anybody. */
static int speak(void *ctx)
{
    struct ending *ending = ctx;
    pthread_mutex_lock(&ending->lock);
    struct sluice_storage_server *server = ending->server;
    const uint64_t count =
        server ? sluice_storage_server_num_unanswered(server) : ending->num_unanswered;
    char *json = NULL;
    if (server && !ending->has_stats &&
        sluice_storage_server_stats_json(server, &json, NULL) == SLUICE_OK)
        (void)sluice_write_line_now(STDOUT_FILENO, json);
    char text[128], line[256];
    if (server && count) {
        snprintf(text, sizeof(text), UNANSWERED, (unsigned long long)count);
        write_log_now(line, sizeof(line), SLUICE_LOG_ERROR, text);
    }
    write_log_now(line, sizeof(line), SLUICE_LOG_WARN, "ending, though threads are still at work");
    return exit_code(count);
}

/* Stops the server within the grace period and prints its counters. */
static void stop(struct ending *ending, struct sluice_last_words *words,
                 struct sluice_self_watch *self, double grace_s)
{
    struct sluice_storage_server *server = ending->server;
    sluice_last_words_at(words, sluice_clock_ns() + (uint64_t)(grace_s * 1e9) + END_NS);
    sluice_self_watch_close(self);
    sluice_log(SLUICE_LOG_INFO, "stopping: answering what was accepted");
    sluice_storage_server_stop(server);
    pthread_mutex_lock(&ending->lock);
    ending->num_unanswered = sluice_storage_server_num_unanswered(server);
    ending->has_stats = true;
    ending->server = NULL;
    pthread_mutex_unlock(&ending->lock);
    tell_unanswered(ending->num_unanswered);
    print_stats(server);
    if (sluice_storage_server_num_hanging(server))
        sluice_last_words_at(words, sluice_clock_ns() + LEAVE_NS);
}

/* NULL: not asked for, or not possible here; then the reads have their I/O class only. */
static struct sluice_disk_gate *open_gate(const struct sluice_server_options *options)
{
    struct sluice_disk_gate *gate = NULL;
    struct sluice_err err = {0};
    if (strcmp(options->prep_io, "idle") == 0 &&
        sluice_disk_gate_open("", options->root, &gate, &err) != SLUICE_OK)
        sluice_log(SLUICE_LOG_WARN, "--prep-io idle: %s; other programs' reads are not seen",
                   err.text);
    return gate;
}

int main(int argc, char **argv)
{
    struct sluice_server_options options = sluice_server_options_init();
    const struct sluice_cli_result parsed = sluice_server_options_parse(&options, argc, argv);
    if (parsed.should_exit)
        return parsed.exit_code;

    sluice_log_set_program("offload_server");
    sluice_rpc_process_init();
    struct sluice_err err = {0};
    struct sluice_storage_server *server = NULL;
    sluice_quit_on_hangup(SLUICE_QUIT_REREAD);
    sluice_status status = sluice_quit_init(&err);
    options.disk_gate = open_gate(&options);
    const struct sluice_prep_limits_options limits = {
        .has_nice = options.has_prep_nice,
        .nice = (int)options.prep_nice,
        .policy = options.prep_sched,
        /* The scheduler bfq gives the idle class little even while nobody else reads.  With a gate
         * the class is not needed. */
        .io_class = options.disk_gate ? "low" : options.prep_io,
        .cgroup = options.prep_cgroup,
        .cpu_max = options.prep_cpu_max,
    };
    if (status == SLUICE_OK &&
        (sluice_descriptors_share(sluice_descriptors_raise(), &options, &err) != SLUICE_OK ||
         sluice_prep_limits_open(&limits, &options.prep_limits, &err) != SLUICE_OK)) {
        sluice_log(SLUICE_LOG_ERROR, "%s", err.text);
        sluice_disk_gate_close(options.disk_gate);
        return 2; /* a flag that cannot be honoured here */
    }
    if (status == SLUICE_OK)
        status = sluice_storage_server_create(&options, NULL, &server, &err);
    struct ending ending = {.lock = PTHREAD_MUTEX_INITIALIZER, .server = server};
    struct sluice_last_words *words = NULL;
    if (status == SLUICE_OK)
        status = sluice_last_words_open(speak, &ending, &words, &err);
    struct sluice_metrics_server *metrics = NULL;
    if (status == SLUICE_OK && options.metrics)
        status = sluice_storage_server_serve_metrics(server, options.metrics, &metrics, &err);
    struct sluice_self_watch *self = NULL;
    if (status == SLUICE_OK)
        status = watch_itself(&options, server, &self, &err);
    if (status != SLUICE_OK) {
        sluice_log(SLUICE_LOG_ERROR, "%s", err.text);
        sluice_last_words_close(words);
        sluice_metrics_server_destroy(metrics);
        sluice_storage_server_destroy(server);
        sluice_prep_limits_close(options.prep_limits);
        sluice_disk_gate_close(options.disk_gate);
        return 1;
    }
    if (metrics)
        sluice_log(SLUICE_LOG_INFO, "metrics at port %d", sluice_metrics_server_port(metrics));

    sluice_storage_server_introduce(server, &options);
    char address[SLUICE_HOST_PORT_BYTES];
    sluice_storage_server_address(server, options.listen, address);
    printf("listening on %s\n", address);
    fflush(stdout);

    for (;;) {
        const enum sluice_quit_event event = sluice_quit_wait(-1);
        if (event == SLUICE_QUIT_REPORT)
            print_stats(server);
        else if (event == SLUICE_QUIT_REREAD)
            sluice_storage_server_reread(server);
        else if (event == SLUICE_QUIT_STOP)
            break;
    }
    stop(&ending, words, self, options.grace_s);
    sluice_metrics_server_destroy(metrics);
    sluice_storage_server_destroy(server);
    sluice_prep_limits_close(options.prep_limits);
    sluice_disk_gate_close(options.disk_gate);
    sluice_last_words_close(words);
    return exit_code(ending.num_unanswered);
}
