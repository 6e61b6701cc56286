#include "fixture.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct sluice_rpc_method one_method = {.path = "/t/One"};

TEST(two_servers_on_one_port_is_an_error)
{
    struct server server;
    server_start(&server, &(struct server_options){0});
    struct sluice_rpc_server *second = NULL;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(
        sluice_rpc_server_create(&(struct sluice_rpc_server_options){.listen = server.target,
                                                                     .num_threads = 1,
                                                                     .methods = &one_method,
                                                                     .num_methods = 1},
                                 &second, &err),
        SLUICE_E_IO);
    CU_ASSERT_PTR_NULL(second);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, server.target));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "another program listens there"));
    server_stop(&server, 0);
}

TEST(rejects_what_it_cannot_serve)
{
    const struct sluice_rpc_method twice[] = {one_method, one_method};
    const struct {
        struct sluice_rpc_server_options options;
        sluice_status status;
        const char *word;
    } cases[] = {
        {{.listen = "127.0.0.1:0", .num_threads = 0}, SLUICE_E_INVALID, "thread"},
        {{.listen = "127.0.0.1:0", .num_threads = 1, .methods = twice, .num_methods = 2},
         SLUICE_E_INVALID,
         "/t/One"},
        {{.listen = "no address at all", .num_threads = 2, .methods = twice, .num_methods = 1},
         SLUICE_E_INVALID,
         "no address at all"},
        {{.listen = "127.0.0.1:99999", .num_threads = 2, .methods = twice, .num_methods = 1},
         SLUICE_E_INVALID,
         "0 to 65535"},
        {{.listen = "no-such-host.invalid:1", .num_threads = 2, .methods = twice, .num_methods = 1},
         SLUICE_E_IO,
         "no-such-host.invalid does not resolve"},
        {{.listen = "192.0.2.1:0", .num_threads = 1, .methods = twice, .num_methods = 1},
         SLUICE_E_IO,
         "192.0.2.1 is no address of this machine"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_rpc_server *server = NULL;
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(sluice_rpc_server_create(&cases[i].options, &server, &err),
                        cases[i].status);
        CU_ASSERT_PTR_NULL(server);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, cases[i].word));
    }
    sluice_rpc_server_destroy(NULL);
}

TEST(port_0_is_a_free_port_and_peers_have_names)
{
    struct server servers[2];
    for (int i = 0; i < 2; i++) {
        server_start(&servers[i], &(struct server_options){0});
        CU_ASSERT(sluice_rpc_server_port(servers[i].rpc) > 0);
    }
    CU_ASSERT_NOT_EQUAL(sluice_rpc_server_port(servers[0].rpc),
                        sluice_rpc_server_port(servers[1].rpc));
    struct sluice_rpc_channel *channel = connect_to(servers[1].target);
    CU_ASSERT_EQUAL(ping(channel), SLUICE_RPC_OK);
    CU_ASSERT(latch_wait(&servers[1].done, 1));
    CU_ASSERT_PTR_NOT_NULL(strstr(sluice_rpc_call_peer(servers[1].calls[0]), "ipv4:127.0.0.1:"));
    sluice_rpc_channel_destroy(channel);
    server_stop(&servers[0], 0);
    server_stop(&servers[1], 0);
}

TEST(bytes_sent_counts_messages_with_their_frame_headers)
{
    struct server server;
    server_start(&server, &(struct server_options){.num_threads = 3});
    CU_ASSERT_EQUAL(sluice_rpc_server_bytes_sent(server.rpc), 0);
    struct sluice_rpc_channel *channel = connect_to(server.target);
    struct client client = {0};
    client_open(&client, channel, "/t/Echo");
    size_t bytes = 0;
    for (int i = 0; i < 30; i++) {
        struct sluice_message message = filled_message((size_t)i * 1000, 1);
        bytes += message.len + 5;
        CHECK_OK(sluice_rpc_stream_send(client.stream, &message));
    }
    client_close(&client);
    for (int i = 0; i < 5; i++, bytes += strlen("ping") + 5)
        CU_ASSERT_EQUAL(ping(channel), SLUICE_RPC_OK);
    CU_ASSERT_EQUAL(sluice_rpc_server_bytes_sent(server.rpc), bytes);
    pair_stop(&server, channel);
}

