#include "storage_server/session/caller.h"

#include "storage_server/session/grant.h"
#include "storage_server/session/rate_limit.h"
#include "storage_server/session/security.h"
#include "storage_server/session/session.h"
#include "support/test.h"

#define S UINT64_C(1000000000)
#define MB 1000000.0

static uint64_t now_ns;
uint64_t __wrap_sluice_clock_ns(void);
uint64_t __wrap_sluice_clock_ns(void)
{
    return now_ns;
}

static struct sluice_rate_limit limit;
static struct sluice_admission admission;

static void begin(double bytes_per_s)
{
    now_ns = S;
    sluice_rate_limit_init(&limit, bytes_per_s, now_ns);
    admission = (struct sluice_admission){.link = &limit};
    REQUIRE_OK(sluice_sessions_create(&admission.sessions, NULL));
}

static void end(void)
{
    sluice_security_close(admission.security);
    sluice_sessions_destroy(admission.sessions);
    sluice_rate_limit_clear(&limit);
}

static enum sluice_rpc_code admit(const char *peer, const char *token, void **caller)
{
    const struct sluice_rpc_caller who = {
        .path = "/sluice.v1.Offload/Fetch",
        .peer = peer,
        .certificate = "",
        .token = token,
        .token_len = token ? strlen(token) : 0,
    };
    struct sluice_err why = {0};
    return sluice_caller_admit(&admission, &who, caller, &why);
}

static struct sluice_caller *must_admit(const char *peer)
{
    void *caller = NULL;
    CU_ASSERT_EQUAL_FATAL(admit(peer, NULL, &caller), SLUICE_RPC_OK);
    return caller;
}

/* Each asks whenever it may, for two seconds; sent[i] gets its bytes. */
static void send_side_by_side(struct sluice_caller *const *callers, unsigned num, double *sent)
{
    uint64_t at_ns[4] = {S, S, S, S};
    for (;;) {
        unsigned next = 0;
        for (unsigned i = 1; i < num; i++)
            next = at_ns[i] < at_ns[next] ? i : next;
        now_ns = at_ns[next];
        if (now_ns >= 3 * S)
            return;
        const uint64_t wait_ns = sluice_caller_pace(&admission, callers[next], 10000);
        sent[next] += wait_ns ? 0 : 10000;
        at_ns[next] += wait_ns ? wait_ns : 1;
    }
}

TEST(calls_of_one_client_have_one_session_and_one_share_of_the_link)
{
    begin(10 * MB);
    struct sluice_caller *callers[] = {must_admit("ipv4:10.0.0.1:1"), must_admit("ipv4:10.0.0.1:2"),
                                       must_admit("ipv4:10.0.0.2:1")};
    CU_ASSERT_PTR_EQUAL(callers[0]->session, callers[1]->session);
    CU_ASSERT_PTR_NOT_EQUAL(callers[0]->session, callers[2]->session);
    double sent[3] = {0};
    send_side_by_side(callers, 3, sent);
    CU_ASSERT_DOUBLE_EQUAL(sent[0] + sent[1], sent[2], 1.1 * MB);
    CU_ASSERT(sent[2] >= 8 * MB);
    sluice_caller_release(&admission, callers[0], "ipv4:10.0.0.1:1");
    sluice_caller_release(&admission, callers[1], "ipv4:10.0.0.1:2");
    sluice_caller_release(&admission, callers[2], "ipv4:10.0.0.2:1");
    end();
}

TEST(a_token_keeps_its_own_rate)
{
    const struct sluice_token_entry entry = {.bytes_per_s = MB};
    begin(10 * MB);
    struct sluice_caller *callers[] = {must_admit("ipv4:10.0.0.1:1"),
                                       must_admit("ipv4:10.0.0.2:1")};
    REQUIRE_OK(sluice_grant_create(&entry, S, &callers[0]->grant, NULL));
    double sent[2] = {0};
    send_side_by_side(callers, 2, sent);
    CU_ASSERT_DOUBLE_EQUAL(sent[0], 2 * MB, 0.2 * MB);
    CU_ASSERT_DOUBLE_EQUAL(sent[0] + sent[1], 20 * MB, MB);
    sluice_caller_release(&admission, callers[0], "ipv4:10.0.0.1:1"); /* the grant with it */
    sluice_caller_release(&admission, callers[1], "ipv4:10.0.0.2:1");
    end();
}

TEST(who_has_a_token_gets_its_grant_and_who_has_none_is_refused)
{
    char path[4096], root[4096], text[256];
    uint8_t hash[SLUICE_SHA256_BYTES];
    size_t used = (size_t)snprintf(text, sizeof(text), "{\"name\": \"team\", \"sha256\": \"");
    sluice_sha256("secret", strlen("secret"), hash);
    for (int i = 0; i < SLUICE_SHA256_BYTES; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%02x", hash[i]);
    snprintf(text + used, sizeof(text) - used, "\", \"connections\": 1}\n");
    sluice_test_put_text(sluice_test_dir(), "tokens", text);
    snprintf(path, sizeof(path), "%s/tokens", sluice_test_dir());
    snprintf(root, sizeof(root), "%s", sluice_test_dir());
    struct sluice_server_options options = sluice_server_options_init();
    options.roots = sluice_roots_one(root);
    options.tokens = path;
    begin(0);
    REQUIRE_OK(sluice_security_open(&options, &admission.security, NULL));

    void *caller = NULL, *none = NULL;
    CU_ASSERT_EQUAL(admit("ipv4:10.0.0.1:1", NULL, &none), SLUICE_RPC_UNAUTHENTICATED);
    CU_ASSERT_EQUAL(admit("ipv4:10.0.0.1:1", "guess", &none), SLUICE_RPC_UNAUTHENTICATED);
    CU_ASSERT_EQUAL_FATAL(admit("ipv4:10.0.0.1:1", "secret", &caller), SLUICE_RPC_OK);
    CU_ASSERT_STRING_EQUAL(sluice_grant_name(((struct sluice_caller *)caller)->grant), "team");
    CU_ASSERT_EQUAL(admit("ipv4:10.0.0.2:1", "secret", &none), SLUICE_RPC_RESOURCE_EXHAUSTED);
    CU_ASSERT_PTR_NULL(none);
    sluice_caller_release(&admission, caller, "ipv4:10.0.0.1:1"); /* which frees its connection */
    CU_ASSERT_EQUAL_FATAL(admit("ipv4:10.0.0.2:1", "secret", &caller), SLUICE_RPC_OK);
    sluice_caller_release(&admission, caller, "ipv4:10.0.0.2:1");
    end();
}
