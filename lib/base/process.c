#include "lib/base/process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>
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
