#include "storage_server/work/workers.h"

#include "base/clock.h"
#include "base/log.h"
#include "storage_server/session/session.h"
#include "storage_server/tuning.h"
#include "storage_server/work/core_watch.h"
#include "storage_server/work/cpu_market.h"
#include "storage_server/work/fair_queue.h"
#include "storage_server/work/prep_limits.h"
#include "storage_server/work/preparer.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Between two lines of the debug log about the price. */
#define PRICE_LOG_NS 250000000u

/* An entry of the worker pool's queue: the right to run one job.  A worker that gets a ticket takes
 * the job from the fair queue, so that the order is decided as late as possible. */
struct ticket {
    struct sluice_job job;
    struct group *group;
    struct ticket *next; /* while it is free */
};

struct group {
    struct sluice_workers *workers; /* constant, as is the pool */
    struct sluice_worker_pool *pool;
    struct sluice_fair_queue queue;
    size_t num_spare; /* tickets in the pool whose job was cancelled */
    struct ticket *free;
    struct ticket *tickets; /* all: one for each place in the queue and for each worker */
};

struct sluice_work_client {
    struct sluice_flow flow[2];     /* by group */
    struct sluice_session *session; /* a reference */
    struct sluice_waiter *first, **end;
    size_t refs; /* of sluice_workers_join(), its jobs and its waiters */
    struct sluice_cpu_market_client market;
    struct sluice_work_client *next, **link;
    char name[];
};

struct sluice_workers {
    pthread_mutex_t lock; /* before those of the pools below; not held during a callback */
    struct sluice_work_client *clients;
    uint64_t starts; /* jobs that left a queue so far */
    bool is_closed;
    struct group groups[2];
    struct sluice_cpu_market market; /* for PREP's time */
    uint64_t logged_ns;

    unsigned num_prep;               /* constant from here */
    pid_t prep_tid;                  /* of the first of PREP, which stands for all */
    struct sluice_core_watch *cores; /* that PREP may use */
    struct sluice_prep_limits *limits;
    struct sluice_preparer_options preparer;
};

static sluice_status enter(const struct sluice_workers *workers, bool is_preprocessing)
{
    struct sluice_err err = {0};
    const sluice_status status = sluice_prep_limits_enter(workers->limits, is_preprocessing, &err);
    if (status != SLUICE_OK) /* the pool passes on the status only */
        sluice_log(SLUICE_LOG_ERROR, "%s", err.text);
    return status;
}

static sluice_status start_prep(void *ctx, unsigned index, void **worker)
{
    struct sluice_workers *workers = ctx;
    struct sluice_preparer *preparer;
    struct sluice_err err = {0};
    sluice_status status = sluice_preparer_create(&workers->preparer, &preparer, &err);
    if (status != SLUICE_OK) /* the pool passes on the status only */
        sluice_log(SLUICE_LOG_ERROR, "%s", err.text);
    if (status == SLUICE_OK && (status = enter(workers, true)) != SLUICE_OK)
        sluice_preparer_destroy(preparer);
    if (status != SLUICE_OK)
        return status;
    if (index == 0)
        workers->prep_tid = gettid();
    *worker = preparer;
    return SLUICE_OK;
}

static void stop_prep(void *ctx, void *worker)
{
    const struct sluice_workers *workers = ctx;
    sluice_preparer_destroy(worker); /* its decoder is in the groups, too */
    sluice_prep_limits_leave(workers->limits, true);
}

static sluice_status start_io(void *ctx, unsigned index, void **worker)
{
    (void)index, (void)worker;
    return enter(ctx, false);
}

static void stop_io(void *ctx, void *worker)
{
    (void)worker;
    const struct sluice_workers *workers = ctx;
    sluice_prep_limits_leave(workers->limits, false);
}

/* For sluice_core_watch; PREP's threads run already when it opens. */
static double read_cores(void *ctx)
{
    const struct sluice_workers *workers = ctx;
    return fmin(workers->num_prep, sluice_prep_limits_cores(workers->limits, workers->prep_tid));
}

static void run_ticket(struct sluice_job *base, enum sluice_job_fate fate, void *worker);

