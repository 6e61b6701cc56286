#include "storage_server/session/security.h"

#include "base/log.h"
#include "support/capture.h"
#include "support/test.h"

#include <pthread.h>
#include <unistd.h>

static struct sluice_server_options options;
static char tokens_path[4096], root[4096];

/* The line of a token: its name, its text, and what it is limited to. */
static void line(char *out, size_t room, const char *name, const char *token, const char *limits)
{
    uint8_t hash[SLUICE_SHA256_BYTES];
    const size_t used = strlen(out);
    sluice_sha256(token, strlen(token), hash);
    char hex[65];
    for (int i = 0; i < SLUICE_SHA256_BYTES; i++)
        snprintf(hex + 2 * (size_t)i, 3, "%02x", hash[i]);
    snprintf(out + used, room - used, "{\"name\": \"%s\", \"sha256\": \"%s\"%s}\n", name, hex,
             limits);
}

#define LINES(text, ...) (text[0] = '\0', line(text, sizeof(text), __VA_ARGS__))

static const char *other_root;

static struct sluice_security *open_with(const char *text)
{
    struct sluice_security *security = NULL;
    struct sluice_err err = {0};
    sluice_test_put_text(sluice_test_dir(), "tokens", text);
    snprintf(tokens_path, sizeof(tokens_path), "%s/tokens", sluice_test_dir());
    snprintf(root, sizeof(root), "%s", sluice_test_dir());
    options = sluice_server_options_init();
    options.roots = sluice_roots_one(root);
    if (other_root)
        options.roots = (struct sluice_roots){.num = 2, .at = {{"a", root}, {"b", other_root}}};
    options.tokens = tokens_path;
    if (sluice_security_open(&options, &security, &err) != SLUICE_OK)
        printf("%s\n", err.text);
    CU_ASSERT_PTR_NOT_NULL_FATAL(security);
    return security;
}

static enum sluice_rpc_code ask(struct sluice_security *security, const char *token,
                                const char *peer, struct sluice_grant **grant,
                                struct sluice_err *why)
{
    const struct sluice_rpc_caller caller = {
        .path = "/sluice.v1.Offload/Hello",
        .peer = peer,
        .certificate = "",
        .token = token,
        .token_len = token ? strlen(token) : 0,
    };
    *grant = NULL;
    return sluice_security_admit(security, &caller, grant, why);
}

static uint64_t num_refused(struct sluice_security *security)
{
    const struct sluice_refusals refusals = sluice_security_refusals(security);
    uint64_t sum = 0;
    for (int i = 0; i < SLUICE_NUM_REFUSALS; i++)
        sum += refusals.calls[i];
    return sum;
}

TEST(without_a_file_all_may_call)
{
    struct sluice_security *security = (struct sluice_security *)&options;
    options = sluice_server_options_init();
    CHECK_OK(sluice_security_open(&options, &security, NULL));
    CU_ASSERT_PTR_NULL(security);
    CHECK_OK(sluice_security_reload(NULL, NULL));
    CU_ASSERT_EQUAL(num_refused(NULL), 0);
    sluice_security_close(NULL);
}

TEST(a_token_of_the_file_is_let_in_and_no_other)
{
    char text[1024];
    LINES(text, "a", "token-of-a-000000", "");
    line(text, sizeof(text), "b", "token-of-b-000000", ", \"cores\": 2");
    struct sluice_security *security = open_with(text);
    struct sluice_grant *grant;
    CU_ASSERT_EQUAL(ask(security, "token-of-b-000000", "p:1", &grant, NULL), SLUICE_RPC_OK);
    CU_ASSERT_STRING_EQUAL(sluice_grant_name(grant), "b");
    CU_ASSERT_EQUAL(sluice_grant_cores(grant), 2);
    sluice_security_release(grant, "p:1");
    static const char *const others[] = {NULL,
                                         "",
                                         "token-of-a-000001",
                                         "token-of-a-00000",
                                         "token-of-a-0000000",
                                         "Token-of-a-000000"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(others); i++) {
        struct sluice_err why = {0};
        CU_ASSERT_EQUAL(ask(security, others[i], "p:1", &grant, &why), SLUICE_RPC_UNAUTHENTICATED);
        CU_ASSERT_PTR_NULL(grant);
        CU_ASSERT(why.text[0] && (!others[i] || !others[i][0] || !strstr(why.text, others[i])));
    }
    CU_ASSERT_EQUAL(num_refused(security), SLUICE_ARRAY_LEN(others));
    sluice_security_close(security);
}

