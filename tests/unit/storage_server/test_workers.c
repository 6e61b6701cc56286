#include "storage_server/work/workers.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "op/pipeline.h"
#include "storage_server/session/session.h"
#include "storage_server/work/prep_limits.h"
#include "support/test.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/resource.h>

static struct sluice_workers *workers;
static struct sluice_work_client *client;

static struct sluice_prep_limits *limits;

/* The clock runs, and the test puts it forward (--wrap). */
static atomic_uint_fast64_t skipped_ns;
uint64_t __real_sluice_clock_ns(void);
uint64_t __wrap_sluice_clock_ns(void);
uint64_t __wrap_sluice_clock_ns(void)
{
    return __real_sluice_clock_ns() + atomic_load(&skipped_ns);
}

/* How often this thread has read the number of cores, and what is read instead of the machine's,
 * if that is not 0 (--wrap). */
static _Thread_local unsigned num_own_reads;
static atomic_uint cores_to_read;
double __real_sluice_prep_limits_cores(const struct sluice_prep_limits *its, pid_t tid);
double __wrap_sluice_prep_limits_cores(const struct sluice_prep_limits *its, pid_t tid);
double __wrap_sluice_prep_limits_cores(const struct sluice_prep_limits *its, pid_t tid)
{
    num_own_reads++;
    const unsigned cores = atomic_load(&cores_to_read);
    return cores ? cores : __real_sluice_prep_limits_cores(its, tid);
}

static double offer_after(unsigned ms)
{
    atomic_fetch_add(&skipped_ns, ms * 1000000ull);
    return sluice_workers_offer(workers).cpu_price;
}

static struct sluice_sessions *sessions;

static struct sluice_work_client *join(const char *name)
{
    struct sluice_session *session = sluice_session_open(sessions, name);
    struct sluice_work_client *joined = sluice_workers_join(workers, session, name);
    sluice_session_unref(session);
    return joined;
}

static void create(unsigned prep_workers, size_t queue)
{
    const struct sluice_workers_options options = {
        .prep_workers = prep_workers,
        .io_workers = 1,
        .queue = queue,
        .limits = limits,
    };
    REQUIRE_OK(sluice_workers_create(&options, &workers, NULL));
    client = join("a client");
}

static void destroy(void)
{
    sluice_workers_leave(workers, client);
    sluice_workers_destroy(workers);
}

static void await(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0)
        ;
}

/* A job that says when it starts and waits to be let go. */
struct held_job {
    struct sluice_job job;
    sem_t has_started, may_end;
    void *worker;
};

static void run_held(struct sluice_job *job, enum sluice_job_fate fate, void *worker)
{
    struct held_job *held = SLUICE_CONTAINER_OF(job, struct held_job, job);
    (void)fate;
    held->worker = worker;
    sem_post(&held->has_started);
    await(&held->may_end);
    sluice_workers_started(workers);
}

static void hold(struct held_job *held, enum sluice_worker_group group)
{
    held->job.fn = run_held;
    sem_init(&held->has_started, 0, 0);
    sem_init(&held->may_end, 0, 0);
    REQUIRE_OK(sluice_workers_try(workers, client, group, &held->job));
}

struct quick_job {
    struct sluice_job job;
    sem_t *done;
};

static void run_quick(struct sluice_job *job, enum sluice_job_fate fate, void *worker)
{
    struct quick_job *quick = SLUICE_CONTAINER_OF(job, struct quick_job, job);
    (void)fate, (void)worker;
    sluice_workers_started(workers);
    sem_post(quick->done);
}

TEST(prep_jobs_get_a_scratch_and_io_jobs_none)
{
    create(1, 4);
    struct held_job prep, io;
    hold(&prep, SLUICE_GROUP_PREP);
    hold(&io, SLUICE_GROUP_IO);
    await(&prep.has_started);
    await(&io.has_started);
    CU_ASSERT_PTR_NOT_NULL(prep.worker);
    CU_ASSERT_PTR_NULL(io.worker);
    CU_ASSERT(sluice_workers_prep_cores(workers) > 0 && sluice_workers_prep_cores(workers) <= 1);
    CU_ASSERT_EQUAL(sluice_workers_stats(workers, SLUICE_GROUP_IO).submitted, 1);
    sem_post(&prep.may_end);
    sem_post(&io.may_end);
    destroy();
}

