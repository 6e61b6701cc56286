#include "storage_server/workers.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "pipeline/pipeline.h"
#include "storage_server/cpu_price.h"

#include <pthread.h>
#include <stdlib.h>

/* Between two looks at the queue. */
#define PRICE_PERIOD_NS 50000000u

struct sluice_workers {
    pthread_mutex_t lock;
    struct sluice_waiter *first, **end; /* first come, first served */
    uint64_t starts;                    /* jobs started so far */
    bool is_closed;

    pthread_mutex_t price_lock;
    struct sluice_cpu_price price;
    struct sluice_worker_pool_stats seen; /* when the price was last made */
    double mean_held_s;                   /* by a job, of those since the time before */

    struct sluice_worker_pool *lanes[2]; /* constant from here */
    unsigned num_prep;
    struct sluice_scratch_options scratch;
};

static sluice_status start_prep(void *ctx, unsigned index, void **worker)
{
    (void)index;
    const struct sluice_workers *workers = ctx;
    struct sluice_scratch *scratch;
    const sluice_status status = sluice_scratch_create(&workers->scratch, &scratch, NULL);
    if (status == SLUICE_OK)
        *worker = scratch;
    return status;
}

static void stop_prep(void *ctx, void *worker)
{
    (void)ctx;
    sluice_scratch_destroy(worker);
}

sluice_status sluice_workers_create(const struct sluice_workers_options *options,
                                    struct sluice_workers **workers, struct sluice_err *err)
{
    struct sluice_workers *w = calloc(1, sizeof(*w));
    if (!w)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the workers");
    pthread_mutex_init(&w->lock, NULL);
    pthread_mutex_init(&w->price_lock, NULL);
    w->price = sluice_cpu_price_init(sluice_clock_ns());
    w->end = &w->first;
    w->num_prep = options->prep_workers ? options->prep_workers : sluice_cpu_count();
    w->scratch = (struct sluice_scratch_options){
        .pool = options->buffers,
        .max_image_pixels = options->max_image_pixels,
    };

    const struct sluice_worker_pool_options prep = {
        .name = "prep",
        .num_workers = w->num_prep,
        .queue_capacity = options->queue,
        .worker_start = start_prep,
        .worker_stop = stop_prep,
        .ctx = w,
    };
    const struct sluice_worker_pool_options io = {
        .name = "io",
        .num_workers = options->io_workers,
        .queue_capacity = options->queue,
    };
    sluice_status status = sluice_worker_pool_create(&prep, &w->lanes[SLUICE_LANE_PREP], err);
    if (status == SLUICE_OK)
        status = sluice_worker_pool_create(&io, &w->lanes[SLUICE_LANE_IO], err);
    if (status != SLUICE_OK) {
        sluice_workers_destroy(w);
        return status;
    }
    *workers = w;
    return SLUICE_OK;
}

static struct sluice_waiter *pop(struct sluice_workers *w)
{
    pthread_mutex_lock(&w->lock);
    struct sluice_waiter *waiter = w->first;
    if (waiter) {
        w->first = waiter->next;
        if (!w->first)
            w->end = &w->first;
        waiter->next = NULL;
    }
    pthread_mutex_unlock(&w->lock);
    return waiter;
}

void sluice_workers_destroy(struct sluice_workers *w)
{
    if (!w)
        return;
    /* Both lanes at once, so that a job of the one never tries the other when it is gone. */
    pthread_mutex_lock(&w->lock);
    w->is_closed = true;
    pthread_mutex_unlock(&w->lock);
    for (int lane = 0; lane < 2; lane++)
        sluice_worker_pool_destroy(w->lanes[lane], SLUICE_POOL_DRAIN);
    for (struct sluice_waiter *waiter; (waiter = pop(w));)
        waiter->fn(waiter);
    pthread_mutex_destroy(&w->price_lock);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

sluice_status sluice_workers_try(struct sluice_workers *w, enum sluice_lane lane,
                                 struct sluice_job *job)
{
    /* Under the lock, so that the lane outlives the call; it never waits. */
    pthread_mutex_lock(&w->lock);
    const sluice_status status =
        w->is_closed ? SLUICE_E_CLOSED : sluice_worker_pool_try_submit(w->lanes[lane], job);
    pthread_mutex_unlock(&w->lock);
    return status;
}

void sluice_workers_started(struct sluice_workers *w)
{
    pthread_mutex_lock(&w->lock);
    w->starts++;
    pthread_mutex_unlock(&w->lock);

    /* As many as find room.  One that finds none has a job in front of it, whose start
     * comes here again: so nobody is left waiting in front of an empty queue. */
    for (struct sluice_waiter *waiter; (waiter = pop(w));) {
        if (!waiter->fn(waiter))
            break;
    }
}

uint64_t sluice_workers_job_cpu_ns(void)
{
    static _Thread_local uint64_t last_ns;
    const uint64_t now_ns = sluice_thread_cpu_ns(), spent_ns = now_ns - last_ns;
    last_ns = now_ns;
    return spent_ns;
}

uint64_t sluice_workers_moment(struct sluice_workers *w)
{
    pthread_mutex_lock(&w->lock);
    const uint64_t starts = w->starts;
    pthread_mutex_unlock(&w->lock);
    return starts;
}

bool sluice_workers_wait(struct sluice_workers *w, struct sluice_waiter *waiter, uint64_t moment)
{
    pthread_mutex_lock(&w->lock);
    const bool is_current = w->starts == moment;
    if (is_current) {
        waiter->next = NULL;
        *w->end = waiter;
        w->end = &waiter->next;
    }
    pthread_mutex_unlock(&w->lock);
    return is_current;
}

unsigned sluice_workers_num_prep(const struct sluice_workers *w)
{
    return w->num_prep;
}

struct sluice_worker_pool_stats sluice_workers_stats(struct sluice_workers *w,
                                                     enum sluice_lane lane)
{
    return sluice_worker_pool_stats(w->lanes[lane]);
}

double sluice_workers_cpu_price(struct sluice_workers *w)
{
    pthread_mutex_lock(&w->price_lock);
    const uint64_t now_ns = sluice_clock_ns(), elapsed_ns = now_ns - w->price.last_ns;
    if (elapsed_ns >= PRICE_PERIOD_NS) {
        const struct sluice_worker_pool_stats now = sluice_workers_stats(w, SLUICE_LANE_PREP);
        const double held_ns = (double)(now.held_ns - w->seen.held_ns);
        if (now.run > w->seen.run)
            w->mean_held_s = held_ns * 1e-9 / (double)(now.run - w->seen.run);
        const double wait_s = (double)now.queue_depth * w->mean_held_s / w->num_prep;
        /* A job that takes longer than the period counts when it is done. */
        const double idle = 1 - held_ns / ((double)elapsed_ns * w->num_prep);
        const bool has_queue = now.queue_depth && w->seen.queue_depth;
        sluice_cpu_price_update(&w->price, now_ns, wait_s, has_queue || idle < 0 ? 0 : idle);
        w->seen = now;
    }
    const double price = w->price.price;
    pthread_mutex_unlock(&w->price_lock);
    return price;
}