static sluice_status create_group(struct sluice_workers *w, enum sluice_worker_group which,
                                  struct sluice_worker_pool_options options, struct sluice_err *err)
{
    struct group *group = &w->groups[which];
    options.max_stand_ins = WATCHDOG_MAX_STAND_INS;
    const size_t num_tickets =
        options.queue_capacity + options.num_workers + WATCHDOG_MAX_STAND_INS;
    group->workers = w;
    group->queue = sluice_fair_queue_init(options.queue_capacity);
    group->tickets = calloc(num_tickets, sizeof(*group->tickets));
    if (!group->tickets)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a queue of %zu",
                           options.queue_capacity);
    for (size_t i = 0; i < num_tickets; i++) {
        group->tickets[i] =
            (struct ticket){.job = {.fn = run_ticket}, .group = group, .next = group->free};
        group->free = &group->tickets[i];
    }
    return sluice_worker_pool_create(&options, &group->pool, err);
}

/* Warns that there are fewer cores than threads: clients plan with the cores. */
static void tell_few_cores(const struct sluice_workers *w, unsigned num_wanted)
{
    const double cores = sluice_workers_prep_cores(w);
    char why[128];
    if (num_wanted <= ceil(cores))
        return;
    sluice_prep_limits_why_cores(w->limits, w->prep_tid, why, sizeof(why));
    sluice_log(
        SLUICE_LOG_WARN,
        "--prep-workers %u: the threads share %.3g cores, because %s; clients plan with these",
        num_wanted, cores, why);
}

sluice_status sluice_workers_create(const struct sluice_workers_options *options,
                                    struct sluice_workers **workers, struct sluice_err *err)
{
    struct sluice_workers *w = calloc(1, sizeof(*w));
    if (!w)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the workers");
    pthread_mutex_init(&w->lock, NULL);
    w->limits = options->limits;
    w->num_prep = options->prep_workers
                      ? options->prep_workers
                      : (unsigned)ceil(sluice_prep_limits_cores(options->limits, 0));
    w->market = sluice_cpu_market_init(sluice_clock_ns(), w->num_prep);
    if (options->preparer)
        w->preparer = *options->preparer;

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
        .worker_start = start_io,
        .worker_stop = stop_io,
        .ctx = w,
    };
    sluice_status status = create_group(w, SLUICE_GROUP_PREP, prep, err);
    if (status == SLUICE_OK)
        status = create_group(w, SLUICE_GROUP_IO, io, err);
    if (status == SLUICE_OK)
        status = sluice_core_watch_open(read_cores, w, CORE_WATCH_MAX_AGE_NS, &w->cores, err);
    if (status != SLUICE_OK) {
        sluice_workers_destroy(w);
        return status;
    }
    tell_few_cores(w, options->prep_workers);
    *workers = w;
    return SLUICE_OK;
}

/* --- clients --- */

/* Under the lock: a new client; NULL: no memory. */
static struct sluice_work_client *add_client(struct sluice_workers *w,
                                             struct sluice_session *session, const char *name)
{
    const size_t size = strlen(name) + 1;
    struct sluice_work_client *client = calloc(1, sizeof(*client) + size);
    if (!client)
        return NULL;
    memcpy(client->name, name, size);
    client->session = sluice_session_ref(session);
    for (int group = 0; group < 2; group++)
        sluice_flow_init(&client->flow[group], &session->cpu[group]);
    client->end = &client->first;
    client->next = w->clients;
    client->link = &w->clients;
    if (client->next)
        client->next->link = &client->next;
    w->clients = client;
    sluice_cpu_market_join(&w->market, &client->market);
    return client;
}

struct sluice_work_client *sluice_workers_join(struct sluice_workers *w,
                                               struct sluice_session *session, const char *name)
{
    pthread_mutex_lock(&w->lock);
    struct sluice_work_client *client = w->clients;
    while (client && strcmp(client->name, name) != 0)
        client = client->next;
    if (!client)
        client = add_client(w, session, name);
    if (client)
        client->refs++;
    pthread_mutex_unlock(&w->lock);
    return client;
}