/* A job that notes when its turn came. */
struct noting_job {
    struct sluice_job job;
    unsigned *turns, turn;
};

static void run_noting(struct sluice_job *job, enum sluice_job_fate fate, void *worker)
{
    struct noting_job *noting = SLUICE_CONTAINER_OF(job, struct noting_job, job);
    (void)fate, (void)worker;
    sluice_workers_started(workers);
    noting->turn = ++*noting->turns;
}

TEST(a_client_with_little_does_not_wait_for_one_with_much)
{
    create(1, 64);
    struct sluice_work_client *other = join("another");
    CU_ASSERT_PTR_EQUAL(join("another"), other);
    struct held_job running;
    hold(&running, SLUICE_GROUP_PREP);
    await(&running.has_started);
    unsigned turns = 0; /* the one worker's, until it is joined */
    struct noting_job much[20], little[2];
    for (int i = 0; i < 20; i++) {
        much[i] = (struct noting_job){.job.fn = run_noting, .turns = &turns};
        REQUIRE_OK(sluice_workers_try(workers, client, SLUICE_GROUP_PREP, &much[i].job));
    }
    for (int i = 0; i < 2; i++) {
        little[i] = (struct noting_job){.job.fn = run_noting, .turns = &turns};
        REQUIRE_OK(sluice_workers_try(workers, other, SLUICE_GROUP_PREP, &little[i].job));
    }
    sem_post(&running.may_end);
    sluice_workers_leave(workers, other); /* twice, while it has jobs */
    sluice_workers_leave(workers, other);
    destroy();
    CU_ASSERT_EQUAL(turns, 22);
    CU_ASSERT_EQUAL(little[0].turn, 1);
    CU_ASSERT(little[1].turn < 22);
    for (int i = 0; i + 1 < 20; i++)
        CU_ASSERT(much[i].turn < much[i + 1].turn);
}

TEST(a_client_cannot_take_all_places)
{
    create(1, 16);
    struct sluice_work_client *other = join("another");
    struct held_job running;
    hold(&running, SLUICE_GROUP_PREP);
    await(&running.has_started);
    sem_t done;
    sem_init(&done, 0, 0);
    struct quick_job jobs[17];
    unsigned taken = 0;
    for (; taken < 16; taken++) {
        jobs[taken] = (struct quick_job){.job.fn = run_quick, .done = &done};
        if (sluice_workers_try(workers, client, SLUICE_GROUP_PREP, &jobs[taken].job) != SLUICE_OK)
            break;
    }
    CU_ASSERT_EQUAL(taken, 12);
    jobs[16] = (struct quick_job){.job.fn = run_quick, .done = &done};
    CHECK_OK(sluice_workers_try(workers, other, SLUICE_GROUP_PREP, &jobs[16].job));
    sem_post(&running.may_end);
    sluice_workers_leave(workers, other);
    destroy();
    sem_destroy(&done);
}

struct counting_waiter {
    struct sluice_waiter waiter;
    atomic_uint calls;
    bool is_served;
    sem_t called;
};

static bool count_call(struct sluice_waiter *waiter)
{
    struct counting_waiter *counting = SLUICE_CONTAINER_OF(waiter, struct counting_waiter, waiter);
    atomic_fetch_add(&counting->calls, 1);
    sem_post(&counting->called);
    return counting->is_served;
}

static void init_waiter(struct counting_waiter *waiter, bool is_served)
{
    *waiter = (struct counting_waiter){.waiter = {.fn = count_call}, .is_served = is_served};
    sem_init(&waiter->called, 0, 0);
}

