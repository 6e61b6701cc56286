#include "storage_server/observe/self_watch.h"

#include "base/clock.h"
#include "base/log.h"
#include "storage_server/side_thread.h"

#include <stdlib.h>

/* Failures are counted, not time: a process that was stopped for a while (SIGSTOP) is not deaf. */
#define MAX_FAILURES 6

struct sluice_self_watch {
    pthread_mutex_t lock;                     /* the thread's alone */
    struct sluice_self_watch_options options; /* constant */
    struct sluice_side_thread thread;
};

/* False once the watch is closed. */
static bool wait_until(struct sluice_self_watch *watch, uint64_t until_ns)
{
    pthread_mutex_lock(&watch->lock);
    const bool is_open = sluice_side_thread_sleep(&watch->thread, until_ns);
    pthread_mutex_unlock(&watch->lock);
    return is_open;
}

static void *watch_main(void *ctx)
{
    struct sluice_self_watch *watch = ctx;
    const struct sluice_self_watch_options *options = &watch->options;
    const uint64_t interval_ns = options->interval_ms * 1000000ull;
    uint64_t started_ns = sluice_clock_ns();
    unsigned failures = 0;
    while (failures < MAX_FAILURES && wait_until(watch, started_ns + interval_ns)) {
        struct sluice_err err = {0};
        started_ns = sluice_clock_ns();
        if (options->check(options->ctx, options->interval_ms, &err) == SLUICE_OK) {
            if (failures > 0)
                sluice_log(SLUICE_LOG_INFO, "the server answers itself again");
            failures = 0;
            continue;
        }
        failures++;
        sluice_log(SLUICE_LOG_WARN, "the server does not answer itself (%u of %u): %s", failures,
                   MAX_FAILURES, err.text);
    }
    if (failures == MAX_FAILURES)
        options->on_deaf(options->ctx);
    return NULL;
}

sluice_status sluice_self_watch_open(const struct sluice_self_watch_options *options,
                                     struct sluice_self_watch **out, struct sluice_err *err)
{
    struct sluice_self_watch *watch = calloc(1, sizeof(*watch));
    if (!watch)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to watch the server itself");
    watch->options = *options;
    pthread_mutex_init(&watch->lock, NULL);
    const sluice_status status = sluice_side_thread_open(
        &watch->thread, &watch->lock, watch_main, watch, "the thread that watches the server", err);
    if (status == SLUICE_OK)
        *out = watch;
    else
        sluice_self_watch_close(watch);
    return status;
}

void sluice_self_watch_close(struct sluice_self_watch *watch)
{
    if (!watch)
        return;
    sluice_side_thread_clear(&watch->thread);
    pthread_mutex_destroy(&watch->lock);
    free(watch);
}
