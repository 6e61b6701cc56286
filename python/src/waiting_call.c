#include "extension.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* open() or start() under way on a thread of its own. */
struct waiting_call {
    struct sluice_loader *loader;
    const struct sluice_epoch_start *start; /* NULL: open */
    struct sluice_err err;
    sluice_status status;

    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool has_ended;
};

static void *run_call(void *arg)
{
    struct waiting_call *call = arg;
    const sluice_status status = call->start
                                     ? sluice_loader_start(call->loader, call->start, &call->err)
                                     : sluice_loader_open(call->loader, &call->err);
    pthread_mutex_lock(&call->lock);
    call->status = status;
    call->has_ended = true;
    pthread_cond_signal(&call->ended);
    pthread_mutex_unlock(&call->lock);
    return NULL;
}

static bool wait_a_slice(struct waiting_call *call)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += SIGNAL_SLICE_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&call->lock);
    int rc = 0;
    while (!call->has_ended && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&call->ended, &call->lock, &until);
    const bool has_ended = call->has_ended;
    pthread_mutex_unlock(&call->lock);
    return has_ended;
}

/* The thread, with all signals blocked: they are for Python's threads. */
static int spawn(pthread_t *thread, struct waiting_call *call)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int rc = pthread_create(thread, NULL, run_call, call);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

sluice_status call_and_wait(struct sluice_loader *loader, const struct sluice_epoch_start *start,
                            bool *has_raised, struct sluice_err *err)
{
    struct waiting_call call = {.loader = loader, .start = start};
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&call.lock, NULL);
    pthread_cond_init(&call.ended, &monotonic);
    pthread_condattr_destroy(&monotonic);

    pthread_t thread;
    *has_raised = false;
    const int rc = spawn(&thread, &call);
    if (rc) {
        call.status = SLUICE_E_NO_MEMORY;
        PyOS_snprintf(call.err.text, sizeof(call.err.text), "no thread: %s", strerror(rc));
    } else {
        for (bool has_ended = false; !has_ended && !*has_raised;) {
            Py_BEGIN_ALLOW_THREADS has_ended = wait_a_slice(&call);
            Py_END_ALLOW_THREADS *has_raised = PyErr_CheckSignals() != 0;
        }
        Py_BEGIN_ALLOW_THREADS if (*has_raised) sluice_loader_stop(loader);
        pthread_join(thread, NULL);
        Py_END_ALLOW_THREADS
    }
    pthread_cond_destroy(&call.ended);
    pthread_mutex_destroy(&call.lock);
    *err = call.err;
    return call.status;
}