void sluice_workers_follow(struct sluice_workers *w, struct sluice_work_client *client)
{
    pthread_mutex_lock(&w->lock);
    sluice_cpu_market_follow(&w->market, &client->market);
    pthread_mutex_unlock(&w->lock);
}

/* Under the lock. */
static void unref(struct sluice_workers *w, struct sluice_work_client *client)
{
    if (--client->refs)
        return;
    sluice_cpu_market_leave(&w->market, &client->market);
    *client->link = client->next;
    if (client->next)
        client->next->link = client->link;
    sluice_session_unref(client->session);
#ifndef __clang_analyzer__ /* it does not understand reference counts and reports later uses */
    free(client);
#endif
}

/* Under the lock, which may be released between two calls: the client after this one (NULL: the
 * first), with a reference; this one's is given back.  Clients come and go meanwhile: new ones join
 * in front, and one that is referenced stays in the list. */
static struct sluice_work_client *next_client(struct sluice_workers *w,
                                              struct sluice_work_client *client)
{
    struct sluice_work_client *next = client ? client->next : w->clients;
    if (next)
        next->refs++;
    if (client)
        unref(w, client);
    return next;
}

void sluice_workers_hear_worth(struct sluice_workers *w, struct sluice_work_client *client,
                               double worth)
{
    pthread_mutex_lock(&w->lock);
    sluice_cpu_market_hear_worth(&client->market, worth);
    pthread_mutex_unlock(&w->lock);
}

void sluice_workers_leave(struct sluice_workers *w, struct sluice_work_client *client)
{
    if (!client)
        return;
    pthread_mutex_lock(&w->lock);
    unref(w, client);
    pthread_mutex_unlock(&w->lock);
}

/* --- jobs --- */

/* Under the lock: a ticket in the pool for a job that came. */
static sluice_status submit_ticket(struct group *group)
{
    if (group->num_spare) {
        group->num_spare--;
        return SLUICE_OK;
    }
    struct ticket *ticket = group->free;
    group->free = ticket->next;
    return sluice_worker_pool_try_submit(group->pool, &ticket->job);
}

sluice_status sluice_workers_try(struct sluice_workers *w, struct sluice_work_client *client,
                                 enum sluice_worker_group which, struct sluice_job *job)
{
    struct group *group = &w->groups[which];
    const uint64_t now_ns = sluice_clock_ns();
    pthread_mutex_lock(&w->lock);
    sluice_status status = SLUICE_E_CLOSED;
    if (!w->is_closed) {
        status = SLUICE_E_AGAIN;
        if (sluice_fair_queue_push(&group->queue, &client->flow[which], job)) {
            client->refs++;
            if (which == SLUICE_GROUP_PREP)
                sluice_cpu_market_queued(&w->market, &client->market, now_ns);
            else
                sluice_cpu_market_asked(&client->market, now_ns);
            status = submit_ticket(group);
            /* The pool has as many places as the queue, and nobody else submits to it. */
            assert(status == SLUICE_OK);
        }
    }
    pthread_mutex_unlock(&w->lock);
    return status;
}

static void run_ticket(struct sluice_job *base, enum sluice_job_fate fate, void *worker)
{
    struct ticket *ticket = SLUICE_CONTAINER_OF(base, struct ticket, job);
    struct group *group = ticket->group;
    struct sluice_workers *w = group->workers;
    struct sluice_flow *flow;
    uint64_t cost_ns;
    pthread_mutex_lock(&w->lock);
    ticket->next = group->free;
    group->free = ticket;
    struct sluice_job *job = sluice_fair_queue_pop(&group->queue, &flow, &cost_ns);
    if (!job) { /* it was cancelled, and no other came */
        assert(group->num_spare);
        group->num_spare--;
        pthread_mutex_unlock(&w->lock);
        return;
    }
    const size_t which = (size_t)(group - w->groups);
    struct sluice_work_client *client =
        SLUICE_CONTAINER_OF(flow - which, struct sluice_work_client, flow);
    if (which == SLUICE_GROUP_PREP)
        sluice_cpu_market_started(&w->market, &client->market, sluice_clock_ns());
    pthread_mutex_unlock(&w->lock);

    job->fn(job, fate, worker);
    static _Thread_local uint64_t last_ns; /* a thread that waits uses no CPU time */
    const uint64_t now_ns = sluice_thread_cpu_ns(), spent_ns = now_ns - last_ns;
    last_ns = now_ns;

    pthread_mutex_lock(&w->lock);
    sluice_fair_queue_done(&group->queue, flow, cost_ns, spent_ns);
    if (which == SLUICE_GROUP_PREP)
        sluice_cpu_market_done(&w->market, &client->market, sluice_clock_ns(), spent_ns);
    unref(w, client);
    pthread_mutex_unlock(&w->lock);
}

