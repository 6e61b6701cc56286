#include "base/worker_pool.h"

#include "base/clock.h"
#include "base/cpu.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct worker {
    struct sluice_worker_pool *pool;
    pthread_t thread; /* to be joined if has_thread */
    bool has_thread;  /* create's, stand_in's and destroy's own */
    bool has_ended;   /* under the pool's lock: a stand-in that is needed no longer */
    unsigned index;
};

struct sluice_worker_pool {
    pthread_mutex_t lock;
    pthread_cond_t work;  /* a job was queued, or the pool was closed */
    pthread_cond_t start; /* a worker has started or failed to */
    struct sluice_job *head, **tail;
    size_t depth, peak;
    bool is_closed;
    unsigned num_started;
    sluice_status start_status;
    unsigned start_failed_index;
    uint64_t submitted, rejected, run, cancelled, busy_ns;
    unsigned num_live, num_wanted; /* workers */

    /* Constant once the workers run. */
    struct sluice_worker_pool_options options;
    unsigned num_workers;
    char name[16]; /* with NUL: the kernel's limit for a thread's name */
    struct worker workers[];
};

static struct sluice_job *take_first(struct sluice_worker_pool *pool)
{
    struct sluice_job *job = pool->head;
    pool->head = job->next;
    if (!pool->head)
        pool->tail = &pool->head;
    pool->depth--;
    return job;
}

/* Under the lock: a stand-in goes when those that hung are back. */
static bool is_needed(const struct worker *worker)
{
    const struct sluice_worker_pool *pool = worker->pool;
    return worker->index < pool->num_workers || pool->num_live <= pool->num_wanted;
}

static void work(struct worker *worker, void *state)
{
    struct sluice_worker_pool *pool = worker->pool;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (!pool->head && !pool->is_closed && is_needed(worker))
            pthread_cond_wait(&pool->work, &pool->lock);
        if (!pool->head || (!pool->is_closed && !is_needed(worker)))
            break;
        struct sluice_job *job = take_first(pool);
        pthread_mutex_unlock(&pool->lock);

        const uint64_t before_ns = sluice_thread_cpu_ns();
        job->fn(job, SLUICE_JOB_RUN, state);
        const uint64_t spent_ns = sluice_thread_cpu_ns() - before_ns;

        pthread_mutex_lock(&pool->lock);
        pool->run++;
        pool->busy_ns += spent_ns;
    }
    pool->num_live--;                 /* at once, so that no other stand-in goes in its place */
    pthread_cond_signal(&pool->work); /* it may have been woken for a job that it leaves */
    pthread_mutex_unlock(&pool->lock);
}

/* A normal thread that is woken takes the CPU from the one that woke it, if it has none of its
 * own: then a completion thread that submits ten jobs gives way ten times. */
void sluice_worker_stand_back(void)
{
    struct sched_param param;
    int policy;
    if (pthread_getschedparam(pthread_self(), &policy, &param) == 0 && policy == SCHED_OTHER)
        (void)pthread_setschedparam(pthread_self(), SCHED_BATCH, &param);
}

