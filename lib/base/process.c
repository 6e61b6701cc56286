#include "lib/base/process.h"

#include <pthread.h>
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
