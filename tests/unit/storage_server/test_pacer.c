#include "storage_server/session/pacer.h"

#include "storage_server/session/grant.h"
#include "storage_server/session/rate_limit.h"
#include "storage_server/session/session.h"
#include "support/test.h"

#define S UINT64_C(1000000000)
#define MB 1000000.0

static struct sluice_rate_limit limit;
static struct sluice_sessions *sessions;

static void begin(double bytes_per_s)
{
    sluice_rate_limit_init(&limit, bytes_per_s, S);
    CU_ASSERT_EQUAL_FATAL(sluice_sessions_create(&sessions, NULL), SLUICE_OK);
}

static void end(void)
{
    sluice_sessions_destroy(sessions);
    sluice_rate_limit_clear(&limit);
}

static struct sluice_pacer *must_open(const char *peer, struct sluice_grant *grant)
{
    struct sluice_pacer *pacer = sluice_pacer_open(&limit, sessions, peer, grant);
    CU_ASSERT_PTR_NOT_NULL_FATAL(pacer);
    return pacer;
}

/* Each asks whenever it may, for two seconds; sent[i] gets its bytes. */
static void send_side_by_side(struct sluice_pacer *const *pacers, unsigned num, double *sent)
{
    uint64_t at_ns[4] = {S, S, S, S};
    for (;;) {
        unsigned next = 0;
        for (unsigned i = 1; i < num; i++)
            next = at_ns[i] < at_ns[next] ? i : next;
        if (at_ns[next] >= 3 * S)
            return;
        const uint64_t wait_ns = sluice_pacer_take(&limit, pacers[next], 10000, at_ns[next]);
        sent[next] += wait_ns ? 0 : 10000;
        at_ns[next] += wait_ns ? wait_ns : 1;
    }
}

TEST(calls_of_one_client_have_one_share)
{
    begin(10 * MB);
    struct sluice_pacer *pacers[] = {must_open("ipv4:10.0.0.1:1", NULL),
                                     must_open("ipv4:10.0.0.1:2", NULL),
                                     must_open("ipv4:10.0.0.2:1", NULL)};
    double sent[3] = {0};
    send_side_by_side(pacers, 3, sent);
    CU_ASSERT_DOUBLE_EQUAL(sent[0] + sent[1], sent[2], 1.1 * MB);
    CU_ASSERT(sent[2] >= 8 * MB);
    for (unsigned i = 0; i < 3; i++)
        sluice_pacer_close(pacers[i]);
    end();
}

TEST(a_token_keeps_its_own_rate)
{
    const struct sluice_token_entry entry = {.bytes_per_s = MB};
    struct sluice_grant *grant = NULL;
    begin(10 * MB);
    CU_ASSERT_EQUAL_FATAL(sluice_grant_create(&entry, S, &grant, NULL), SLUICE_OK);
    struct sluice_pacer *pacers[] = {must_open("ipv4:10.0.0.1:1", grant),
                                     must_open("ipv4:10.0.0.2:1", NULL)};
    sluice_grant_unref(grant); /* the pacer has its own reference */
    double sent[2] = {0};
    send_side_by_side(pacers, 2, sent);
    CU_ASSERT_DOUBLE_EQUAL(sent[0], 2 * MB, 0.2 * MB);
    CU_ASSERT_DOUBLE_EQUAL(sent[0] + sent[1], 20 * MB, MB);
    sluice_pacer_close(pacers[0]);
    sluice_pacer_close(pacers[1]);
    end();
}

TEST(who_has_no_pacer_waits_for_the_link_alone)
{
    begin(MB);
    struct sluice_pacer *pacer = must_open("ipv4:10.0.0.1:1", NULL);
    CU_ASSERT_EQUAL(sluice_pacer_take(&limit, NULL, 50000, S), 0); /* into debt */
    CU_ASSERT(sluice_pacer_take(&limit, pacer, 1000, S) > 0);
    CU_ASSERT(sluice_pacer_take(&limit, NULL, 1000, S) > 0);
    CU_ASSERT_EQUAL(sluice_pacer_take(&limit, NULL, 1000, 2 * S), 0); /* though one waits */
    sluice_pacer_close(pacer);
    end();
}
