#include "lib/base/process.h"

#include "base/clock.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t first; /* the process that has gRPC's threads */

static void begin(void)
{
    first = getpid();
}

sluice_status sluice_process_begin(struct sluice_err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin);
    if (first == getpid())
        return SLUICE_OK;
    return sluice_fail(err, SLUICE_E_INVALID,
                       "this process was forked from one that used the library, whose threads it "
                       "does not have: start it anew (spawn), or fork before the first use");
}

sluice_status sluice_process_check(pid_t owner, const char *what, struct sluice_err *err)
{
    if (owner == getpid())
        return SLUICE_OK;
    return sluice_fail(err, SLUICE_E_INVALID,
                       "the %s belongs to process %ld and did not survive fork(): make one here",
                       what, (long)owner);
}

/* Larger descriptors stay open in children. */
enum { MOST_FDS = 65536 };

static atomic_bool is_own[MOST_FDS];

static void close_in_child(void)
{
    for (int fd = 0; fd < MOST_FDS; fd++)
        if (atomic_load(&is_own[fd])) { /* writing all of it would copy its pages at each fork */
            atomic_store(&is_own[fd], false);
            close(fd);
        }
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, close_in_child);
}

void sluice_process_own_socket(int fd)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    if (fd >= 0 && fd < MOST_FDS)
        atomic_store(&is_own[fd], true);
}

void sluice_process_end_socket(int fd)
{
    if (fd < 0 || (fd < MOST_FDS && !atomic_exchange(&is_own[fd], false)))
        return;
    shutdown(fd, SHUT_RDWR); /* of a child's copy, too, that was forked just now */
    close(fd);
}

static bool has_ended(pid_t pid, uint64_t until_ns, int *status)
{
    pid_t gone;
    while ((gone = waitpid(pid, status, WNOHANG)) == 0 && sluice_clock_ns() < until_ns)
        sluice_clock_sleep_until(sluice_clock_ns() + 5000000);
    return gone != 0;
}

void sluice_process_end_child(pid_t pid, uint64_t until_ns, uint64_t killed_ns, int *status)
{
    if (has_ended(pid, until_ns, status))
        return;
    kill(pid, SIGKILL); /* it is not reaped yet, so the number is still the child's */
    has_ended(pid, sluice_clock_ns() + killed_ns, status);
}
