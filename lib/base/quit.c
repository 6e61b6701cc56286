#include "base/quit.h"

#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* Set before the handlers are installed and never changed after. */
static int pipe_read = -1;
static int pipe_write = -1;
static enum sluice_quit_event on_hangup = SLUICE_QUIT_STOP;

/* Lock-free atomics, so that a handler may touch them. */
static atomic_bool is_requested;
static atomic_bool is_signalled;
static atomic_bool ends_at_once;
static atomic_int stop_signal;

static bool is_stop_returned; /* the waiting thread's own */

/* A full pipe loses the byte, not the event: its reader is awake anyway, and a
 * stop is also in is_requested. */
static void wake(char what)
{
    const ssize_t written = write(pipe_write, &what, 1);
    (void)written;
}

static void ask_for_stop(int number)
{
    int none = 0;
    atomic_compare_exchange_strong(&stop_signal, &none, number);
    atomic_store(&is_requested, true);
    wake('s');
}

static void on_signal(int number)
{
    const int saved = errno;
    if (number == SIGUSR1) {
        wake('r');
    } else if (number == SIGHUP && on_hangup == SLUICE_QUIT_REREAD) {
        wake('h');
    } else if (number == SIGHUP) {
        ask_for_stop(number);
    } else if (atomic_load(&ends_at_once) || atomic_exchange(&is_signalled, true)) {
        /* The second request: take the default action, which ends the process.  The signal is
         * blocked until this handler returns. */
        signal(number, SIG_DFL);
        raise(number);
    } else {
        ask_for_stop(number);
    }
    errno = saved;
}

void sluice_quit_at_once(bool ends)
{
    atomic_store(&ends_at_once, ends);
}

void sluice_quit_on_hangup(enum sluice_quit_event event)
{
    assert(pipe_read < 0);
    on_hangup = event;
}

static bool is_ignored(int number)
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

sluice_status sluice_quit_init(struct sluice_err *err)
{
    if (pipe_read >= 0)
        return sluice_fail(err, SLUICE_E_INVALID, "signal handlers are installed already");
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return sluice_fail(err, SLUICE_E_IO, "pipe: %s", strerror(errno));
    pipe_read = ends[0];
    pipe_write = ends[1];

    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    /* Handlers do not interrupt each other, so that each sees whether another came first. */
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGTERM);
    sigaddset(&action.sa_mask, SIGINT);
    sigaddset(&action.sa_mask, SIGUSR1);
    sigaddset(&action.sa_mask, SIGHUP);
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    if (sigaction(SIGTERM, &action, NULL) != 0 || sigaction(SIGINT, &action, NULL) != 0 ||
        sigaction(SIGUSR1, &action, NULL) != 0 || sigaction(SIGPIPE, &ignore, NULL) != 0 ||
        sigaction(SIGXFSZ, &ignore, NULL) != 0)
        return sluice_fail(err, SLUICE_E_IO, "sigaction: %s", strerror(errno));
    /* nohup's word counts: whoever started the process does not want it to stop then. */
    if ((on_hangup == SLUICE_QUIT_REREAD || !is_ignored(SIGHUP)) &&
        sigaction(SIGHUP, &action, NULL) != 0)
        return sluice_fail(err, SLUICE_E_IO, "sigaction: %s", strerror(errno));

    /* A stop that was requested before the pipe was made. */
    if (atomic_load(&is_requested))
        wake('s');
    return SLUICE_OK;
}

enum sluice_quit_event sluice_quit_wait(int timeout_ms)
{
    assert(pipe_read >= 0);
    const uint64_t until_ns =
        timeout_ms > 0 ? sluice_clock_ns() + (uint64_t)timeout_ms * 1000000u : 0;
    for (;;) {
        if (atomic_load(&is_requested) && !is_stop_returned) {
            is_stop_returned = true;
            return SLUICE_QUIT_STOP;
        }
        char what;
        const ssize_t got = read(pipe_read, &what, 1);
        if (got == 1) {
            if (what == 'r')
                return SLUICE_QUIT_REPORT;
            if (what == 'h')
                return SLUICE_QUIT_REREAD;
            continue; /* is_requested says that it was a stop */
        }

        int wait_ms = -1;
        if (timeout_ms >= 0) {
            const uint64_t now_ns = sluice_clock_ns();
            if (now_ns >= until_ns)
                return SLUICE_QUIT_NONE;
            const uint64_t left_ms = (until_ns - now_ns + 999999u) / 1000000u;
            wait_ms = left_ms < INT_MAX ? (int)left_ms : INT_MAX;
        }
        struct pollfd fd = {.fd = pipe_read, .events = POLLIN};
        poll(&fd, 1, wait_ms); /* interrupted or not: look again */
    }
}

bool sluice_quit_requested(void)
{
    return atomic_load(&is_requested);
}

int sluice_quit_signal(void)
{
    return atomic_load(&stop_signal);
}

void sluice_quit_request(void)
{
    atomic_store(&is_requested, true);
    if (pipe_write >= 0)
        wake('s');
}
