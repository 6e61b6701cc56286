#include "fixture.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN "a-token-of-letters-123"

static char folder[2048];

static const char *in(const char *name)
{
    static char paths[16][4096];
    static unsigned next;
    char *path = paths[next++ % 16];
    snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

static bool shell(const char *words)
{
    char command[8192];
    snprintf(command, sizeof(command), "exec >/dev/null 2>&1; set -e; cd '%s'; %s", folder, words);
    return system(command) == 0;
}

static void make_certificates(void)
{
    char make[4096];
    snprintf(folder, sizeof(folder), "%s", sluice_test_dir());
    snprintf(make, sizeof(make), "'%s/scripts/dev-certs' .; '%s/scripts/dev-certs' other",
             sluice_test_source_dir(), sluice_test_source_dir());
    if (!shell("command -v openssl"))
        sluice_test_skip("openssl is missing");
    if (!shell(make))
        sluice_test_skip("openssl makes no certificates");
    unsetenv("SLUICE_TOKEN");
}

static struct sluice_rpc_channel *connect_with(const struct server *server,
                                               const struct sluice_rpc_client_tls *tls,
                                               const char *token_file)
{
    struct sluice_rpc_channel *channel = NULL;
    struct sluice_err err = {0};
    const struct sluice_rpc_channel_options options = {
        .target = server->target, .tls = tls, .token_file = token_file};
    if (sluice_rpc_channel_create(&options, &channel, &err) != SLUICE_OK)
        CU_FAIL_FATAL(err.text);
    return channel;
}

/* --- TLS --- */

TEST(calls_and_streams_go_over_tls)
{
    const struct sluice_rpc_server_tls tls = {.cert = in("server.pem"),
                                              .key = in("server-key.pem")};
    const struct sluice_rpc_client_tls ours = {.ca = in("ca.pem")};
    struct server server;
    server_start(&server, &(struct server_options){.tls = &tls});
    struct sluice_rpc_channel *channel = connect_with(&server, &ours, NULL);
    CU_ASSERT_EQUAL(ping(channel), SLUICE_RPC_OK);
    struct client client = {0};
    client_open(&client, channel, "/t/Pour");
    client_send(&client, "40 300000");
    CU_ASSERT(latch_wait(&client.messages, 40));
    CU_ASSERT_EQUAL(atomic_load(&client.bytes), 40 * 300000);
    client_close(&client);
    /* The server's own connection to itself, whose client checks nothing. */
    struct sluice_err err = {0};
    CHECK_OK(sluice_rpc_server_check(server.rpc, 10000, &err));
    pair_stop(&server, channel);
}

TEST(only_a_client_that_knows_the_ca_gets_through)
{
    const struct sluice_rpc_server_tls tls = {.cert = in("server.pem"),
                                              .key = in("server-key.pem")};
    const struct sluice_rpc_client_tls cases[] = {
        {.ca = in("other/ca.pem")},
        {.ca = in("ca.pem"), .server_name = "another.example"},
    };
    struct server server;
    server_start(&server, &(struct server_options){.tls = &tls});
    for (size_t i = 0; i <= SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_rpc_channel *channel =
            connect_with(&server, i < SLUICE_ARRAY_LEN(cases) ? &cases[i] : NULL, NULL);
        CU_ASSERT_EQUAL(ping(channel), SLUICE_RPC_UNAVAILABLE);
        sluice_rpc_channel_destroy(channel);
    }
    CU_ASSERT_EQUAL(latch_count(&server.opened), 0);
    server_stop(&server, 0);
}

TEST(a_server_that_wants_certificates_gets_them)
{
    const struct sluice_rpc_server_tls tls = {
        .cert = in("server.pem"), .key = in("server-key.pem"), .client_ca = in("ca.pem")};
    const struct sluice_rpc_client_tls good = {.ca = in("ca.pem"),
                                               .cert = in("client.pem"),
                                               .key = in("client-key.pem")},
                                       none = {.ca = in("ca.pem")},
                                       other = {.ca = in("ca.pem"),
                                                .cert = in("other/client.pem"),
                                                .key = in("other/client-key.pem")};
    struct server server;
    server_start(&server, &(struct server_options){.tls = &tls});
    struct sluice_rpc_channel *channel = connect_with(&server, &none, NULL);
    CU_ASSERT_EQUAL(ping(channel), SLUICE_RPC_UNAVAILABLE);
    sluice_rpc_channel_destroy(channel);
    channel = connect_with(&server, &other, NULL);
    CU_ASSERT_EQUAL(ping(channel), SLUICE_RPC_UNAVAILABLE);
    sluice_rpc_channel_destroy(channel);
    struct sluice_err err = {0};
    CHECK_OK(sluice_rpc_server_check(server.rpc, 10000, &err));
    channel = connect_with(&server, &good, NULL);
    CU_ASSERT_EQUAL(ping(channel), SLUICE_RPC_OK);
    pair_stop(&server, channel);
}

TEST(files_are_read_again_and_bad_ones_change_nothing)
{
    CU_ASSERT_FATAL(shell("mkdir turn; cp server.pem server-key.pem ca.pem turn"));
    const struct sluice_rpc_server_tls tls = {.cert = in("turn/server.pem"),
                                              .key = in("turn/server-key.pem")};
    const struct sluice_rpc_client_tls first = {.ca = in("turn/ca.pem")},
                                       second = {.ca = in("other/ca.pem")};
    struct server server;
    server_start(&server, &(struct server_options){.tls = &tls});
    struct sluice_rpc_channel *old = connect_with(&server, &first, NULL), *channel;
    CU_ASSERT_EQUAL(ping(old), SLUICE_RPC_OK);
    /* The certificate of the other CA: its key is missing still. */
    CU_ASSERT_FATAL(shell("cp other/server.pem turn/server.pem"));
    CHECK_FAILS(SLUICE_E_INVALID, "turn/server-key.pem: the key does not fit",
                sluice_rpc_server_reload(server.rpc, sluice_test_err()));
    channel = connect_with(&server, &first, NULL);
    CU_ASSERT_EQUAL(ping(channel), SLUICE_RPC_OK);
    sluice_rpc_channel_destroy(channel);
    CU_ASSERT_FATAL(shell("cp other/server-key.pem turn/server-key.pem"));
    channel = connect_with(&server, &first, NULL);
    CU_ASSERT_EQUAL(ping(channel), SLUICE_RPC_UNAVAILABLE);
    sluice_rpc_channel_destroy(channel);
    channel = connect_with(&server, &second, NULL);
    CU_ASSERT_EQUAL(ping(channel), SLUICE_RPC_OK);
    sluice_rpc_channel_destroy(channel);
    CU_ASSERT_EQUAL(ping(old), SLUICE_RPC_OK); /* its connection is of before */
    /* A client, too, reads its files again, when it connects anew. */
    CU_ASSERT_FATAL(shell("cp other/ca.pem turn/ca.pem"));
    sluice_rpc_channel_renew(old);
    CU_ASSERT_EQUAL(ping(old), SLUICE_RPC_OK);
    CU_ASSERT_FATAL(shell("echo damaged >turn/ca.pem"));
    sluice_rpc_channel_renew(old); /* a line of the log, and what it had */
    CU_ASSERT_EQUAL(ping(old), SLUICE_RPC_OK);
    CHECK_OK(sluice_rpc_server_reload(server.rpc, NULL));
    pair_stop(&server, old);
}

/* --- who may call --- */

static atomic_uint num_asked, num_released;
static char grants[3]; /* what their addresses stand for */

static enum sluice_rpc_code admit(void *server, const struct sluice_rpc_caller *caller,
                                  void **grant, struct sluice_err *why)
{
    (void)server;
    atomic_fetch_add(&num_asked, 1);
    if (caller->token && caller->token_len == strlen(TOKEN) &&
        memcmp(caller->token, TOKEN, caller->token_len) == 0 &&
        strncmp(caller->path, "/t/", 3) == 0 && strncmp(caller->peer, "ipv4:127.0.0.1:", 15) == 0) {
        *grant = &grants[1];
        return SLUICE_RPC_OK;
    }
    sluice_fail(why, SLUICE_E_INVALID, "who are you?");
    return SLUICE_RPC_UNAUTHENTICATED;
}

static void release(void *server, void *grant, const char *peer)
{
    (void)server;
    CU_ASSERT_PTR_EQUAL(grant, &grants[1]);
    CU_ASSERT(strncmp(peer, "ipv4:", 5) == 0);
    atomic_fetch_add(&num_released, 1);
}

TEST(a_call_is_admitted_or_no_handler_sees_it)
{
    atomic_store(&num_asked, 0);
    atomic_store(&num_released, 0);
    sluice_test_put_text(folder, "token", TOKEN "\n");
    sluice_test_put_text(folder, "wrong", "another-token-than-that");
    struct server server;
    server_start(&server, &(struct server_options){.admit = admit, .release = release});
    struct sluice_rpc_channel *good = connect_with(&server, NULL, in("token"));
    struct sluice_rpc_channel *wrong = connect_with(&server, NULL, in("wrong"));
    struct sluice_rpc_channel *none = connect_with(&server, NULL, NULL);
    for (int i = 0; i < 20; i++) {
        CU_ASSERT_EQUAL(ping(good), SLUICE_RPC_OK);
        CU_ASSERT_EQUAL(ping(wrong), SLUICE_RPC_UNAUTHENTICATED);
        CU_ASSERT_EQUAL(ping(none), SLUICE_RPC_UNAUTHENTICATED);
    }
    CU_ASSERT_EQUAL(latch_count(&server.opened), 20);
    struct client client = {0}, refused = {0};
    client_open(&client, good, "/t/Echo");
    client_send(&client, "one");
    CU_ASSERT(latch_wait(&client.messages, 1));
    client_open(&refused, none, "/t/Echo");
    struct sluice_message one = text_message("one");
    (void)sluice_rpc_stream_send(refused.stream, &one); /* the refusal may be here already */
    CU_ASSERT(latch_wait(&refused.done, 1));
    CU_ASSERT_EQUAL(refused.code, SLUICE_RPC_UNAUTHENTICATED);
    CU_ASSERT_STRING_EQUAL(refused.text, "who are you?");
    CU_ASSERT_EQUAL(latch_count(&refused.messages), 0);
    sluice_rpc_stream_destroy(refused.stream);
    client_close(&client);
    CU_ASSERT_EQUAL(latch_count(&server.opened), 21);
    sluice_rpc_channel_destroy(wrong);
    sluice_rpc_channel_destroy(none);
    pair_stop(&server, good);
    CU_ASSERT_EQUAL(atomic_load(&num_asked), 62);
    CU_ASSERT_EQUAL(atomic_load(&num_released), 21);
}

TEST(the_token_is_read_again_with_a_new_connection)
{
    sluice_test_put_text(folder, "token", "another-token-than-that");
    struct server server;
    server_start(&server, &(struct server_options){.admit = admit, .release = release});
    struct sluice_rpc_channel *channel = connect_with(&server, NULL, in("token"));
    /* What a server may repeat. */
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_fail(&err, SLUICE_E_IO, "it says another-token-than-that"), SLUICE_E_IO);
    CU_ASSERT_STRING_EQUAL(err.text, "it says ***");
    CU_ASSERT_EQUAL(ping(channel), SLUICE_RPC_UNAUTHENTICATED);
    sluice_test_put_text(folder, "token", TOKEN);
    CU_ASSERT_EQUAL(ping(channel), SLUICE_RPC_UNAUTHENTICATED);
    sluice_rpc_channel_renew(channel);
    CU_ASSERT_EQUAL(ping(channel), SLUICE_RPC_OK);
    sluice_rpc_channel_destroy(channel);
    setenv("SLUICE_TOKEN", TOKEN, 1);
    channel = connect_with(&server, NULL, NULL);
    CU_ASSERT_EQUAL(ping(channel), SLUICE_RPC_OK);
    unsetenv("SLUICE_TOKEN");
    pair_stop(&server, channel);
}

