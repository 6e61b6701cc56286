#include "datasets/manifest/parallel.h"

#include "base/cpu.h"
#include "base/progress.h"

#include <pthread.h>
#include <stdlib.h>

struct shared {
    pthread_mutex_t lock;
    size_t next, done;
    sluice_status status; /* of the first failure */
    struct sluice_err why;
    struct sluice_progress progress;

    size_t n; /* constant, like all below */
    sluice_status (*fn)(void *ctx, size_t i, struct sluice_err *err);
    void *ctx;
};

static void *run_items(void *arg)
{
    struct shared *shared = arg;
    for (;;) {
        pthread_mutex_lock(&shared->lock);
        const size_t i = shared->next;
        const int is_over = i >= shared->n || shared->status != SLUICE_OK;
        if (!is_over)
            shared->next++;
        pthread_mutex_unlock(&shared->lock);
        if (is_over)
            return NULL;

        struct sluice_err why = {0};
        const sluice_status status = shared->fn(shared->ctx, i, &why);

        pthread_mutex_lock(&shared->lock);
        if (status != SLUICE_OK && shared->status == SLUICE_OK) {
            shared->status = status;
            shared->why = why;
        }
        sluice_progress_update(&shared->progress, ++shared->done, NULL);
        pthread_mutex_unlock(&shared->lock);
    }
}

sluice_status sluice_parallel_for(size_t n, unsigned num_threads, const char *what,
                                  sluice_status (*fn)(void *ctx, size_t i, struct sluice_err *err),
                                  void *ctx, struct sluice_err *err)
{
    if (num_threads == 0)
        num_threads = sluice_cpu_count();
    if (num_threads > n)
        num_threads = n ? (unsigned)n : 1;
    struct shared shared = {.n = n, .fn = fn, .ctx = ctx};
    pthread_mutex_init(&shared.lock, NULL);
    sluice_progress_start(&shared.progress, what, n);

    /* This thread works too; if it is the only one, the work is only slower. */
    pthread_t *threads = calloc(num_threads, sizeof(*threads));
    unsigned num_started = 0;
    while (threads && num_started + 1 < num_threads &&
           pthread_create(&threads[num_started], NULL, run_items, &shared) == 0)
        num_started++;
    run_items(&shared);
    for (unsigned i = 0; i < num_started; i++)
        pthread_join(threads[i], NULL);
    free(threads);

    sluice_progress_end(&shared.progress, shared.done);
    pthread_mutex_destroy(&shared.lock);
    if (shared.status != SLUICE_OK)
        return sluice_fail(err, shared.status, "%s", shared.why.text);
    return SLUICE_OK;
}
