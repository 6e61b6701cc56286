#include "storage_server/session/grant.h"

#include "support/test.h"

#define S UINT64_C(1000000000)

static struct sluice_grant *make(const struct sluice_token_entry *entry)
{
    struct sluice_grant *grant = NULL;
    REQUIRE_OK(sluice_grant_create(entry, S, &grant, NULL));
    return grant;
}

TEST(nothing_limits_whom_nothing_was_granted)
{
    uint64_t reserved_ns = 7;
    CU_ASSERT(sluice_grant_enter(NULL, "ipv4:10.0.0.1:1"));
    CU_ASSERT(sluice_grant_may_read(NULL, SLUICE_SUBSET_VAL));
    CU_ASSERT(sluice_grant_take_cpu(NULL, S, &reserved_ns));
    CU_ASSERT_EQUAL(reserved_ns, 0);
    CU_ASSERT_EQUAL(sluice_grant_wait_ns(NULL, S), 0);
    CU_ASSERT_FALSE(sluice_grant_is_revoked(NULL));
    CU_ASSERT_EQUAL(sluice_grant_cores(NULL), 0);
    CU_ASSERT_STRING_EQUAL(sluice_grant_name(NULL), "");
    sluice_grant_spend(NULL, 1);
    sluice_grant_settle_cpu(NULL, 0, 1);
    sluice_grant_leave(NULL, "");
    sluice_grant_unref(sluice_grant_ref(NULL));
}

/* Work of 5 ms each is begun as often as may be for 10 s. */
TEST(cores_are_what_work_takes_over_time)
{
    const struct sluice_token_entry entry = {.cores = 0.5};
    struct sluice_grant *grant = make(&entry);
    const uint64_t job_ns = 5000000;
    uint64_t used_ns = 0;
    /* Up to eight at once, each a step longer in hand. */
    uint64_t in_hand[8] = {0};
    bool is_busy[8] = {false};
    for (uint64_t step = 0; step < 10000; step++) {
        const uint64_t now_ns = S + step * 1000000;
        const size_t place = step % 8;
        if (is_busy[place]) {
            sluice_grant_settle_cpu(grant, in_hand[place], job_ns);
            used_ns += job_ns;
        }
        is_busy[place] = sluice_grant_take_cpu(grant, now_ns, &in_hand[place]);
    }
    CU_ASSERT(used_ns > 49 * S / 10 && used_ns < 51 * S / 10);
    sluice_grant_unref(grant);
}

TEST(work_that_did_not_run_costs_nothing)
{
    const struct sluice_token_entry entry = {.cores = 1};
    struct sluice_grant *grant = make(&entry);
    uint64_t reserved_ns;
    CU_ASSERT(sluice_grant_take_cpu(grant, S, &reserved_ns));
    sluice_grant_settle_cpu(grant, reserved_ns, 400000000); /* far into debt */
    CU_ASSERT_FALSE(sluice_grant_take_cpu(grant, S + 300000000, &reserved_ns));
    CU_ASSERT(sluice_grant_take_cpu(grant, S + 400000001, &reserved_ns));
    CU_ASSERT(reserved_ns > 0);
    CU_ASSERT_FALSE(sluice_grant_take_cpu(grant, S + 400000001, &(uint64_t){0}));
    sluice_grant_settle_cpu(grant, reserved_ns, 0);
    CU_ASSERT(sluice_grant_take_cpu(grant, S + 400000001, &reserved_ns));
    sluice_grant_unref(grant);
}

TEST(bytes_go_at_the_rate)
{
    const struct sluice_token_entry entry = {.bytes_per_s = 1e6};
    struct sluice_grant *grant = make(&entry);
    uint64_t now_ns = S, sent = 0;
    while (now_ns < 11 * S) {
        const uint64_t wait_ns = sluice_grant_wait_ns(grant, now_ns);
        now_ns += wait_ns;
        if (!wait_ns) {
            sluice_grant_spend(grant, 300000);
            sent += 300000;
        }
    }
    CU_ASSERT(sent >= 10000000 && sent <= 10700000);
    sluice_grant_unref(grant);
}

TEST(connections_are_counted_while_they_have_calls)
{
    const struct sluice_token_entry entry = {.connections = 2};
    struct sluice_grant *grant = make(&entry);
    CU_ASSERT(sluice_grant_enter(grant, "a:1"));
    CU_ASSERT(sluice_grant_enter(grant, "a:1"));
    CU_ASSERT(sluice_grant_enter(grant, "b:2"));
    CU_ASSERT_FALSE(sluice_grant_enter(grant, "c:3"));
    sluice_grant_leave(grant, "a:1");
    CU_ASSERT_FALSE(sluice_grant_enter(grant, "c:3")); /* a call of a:1 is there still */
    sluice_grant_leave(grant, "a:1");
    CU_ASSERT(sluice_grant_enter(grant, "c:3"));
    sluice_grant_leave(grant, "never:1");
    CU_ASSERT_FALSE(sluice_grant_enter(grant, "d:4"));
    sluice_grant_unref(grant); /* with calls left */
}

TEST(limits_change_at_once)
{
    struct sluice_token_entry entry = {.name = "a", .may_train = true, .may_val = true};
    struct sluice_grant *grant = make(&entry);
    uint64_t reserved_ns;
    CU_ASSERT(sluice_grant_may_read(grant, SLUICE_SUBSET_VAL));
    sluice_grant_settle_cpu(grant, 0, 50 * S); /* no debt where there is no limit */
    sluice_grant_spend(grant, 1u << 30);
    entry.may_val = false;
    entry.cores = 2;
    entry.bytes_per_s = 1;
    entry.connections = 1;
    sluice_grant_update(grant, &entry);
    CU_ASSERT_FALSE(sluice_grant_may_read(grant, SLUICE_SUBSET_VAL));
    CU_ASSERT(sluice_grant_may_read(grant, SLUICE_SUBSET_TRAIN));
    CU_ASSERT_EQUAL(sluice_grant_cores(grant), 2);
    CU_ASSERT(sluice_grant_take_cpu(grant, 2 * S, &reserved_ns));
    CU_ASSERT_EQUAL(sluice_grant_wait_ns(grant, 2 * S), 0);
    CU_ASSERT(sluice_grant_enter(grant, "a:1"));
    CU_ASSERT_FALSE(sluice_grant_enter(grant, "b:1"));
    CU_ASSERT_FALSE(sluice_grant_is_revoked(grant));
    sluice_grant_revoke(grant);
    CU_ASSERT(sluice_grant_is_revoked(grant));
    CU_ASSERT_STRING_EQUAL(sluice_grant_name(grant), "a");
    sluice_grant_unref(grant);
}
