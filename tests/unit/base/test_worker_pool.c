#include "base/worker_pool.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "support/test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

/* Opens once; those who wait before go on then. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_open;
    int num_waiting;
};

#define GATE_INIT                                                                                  \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, 0                              \
    }

static void gate_pass(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->num_waiting++;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->is_open)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

static void gate_open(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->is_open = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

static void gate_wait_for(struct gate *gate, int num_waiting)
{
    pthread_mutex_lock(&gate->lock);
    while (gate->num_waiting < num_waiting)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

/* A job that notes how it was called. */
struct test_job {
    struct sluice_job job;
    struct gate *gate; /* passed when run, if there is one */
    atomic_int num_run, num_cancelled;
    void *worker;
    pthread_t thread;
    struct gate *opens; /* opened when cancelled, if there is one */
    uint64_t burn_ns;
    char thread_name[16];
    int policy;                      /* of the thread */
    struct sluice_worker_pool *pool; /* asked for its stats at the end, if there is one */
    struct sluice_worker_pool_stats stats;
};

static void test_job_fn(struct sluice_job *job, enum sluice_job_fate fate, void *worker)
{
    struct test_job *my = (struct test_job *)job;
    my->worker = worker;
    my->thread = pthread_self();
    my->policy = sched_getscheduler(0);
    pthread_getname_np(pthread_self(), my->thread_name, sizeof(my->thread_name));
    if (fate == SLUICE_JOB_CANCEL) {
        atomic_fetch_add(&my->num_cancelled, 1);
        if (my->opens)
            gate_open(my->opens);
        return;
    }
    const uint64_t start_ns = sluice_thread_cpu_ns();
    while (my->burn_ns && sluice_thread_cpu_ns() - start_ns < my->burn_ns)
        ;
    if (my->gate)
        gate_pass(my->gate);
    if (my->pool)
        my->stats = sluice_worker_pool_stats(my->pool);
    atomic_fetch_add(&my->num_run, 1);
}

static struct test_job make_job(struct gate *gate)
{
    return (struct test_job){.job.fn = test_job_fn, .gate = gate};
}

static struct sluice_worker_pool *new_pool(unsigned num_workers, size_t capacity)
{
    const struct sluice_worker_pool_options options = {
        .name = "test", .num_workers = num_workers, .queue_capacity = capacity};
    struct sluice_worker_pool *pool = NULL;
    REQUIRE_OK(sluice_worker_pool_create(&options, &pool, NULL));
    return pool;
}

struct submitter {
    pthread_t thread;
    struct sluice_worker_pool *pool;
    struct test_job *jobs;
    int num_jobs;
    bool insists; /* tries a job again while the queue is full */
    uint64_t num_accepted, num_refused;
    bool *was_accepted; /* for each job, if wanted */
};

static void *submit_jobs(void *arg)
{
    struct submitter *my = arg;
    for (int i = 0; i < my->num_jobs; i++) {
        sluice_status status;
        while ((status = sluice_worker_pool_try_submit(my->pool, &my->jobs[i].job)) ==
                   SLUICE_E_AGAIN &&
               my->insists) {
            my->num_refused++;
            sched_yield();
        }
        my->num_accepted += status == SLUICE_OK;
        my->num_refused += status != SLUICE_OK;
        if (my->was_accepted)
            my->was_accepted[i] = status == SLUICE_OK;
    }
    return NULL;
}

static void start_submitter(struct submitter *submitter)
{
    CU_ASSERT_EQUAL_FATAL(pthread_create(&submitter->thread, NULL, submit_jobs, submitter), 0);
}

TEST(runs_every_accepted_job_once)
{
    enum { NUM_SUBMITTERS = 3, NUM_JOBS = 500 };
    struct sluice_worker_pool *pool = new_pool(4, 8);
    static struct test_job jobs[NUM_SUBMITTERS][NUM_JOBS];
    struct submitter submitters[NUM_SUBMITTERS] = {0};
    for (int i = 0; i < NUM_SUBMITTERS; i++) {
        for (int k = 0; k < NUM_JOBS; k++)
            jobs[i][k] = make_job(NULL);
        submitters[i] = (struct submitter){
            .pool = pool, .jobs = jobs[i], .num_jobs = NUM_JOBS, .insists = true};
        start_submitter(&submitters[i]);
    }
    for (int i = 0; i < NUM_SUBMITTERS; i++) {
        pthread_join(submitters[i].thread, NULL);
        CU_ASSERT_EQUAL(submitters[i].num_accepted, NUM_JOBS);
    }
    sluice_worker_pool_destroy(pool, SLUICE_POOL_DRAIN);
    for (int i = 0; i < NUM_SUBMITTERS; i++) {
        for (int k = 0; k < NUM_JOBS; k++)
            CU_ASSERT(jobs[i][k].num_run == 1 && jobs[i][k].num_cancelled == 0);
    }
}