TEST(a_token_for_other_roots_is_refused)
{
    char text[8192], limits[4200];
    snprintf(limits, sizeof(limits), ", \"roots\": [\"/no/such/folder\", \"%s/.\"]",
             sluice_test_dir());
    LINES(text, "here", "token-of-here-000", limits);
    line(text, sizeof(text), "there", "token-of-there-00", ", \"roots\": [\"/\"]");
    struct sluice_security *security = open_with(text);
    struct sluice_grant *grant;
    CU_ASSERT_EQUAL(ask(security, "token-of-here-000", "p:1", &grant, NULL), SLUICE_RPC_OK);
    sluice_security_release(grant, "p:1");
    CU_ASSERT_EQUAL(ask(security, "token-of-there-00", "p:1", &grant, NULL),
                    SLUICE_RPC_PERMISSION_DENIED);
    sluice_security_close(security);
}

/* What a token opens has the files of all roots. */
TEST(a_token_must_be_for_each_root)
{
    char text[8192], limits[4200];
    snprintf(limits, sizeof(limits), ", \"roots\": [\"%s\"]", sluice_test_dir());
    LINES(text, "one", "token-of-one-0000", limits);
    snprintf(limits, sizeof(limits), ", \"roots\": [\"/\", \"%s\"]", sluice_test_dir());
    line(text, sizeof(text), "both", "token-of-both-000", limits);
    line(text, sizeof(text), "any", "token-of-any-0000", "");
    static const struct {
        const char *other;
        bool is_both_in;
    } cases[] = {{"/", true}, {"s3://bucket/b", false}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        other_root = cases[i].other;
        struct sluice_security *security = open_with(text);
        struct sluice_grant *grant;
        CU_ASSERT_EQUAL(ask(security, "token-of-one-0000", "p:1", &grant, NULL),
                        SLUICE_RPC_PERMISSION_DENIED);
        CU_ASSERT_EQUAL(ask(security, "token-of-both-000", "p:1", &grant, NULL),
                        cases[i].is_both_in ? SLUICE_RPC_OK : SLUICE_RPC_PERMISSION_DENIED);
        if (grant)
            sluice_security_release(grant, "p:1");
        CU_ASSERT_EQUAL(ask(security, "token-of-any-0000", "p:1", &grant, NULL), SLUICE_RPC_OK);
        sluice_security_release(grant, "p:1");
        sluice_security_close(security);
    }
    other_root = NULL;
}

TEST(connections_beyond_the_limit_are_refused)
{
    char text[1024];
    LINES(text, "a", "token-of-a-000000", ", \"connections\": 1");
    struct sluice_security *security = open_with(text);
    struct sluice_grant *first, *second, *third;
    CU_ASSERT_EQUAL(ask(security, "token-of-a-000000", "p:1", &first, NULL), SLUICE_RPC_OK);
    CU_ASSERT_EQUAL(ask(security, "token-of-a-000000", "p:1", &second, NULL), SLUICE_RPC_OK);
    CU_ASSERT_EQUAL(ask(security, "token-of-a-000000", "p:2", &third, NULL),
                    SLUICE_RPC_RESOURCE_EXHAUSTED);
    sluice_security_release(first, "p:1");
    sluice_security_release(second, "p:1");
    CU_ASSERT_EQUAL(ask(security, "token-of-a-000000", "p:2", &third, NULL), SLUICE_RPC_OK);
    sluice_security_release(third, "p:2");
    sluice_security_close(security);
}