static void *worker_main(void *arg)
{
    struct worker *worker = arg;
    struct sluice_worker_pool *pool = worker->pool;
    const struct sluice_worker_pool_options *options = &pool->options;

    char name[32];
    char number[12];
    const int digits = snprintf(number, sizeof(number), "-%u", worker->index);
    snprintf(name, sizeof(name), "%.*s%s", 15 - digits, pool->name, number);
    pthread_setname_np(pthread_self(), name);
    sluice_worker_stand_back();

    void *state = NULL;
    const sluice_status status = options->worker_start
                                     ? options->worker_start(options->ctx, worker->index, &state)
                                     : SLUICE_OK;
    pthread_mutex_lock(&pool->lock);
    if (status != SLUICE_OK && pool->start_status == SLUICE_OK) {
        pool->start_status = status;
        pool->start_failed_index = worker->index;
    }
    if (status != SLUICE_OK)
        pool->num_live--;
    pool->num_started++;
    pthread_cond_signal(&pool->start);
    pthread_mutex_unlock(&pool->lock);

    if (status == SLUICE_OK) {
        work(worker, state);
        if (options->worker_stop)
            options->worker_stop(options->ctx, state);
    }
    pthread_mutex_lock(&pool->lock);
    worker->has_ended = true;
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Returns what pthread_create() does. */
static int start_worker(struct worker *worker)
{
    struct sluice_worker_pool *pool = worker->pool;
    pthread_mutex_lock(&pool->lock);
    pool->num_live++;
    worker->has_ended = false;
    pthread_mutex_unlock(&pool->lock);
    const int error = pthread_create(&worker->thread, NULL, worker_main, worker);
    worker->has_thread = error == 0;
    if (error) {
        pthread_mutex_lock(&pool->lock);
        pool->num_live--;
        pthread_mutex_unlock(&pool->lock);
    }
    return error;
}

static void join_and_free(struct sluice_worker_pool *pool)
{
    sluice_worker_pool_close(pool);
    for (unsigned i = 0; i < pool->num_workers + pool->options.max_stand_ins; i++) {
        if (pool->workers[i].has_thread)
            pthread_join(pool->workers[i].thread, NULL);
    }
    pthread_cond_destroy(&pool->start);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

sluice_status sluice_worker_pool_create(const struct sluice_worker_pool_options *options,
                                        struct sluice_worker_pool **out, struct sluice_err *err)
{
    const char *name = options->name ? options->name : "worker";
    if (options->queue_capacity < 1)
        return sluice_fail(err, SLUICE_E_INVALID, "worker pool %s: a queue of no capacity", name);

    const unsigned num_workers = options->num_workers ? options->num_workers : sluice_cpu_count();
    const size_t num_slots = (size_t)num_workers + options->max_stand_ins;
    struct sluice_worker_pool *pool =
        calloc(1, sizeof(*pool) + num_slots * sizeof(pool->workers[0]));
    if (!pool)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for worker pool %s", name);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->start, NULL);
    pool->tail = &pool->head;
    pool->options = *options;
    pool->num_workers = pool->num_wanted = num_workers;
    snprintf(pool->name, sizeof(pool->name), "%s", name);
    for (unsigned i = 0; i < num_slots; i++)
        pool->workers[i] = (struct worker){.pool = pool, .index = i};

    unsigned num_threads = 0;
    int error = 0;
    for (; num_threads < num_workers; num_threads++) {
        error = start_worker(&pool->workers[num_threads]);
        if (error)
            break;
    }

    pthread_mutex_lock(&pool->lock);
    while (pool->num_started < num_threads)
        pthread_cond_wait(&pool->start, &pool->lock);
    const sluice_status status = pool->start_status;
    const unsigned failed_index = pool->start_failed_index;
    pthread_mutex_unlock(&pool->lock);

    if (error || status != SLUICE_OK) {
        join_and_free(pool);
        if (error)
            return sluice_fail(err, SLUICE_E_IO, "worker pool %s: thread %u of %u: %s", name,
                               num_threads, num_workers, strerror(error));
        return sluice_fail(err, status, "worker pool %s: worker %u did not start: %s", name,
                           failed_index, sluice_status_name(status));
    }
    *out = pool;
    return SLUICE_OK;
}

/* A place for a stand-in; NULL: all work. */
static struct worker *find_place(struct sluice_worker_pool *pool)
{
    for (unsigned i = 0; i < pool->options.max_stand_ins; i++) {
        struct worker *worker = &pool->workers[pool->num_workers + i];
        if (!worker->has_thread)
            return worker;
        pthread_mutex_lock(&pool->lock);
        const bool has_ended = worker->has_ended;
        pthread_mutex_unlock(&pool->lock);
        if (has_ended) {
            pthread_join(worker->thread, NULL); /* on its way out, without a job */
            worker->has_thread = false;
            return worker;
        }
    }
    return NULL;
}

sluice_status sluice_worker_pool_stand_in(struct sluice_worker_pool *pool, unsigned num_stuck,
                                          struct sluice_err *err)
{
    const unsigned most = pool->options.max_stand_ins;
    pthread_mutex_lock(&pool->lock);
    pool->num_wanted = pool->num_workers + (num_stuck < most ? num_stuck : most);
    const unsigned missing = pool->num_live < pool->num_wanted && !pool->is_closed
                                 ? pool->num_wanted - pool->num_live
                                 : 0;
    if (pool->num_live > pool->num_wanted)
        pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < missing; i++) {
        struct worker *worker = find_place(pool);
        const int error = worker ? start_worker(worker) : 0;
        if (error)
            return sluice_fail(err, SLUICE_E_IO, "worker pool %s: a thread to stand in: %s",
                               pool->name, strerror(error));
    }
    return SLUICE_OK;
}

sluice_status sluice_worker_pool_try_submit(struct sluice_worker_pool *pool, struct sluice_job *job)
{
    sluice_status status = SLUICE_OK;
    pthread_mutex_lock(&pool->lock);
    if (pool->is_closed) {
        status = SLUICE_E_CLOSED;
    } else if (pool->depth == pool->options.queue_capacity) {
        status = SLUICE_E_AGAIN;
    } else {
        job->next = NULL;
        *pool->tail = job;
        pool->tail = &job->next;
        pool->depth++;
        if (pool->depth > pool->peak)
            pool->peak = pool->depth;
        pool->submitted++;
        pthread_cond_signal(&pool->work);
    }
    if (status != SLUICE_OK)
        pool->rejected++;
    pthread_mutex_unlock(&pool->lock);
    return status;
}

void sluice_worker_pool_close(struct sluice_worker_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->is_closed = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
}

void sluice_worker_pool_destroy(struct sluice_worker_pool *pool, enum sluice_pool_end end)
{
    if (!pool)
        return;

    struct sluice_job *cancelled = NULL;
    pthread_mutex_lock(&pool->lock);
    pool->is_closed = true;
    if (end == SLUICE_POOL_ABANDON) {
        cancelled = pool->head;
        pool->head = NULL;
        pool->tail = &pool->head;
        pool->cancelled += pool->depth;
        pool->depth = 0;
    }
    pthread_mutex_unlock(&pool->lock);

    while (cancelled) {
        struct sluice_job *next = cancelled->next; /* the call may free the job */
        cancelled->fn(cancelled, SLUICE_JOB_CANCEL, NULL);
        cancelled = next;
    }
    join_and_free(pool);
}

struct sluice_worker_pool_stats sluice_worker_pool_stats(struct sluice_worker_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    const struct sluice_worker_pool_stats stats = {
        .submitted = pool->submitted,
        .rejected = pool->rejected,
        .run = pool->run,
        .cancelled = pool->cancelled,
        .busy_ns = pool->busy_ns,
        .queue_depth = pool->depth,
        .queue_peak = pool->peak,
        .num_workers = pool->num_live,
    };
    pthread_mutex_unlock(&pool->lock);
    return stats;
}