TEST(one_worker_runs_jobs_in_order)
{
    struct sluice_worker_pool *pool = new_pool(1, 4);
    struct gate gate = GATE_INIT;
    struct test_job jobs[3] = {make_job(&gate), make_job(NULL), make_job(&gate)};
    for (int i = 0; i < 3; i++)
        CHECK_OK(sluice_worker_pool_try_submit(pool, &jobs[i].job));
    gate_wait_for(&gate, 1);
    CU_ASSERT_EQUAL(jobs[1].num_run, 0);
    gate_open(&gate);
    gate_wait_for(&gate, 2);
    CU_ASSERT_EQUAL(jobs[0].num_run, 1);
    CU_ASSERT_EQUAL(jobs[1].num_run, 1);
    sluice_worker_pool_destroy(pool, SLUICE_POOL_DRAIN);
}

/* A pool of one worker that waits at the gate, with a full queue behind it. */
struct full_pool {
    struct sluice_worker_pool *pool;
    struct gate gate;
    struct test_job running, queued[2];
};

static void full_pool_init(struct full_pool *full)
{
    *full = (struct full_pool){.gate = GATE_INIT};
    full->pool = new_pool(1, 2);
    full->running = make_job(&full->gate);
    REQUIRE_OK(sluice_worker_pool_try_submit(full->pool, &full->running.job));
    gate_wait_for(&full->gate, 1);
    for (int i = 0; i < 2; i++) {
        full->queued[i] = make_job(NULL);
        REQUIRE_OK(sluice_worker_pool_try_submit(full->pool, &full->queued[i].job));
    }
}

TEST(a_full_queue_says_again_and_does_not_call)
{
    struct full_pool full;
    full_pool_init(&full);
    struct test_job refused = make_job(NULL);
    CU_ASSERT_EQUAL(sluice_worker_pool_try_submit(full.pool, &refused.job), SLUICE_E_AGAIN);
    const struct sluice_worker_pool_stats stats = sluice_worker_pool_stats(full.pool);
    CU_ASSERT_EQUAL(stats.submitted, 3);
    CU_ASSERT_EQUAL(stats.rejected, 1);
    CU_ASSERT_EQUAL(stats.queue_depth, 2); /* the running one is not counted */
    CU_ASSERT_EQUAL(stats.queue_peak, 2);
    gate_open(&full.gate);
    sluice_worker_pool_destroy(full.pool, SLUICE_POOL_DRAIN);
    CU_ASSERT_EQUAL(refused.num_run + refused.num_cancelled, 0);
    CU_ASSERT(full.running.num_run == 1 && full.queued[0].num_run == 1 &&
              full.queued[1].num_run == 1);
}

TEST(a_closed_pool_refuses_jobs_and_runs_those_it_has)
{
    struct full_pool full;
    full_pool_init(&full);
    sluice_worker_pool_close(full.pool); /* returns although the worker is busy */
    sluice_worker_pool_close(full.pool);
    struct test_job refused = make_job(NULL);
    CU_ASSERT_EQUAL(sluice_worker_pool_try_submit(full.pool, &refused.job), SLUICE_E_CLOSED);
    CU_ASSERT_EQUAL(sluice_worker_pool_stats(full.pool).rejected, 1);

    gate_open(&full.gate);
    sluice_worker_pool_destroy(full.pool, SLUICE_POOL_DRAIN);
    CU_ASSERT_EQUAL(refused.num_run + refused.num_cancelled, 0);
    CU_ASSERT(full.queued[0].num_run == 1 && full.queued[1].num_run == 1);
}

TEST(abandon_cancels_what_is_queued_and_lets_running_jobs_finish)
{
    struct full_pool full;
    full_pool_init(&full);
    /* The running job ends only after the last queued one is cancelled. */
    full.queued[1].opens = &full.gate;
    full.running.pool = full.pool;
    sluice_worker_pool_destroy(full.pool, SLUICE_POOL_ABANDON);
    CU_ASSERT_EQUAL(full.running.stats.cancelled, 2);
    CU_ASSERT_EQUAL(full.running.stats.queue_depth, 0);
    CU_ASSERT(full.running.num_run == 1 && full.running.num_cancelled == 0);
    for (int i = 0; i < 2; i++) {
        CU_ASSERT(full.queued[i].num_run == 0 && full.queued[i].num_cancelled == 1);
        CU_ASSERT_PTR_NULL(full.queued[i].worker);
        CU_ASSERT(pthread_equal(full.queued[i].thread, pthread_self()));
    }
}

