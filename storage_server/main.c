#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/quit.h"
#include "crypto/secret.h"
#include "rpc/rpc.h"
#include "storage_server/data/descriptors.h"
#include "storage_server/isolation/decoder_process.h"
#include "storage_server/isolation/decoders.h"
#include "storage_server/isolation/sandbox.h"
#include "storage_server/observe/last_words.h"
#include "storage_server/observe/notify.h"
#include "storage_server/options.h"
#include "storage_server/server.h"
#include "storage_server/serving.h"
#include "storage_server/session/token_file.h"
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

static atomic_bool is_deaf, has_no_decoders;

static void end_deaf(void *ctx)
{
    (void)ctx;
    sluice_log(SLUICE_LOG_ERROR, "nobody can connect to the server any more: it ends");
    atomic_store(&is_deaf, true);
    sluice_quit_request();
}

/* Decoders are forked by a process from before there were threads, which cannot be had again. */
static void end_without_decoders(void *ctx)
{
    (void)ctx;
    sluice_log(SLUICE_LOG_ERROR, "no decoder can be started any more: the server ends");
    atomic_store(&has_no_decoders, true);
    sluice_quit_request();
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

/* The progress of the shutdown, shown to whoever ends the process. */
struct ending {
    pthread_mutex_t lock;
    struct sluice_storage_server *server; /* NULL before it exists and once it may be destroyed */
    bool has_stats;                       /* they are printed, or about to be */
    uint64_t num_unanswered;              /* valid once server is NULL */
};

static int exit_code(uint64_t num_unanswered)
{
    if (atomic_load(&is_deaf))
        return EXIT_DEAF;
    if (atomic_load(&has_no_decoders))
        return 1;
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
                 struct sluice_serving *serving)
{
    const double grace_s = serving->options->grace_s;
    sluice_last_words_at(words, sluice_clock_ns() + (uint64_t)(grace_s * 1e9) + END_NS);
    const uint64_t num_unanswered = sluice_serving_stop(serving);
    pthread_mutex_lock(&ending->lock);
    ending->num_unanswered = num_unanswered;
    ending->has_stats = true;
    ending->server = NULL;
    pthread_mutex_unlock(&ending->lock);
    tell_unanswered(num_unanswered);
    print_stats(serving->server);
    if (sluice_storage_server_num_hanging(serving->server))
        sluice_last_words_at(words, sluice_clock_ns() + LEAVE_NS);
}

/* Until one of them asks for the end. */
static void answer_signals(const struct sluice_serving *serving, const struct sluice_notify *notify)
{
    for (;;) {
        sluice_notify_alive(notify);
        const enum sluice_quit_event event = sluice_quit_wait(notify->interval_ms);
        if (event == SLUICE_QUIT_REPORT)
            print_stats(serving->server);
        else if (event == SLUICE_QUIT_REREAD)
            sluice_storage_server_reread(serving->server);
        else if (event == SLUICE_QUIT_STOP)
            return;
    }
}

/* offload_server --hash-token NAME */
static int hash_token(int argc, char **argv)
{
    struct sluice_err err = {0};
    if (argc != 3) {
        sluice_log(SLUICE_LOG_ERROR, "--hash-token takes a name and nothing else; the token comes "
                                     "from standard input");
        return 2;
    }
    if (sluice_token_print_line(argv[2], &err) == SLUICE_OK)
        return 0;
    sluice_log(SLUICE_LOG_ERROR, "%s", err.text);
    return 1;
}

int main(int argc, char **argv)
{
    sluice_open_standard_descriptors();
    if (argc >= 2 && strcmp(argv[1], "--hash-token") == 0)
        return hash_token(argc, argv);
    struct sluice_server_options options = sluice_server_options_init();
    const struct sluice_cli_result parsed = sluice_server_options_parse(&options, argc, argv);
    if (parsed.should_exit)
        return parsed.exit_code;

    sluice_log_set_program("offload_server");
    sluice_rpc_process_init();
    struct sluice_serving serving = {
        .options = &options, .parts.owns_process = true, .on_deaf = end_deaf};
    struct sluice_decoders **decoders = &serving.parts.decoders;
    if (options.tls_key || options.tokens)
        sluice_secret_keep_from_core_dumps();
    struct sluice_err err = {0};
    sluice_quit_on_hangup(SLUICE_QUIT_REREAD);
    sluice_status status = sluice_sandbox_begin(&err);
    if (status == SLUICE_OK && options.isolates_decoders)
        status = sluice_decoder_process_open(sluice_decoder_process_serve, decoders, &err);
    if (*decoders)
        sluice_decoders_on_gone(*decoders, end_without_decoders, NULL);
    if (status == SLUICE_OK)
        status = sluice_quit_init(&err);
    sluice_quit_at_once(true);
    struct sluice_notify notify;
    sluice_notify_open(&notify);
    if (status == SLUICE_OK &&
        (sluice_descriptors_share(sluice_descriptors_raise(), &options, &err) != SLUICE_OK ||
         sluice_serving_limit(&serving, &err) != SLUICE_OK ||
         sluice_sandbox_enter(&options, serving.parts.limits, &err) != SLUICE_OK)) {
        sluice_log(SLUICE_LOG_ERROR, "%s", err.text);
        sluice_serving_close(&serving);
        return 2; /* a flag that cannot be honoured here */
    }
    if (status == SLUICE_OK)
        status = sluice_serving_open(&serving, &err);
    struct ending ending = {.lock = PTHREAD_MUTEX_INITIALIZER, .server = serving.server};
    struct sluice_last_words *words = NULL;
    if (status == SLUICE_OK)
        status = sluice_last_words_open(speak, &ending, &words, &err);
    if (status != SLUICE_OK) {
        sluice_log(SLUICE_LOG_ERROR, "%s", err.text);
        sluice_serving_close(&serving);
        return 1;
    }
    sluice_quit_at_once(false);
    sluice_sandbox_introduce();
    printf("listening on %s\n", serving.address);
    fflush(stdout);
    sluice_notify_ready(&notify, serving.address);

    answer_signals(&serving, &notify);
    sluice_notify_stopping(&notify);
    stop(&ending, words, &serving);
    sluice_notify_close(&notify);
    sluice_serving_close(&serving);
    sluice_decoders_close(*decoders);
    sluice_last_words_close(words);
    return exit_code(ending.num_unanswered);
}