size_t sluice_workers_cancel(struct sluice_workers *w, struct sluice_work_client *client,
                             enum sluice_worker_group which,
                             bool (*is_meant)(const struct sluice_job *job, const void *ctx),
                             const void *ctx)
{
    struct group *group = &w->groups[which];
    size_t count;
    pthread_mutex_lock(&w->lock);
    struct sluice_job *job =
        sluice_fair_queue_remove(&group->queue, &client->flow[which], is_meant, ctx, &count);
    group->num_spare += count;
    for (size_t i = 0; which == SLUICE_GROUP_PREP && i < count; i++)
        sluice_cpu_market_withdrawn(&w->market, &client->market);
    client->refs++; /* ours */
    pthread_mutex_unlock(&w->lock);

    while (job) {
        struct sluice_job *next = job->next; /* the call may free the job */
        job->fn(job, SLUICE_JOB_CANCEL, NULL);
        job = next;
    }
    pthread_mutex_lock(&w->lock);
    client->refs -= count; /* the jobs' */
    unref(w, client);
    pthread_mutex_unlock(&w->lock);
    if (count)
        sluice_workers_started(w);
    return count;
}

sluice_status sluice_workers_stand_in(struct sluice_workers *w, enum sluice_worker_group which,
                                      unsigned num_stuck, struct sluice_err *err)
{
    return sluice_worker_pool_stand_in(w->groups[which].pool, num_stuck, err);
}

static bool is_any(const struct sluice_job *job, const void *ctx)
{
    (void)job, (void)ctx;
    return true;
}