struct race_job {
    struct sluice_job job;
    atomic_int *num_calls;
    struct sluice_worker_pool *pool;
    struct test_job *child; /* submitted from the job */
    bool *child_was_accepted;
};

static void race_job_fn(struct sluice_job *job, enum sluice_job_fate fate, void *worker)
{
    (void)worker;
    struct race_job *my = (struct race_job *)job;
    atomic_fetch_add(my->num_calls, 1);
    if (fate == SLUICE_JOB_RUN && my->child)
        *my->child_was_accepted =
            sluice_worker_pool_try_submit(my->pool, &my->child->job) == SLUICE_OK;
    free(my); /* the pool does not touch a job after the call */
}

TEST(every_accepted_job_is_answered_once_when_closed_amid_submits)
{
    enum { NUM_SUBMITTERS = 3, NUM_JOBS = 40, NUM_ROUNDS = 60 };
    static struct test_job jobs[NUM_SUBMITTERS][NUM_JOBS];
    static bool was_accepted[NUM_SUBMITTERS][NUM_JOBS];
    for (int round = 0; round < NUM_ROUNDS; round++) {
        struct sluice_worker_pool *pool = new_pool(1 + (unsigned)round % 3, 3);
        struct submitter submitters[NUM_SUBMITTERS];
        for (int i = 0; i < NUM_SUBMITTERS; i++) {
            for (int k = 0; k < NUM_JOBS; k++)
                jobs[i][k] = make_job(NULL);
            submitters[i] = (struct submitter){.pool = pool,
                                               .jobs = jobs[i],
                                               .num_jobs = NUM_JOBS,
                                               .insists = i > 0,
                                               .was_accepted = was_accepted[i]};
            start_submitter(&submitters[i]);
        }
        while (sluice_worker_pool_stats(pool).submitted < (uint64_t)round)
            sched_yield();
        sluice_worker_pool_close(pool);
        uint64_t num_accepted = 0, num_refused = 0;
        for (int i = 0; i < NUM_SUBMITTERS; i++) {
            pthread_join(submitters[i].thread, NULL);
            num_accepted += submitters[i].num_accepted;
            num_refused += submitters[i].num_refused;
        }
        const struct sluice_worker_pool_stats stats = sluice_worker_pool_stats(pool);
        CU_ASSERT_EQUAL(stats.submitted, num_accepted);
        CU_ASSERT_EQUAL(stats.rejected, num_refused);
        sluice_worker_pool_destroy(pool, round % 2 ? SLUICE_POOL_DRAIN : SLUICE_POOL_ABANDON);

        for (int i = 0; i < NUM_SUBMITTERS; i++) {
            for (int k = 0; k < NUM_JOBS; k++) {
                const struct test_job *job = &jobs[i][k];
                CU_ASSERT_EQUAL(job->num_run + job->num_cancelled, was_accepted[i][k] ? 1 : 0);
                CU_ASSERT(round % 2 == 0 || job->num_cancelled == 0);
            }
        }
    }
}

TEST(every_accepted_job_is_answered_once_when_destroyed_at_work)
{
    enum { NUM_JOBS = 12, NUM_ROUNDS = 60 };
    for (int round = 0; round < NUM_ROUNDS; round++) {
        struct sluice_worker_pool *pool = new_pool(3, 2 * NUM_JOBS);
        atomic_int num_calls[NUM_JOBS];
        struct test_job children[NUM_JOBS];
        bool was_accepted[NUM_JOBS] = {false};
        for (int i = 0; i < NUM_JOBS; i++) {
            struct race_job *job = calloc(1, sizeof(*job));
            if (!job)
                abort();
            atomic_init(&num_calls[i], 0);
            children[i] = make_job(NULL);
            *job = (struct race_job){.job.fn = race_job_fn,
                                     .num_calls = &num_calls[i],
                                     .pool = pool,
                                     .child = &children[i],
                                     .child_was_accepted = &was_accepted[i]};
            CHECK_OK(sluice_worker_pool_try_submit(pool, &job->job));
        }
        sluice_worker_pool_destroy(pool, round % 2 ? SLUICE_POOL_DRAIN : SLUICE_POOL_ABANDON);
        for (int i = 0; i < NUM_JOBS; i++) {
            CU_ASSERT_EQUAL(num_calls[i], 1);
            CU_ASSERT_EQUAL(children[i].num_run + children[i].num_cancelled,
                            was_accepted[i] ? 1 : 0);
        }
    }
}

