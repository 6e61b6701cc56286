#include "compute_client/run/lend_probe.h"

#include "base/clock.h"
#include "base/parse.h"
#include "base/process.h"
#include "sluice/lend.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

extern char **environ;

/* CUDA's start takes some 0.3 s, and several seconds where the driver is not loaded yet. */
#define PROBE_NS 20000000000u

/* Nanoseconds in which a killed process is waited for: one that hangs in the driver stays. */
#define KILLED_NS 500000000u

/* The first line of its output.  False: not in time. */
static bool read_line(int fd, uint64_t until_ns, char *text, size_t room)
{
    size_t len = 0;
    text[0] = '\0';
    for (;;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        const uint64_t now = sluice_clock_ns();
        if (now >= until_ns)
            return false;
        if (poll(&ready, 1, (int)((until_ns - now) / 1000000) + 1) <= 0)
            continue;
        char bytes[256];
        const ssize_t got = read(fd, bytes, sizeof(bytes));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return true;
        const size_t kept = (size_t)got < room - 1 - len ? (size_t)got : room - 1 - len;
        memcpy(text + len, bytes, kept);
        len += kept;
        text[len] = '\0';
        if (memchr(bytes, '\n', (size_t)got))
            return true;
    }
}

static int spawn(const char *const *argv, int output, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attributes, &none);
    const int failed =
        posix_spawn(pid, argv[0], &files, &attributes, (char *const *)(uintptr_t)argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return failed;
}

sluice_status sluice_lend_probe_run(const char *const *argv, uint64_t ns, struct sluice_err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return sluice_fail(err, SLUICE_E_IO, "cannot make a pipe: %s", strerror(errno));
    pid_t pid;
    const int failed = spawn(argv, ends[1], &pid);
    close(ends[1]);
    if (failed) {
        close(ends[0]);
        return sluice_fail(err, SLUICE_E_IO, "cannot run %s: %s", argv[0], strerror(failed));
    }
    char text[512];
    const bool is_in_time = read_line(ends[0], sluice_clock_ns() + ns, text, sizeof(text));
    close(ends[0]);
    sluice_process_end_child(pid, 0, KILLED_NS, NULL);
    text[strcspn(text, "\n")] = '\0';
    if (!is_in_time)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                           "the test of the GPU did not end within %.1f s", (double)ns * 1e-9);
    if (strcmp(text, "ok") == 0)
        return SLUICE_OK;
    return sluice_fail(err, SLUICE_E_UNSUPPORTED, "%s",
                       text[0] ? text : "the test of the GPU crashed");
}

sluice_status sluice_lend_probe_apart(int gpu, struct sluice_err *err)
{
    char number[16];
    snprintf(number, sizeof(number), "%d", gpu);
    const char *const argv[] = {"/proc/self/exe", SLUICE_LEND_PROBE_FLAG, number, NULL};
    return sluice_lend_probe_run(argv, PROBE_NS, err);
}

int sluice_lend_probe_main(const char *gpu)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* whoever asked may end while this hangs */
    struct sluice_err err = {0};
    uint64_t number;
    sluice_status status = sluice_parse_uint(gpu, &number, &err);
    if (status == SLUICE_OK && number > 1023)
        status = sluice_fail(&err, SLUICE_E_INVALID, "%s is no number of a GPU", gpu);
    if (status == SLUICE_OK)
        status = sluice_lend_probe((int)number, &err);
    puts(status == SLUICE_OK ? "ok" : err.text);
    fflush(stdout);
    _exit(status != SLUICE_OK); /* CUDA's own end may hang */
}