TEST(a_wait_after_a_start_is_refused)
{
    create(1, 1);
    struct held_job running;
    hold(&running, SLUICE_GROUP_IO);
    await(&running.has_started);
    const uint64_t moment = sluice_workers_moment(workers);
    sem_t done;
    sem_init(&done, 0, 0);
    struct quick_job queued = {.job = {.fn = run_quick}, .done = &done}, full = queued;
    CHECK_OK(sluice_workers_try(workers, client, SLUICE_GROUP_IO, &queued.job));
    CU_ASSERT_EQUAL(sluice_workers_try(workers, client, SLUICE_GROUP_IO, &full.job),
                    SLUICE_E_AGAIN);
    sem_post(&running.may_end);
    await(&done);
    struct counting_waiter waiter;
    init_waiter(&waiter, true);
    CU_ASSERT_FALSE(sluice_workers_wait(workers, client, &waiter.waiter, moment));
    destroy();
    CU_ASSERT_EQUAL(atomic_load(&waiter.calls), 0);
}

TEST(a_start_calls_waiters_until_one_finds_no_room)
{
    create(1, 1);
    struct held_job running;
    hold(&running, SLUICE_GROUP_IO);
    await(&running.has_started);
    struct counting_waiter first, second, third;
    init_waiter(&first, true);
    init_waiter(&second, false);
    init_waiter(&third, true);
    const uint64_t moment = sluice_workers_moment(workers);
    CU_ASSERT(sluice_workers_wait(workers, client, &first.waiter, moment));
    CU_ASSERT(sluice_workers_wait(workers, client, &second.waiter, moment));
    CU_ASSERT(sluice_workers_wait(workers, client, &third.waiter, moment));
    sem_post(&running.may_end);
    await(&second.called);
    CU_ASSERT_EQUAL(atomic_load(&first.calls), 1);
    CU_ASSERT_EQUAL(atomic_load(&third.calls), 0);
    /* The end calls whoever is left. */
    destroy();
    CU_ASSERT_EQUAL(atomic_load(&first.calls), 1);
    CU_ASSERT_EQUAL(atomic_load(&second.calls), 1);
    CU_ASSERT_EQUAL(atomic_load(&third.calls), 1);
}

TEST(a_client_without_room_keeps_nobody_else_waiting)
{
    create(1, 1);
    struct sluice_work_client *other = join("another");
    struct held_job running;
    hold(&running, SLUICE_GROUP_IO);
    await(&running.has_started);
    struct counting_waiter refused, served;
    init_waiter(&refused, false);
    init_waiter(&served, true);
    const uint64_t moment = sluice_workers_moment(workers);
    CU_ASSERT(sluice_workers_wait(workers, other, &refused.waiter, moment));
    CU_ASSERT(sluice_workers_wait(workers, client, &served.waiter, moment));
    sem_post(&running.may_end);
    await(&served.called);
    await(&refused.called);
    sluice_workers_leave(workers, other);
    destroy();
    CU_ASSERT_EQUAL(atomic_load(&served.calls), 1);
}

/* Many submitters with many jobs each through a queue of one: every job runs, nobody hangs. */
struct submitter {
    struct quick_job job;
    struct sluice_waiter waiter;
    struct sluice_work_client *client;
    enum sluice_worker_group group;
    unsigned left;
    sem_t *done;
};

static bool submit_next(struct submitter *s)
{
    for (;;) {
        const uint64_t moment = sluice_workers_moment(workers);
        const sluice_status status = sluice_workers_try(workers, s->client, s->group, &s->job.job);
        if (status == SLUICE_OK)
            return true;
        CU_ASSERT_EQUAL_FATAL(status, SLUICE_E_AGAIN);
        if (sluice_workers_wait(workers, s->client, &s->waiter, moment))
            return false;
    }
}

static bool on_room(struct sluice_waiter *waiter)
{
    return submit_next(SLUICE_CONTAINER_OF(waiter, struct submitter, waiter));
}