TEST(counts_what_happened)
{
    struct full_pool full;
    full_pool_init(&full);
    full.queued[0].burn_ns = 3000000;
    full.queued[1].burn_ns = 2000000;
    struct gate last = GATE_INIT;
    struct test_job marker = make_job(&last);
    gate_open(&full.gate);
    while (sluice_worker_pool_stats(full.pool).queue_depth == 2)
        sched_yield();
    CHECK_OK(sluice_worker_pool_try_submit(full.pool, &marker.job));
    gate_wait_for(&last, 1); /* the three before it are done and counted */
    const struct sluice_worker_pool_stats stats = sluice_worker_pool_stats(full.pool);
    CU_ASSERT_EQUAL(stats.submitted, 4);
    CU_ASSERT_EQUAL(stats.rejected, 0);
    CU_ASSERT_EQUAL(stats.run, 3);
    CU_ASSERT_EQUAL(stats.cancelled, 0);
    CU_ASSERT_EQUAL(stats.queue_depth, 0);
    CU_ASSERT_EQUAL(stats.queue_peak, 2);
    CU_ASSERT(stats.busy_ns >= 5000000);
    gate_open(&last);
    sluice_worker_pool_destroy(full.pool, SLUICE_POOL_DRAIN);
}

TEST(waiting_jobs_cost_no_busy_time)
{
    struct sluice_worker_pool *pool = new_pool(1, 2);
    struct gate gate = GATE_INIT, last = GATE_INIT;
    struct test_job waits = make_job(&gate), marker = make_job(&last);
    CHECK_OK(sluice_worker_pool_try_submit(pool, &waits.job));
    CHECK_OK(sluice_worker_pool_try_submit(pool, &marker.job));
    gate_wait_for(&gate, 1);
    const uint64_t start_ns = sluice_clock_ns();
    while (sluice_clock_ns() - start_ns < 20000000)
        ;
    gate_open(&gate);
    gate_wait_for(&last, 1);
    CU_ASSERT(sluice_worker_pool_stats(pool).busy_ns < 15000000);
    gate_open(&last);
    sluice_worker_pool_destroy(pool, SLUICE_POOL_DRAIN);
}

#define MAX_WORKERS 256

struct worker_state {
    unsigned index;
    pthread_t thread;
};

struct start_ctx {
    atomic_uint num_started, num_stopped, num_on_wrong_thread;
    atomic_uint num_of_index[MAX_WORKERS];
    unsigned failing_index; /* MAX_WORKERS: none */
};

static sluice_status start_worker(void *arg, unsigned index, void **worker)
{
    struct start_ctx *ctx = arg;
    if (index == ctx->failing_index)
        return SLUICE_E_UNSUPPORTED;
    struct worker_state *state = malloc(sizeof(*state));
    if (!state)
        abort();
    *state = (struct worker_state){index, pthread_self()};
    atomic_fetch_add(&ctx->num_started, 1);
    if (index < MAX_WORKERS)
        atomic_fetch_add(&ctx->num_of_index[index], 1);
    *worker = state;
    return SLUICE_OK;
}

static void stop_worker(void *arg, void *worker)
{
    struct start_ctx *ctx = arg;
    struct worker_state *state = worker;
    atomic_fetch_add(&ctx->num_stopped, 1);
    if (!pthread_equal(state->thread, pthread_self()))
        atomic_fetch_add(&ctx->num_on_wrong_thread, 1);
    free(state);
}

struct state_job {
    struct sluice_job job;
    struct gate *gate;
    unsigned index;
    bool is_on_own_thread;
};

static void state_job_fn(struct sluice_job *job, enum sluice_job_fate fate, void *worker)
{
    (void)fate;
    struct state_job *my = (struct state_job *)job;
    const struct worker_state *state = worker;
    my->index = state->index;
    my->is_on_own_thread = pthread_equal(state->thread, pthread_self());
    gate_pass(my->gate);
}

