#include "bench/bench_reader_load.h"

#include "bench/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Time for the first sample to come. */
#define PATIENCE_S 60
#define POLL_MS 10

struct load {
    pid_t server, client;
    FILE *lines; /* the server's standard output */
};

/* Starts a program on its CPUs; its standard output goes to `out`. */
static pid_t start(const cpu_set_t *cpus, int out, const char *const *arguments)
{
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0)
        bench_die("cannot fork: %s", strerror(errno));
    if (pid > 0)
        return pid;
    (void)sched_setaffinity(0, sizeof(*cpus), cpus);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() == parent && dup2(out, STDOUT_FILENO) >= 0)
        execv(arguments[0], (char *const *)(uintptr_t)arguments);
    fprintf(stderr, "%s: %s\n", arguments[0], strerror(errno));
    _exit(127);
}

static int await(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) != pid) {
        if (errno != EINTR)
            bench_die("cannot wait: %s", strerror(errno));
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* The port, or 0 if the server refused its flags. */
static int start_server(struct load *load, const struct load_options *options,
                        const char *const *flags)
{
    char path[4096], workers[32], io_workers[32];
    snprintf(path, sizeof(path), "%s/offload_server", options->bin);
    snprintf(workers, sizeof(workers), "%llu", (unsigned long long)options->prep_workers);
    snprintf(io_workers, sizeof(io_workers), "%llu", (unsigned long long)options->io_workers);
    const char *arguments[32] = {
        path,    "--root",       options->images, "--listen",       "127.0.0.1:0", "--prep-workers",
        workers, "--io-workers", io_workers,      "--grpc-workers", "1",           "--grace",
        "0",     "--log-level",  "error"};
    size_t count = 15;
    while (*flags && count < SLUICE_ARRAY_LEN(arguments) - 1)
        arguments[count++] = *flags++;

    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        bench_die("cannot make a pipe: %s", strerror(errno));
    load->server = start(&options->storage, ends[1], arguments);
    close(ends[1]);
    load->lines = fdopen(ends[0], "r");
    char line[256];
    int port = 0;
    if (load->lines && fgets(line, sizeof(line), load->lines) &&
        sscanf(line, "listening on 127.0.0.1:%d", &port) == 1)
        return port;
    const int code = await(load->server);
    if (code != 2)
        bench_die("%s ended with %d", path, code);
    if (load->lines)
        fclose(load->lines);
    return 0;
}

static void start_client(struct load *load, const struct load_options *options, int port)
{
    char path[4096], host[32];
    snprintf(path, sizeof(path), "%s/offload_train", options->bin);
    snprintf(host, sizeof(host), "127.0.0.1:%d", port);
    /* It goes on until it is told to stop. */
    const char *const arguments[] = {path,          "--host",      host,       "--dataset-mode",
                                     options->mode, "--device",    "none",     "-j",
                                     "1",           "-b",          "64",       "-p",
                                     "0",           "--epochs",    "1000000",  "--repeat",
                                     "100",         "--no-digest", "--no-val", "--log-level",
                                     "error",       NULL};
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    load->client = start(&options->client, null, arguments);
    close(null);
}

uint64_t load_samples(struct load *load)
{
    char *line = NULL;
    size_t room = 0;
    unsigned long long samples = 0;
    const char *at = NULL;
    if (kill(load->server, SIGUSR1) == 0 && getline(&line, &room, load->lines) > 0)
        at = strstr(line, "\"samples\":");
    if (!at || sscanf(at, "\"samples\":%llu", &samples) != 1)
        bench_die("offload_server does not say its counters");
    free(line);
    if (waitpid(load->client, NULL, WNOHANG) != 0)
        bench_die("the client of offload_server ended");
    return samples;
}

static double cpu_s_of(pid_t pid)
{
    char path[64], line[1024] = "";
    snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
    FILE *file = fopen(path, "re");
    if (file && !fgets(line, sizeof(line), file))
        line[0] = '\0';
    if (file)
        fclose(file);
    unsigned long long user = 0, system = 0;
    const char *rest = strrchr(line, ')'); /* the name before it may hold anything */
    if (!rest || sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
                        &system) != 2)
        bench_die("%s does not say the CPU time", path);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

double load_cpu_s(const struct load *load, bool with_client)
{
    return cpu_s_of(load->server) + (with_client ? cpu_s_of(load->client) : 0);
}

struct load *load_start(const struct load_options *options, const char *const *flags)
{
    struct load *load = calloc(1, sizeof(*load));
    if (!load)
        bench_die("no memory");
    const int port = start_server(load, options, flags);
    if (!port) {
        free(load);
        return NULL;
    }
    start_client(load, options, port);
    const struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};
    for (int polls = 0; load_samples(load) == 0; polls++) {
        if (polls == PATIENCE_S * 1000 / POLL_MS)
            bench_die("offload_server answers nothing");
        (void)nanosleep(&pause, NULL);
    }
    return load;
}

void load_stop(struct load *load)
{
    if (!load)
        return;
    (void)kill(load->server, SIGTERM); /* first, so that it misses no client */
    const int code = await(load->server);
    (void)kill(load->client, SIGTERM);
    (void)await(load->client);
    if (code != 0 && code != 3) /* without a grace some requests are never answered */
        bench_die("offload_server ended with %d", code);
    fclose(load->lines);
    free(load);
}
