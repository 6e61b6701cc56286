#include "compute_client/run/run_state.h"

#include "base/log.h"
#include "base/quit.h"

#include <string.h>

static void *watcher_main(void *ctx)
{
    struct run *run = ctx;
    for (;;) {
        const enum sluice_quit_event event = sluice_quit_wait(-1);
        if (event == SLUICE_QUIT_STOP) {
            /* Under run->lock, so that client and loader are not destroyed meanwhile.  Lock order:
             * run->lock before theirs. */
            pthread_mutex_lock(&run->lock);
            run->is_stopping = true;
            if (run->client)
                sluice_client_stop(run->client);
            if (run->loader)
                sluice_loader_stop(run->loader);
            pthread_mutex_unlock(&run->lock);
            return NULL;
        }
        if (event == SLUICE_QUIT_REPORT)
            sluice_log(SLUICE_LOG_INFO, "in epoch %llu after batch %llu, %llu samples so far",
                       (unsigned long long)run->epoch_now, (unsigned long long)run->batches_now,
                       (unsigned long long)run->samples_now);
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

void run_set_client(struct run *run, struct sluice_client *client)
{
    pthread_mutex_lock(&run->lock);
    run->client = client;
    if (run->is_stopping)
        sluice_client_stop(client);
    pthread_mutex_unlock(&run->lock);
}

void run_set_loader(struct run *run, struct sluice_loader *loader)
{
    pthread_mutex_lock(&run->lock);
    run->loader = loader;
    if (run->is_stopping)
        sluice_loader_stop(loader);
    pthread_mutex_unlock(&run->lock);
}

void run_stop_watcher(struct run *run)
{
    if (!run->has_watcher)
        return;
    sluice_quit_request(); /* ends the thread */
    pthread_join(run->watcher, NULL);
    run->has_watcher = false;
}
