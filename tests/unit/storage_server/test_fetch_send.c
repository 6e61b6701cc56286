#include "storage_server/fetch/stream.h"
#include "storage_server/session/grant.h"
#include "support/test.h"

#define S UINT64_C(1000000000)

/* A job of the stream, as it is handed to the workers: the grant's CPU time is reserved. */
static struct sluice_fetch_job *make_job(struct sluice_fetch_stream *s, uint64_t reserved_ns)
{
    struct sluice_fetch_job *job = calloc(1, sizeof(*job));
    CU_ASSERT_PTR_NOT_NULL_FATAL(job);
    job->stream = sluice_fetch_stream_ref(s);
    job->reserved_ns = reserved_ns;
    return job;
}

/* Whether it was cancelled, expired in its queue, or lost to the watchdog: it is freed as it is. */
TEST(a_job_that_is_freed_returns_what_it_reserved)
{
    const struct sluice_token_entry entry = {.cores = 1};
    struct sluice_fetch_stream s = {.refs = 1};
    uint64_t reserved_ns = 0, none_ns = 0;
    REQUIRE_OK(sluice_grant_create(&entry, S, &s.grant, NULL));
    for (unsigned i = 0; i < 3; i++) { /* at one time: nothing is earned meanwhile */
        CU_ASSERT(sluice_grant_take_cpu(s.grant, S, &reserved_ns));
        CU_ASSERT(reserved_ns > 0);
        struct sluice_fetch_job *job = make_job(&s, reserved_ns);
        CU_ASSERT_FALSE(sluice_grant_take_cpu(s.grant, S, &none_ns));
        sluice_fetch_job_free(job);
    }
    /* One that ran has settled, and has nothing to return. */
    CU_ASSERT(sluice_grant_take_cpu(s.grant, S, &reserved_ns));
    struct sluice_fetch_job *job = make_job(&s, reserved_ns);
    sluice_grant_settle_cpu(s.grant, reserved_ns, reserved_ns);
    job->reserved_ns = 0;
    sluice_fetch_job_free(job);
    CU_ASSERT_FALSE(sluice_grant_take_cpu(s.grant, S, &none_ns));
    CU_ASSERT_EQUAL(atomic_load(&s.refs), 1);
    sluice_grant_unref(s.grant);
}