TEST(a_unary_call_without_a_message_is_refused)
{
    struct server server;
    struct sluice_rpc_channel *channel = pair_start(&server, NULL);
    struct client client = {0};
    client_open(&client, channel, "/t/Unary");
    client_close(&client);
    CU_ASSERT_EQUAL(client.code, SLUICE_RPC_INVALID_ARGUMENT);
    CU_ASSERT_EQUAL(latch_count(&client.messages), 0);
    pair_stop(&server, channel);
    CU_ASSERT_EQUAL(latch_count(&server.messages), 0);
    CU_ASSERT_EQUAL(latch_count(&server.half_closes), 0);
}

TEST(bytes_that_are_no_http2_harm_nobody)
{
    struct server server;
    server_start(&server, &(struct server_options){0});
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const struct {
        const char *bytes;
        size_t len;
    } texts[] = {
        {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27},
        {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11},
        {preface, sizeof(preface) - 1},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\x04\xff\xff\xff\xff\xff", 33},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\4\1\5\0\0\0\1\xff\xff\xff\xff", 37},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(texts); i++) {
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CU_ASSERT_FATAL(fd >= 0);
        const struct sockaddr_in address = {.sin_family = AF_INET,
                                            .sin_port =
                                                htons((uint16_t)sluice_rpc_server_port(server.rpc)),
                                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        CU_ASSERT_EQUAL_FATAL(connect(fd, (const void *)&address, sizeof(address)), 0);
        CU_ASSERT_EQUAL(send(fd, texts[i].bytes, texts[i].len, MSG_NOSIGNAL),
                        (ssize_t)texts[i].len);
        close(fd);
    }
    struct sluice_rpc_channel *channel = connect_to(server.target);
    CU_ASSERT_EQUAL(ping(channel), SLUICE_RPC_OK);
    pair_stop(&server, channel);
    CU_ASSERT_EQUAL(latch_count(&server.opened), 1);
}

TEST(shutdown_without_calls_does_not_wait_for_the_grace)
{
    struct server server;
    server_start(&server, &(struct server_options){0});
    struct sluice_rpc_channel *channel = connect_to(server.target); /* stays, idle */
    CU_ASSERT_EQUAL(ping(channel), SLUICE_RPC_OK);
    server_stop(&server, 600000); /* longer than ctest's limit */
    sluice_rpc_channel_destroy(channel);
}

TEST(shutdown_lets_calls_finish)
{
    struct server server;
    struct sluice_rpc_channel *channel = pair_start(&server, NULL);
    struct client clients[4] = {{0}};
    for (int c = 0; c < 4; c++) {
        client_open(&clients[c], channel, "/t/Workers");
        for (int i = 0; i < 300; i++)
            client_send(&clients[c], "answer this");
        sluice_rpc_stream_half_close(clients[c].stream);
    }
    CU_ASSERT(latch_wait(&server.opened, 4));
    server_stop(&server, 60000);
    for (int c = 0; c < 4; c++) {
        CU_ASSERT(latch_wait(&clients[c].done, 1));
        CU_ASSERT_EQUAL(clients[c].code, SLUICE_RPC_OK);
        CU_ASSERT_EQUAL(latch_count(&clients[c].messages), 300);
        sluice_rpc_stream_destroy(clients[c].stream);
    }
    CU_ASSERT_EQUAL(atomic_load(&server.replies_refused), 0);
    sluice_rpc_channel_destroy(channel);
}

TEST(shutdown_cancels_what_outlasts_the_grace)
{
    struct server server;
    struct sluice_rpc_channel *channel = pair_start(&server, NULL);
    struct client clients[3] = {{0}};
    for (int c = 0; c < 3; c++) {
        client_open(&clients[c], channel, "/t/Hold");
        client_send(&clients[c], "for ever");
    }
    CU_ASSERT(latch_wait(&server.messages, 3));
    server_stop(&server, 20); /* checks that every call's on_done has run, once */
    CU_ASSERT_EQUAL(latch_count(&server.done), 3);
    for (int c = 0; c < 3; c++) {
        CU_ASSERT(latch_wait(&clients[c].done, 1));
        CU_ASSERT_EQUAL(sluice_rpc_code_to_status(clients[c].code), SLUICE_E_IO);
        sluice_rpc_stream_destroy(clients[c].stream);
    }
    sluice_rpc_channel_destroy(channel);
}

/* A call that was on its way for longer may be cancelled instead of refused (rpc_server.h). */
#define REFUSE_NS 100000000u

struct stopper {
    struct server *server;
    unsigned grace_ms;
    pthread_t thread;
};

