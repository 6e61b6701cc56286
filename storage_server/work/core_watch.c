#include "storage_server/work/core_watch.h"

#include "base/clock.h"
#include "base/cond.h"
#include "storage_server/side_thread.h"
#include "storage_server/tuning.h"

#include <stdlib.h>

struct sluice_core_watch {
    pthread_mutex_t lock;
    bool is_wanted; /* a new number: `thread.changed` */
    double cores;
    uint64_t read_ns; /* when it was read */

    double (*read)(void *ctx); /* constant from here */
    void *ctx;
    uint64_t max_age_ns;
    struct sluice_side_thread thread;
};

static void *watch_main(void *ctx)
{
    struct sluice_core_watch *watch = ctx;
    pthread_mutex_lock(&watch->lock);
    for (;;) {
        const uint64_t until_ns = watch->read_ns + watch->max_age_ns;
        bool has_time = true;
        while (has_time && !watch->is_wanted && !watch->thread.is_stopping)
            has_time = sluice_cond_wait_until(&watch->thread.changed, &watch->lock, until_ns);
        if (watch->thread.is_stopping)
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
    const sluice_status status =
        sluice_side_thread_open(&watch->thread, &watch->lock, watch_main, watch,
                                "the thread that watches the number of cores", err);
    if (status == SLUICE_OK)
        *out = watch;
    else
        sluice_core_watch_close(watch);
    return status;
}

void sluice_core_watch_close(struct sluice_core_watch *watch)
{
    if (!watch)
        return;
    sluice_side_thread_clear(&watch->thread);
    pthread_mutex_destroy(&watch->lock);
    free(watch);
}

double sluice_core_watch_get(struct sluice_core_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    if (!watch->is_wanted && sluice_clock_ns() - watch->read_ns >= CORE_WATCH_FRESH_NS) {
        watch->is_wanted = true;
        pthread_cond_signal(&watch->thread.changed);
    }
    const double cores = watch->cores;
    pthread_mutex_unlock(&watch->lock);
    return cores;
}