static void run_again(struct sluice_job *job, enum sluice_job_fate fate, void *worker)
{
    struct submitter *s = SLUICE_CONTAINER_OF(job, struct submitter, job.job);
    (void)fate, (void)worker;
    sluice_workers_started(workers);
    if (--s->left == 0)
        sem_post(s->done);
    else
        submit_next(s);
}

TEST(nobody_waits_in_front_of_an_empty_queue)
{
    enum { NUM_SUBMITTERS = 12, NUM_JOBS = 300 };
    create(2, 1);
    sem_t done;
    sem_init(&done, 0, 0);
    struct submitter *submitters = calloc(NUM_SUBMITTERS, sizeof(*submitters));
    for (int i = 0; i < NUM_SUBMITTERS; i++) {
        submitters[i] = (struct submitter){
            .job = {.job = {.fn = run_again}},
            .waiter = {.fn = on_room},
            .client = join((const char *[]){"p", "q", "r", "s"}[i % 4]),
            .group = i % 3 ? SLUICE_GROUP_PREP : SLUICE_GROUP_IO,
            .left = NUM_JOBS,
            .done = &done,
        };
        submit_next(&submitters[i]);
    }
    for (int i = 0; i < NUM_SUBMITTERS; i++)
        await(&done);
    for (int i = 0; i < NUM_SUBMITTERS; i++)
        sluice_workers_leave(workers, submitters[i].client);
    const uint64_t run = sluice_workers_stats(workers, SLUICE_GROUP_PREP).run +
                         sluice_workers_stats(workers, SLUICE_GROUP_IO).run;
    CU_ASSERT(run >= NUM_SUBMITTERS * NUM_JOBS - 3); /* the last ones may not be counted yet */
    destroy();
    free(submitters);
}

/* A job that spends CPU time and asks what it cost, twice. */
struct costly_job {
    struct sluice_job job;
    uint64_t spend_ns, first_ns, second_ns, clock_ns;
    sem_t *done;
};

static void run_costly(struct sluice_job *job, enum sluice_job_fate fate, void *worker)
{
    struct costly_job *costly = SLUICE_CONTAINER_OF(job, struct costly_job, job);
    (void)fate, (void)worker;
    sluice_workers_started(workers);
    const uint64_t start_ns = sluice_thread_cpu_ns();
    while (sluice_thread_cpu_ns() - start_ns < costly->spend_ns)
        ;
    costly->first_ns = sluice_workers_job_cpu_ns();
    costly->second_ns = sluice_workers_job_cpu_ns();
    costly->clock_ns = sluice_thread_cpu_ns();
    sem_post(costly->done);
}

TEST(a_job_is_charged_what_its_thread_spent_since_the_last_one)
{
    create(1, 4);
    sem_t done;
    sem_init(&done, 0, 0);
    struct costly_job jobs[2];
    for (int i = 0; i < 2; i++) {
        jobs[i] = (struct costly_job){
            .job.fn = run_costly, .spend_ns = i ? 1000000 : 4000000, .done = &done};
        REQUIRE_OK(sluice_workers_try(workers, client, SLUICE_GROUP_IO, &jobs[i].job));
        await(&done);
        CU_ASSERT(jobs[i].first_ns >= jobs[i].spend_ns);
    }
    /* Nothing is charged twice, and nothing of the thread's time to nobody. */
    const uint64_t charged_ns =
        jobs[0].first_ns + jobs[0].second_ns + jobs[1].first_ns + jobs[1].second_ns;
    CU_ASSERT(charged_ns <= jobs[1].clock_ns);
    CU_ASSERT(charged_ns >= jobs[0].first_ns + jobs[1].spend_ns);
    CU_ASSERT(jobs[1].first_ns <= jobs[1].clock_ns - jobs[0].first_ns);
    destroy();
    sem_destroy(&done);
}

struct nice_job {
    struct sluice_job job;
    sem_t is_done;
    int nice;
};