TEST(a_reload_revokes_keeps_and_changes)
{
    char text[1024];
    LINES(text, "gone", "token-of-gone-000", "");
    line(text, sizeof(text), "kept", "token-of-kept-000", ", \"cores\": 2");
    struct sluice_security *security = open_with(text);
    struct sluice_grant *gone, *kept, *again;
    CU_ASSERT_EQUAL(ask(security, "token-of-gone-000", "p:1", &gone, NULL), SLUICE_RPC_OK);
    CU_ASSERT_EQUAL(ask(security, "token-of-kept-000", "p:2", &kept, NULL), SLUICE_RPC_OK);

    sluice_test_put_text(sluice_test_dir(), "tokens", "{\"damaged\"");
    CHECK_FAILS(SLUICE_E_INVALID, tokens_path, sluice_security_reload(security, sluice_test_err()));
    CU_ASSERT_FALSE(sluice_grant_is_revoked(gone));

    LINES(text, "kept", "token-of-kept-000", ", \"cores\": 3, \"subsets\": [\"train\"]");
    sluice_test_put_text(sluice_test_dir(), "tokens", text);
    CHECK_OK(sluice_security_reload(security, NULL));
    CU_ASSERT(sluice_grant_is_revoked(gone));
    CU_ASSERT_FALSE(sluice_grant_is_revoked(kept));
    CU_ASSERT_EQUAL(sluice_grant_cores(kept), 3);
    CU_ASSERT_FALSE(sluice_grant_may_read(kept, SLUICE_SUBSET_VAL));
    CU_ASSERT_EQUAL(ask(security, "token-of-gone-000", "p:1", &again, NULL),
                    SLUICE_RPC_UNAUTHENTICATED);
    CU_ASSERT_EQUAL(ask(security, "token-of-kept-000", "p:2", &again, NULL), SLUICE_RPC_OK);
    CU_ASSERT_PTR_EQUAL(again, kept);
    sluice_security_release(gone, "p:1");
    sluice_security_release(kept, "p:2");
    sluice_security_release(again, "p:2");

    /* The name of before with another token is another one. */
    LINES(text, "kept", "token-of-others-0", "");
    sluice_test_put_text(sluice_test_dir(), "tokens", text);
    CHECK_OK(sluice_security_reload(security, NULL));
    CU_ASSERT_EQUAL(ask(security, "token-of-kept-000", "p:2", &again, NULL),
                    SLUICE_RPC_UNAUTHENTICATED);
    sluice_security_close(security);
}

/* As when the folder is a mount that is away for a while. */
TEST(a_token_whose_root_comes_back_is_let_in_again)
{
    char text[8192], limits[4200];
    const char *place = sluice_test_path("mount");
    snprintf(limits, sizeof(limits), ", \"roots\": [\"%s\"]", place);
    CU_ASSERT_EQUAL(symlink(sluice_test_dir(), place), 0);
    LINES(text, "a", "token-of-a-000000", limits);
    struct sluice_security *security = open_with(text);
    struct sluice_grant *before, *after;
    CU_ASSERT_EQUAL(ask(security, "token-of-a-000000", "p:1", &before, NULL), SLUICE_RPC_OK);
    CU_ASSERT_EQUAL(unlink(place), 0);
    CHECK_OK(sluice_security_reload(security, NULL));
    CU_ASSERT(sluice_grant_is_revoked(before));
    CU_ASSERT_NOT_EQUAL(ask(security, "token-of-a-000000", "p:1", &after, NULL), SLUICE_RPC_OK);
    CU_ASSERT_EQUAL(symlink(sluice_test_dir(), place), 0);
    CHECK_OK(sluice_security_reload(security, NULL));
    CU_ASSERT_EQUAL_FATAL(ask(security, "token-of-a-000000", "p:2", &after, NULL), SLUICE_RPC_OK);
    CU_ASSERT_FALSE(sluice_grant_is_revoked(after));
    CU_ASSERT(sluice_grant_is_revoked(before)); /* its calls have ended */
    sluice_security_release(before, "p:1");
    sluice_security_release(after, "p:2");
    sluice_security_close(security);
    unlink(place);
}

TEST(a_file_that_is_emptied_locks_nobody_out)
{
    char text[1024];
    LINES(text, "a", "token-of-a-000000", "");
    struct sluice_security *security = open_with(text);
    struct sluice_grant *grant;
    sluice_test_put_text(sluice_test_dir(), "tokens", "");
    CHECK_FAILS(SLUICE_E_INVALID, tokens_path, sluice_security_reload(security, sluice_test_err()));
    CU_ASSERT_EQUAL(ask(security, "token-of-a-000000", "p:1", &grant, NULL), SLUICE_RPC_OK);
    sluice_security_release(grant, "p:1");
    sluice_security_close(security);
}

TEST(a_limit_that_cannot_be_kept_is_refused)
{
    char text[1024];
    LINES(text, "a", "token-of-a-000000", ", \"cores\": 1");
    sluice_security_close(open_with(text));
    struct sluice_security *security = NULL;
    options.has_data_transfer = true;
    CHECK_FAILS(SLUICE_E_INVALID, "token a limits cores",
                sluice_security_open(&options, &security, sluice_test_err()));
    CU_ASSERT_PTR_NULL(security);
}

