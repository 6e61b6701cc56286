#include "datasets/manifest/manifest.h"
#include "storage_server/data/sample_list.h"
#include "storage_server/fetch/stream.h"
#include "support/test.h"

static unsigned num_advanced;

static void count_advance(struct sluice_fetch_stream *s)
{
    (void)s;
    num_advanced++;
}

/* Runs a job of the stream with this fate; returns it, ready to be sent. */
static struct sluice_fetch_job *run(struct sluice_fetch_stream *s, enum sluice_job_fate fate)
{
    struct sluice_fetch_job *job = calloc(1, sizeof(*job));
    CU_ASSERT_PTR_NOT_NULL_FATAL(job);
    job->stream = sluice_fetch_stream_ref(s);
    job->reply.request_id = job->request.request_id = 7;
    s->ready_end = &s->ready;
    s->num_working = 1;
    num_advanced = 0;
    sluice_fetch_run_job(&job->job, fate, NULL);
    CU_ASSERT_EQUAL(num_advanced, 1);
    CU_ASSERT_EQUAL(s->num_working, 0);
    CU_ASSERT_PTR_EQUAL_FATAL(s->ready, job);
    CU_ASSERT_EQUAL(job->reply.request_id, 7);
    return job;
}

/* It has no list of samples, so whoever looked for the file would fail. */
TEST(a_job_of_a_stream_that_is_over_is_closed_without_work)
{
    struct sluice_fetch fetch = {.advance = count_advance};
    struct sluice_fetch_stream s = {.refs = 1, .phase = SLUICE_FETCH_OVER, .fetch = &fetch};
    pthread_mutex_init(&s.lock, NULL);
    struct sluice_fetch_job *job = run(&s, SLUICE_JOB_CANCEL);
    CU_ASSERT_EQUAL(job->reply.status, SLUICE_E_CLOSED);
    sluice_fetch_job_free(job);
    CU_ASSERT_EQUAL(atomic_load(&s.refs), 1);
    pthread_mutex_destroy(&s.lock);
}

TEST(a_job_that_no_worker_can_take_is_answered_with_io)
{
    struct sluice_manifest manifest = {0};
    struct sluice_sample_list list = {.manifest = &manifest};
    struct sluice_fetch fetch = {.advance = count_advance};
    struct sluice_fetch_stream s = {
        .refs = 1, .phase = SLUICE_FETCH_DRAINING, .fetch = &fetch, .list = &list};
    pthread_mutex_init(&s.lock, NULL);
    struct sluice_fetch_job *job = run(&s, SLUICE_JOB_CANCEL);
    CU_ASSERT_EQUAL(job->reply.status, SLUICE_E_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(job->reply.error, "every worker hangs"));
    sluice_fetch_job_free(job);
    CU_ASSERT_EQUAL(atomic_load(&s.refs), 1);
    pthread_mutex_destroy(&s.lock);
}

TEST(a_job_is_charged_for_itself_and_its_payload)
{
    const struct sluice_fetch_job job = {0};
    const size_t none = sluice_fetch_charge_for(&job, 0);
    CU_ASSERT(none >= sizeof(job));
    for (size_t bytes = 1; bytes < (size_t)1 << 26; bytes *= 3)
        CU_ASSERT(sluice_fetch_charge_for(&job, bytes) >= sizeof(job) + bytes);
}