TEST(a_token_is_for_tls_or_this_machine)
{
    sluice_test_put_text(folder, "token", TOKEN);
    static const char *const far[] = {"10.0.0.1:1", "storage:1", "0.0.0.0:1", "127.0.0.1.evil:1"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(far); i++) {
        struct sluice_rpc_channel *channel = NULL;
        struct sluice_err err = {0};
        struct sluice_rpc_channel_options options = {.target = far[i], .token_file = in("token")};
        CU_ASSERT_EQUAL(sluice_rpc_channel_create(&options, &channel, &err), SLUICE_E_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, far[i]));
        CU_ASSERT_PTR_NULL(strstr(err.text, TOKEN));
        options.tls = &(struct sluice_rpc_client_tls){.ca = in("ca.pem")};
        REQUIRE_OK(sluice_rpc_channel_create(&options, &channel, &err));
        sluice_rpc_channel_destroy(channel);
    }
    struct sluice_rpc_channel *channel = NULL;
    struct sluice_err err = {0};
    sluice_test_put_text(folder, "bad", "short");
    const struct sluice_rpc_channel_options bad = {.target = "127.0.0.1:1",
                                                   .token_file = in("bad")};
    CU_ASSERT_EQUAL(sluice_rpc_channel_create(&bad, &channel, &err), SLUICE_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "bad: a token has 16 to"));
}

int main(void)
{
    make_certificates();
    return sluice_test_main();
}