TEST(each_worker_has_its_own_state_on_its_own_thread)
{
    enum { NUM_WORKERS = 4 };
    struct start_ctx ctx = {.failing_index = MAX_WORKERS};
    const struct sluice_worker_pool_options options = {.name = "state",
                                                       .num_workers = NUM_WORKERS,
                                                       .queue_capacity = NUM_WORKERS,
                                                       .worker_start = start_worker,
                                                       .worker_stop = stop_worker,
                                                       .ctx = &ctx};
    struct sluice_worker_pool *pool = NULL;
    REQUIRE_OK(sluice_worker_pool_create(&options, &pool, NULL));
    CU_ASSERT_EQUAL(ctx.num_started, NUM_WORKERS); /* before create returned */

    /* All at the gate at once: one job for each worker. */
    struct gate gate = GATE_INIT;
    struct state_job jobs[NUM_WORKERS];
    for (int i = 0; i < NUM_WORKERS; i++) {
        jobs[i] = (struct state_job){.job.fn = state_job_fn, .gate = &gate};
        CHECK_OK(sluice_worker_pool_try_submit(pool, &jobs[i].job));
    }
    gate_wait_for(&gate, NUM_WORKERS);
    CU_ASSERT_EQUAL(ctx.num_stopped, 0);
    gate_open(&gate);
    sluice_worker_pool_destroy(pool, SLUICE_POOL_DRAIN);

    unsigned seen = 0;
    for (int i = 0; i < NUM_WORKERS; i++) {
        CU_ASSERT_EQUAL(ctx.num_of_index[i], 1);
        CU_ASSERT_TRUE(jobs[i].is_on_own_thread);
        seen |= 1u << jobs[i].index;
    }
    CU_ASSERT_EQUAL(seen, (1u << NUM_WORKERS) - 1);
    CU_ASSERT_EQUAL(ctx.num_stopped, NUM_WORKERS);
    CU_ASSERT_EQUAL(ctx.num_on_wrong_thread, 0);
}

static struct sluice_worker_pool_options four_workers(struct start_ctx *ctx)
{
    return (struct sluice_worker_pool_options){
        .name = "prep",
        .num_workers = 4,
        .queue_capacity = 1,
        .worker_start = start_worker,
        .worker_stop = stop_worker,
        .ctx = ctx,
    };
}

TEST(a_failed_start_stops_the_others_and_says_why)
{
    for (unsigned failing = 0; failing < 4; failing++) {
        struct start_ctx ctx = {.failing_index = failing};
        const struct sluice_worker_pool_options options = four_workers(&ctx);
        struct sluice_worker_pool *pool = (struct sluice_worker_pool *)&ctx;
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(sluice_worker_pool_create(&options, &pool, &err), SLUICE_E_UNSUPPORTED);
        CU_ASSERT_PTR_EQUAL(pool, &ctx);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "prep"));
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "unsupported"));
        CU_ASSERT_EQUAL(ctx.num_started, 3);
        CU_ASSERT_EQUAL(ctx.num_stopped, 3);
    }
}

/* Linked with --wrap: the thread that cannot be made. */
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
                          void *arg);
static int threads_until_failure = -1;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
                          void *arg)
{
    if (threads_until_failure == 0)
        return 11; /* EAGAIN */
    if (threads_until_failure > 0)
        threads_until_failure--;
    return __real_pthread_create(thread, attr, fn, arg);
}

TEST(a_thread_that_cannot_be_made_stops_the_others)
{
    for (int made = 0; made < 3; made++) {
        struct start_ctx ctx = {.failing_index = MAX_WORKERS};
        const struct sluice_worker_pool_options options = four_workers(&ctx);
        struct sluice_worker_pool *pool = NULL;
        struct sluice_err err = {0};
        threads_until_failure = made;
        CU_ASSERT_EQUAL(sluice_worker_pool_create(&options, &pool, &err), SLUICE_E_IO);
        threads_until_failure = -1;
        CU_ASSERT_PTR_NULL(pool);
        CU_ASSERT(err.text[0] != 0);
        CU_ASSERT_EQUAL(ctx.num_started, (unsigned)made);
        CU_ASSERT_EQUAL(ctx.num_stopped, (unsigned)made);
    }
}