static void *run_stop(void *arg)
{
    struct stopper *stopper = arg;
    sluice_rpc_server_shutdown(stopper->server->rpc, stopper->grace_ms);
    return NULL;
}

static void start_stop(struct stopper *stopper, struct server *server, unsigned grace_ms)
{
    *stopper = (struct stopper){.server = server, .grace_ms = grace_ms};
    CU_ASSERT_EQUAL_FATAL(pthread_create(&stopper->thread, NULL, run_stop, stopper), 0);
}

TEST(new_calls_are_unavailable_while_old_ones_finish)
{
    char listen[64];
    snprintf(listen, sizeof(listen), "127.0.0.1:%d", sluice_test_port());
    struct server server;
    struct sluice_rpc_channel *channel =
        pair_start(&server, &(struct server_options){.listen = listen});
    struct client client = {0};
    client_open(&client, channel, "/t/Echo");
    client_send(&client, "before");
    CU_ASSERT(latch_wait(&client.messages, 1));

    struct stopper stopper;
    start_stop(&stopper, &server, 60000);
    enum sluice_rpc_code code;
    uint64_t answered_ns, asked_ns = sluice_clock_ns();
    do {
        answered_ns = asked_ns;
        asked_ns = sluice_clock_ns();
        code = ping(channel);
    } while (code == SLUICE_RPC_OK);
    /* The first is refused, unless we were stopped until the time for that was over. */
    if (code == SLUICE_RPC_CANCELLED && sluice_clock_ns() - answered_ns >= REFUSE_NS)
        code = ping(channel);
    CU_ASSERT_EQUAL(code, SLUICE_RPC_UNAVAILABLE);
    struct sluice_rpc_channel *other = connect_to(server.target);
    CU_ASSERT_EQUAL(ping(other), SLUICE_RPC_UNAVAILABLE);

    client_send(&client, "after");
    CU_ASSERT(latch_wait(&client.messages, 2));
    client_close(&client);
    CU_ASSERT_EQUAL(client.code, SLUICE_RPC_OK);
    pthread_join(stopper.thread, NULL);
    server_free(&server);
    sluice_rpc_channel_destroy(channel);
    sluice_rpc_channel_destroy(other);
}

struct flood {
    struct client client;
    atomic_uint *released;
    atomic_uint *taken;
    pthread_t thread;
};

static void *run_flood(void *arg)
{
    struct flood *flood = arg;
    sluice_status status = SLUICE_OK;
    while (status == SLUICE_OK) {
        struct sluice_message message = {0};
        append_owned(&message, 5000, 7, flood->released);
        atomic_fetch_add(flood->taken, 1);
        status = sluice_rpc_stream_send(flood->client.stream, &message);
    }
    CU_ASSERT_EQUAL(status, SLUICE_E_CLOSED);
    return NULL;
}

TEST(every_message_is_settled_when_shutdown_cuts_in)
{
    for (unsigned grace_ms = 0; grace_ms <= 40; grace_ms += 20) {
        struct server server;
        server_start(&server, &(struct server_options){.num_threads = 2});
        struct sluice_rpc_channel *channel = connect_to(server.target);
        atomic_uint released = 0, taken = 0;
        struct flood floods[3];
        for (int f = 0; f < 3; f++) {
            floods[f] = (struct flood){.released = &released, .taken = &taken};
            client_open(&floods[f].client, channel, "/t/Workers");
            CU_ASSERT_EQUAL_FATAL(pthread_create(&floods[f].thread, NULL, run_flood, &floods[f]),
                                  0);
        }
        CU_ASSERT(latch_wait(&server.messages, 100));
        const unsigned got_before = latch_count(&server.messages);
        server_stop(&server, grace_ms);
        for (int f = 0; f < 3; f++) {
            pthread_join(floods[f].thread, NULL);
            CU_ASSERT(latch_wait(&floods[f].client.done, 1));
            CU_ASSERT_EQUAL(sluice_rpc_code_to_status(floods[f].client.code), SLUICE_E_IO);
            sluice_rpc_stream_destroy(floods[f].client.stream);
        }
        sluice_rpc_channel_destroy(channel);
        CU_ASSERT(latch_count(&server.messages) >= got_before);
        CU_ASSERT_EQUAL(atomic_load(&server.replies_sent) + atomic_load(&server.replies_refused),
                        latch_count(&server.messages));
        CU_ASSERT_EQUAL(atomic_load(&released), atomic_load(&taken));
    }
}

int main(void)
{
    sluice_rpc_process_init();
    return sluice_test_main();
}
