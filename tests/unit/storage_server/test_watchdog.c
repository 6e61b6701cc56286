#include "storage_server/observe/watchdog.h"

#include "base/clock.h"
#include "base/cond.h"
#include "storage_server/services/health.h"
#include "storage_server/session/session.h"
#include "storage_server/tuning.h"
#include "support/test.h"

#include <pthread.h>

#define TIMEOUT_NS 20000000u

static struct sluice_workers *workers;
static struct sluice_work_client *client;
static struct sluice_sessions *sessions;
static struct sluice_health *health;
static struct sluice_watchdog *dog;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

/* A job that hangs until it is let go. */
struct hanging {
    struct sluice_job job;
    struct sluice_watched watched;
    struct sluice_late_answer answer;
    bool hangs; /* under the lock, as is what follows */
    bool has_begun, was_refused, was_cancelled, is_done, is_late;
    unsigned num_answers;
    char text[100];
};

static void give(struct sluice_late_answer *answer)
{
    struct hanging *job = SLUICE_CONTAINER_OF(answer, struct hanging, answer);
    pthread_mutex_lock(&lock);
    job->num_answers++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static struct sluice_late_answer *answer(struct sluice_watched *watched, const char *text)
{
    struct hanging *job = SLUICE_CONTAINER_OF(watched, struct hanging, watched);
    snprintf(job->text, sizeof(job->text), "%s", text);
    return &job->answer;
}

static void run(struct sluice_job *base, enum sluice_job_fate fate, void *worker)
{
    (void)worker;
    struct hanging *job = SLUICE_CONTAINER_OF(base, struct hanging, job);
    bool is_ours = true;
    if (fate == SLUICE_JOB_RUN) {
        sluice_workers_started(workers);
        const bool is_refused = sluice_watchdog_begin(dog, &job->watched, NULL) != SLUICE_OK;
        pthread_mutex_lock(&lock);
        job->was_refused = is_refused;
        job->has_begun = true;
        pthread_cond_broadcast(&changed);
        while (job->hangs && !is_refused)
            pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
        if (!is_refused)
            is_ours = sluice_watchdog_end(dog, &job->watched);
    }
    pthread_mutex_lock(&lock);
    job->was_cancelled = fate == SLUICE_JOB_CANCEL;
    job->is_late = !is_ours;
    job->is_done = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static struct hanging make(const char *path, bool hangs)
{
    return (struct hanging){
        .job = {.fn = run},
        .watched = {.path = path, .group = SLUICE_GROUP_IO, .answer = answer},
        .answer = {.give = give},
        .hangs = hangs,
    };
}

static void submit(struct hanging *job)
{
    REQUIRE_OK(sluice_workers_try(workers, client, SLUICE_GROUP_IO, &job->job));
}

static void await(const bool *flag)
{
    pthread_mutex_lock(&lock);
    while (!*flag)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void await_answer(struct hanging *job)
{
    pthread_mutex_lock(&lock);
    while (!job->num_answers)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void let_go(struct hanging *job)
{
    pthread_mutex_lock(&lock);
    job->hangs = false;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    await(&job->is_done);
}

static void start(void)
{
    const struct sluice_workers_options options = {.prep_workers = 1, .io_workers = 1, .queue = 64};
    REQUIRE_OK(sluice_workers_create(&options, &workers, NULL));
    REQUIRE_OK(sluice_sessions_create(&sessions, NULL));
    struct sluice_session *session = sluice_session_open(sessions, "a client");
    client = sluice_workers_join(workers, session, "a client");
    sluice_session_unref(session);
    REQUIRE_OK(sluice_health_create(false, &health, NULL));
    const struct sluice_watchdog_options watch = {
        .timeout_ns = TIMEOUT_NS, .workers = workers, .health = health};
    REQUIRE_OK(sluice_watchdog_create(&watch, &dog, NULL));
}

static void end(void)
{
    sluice_watchdog_stop(dog);
    sluice_workers_leave(workers, client);
    sluice_workers_destroy(workers);
    sluice_sessions_destroy(sessions);
    sluice_watchdog_destroy(dog);
    sluice_health_destroy(health);
}

TEST(who_hangs_is_answered_once_and_another_stands_in)
{
    start();
    struct hanging stuck = make("stuck.jpg", true), next = make("next.jpg", false);
    submit(&stuck);
    await_answer(&stuck);
    CU_ASSERT_STRING_EQUAL(stuck.text, "not read within 0.02 s");
    CU_ASSERT_EQUAL(sluice_watchdog_num_stuck(dog), 1);
    submit(&next); /* the only worker hangs */
    await(&next.is_done);
    CU_ASSERT_FALSE(next.was_cancelled);
    let_go(&stuck);
    CU_ASSERT(stuck.is_late);
    CU_ASSERT_EQUAL(stuck.num_answers, 1);
    CU_ASSERT_EQUAL(sluice_watchdog_num_stuck(dog), 0);
    CU_ASSERT_EQUAL(sluice_watchdog_num_timeouts(dog), 1);
    end();
}

TEST(a_file_that_hangs_is_refused_until_it_returns)
{
    start();
    struct hanging stuck = make("stuck.jpg", true), again = make("stuck.jpg", false), after = again;
    submit(&stuck);
    await_answer(&stuck);
    submit(&again);
    await(&again.is_done);
    CU_ASSERT(again.was_refused);
    let_go(&stuck);
    submit(&after);
    await(&after.is_done);
    CU_ASSERT_FALSE(after.was_refused);
    end();
}

TEST(when_all_hang_who_waits_is_answered)
{
    enum { NUM_THREADS = 1 + WATCHDOG_MAX_STAND_INS };
    static const char *const paths[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8"};
    start();
    struct hanging stuck[NUM_THREADS], waits = make("waits.jpg", false);
    CU_ASSERT_EQUAL_FATAL(sizeof(paths) / sizeof(paths[0]), NUM_THREADS);
    for (unsigned i = 0; i < NUM_THREADS; i++) {
        stuck[i] = make(paths[i], true);
        submit(&stuck[i]);
        await(&stuck[i].has_begun);
    }
    submit(&waits);
    await(&waits.is_done);
    CU_ASSERT(waits.was_cancelled);
    for (unsigned i = 0; i < NUM_THREADS; i++) {
        await_answer(&stuck[i]);
        let_go(&stuck[i]);
    }
    end();
}

TEST(who_is_in_time_is_left_alone)
{
    start();
    struct hanging job = make("good.jpg", false);
    for (int i = 0; i < 100; i++) {
        job.is_done = false;
        submit(&job);
        await(&job.is_done);
        if (job.num_answers == 0) /* the machine may have stopped it for so long */
            CU_ASSERT_FALSE(job.is_late);
        job.num_answers = 0;
    }
    end();
}
