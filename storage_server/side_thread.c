#include "storage_server/side_thread.h"

#include "base/cond.h"

#include <string.h>

sluice_status sluice_side_thread_open(struct sluice_side_thread *thread, pthread_mutex_t *lock,
                                      void *(*main)(void *ctx), void *ctx, const char *what,
                                      struct sluice_err *err)
{
    thread->lock = lock;
    thread->is_running = false;
    atomic_init(&thread->is_stopping, false);
    sluice_cond_init(&thread->changed);
    const int failed = pthread_create(&thread->thread, NULL, main, ctx);
    if (failed) {
        sluice_side_thread_clear(thread);
        return sluice_fail(err, SLUICE_E_IO, "cannot start %s: %s", what, strerror(failed));
    }
    thread->is_running = true;
    return SLUICE_OK;
}

bool sluice_side_thread_sleep(struct sluice_side_thread *thread, uint64_t until_ns)
{
    bool has_time = true;
    while (has_time && !thread->is_stopping)
        has_time = sluice_cond_wait_until(&thread->changed, thread->lock, until_ns);
    return !thread->is_stopping;
}

void sluice_side_thread_stop(struct sluice_side_thread *thread)
{
    if (!thread->is_running)
        return;
    pthread_mutex_lock(thread->lock);
    thread->is_stopping = true;
    pthread_cond_signal(&thread->changed);
    pthread_mutex_unlock(thread->lock);
    pthread_join(thread->thread, NULL);
    thread->is_running = false;
}

void sluice_side_thread_clear(struct sluice_side_thread *thread)
{
    sluice_side_thread_stop(thread);
    if (thread->lock)
        pthread_cond_destroy(&thread->changed);
    thread->lock = NULL;
}