static void run_nice(struct sluice_job *job, enum sluice_job_fate fate, void *worker)
{
    struct nice_job *nice = SLUICE_CONTAINER_OF(job, struct nice_job, job);
    (void)fate, (void)worker;
    sluice_workers_started(workers);
    nice->nice = getpriority(PRIO_PROCESS, 0);
    sem_post(&nice->is_done);
}

static int nice_of(enum sluice_worker_group group)
{
    struct nice_job nice = {.job = {.fn = run_nice}};
    sem_init(&nice.is_done, 0, 0);
    REQUIRE_OK(sluice_workers_try(workers, client, group, &nice.job));
    await(&nice.is_done);
    sem_destroy(&nice.is_done);
    return nice.nice;
}

TEST(limits_hold_for_both_groups)
{
    const int ours = getpriority(PRIO_PROCESS, 0);
    const struct sluice_prep_limits_options options = {.has_nice = true, .nice = 19};
    REQUIRE_OK(sluice_prep_limits_open(&options, &limits, NULL));
    create(1, 1);
    CU_ASSERT_EQUAL(nice_of(SLUICE_GROUP_PREP), 19);
    CU_ASSERT_EQUAL(nice_of(SLUICE_GROUP_IO), 19);
    CU_ASSERT_EQUAL(getpriority(PRIO_PROCESS, 0), ours);
    destroy();
    sluice_prep_limits_close(limits);
    limits = NULL;
    create(1, 1);
    CU_ASSERT_EQUAL(nice_of(SLUICE_GROUP_PREP), ours);
    CU_ASSERT_EQUAL(nice_of(SLUICE_GROUP_IO), ours);
    destroy();
}

TEST(cores_are_no_more_than_workers_or_cpus)
{
    const double cores = sluice_prep_limits_cores(NULL, 0);
    const unsigned counts[] = {1, sluice_cpu_count() + 3, 0}; /* 0: as many as cores */
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(counts); i++) {
        create(counts[i], 1);
        CU_ASSERT_EQUAL(sluice_workers_prep_cores(workers),
                        counts[i] ? fmin(counts[i], cores) : cores);
        CU_ASSERT_EQUAL(sluice_workers_offer(workers).prep_cores,
                        sluice_workers_prep_cores(workers));
        destroy();
    }
}

TEST(who_asks_for_the_cores_reads_no_files)
{
    create(8, 1);
    num_own_reads = 0;
    for (unsigned cores = 1; cores <= 8; cores++) {
        atomic_store(&cores_to_read, cores);
        while (sluice_workers_prep_cores(workers) != cores) {
            offer_after(60); /* the price is due, and the number old */
            sched_yield();
        }
        CU_ASSERT_EQUAL(sluice_workers_offer(workers).prep_cores, cores);
    }
    CU_ASSERT_EQUAL(num_own_reads, 0);
    destroy();
    atomic_store(&cores_to_read, 0);
}

TEST(the_offer_is_the_markets_price)
{
    create(1, 16);
    struct sluice_work_client *other = join("another");
    sem_t done;
    sem_init(&done, 0, 0);
    struct quick_job quick[2];
    for (int i = 0; i < 2; i++)
        quick[i] = (struct quick_job){{.fn = run_quick}, &done};
    sluice_workers_follow(workers, client);
    sluice_workers_follow(workers, other);
    sluice_workers_hear_worth(workers, client, 2);
    sluice_workers_hear_worth(workers, other, 8);
    CHECK_OK(sluice_workers_try(workers, client, SLUICE_GROUP_IO, &quick[0].job));
    await(&done);
    CU_ASSERT_EQUAL(offer_after(60), 0); /* the other asks for nothing */
    /* Now it does, and its job waits for PREP's only worker. */
    struct held_job running;
    hold(&running, SLUICE_GROUP_PREP);
    await(&running.has_started);
    CHECK_OK(sluice_workers_try(workers, other, SLUICE_GROUP_PREP, &quick[1].job));
    const double price = offer_after(60);
    CU_ASSERT(price > 2 * 0.49 && price < 8 * 2.1);
    CU_ASSERT_EQUAL(sluice_workers_offer(workers).cpu_price, price); /* the interval is not over */
    sem_post(&running.may_end);
    await(&done);
    sluice_workers_leave(workers, other);
    CU_ASSERT_EQUAL(offer_after(3100), 0);
    destroy();
    sem_destroy(&done);
}