static struct sluice_test_output output;

static int refuse_many(void *ctx)
{
    struct sluice_grant *grant;
    for (int i = 0; i < 1000; i++)
        (void)ask(ctx, "token-of-nobody-00", "ipv4:10.0.0.1:4242", &grant, NULL);
    return num_refused(ctx) == 1000 ? 0 : 1;
}

TEST(the_log_hears_of_refusals_now_and_then)
{
    char text[1024];
    LINES(text, "a", "token-of-a-000000", "");
    struct sluice_security *security = open_with(text);
    CU_ASSERT_EQUAL(sluice_test_child(refuse_many, security, &output), 0);
    const char *found = strstr(output.err, "refused 10.0.0.1:4242 at "
                                           "/sluice.v1.Offload/Hello: the token is none that");
    CU_ASSERT_PTR_NOT_NULL(found);
    unsigned lines = 0;
    for (const char *at = output.err; (at = strstr(at, "refused")) != NULL; at++)
        lines++;
    CU_ASSERT(lines >= 1 && lines < 20);
    CU_ASSERT_PTR_NULL(strstr(output.err, "nobody"));
    sluice_security_close(security);
}

static int refuse_from_many(void *ctx)
{
    struct sluice_grant *grant;
    char peer[64];
    for (int i = 0; i < 1000; i++) {
        snprintf(peer, sizeof(peer), "ipv4:10.0.%d.%d:4242", i / 100, i % 100);
        (void)ask(ctx, NULL, "ipv4:10.9.9.9:4242", &grant, NULL); /* one who makes noise */
        (void)ask(ctx, NULL, peer, &grant, NULL);
    }
    return num_refused(ctx) == 2000 ? 0 : 1;
}

TEST(the_noise_of_one_client_hides_no_other)
{
    char text[1024];
    LINES(text, "a", "token-of-a-000000", "");
    struct sluice_security *security = open_with(text);
    CU_ASSERT_EQUAL(sluice_test_child(refuse_from_many, security, &output), 0);
    for (int i = 0; i < 31; i++) {
        char words[64];
        snprintf(words, sizeof(words), "refused 10.0.0.%d:4242 at ", i);
        CU_ASSERT_PTR_NOT_NULL(strstr(output.err, words));
    }
    unsigned lines = 0;
    for (const char *at = output.err; (at = strstr(at, "refused")) != NULL; at++)
        lines++;
    CU_ASSERT(lines >= 32 && lines < 400); /* 32 a second */
    sluice_security_close(security);
}

struct asker {
    struct sluice_security *security;
    unsigned num_ok;
};

static void *ask_often(void *ctx)
{
    struct asker *asker = ctx;
    for (int i = 0; i < 2000; i++) {
        struct sluice_grant *grant;
        if (ask(asker->security, "token-of-a-000000", "p:1", &grant, NULL) != SLUICE_RPC_OK)
            continue;
        asker->num_ok++;
        uint64_t reserved_ns;
        if (sluice_grant_take_cpu(grant, 1, &reserved_ns))
            sluice_grant_settle_cpu(grant, reserved_ns, 1);
        sluice_security_release(grant, "p:1");
    }
    return NULL;
}

TEST(a_reload_goes_beside_calls)
{
    char with[1024], without[1024];
    LINES(with, "a", "token-of-a-000000", ", \"cores\": 4");
    LINES(without, "b", "token-of-b-000000", "");
    sluice_log_set_level(SLUICE_LOG_ERROR);
    struct sluice_security *security = open_with(with);
    struct asker askers[3];
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        askers[i] = (struct asker){.security = security};
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, ask_often, &askers[i]), 0);
    }
    for (int i = 0; i < 50; i++) {
        sluice_test_put_text(sluice_test_dir(), "tokens", i % 2 ? with : without);
        CHECK_OK(sluice_security_reload(security, NULL));
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    struct sluice_grant *grant;
    CU_ASSERT_EQUAL(ask(security, "token-of-a-000000", "p:1", &grant, NULL), SLUICE_RPC_OK);
    sluice_security_release(grant, "p:1");
    sluice_security_close(security);
}
