#include "compute_client/run/run_state.h"

#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "base/quit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Nanoseconds that a stopped run has to end by itself, before the first epoch and after the last
 * checkpoint: what it waits for then (a file system that hangs, a thread in a read) may never come.
 * Together with what a stop itself takes this stays below a second. */
#define STOPPED_NS 500000000u
/* The same for a run that ended without a stop: a busy machine takes that long. */
#define CLOSING_NS 5000000000u

/* Under the lock: waits for the stage to change, or the run's end; false: not within ns. */
static bool wait_staged(struct run *run, enum stage stage, uint64_t ns)
{
    const uint64_t until_ns = sluice_clock_ns() + ns;
    bool has_time = true;
    while (has_time && run->stage == stage && !run->is_over)
        has_time = sluice_cond_wait_until(&run->staged, &run->lock, until_ns);
    return run->stage != stage || run->is_over;
}

/* Ends the process if the run does not come to its end. */
static void watch_the_end(struct run *run, int number)
{
    pthread_mutex_lock(&run->lock);
    /* Joined ranks may have begun a step that needs this one. */
    if (!wait_staged(run, STARTING, STOPPED_NS) && !run->lockstep.word) {
        sluice_log(SLUICE_LOG_INFO, "stopped before the first epoch");
        _exit(128 + number); /* nothing was begun that could be lost */
    }
    while (run->stage != CLOSING && !run->is_over)
        pthread_cond_wait(&run->staged, &run->lock);
    if (!wait_staged(run, CLOSING, number ? STOPPED_NS : CLOSING_NS))
        _exit(run->exit_code); /* everything is written and said */
    pthread_mutex_unlock(&run->lock);
}

static void stop_loader(struct run *run)
{
    pthread_mutex_lock(&run->lock);
    run_stop_lend(run); /* the step under way ends sooner */
    /* Joined ranks need batches up to the step where they stop. */
    const bool is_over = !sluice_quit_signal() || run_should_stop(run);
    if (run->loader && is_over)
        sluice_loader_stop(run->loader);
    pthread_mutex_unlock(&run->lock);
}

static void tell_progress(struct run *run)
{
    struct sluice_counters counters = {0};
    pthread_mutex_lock(&run->lock);
    if (run->loader)
        sluice_loader_counters(run->loader, &counters);
    pthread_mutex_unlock(&run->lock);
    sluice_log(SLUICE_LOG_INFO, "in epoch %llu after batch %llu, %llu samples so far",
               (unsigned long long)run->epoch_now, (unsigned long long)run->batch_now,
               (unsigned long long)counters.samples);
}

static void *watcher_main(void *ctx)
{
    struct run *run = ctx;
    for (;;) {
        const enum sluice_quit_event event = sluice_quit_wait(-1);
        if (event == SLUICE_QUIT_STOP) {
            stop_loader(run);
            watch_the_end(run, sluice_quit_signal());
            return NULL;
        }
        if (event == SLUICE_QUIT_REPORT)
            tell_progress(run);
    }
}

sluice_status run_start_watcher(struct run *run, struct sluice_err *err)
{
    const int failed = pthread_create(&run->watcher, NULL, watcher_main, run);
    if (failed)
        return sluice_fail(err, SLUICE_E_IO, "cannot start a thread: %s", strerror(failed));
    run->has_watcher = true;
    return SLUICE_OK;
}

void run_enter(struct run *run, enum stage stage, int exit_code)
{
    pthread_mutex_lock(&run->lock);
    run->stage = stage;
    run->exit_code = exit_code;
    pthread_cond_broadcast(&run->staged);
    pthread_mutex_unlock(&run->lock);
    if (stage == CLOSING)
        sluice_quit_request(); /* the watcher sees to the end from here on */
}

void run_stop_watcher(struct run *run)
{
    if (!run->has_watcher)
        return;
    pthread_mutex_lock(&run->lock);
    run->is_over = true;
    pthread_cond_broadcast(&run->staged);
    pthread_mutex_unlock(&run->lock);
    sluice_quit_request(); /* ends the thread */
    pthread_join(run->watcher, NULL);
    run->has_watcher = false;
}