/* A job that notes its fate. */
struct fated_job {
    struct sluice_job job;
    enum sluice_job_fate fate;
    unsigned calls;
};

static void run_fated(struct sluice_job *job, enum sluice_job_fate fate, void *worker)
{
    struct fated_job *fated = SLUICE_CONTAINER_OF(job, struct fated_job, job);
    (void)worker;
    if (fate == SLUICE_JOB_RUN)
        sluice_workers_started(workers);
    fated->fate = fate;
    fated->calls++;
}

static bool is_fated(const struct sluice_job *job, const void *ctx)
{
    (void)ctx;
    return job->fn == run_fated;
}

TEST(cancelled_jobs_leave_the_queue_at_once)
{
    create(1, 64);
    sluice_workers_follow(workers, client);
    struct held_job running;
    hold(&running, SLUICE_GROUP_PREP);
    await(&running.has_started);
    struct fated_job jobs[20] = {0};
    sem_t done;
    sem_init(&done, 0, 0);
    struct quick_job other = {.job.fn = run_quick, .done = &done};
    for (int round = 0; round < 5; round++) { /* their places are free again */
        for (int i = 0; i < 20; i++) {
            jobs[i].job.fn = run_fated;
            REQUIRE_OK(sluice_workers_try(workers, client, SLUICE_GROUP_PREP, &jobs[i].job));
        }
        CU_ASSERT_EQUAL(sluice_workers_stats(workers, SLUICE_GROUP_PREP).queue_depth, 20);
        CU_ASSERT_EQUAL(sluice_workers_cancel(workers, client, SLUICE_GROUP_PREP, is_fated, NULL),
                        20);
        CU_ASSERT_EQUAL(sluice_workers_stats(workers, SLUICE_GROUP_PREP).queue_depth, 0);
        for (int i = 0; i < 20; i++) {
            CU_ASSERT_EQUAL(jobs[i].calls, (unsigned)round + 1);
            CU_ASSERT_EQUAL(jobs[i].fate, SLUICE_JOB_CANCEL);
        }
    }
    /* One that was not meant is still run. */
    CHECK_OK(sluice_workers_try(workers, client, SLUICE_GROUP_PREP, &other.job));
    CU_ASSERT_EQUAL(sluice_workers_cancel(workers, client, SLUICE_GROUP_PREP, is_fated, NULL), 0);
    sem_post(&running.may_end);
    await(&done);
    destroy();
    sem_destroy(&done);
}

TEST(a_cancelled_job_makes_room_for_one_that_waits)
{
    create(1, 1);
    struct held_job running;
    hold(&running, SLUICE_GROUP_PREP);
    await(&running.has_started);
    struct fated_job first = {.job.fn = run_fated};
    CHECK_OK(sluice_workers_try(workers, client, SLUICE_GROUP_PREP, &first.job));
    struct counting_waiter waiter;
    init_waiter(&waiter, true);
    const uint64_t moment = sluice_workers_moment(workers);
    CU_ASSERT(sluice_workers_wait(workers, client, &waiter.waiter, moment));
    (void)sluice_workers_cancel(workers, client, SLUICE_GROUP_PREP, is_fated, NULL);
    CU_ASSERT_EQUAL(waiter.calls, 1);
    sem_post(&running.may_end);
    destroy();
}

int main(void)
{
    if (sluice_sessions_create(&sessions, NULL) != SLUICE_OK)
        return 1;
    const int result = sluice_test_main();
    sluice_sessions_destroy(sessions);
    return result;
}