TEST(zero_workers_means_one_for_each_cpu)
{
    struct start_ctx ctx = {.failing_index = ~0u};
    const struct sluice_worker_pool_options options = {.name = "cpus",
                                                       .queue_capacity = 1,
                                                       .worker_start = start_worker,
                                                       .worker_stop = stop_worker,
                                                       .ctx = &ctx};
    struct sluice_worker_pool *pool = NULL;
    REQUIRE_OK(sluice_worker_pool_create(&options, &pool, NULL));
    CU_ASSERT_EQUAL(ctx.num_started, sluice_cpu_count());
    sluice_worker_pool_destroy(pool, SLUICE_POOL_DRAIN);
}

TEST(threads_carry_the_pools_name)
{
    static const struct {
        const char *name, *expected;
    } cases[] = {{"prep", "prep-0"}, {"a-name-longer-than-that", "a-name-longer-0"}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        const struct sluice_worker_pool_options options = {
            .name = cases[i].name, .num_workers = 1, .queue_capacity = 1};
        struct sluice_worker_pool *pool = NULL;
        struct test_job job = make_job(NULL);
        REQUIRE_OK(sluice_worker_pool_create(&options, &pool, NULL));
        CHECK_OK(sluice_worker_pool_try_submit(pool, &job.job));
        sluice_worker_pool_destroy(pool, SLUICE_POOL_DRAIN);
        CU_ASSERT_STRING_EQUAL(job.thread_name, cases[i].expected);
    }
}

TEST(workers_do_not_interrupt_who_submits)
{
    const struct sched_param param = {0};
    const int own = sched_getscheduler(0);
    int expected = own;
    if (own == SCHED_OTHER && sched_setscheduler(0, SCHED_BATCH, &param) == 0) {
        expected = SCHED_BATCH;
        CU_ASSERT_EQUAL(sched_setscheduler(0, own, &param), 0);
    }
    struct sluice_worker_pool *pool = new_pool(1, 1);
    struct test_job job = make_job(NULL);
    CHECK_OK(sluice_worker_pool_try_submit(pool, &job.job));
    sluice_worker_pool_destroy(pool, SLUICE_POOL_DRAIN);
    CU_ASSERT_EQUAL(job.policy, expected);
    CU_ASSERT_EQUAL(sched_getscheduler(0), own);
}

static void await_workers(struct sluice_worker_pool *pool, unsigned count)
{
    while (sluice_worker_pool_stats(pool).num_workers != count)
        sched_yield();
}

TEST(stand_ins_work_while_others_hang_and_leave_when_they_are_back)
{
    struct sluice_worker_pool *pool = NULL;
    const struct sluice_worker_pool_options options = {
        .num_workers = 1, .queue_capacity = 8, .max_stand_ins = 2};
    REQUIRE_OK(sluice_worker_pool_create(&options, &pool, NULL));
    for (int round = 0; round < 3; round++) {
        struct gate gate = GATE_INIT, other = GATE_INIT;
        struct test_job hangs = make_job(&gate), hangs_too = make_job(&other);
        struct test_job runs = make_job(NULL);
        CHECK_OK(sluice_worker_pool_try_submit(pool, &hangs.job));
        gate_wait_for(&gate, 1);
        CHECK_OK(sluice_worker_pool_stand_in(pool, 1, NULL));
        CHECK_OK(sluice_worker_pool_try_submit(pool, &hangs_too.job));
        gate_wait_for(&other, 1);
        /* More hang than there may be stand-ins. */
        CHECK_OK(sluice_worker_pool_stand_in(pool, 5, NULL));
        await_workers(pool, 3);
        CHECK_OK(sluice_worker_pool_try_submit(pool, &runs.job));
        while (sluice_worker_pool_stats(pool).run < (uint64_t)round * 3 + 1)
            sched_yield();
        gate_open(&gate);
        gate_open(&other);
        CHECK_OK(sluice_worker_pool_stand_in(pool, 0, NULL));
        await_workers(pool, 1);
        while (sluice_worker_pool_stats(pool).run < (uint64_t)round * 3 + 3)
            sched_yield();
    }
    sluice_worker_pool_destroy(pool, SLUICE_POOL_DRAIN);
}

TEST(refuses_a_queue_of_no_capacity)
{
    const struct sluice_worker_pool_options options = {.name = "none", .num_workers = 1};
    struct sluice_worker_pool *pool = NULL;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_worker_pool_create(&options, &pool, &err), SLUICE_E_INVALID);
    CU_ASSERT_PTR_NULL(pool);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "none"));
}

TEST(destroy_takes_null)
{
    sluice_worker_pool_destroy(NULL, SLUICE_POOL_DRAIN);
    sluice_worker_pool_destroy(NULL, SLUICE_POOL_ABANDON);
}