size_t sluice_workers_expire(struct sluice_workers *w, enum sluice_worker_group which)
{
    size_t count = 0;
    pthread_mutex_lock(&w->lock);
    for (struct sluice_work_client *c = next_client(w, NULL); c; c = next_client(w, c)) {
        pthread_mutex_unlock(&w->lock);
        count += sluice_workers_cancel(w, c, which, is_any, NULL);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return count;
}

/* --- waiters --- */

/* Under the lock: the first waiter of the client, or NULL; its reference goes to the caller. */
static struct sluice_waiter *pop(struct sluice_work_client *client)
{
    struct sluice_waiter *waiter = client->first;
    if (waiter) {
        client->first = waiter->next;
        if (!client->first)
            client->end = &client->first;
        waiter->next = NULL;
    }
    return waiter;
}

/* Calls the client's waiters until one finds no room.  Releases the lock during each call. */
static void call_waiters(struct sluice_workers *w, struct sluice_work_client *client,
                         bool to_the_last)
{
    for (struct sluice_waiter *waiter; (waiter = pop(client));) {
        pthread_mutex_unlock(&w->lock);
        const bool is_served = waiter->fn(waiter);
        pthread_mutex_lock(&w->lock);
        assert(client->refs > 1); /* the caller has one too */
        client->refs--;           /* the waiter's */
        if (!is_served && !to_the_last)
            return;
    }
}

/* Calls the waiters of all clients.  Clients come and go meanwhile: new ones join in front, and one
 * that is referenced stays in the list. */
static void call_all_waiters(struct sluice_workers *w, bool to_the_last)
{
    pthread_mutex_lock(&w->lock);
    for (struct sluice_work_client *c = next_client(w, NULL); c; c = next_client(w, c))
        call_waiters(w, c, to_the_last);
    pthread_mutex_unlock(&w->lock);
}

void sluice_workers_destroy(struct sluice_workers *w)
{
    if (!w)
        return;
    /* Closes both groups at once: a job of one must not submit to the other when that is gone. */
    pthread_mutex_lock(&w->lock);
    w->is_closed = true;
    pthread_mutex_unlock(&w->lock);
    for (int group = 0; group < 2; group++)
        sluice_worker_pool_destroy(w->groups[group].pool, SLUICE_POOL_DRAIN);
    call_all_waiters(w, true);
    for (int group = 0; group < 2; group++)
        free(w->groups[group].tickets);
    sluice_core_watch_close(w->cores); /* the jobs and waiters above may still have asked */
    pthread_mutex_destroy(&w->lock);
    free(w);
}

void sluice_workers_started(struct sluice_workers *w)
{
    pthread_mutex_lock(&w->lock);
    w->starts++;
    pthread_mutex_unlock(&w->lock);

    /* A waiter that finds no room has a job of its client in front of it, or the queues are full.
     * Either way another job will start and come here, so nobody waits at an empty queue. */
    call_all_waiters(w, false);
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

bool sluice_workers_wait(struct sluice_workers *w, struct sluice_work_client *client,
                         struct sluice_waiter *waiter, uint64_t moment)
{
    pthread_mutex_lock(&w->lock);
    const bool is_current = w->starts == moment;
    if (is_current) {
        waiter->next = NULL;
        *client->end = waiter;
        client->end = &waiter->next;
        client->refs++;
    }
    pthread_mutex_unlock(&w->lock);
    return is_current;
}

unsigned sluice_workers_num_prep(const struct sluice_workers *w)
{
    return w->num_prep;
}

double sluice_workers_prep_cores(const struct sluice_workers *w)
{
    return sluice_core_watch_get(w->cores);
}

struct sluice_worker_pool_stats sluice_workers_stats(struct sluice_workers *w,
                                                     enum sluice_worker_group group)
{
    struct sluice_worker_pool_stats stats = sluice_worker_pool_stats(w->groups[group].pool);
    pthread_mutex_lock(&w->lock);
    stats.queue_depth = w->groups[group].queue.depth; /* without tickets of cancelled jobs */
    pthread_mutex_unlock(&w->lock);
    return stats;
}

/* Under the lock: the expected CPU seconds of jobs that wait for PREP, of clients that follow the
 * price. */
static double sum_waiting_s(const struct sluice_workers *w)
{
    double waiting_s = 0;
    for (const struct sluice_work_client *client = w->clients; client; client = client->next) {
        const struct sluice_flow *flow = &client->flow[SLUICE_GROUP_PREP];
        if (client->market.is_priced)
            waiting_s += (double)flow->share.depth * (double)flow->expected_ns * 1e-9;
    }
    return waiting_s;
}

struct sluice_workers_offer sluice_workers_offer(struct sluice_workers *w)
{
    const double prep_cores = sluice_workers_prep_cores(w);
    pthread_mutex_lock(&w->lock);
    const uint64_t now_ns = sluice_clock_ns(); /* under the lock, as it must not go back */
    const bool is_due = sluice_cpu_market_is_due(&w->market, now_ns);
    bool is_told = false;
    if (is_due) {
        const double price =
            sluice_cpu_market_update(&w->market, now_ns, prep_cores, sum_waiting_s(w));
        is_told = price > 0 && now_ns - w->logged_ns >= PRICE_LOG_NS;
        if (is_told)
            w->logged_ns = now_ns;
    }
    const struct sluice_cpu_price price = w->market.price;
    const unsigned num_followers = w->market.num_followers;
    pthread_mutex_unlock(&w->lock);
    if (is_told)
        sluice_log(SLUICE_LOG_DEBUG,
                   "price of CPU %.4g for %u clients: %.3g s of work in the queue, %.3g s at least "
                   "within the last 0.2 s, on %.3g cores; excess demand %+.3g of capacity",
                   price.price, num_followers, price.waiting_s / price.cores, price.standing_s,
                   price.cores, price.asked);
    return (struct sluice_workers_offer){price.price, prep_cores};
}
