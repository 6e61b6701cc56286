#include "storage_server/work/core_watch.h"

#include "base/clock.h"
#include "base/cond.h"
#include "storage_server/tuning.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct sluice_core_watch {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* one of these two flags */
    bool is_wanted;         /* a new number */
    bool is_closed;
    double cores;
    uint64_t read_ns; /* when it was read */

    double (*read)(void *ctx); /* constant from here */
    void *ctx;
    uint64_t max_age_ns;
    pthread_t thread;
};

static void *watch_main(void *ctx)
{
    struct sluice_core_watch *watch = ctx;
    pthread_mutex_lock(&watch->lock);
    for (;;) {
        const uint64_t until_ns = watch->read_ns + watch->max_age_ns;
        bool has_time = true;
        while (has_time && !watch->is_wanted && !watch->is_closed)
            has_time = sluice_cond_wait_until(&watch->changed, &watch->lock, until_ns);
        if (watch->is_closed)
            break;
        pthread_mutex_unlock(&watch->lock);
        const double cores = watch->read(watch->ctx);
        pthread_mutex_lock(&watch->lock);
        watch->cores = cores;
        watch->read_ns = sluice_clock_ns();
        watch->is_wanted = false;
    }
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

sluice_status sluice_core_watch_open(double (*read)(void *ctx), void *ctx, uint64_t max_age_ns,
                                     struct sluice_core_watch **out, struct sluice_err *err)
{
    struct sluice_core_watch *watch = malloc(sizeof(*watch));
    if (!watch)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to watch the number of cores");
    *watch = (struct sluice_core_watch){
        .cores = read(ctx),
        .read_ns = sluice_clock_ns(),
        .read = read,
        .ctx = ctx,
        .max_age_ns = max_age_ns,
    };
    pthread_mutex_init(&watch->lock, NULL);
    sluice_cond_init(&watch->changed);
    const int failed = pthread_create(&watch->thread, NULL, watch_main, watch);
    if (failed) {
        pthread_cond_destroy(&watch->changed);
        pthread_mutex_destroy(&watch->lock);
        free(watch);
        return sluice_fail(err, SLUICE_E_IO,
                           "cannot start the thread that watches the number of cores: %s",
                           strerror(failed));
    }
    *out = watch;
    return SLUICE_OK;
}

void sluice_core_watch_close(struct sluice_core_watch *watch)
{
    if (!watch)
        return;
    pthread_mutex_lock(&watch->lock);
    watch->is_closed = true;
    pthread_cond_signal(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
    pthread_join(watch->thread, NULL);
    pthread_cond_destroy(&watch->changed);
    pthread_mutex_destroy(&watch->lock);
    free(watch);
}

double sluice_core_watch_get(struct sluice_core_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    if (!watch->is_wanted && sluice_clock_ns() - watch->read_ns >= CORE_WATCH_FRESH_NS) {
        watch->is_wanted = true;
        pthread_cond_signal(&watch->changed);
    }
    const double cores = watch->cores;
    pthread_mutex_unlock(&watch->lock);
    return cores;
}
