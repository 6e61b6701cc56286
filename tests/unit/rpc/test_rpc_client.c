#include "fixture.h"

#include "base/clock.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

TEST(a_unary_call_gets_its_answer)
{
    struct server server;
    struct sluice_rpc_channel *channel = pair_start(&server, NULL);
    for (int i = 0; i < 50; i++)
        CU_ASSERT_EQUAL(ping(channel), SLUICE_RPC_OK);

    struct sluice_message empty = {0}, answer = {0};
    CHECK_OK(sluice_rpc_unary(channel, "/t/Unary", &empty, 0, &answer, NULL, NULL));
    CU_ASSERT_EQUAL(answer.len, 0);
    sluice_message_clear(&answer);

    pair_stop(&server, channel);
    CU_ASSERT_EQUAL(latch_count(&server.done), 51);
    CU_ASSERT_EQUAL(latch_count(&server.half_closes), 51);
}

TEST(an_unknown_method_is_unimplemented)
{
    struct server server;
    struct sluice_rpc_channel *channel = pair_start(&server, NULL);

    for (int i = 0; i < 3; i++) {
        struct sluice_message request = text_message("hello?"), answer = {0};
        enum sluice_rpc_code code = SLUICE_RPC_OK;
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(sluice_rpc_unary(channel, "/t/Nobody", &request, 0, &answer, &code, &err),
                        SLUICE_E_UNSUPPORTED);
        CU_ASSERT_EQUAL(code, SLUICE_RPC_UNIMPLEMENTED);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "/t/Nobody"));
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "UNIMPLEMENTED"));
        CU_ASSERT_EQUAL(answer.num_segments, 0);
    }
    struct client client = {0};
    client_open(&client, channel, "/t/NobodyStreams");
    CU_ASSERT(latch_wait(&client.done, 1));
    CU_ASSERT_EQUAL(client.code, SLUICE_RPC_UNIMPLEMENTED);
    sluice_rpc_stream_destroy(client.stream);

    pair_stop(&server, channel);
    CU_ASSERT_EQUAL(latch_count(&server.opened), 0);
}

TEST(the_server_s_words_arrive)
{
    struct server server;
    struct sluice_rpc_channel *channel = pair_start(&server, NULL);

    struct sluice_message request = text_message("fingerprint 12ab, not 34cd"), answer = {0};
    enum sluice_rpc_code code = SLUICE_RPC_OK;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_rpc_unary(channel, "/t/Fail", &request, 0, &answer, &code, &err),
                    SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(code, SLUICE_RPC_FAILED_PRECONDITION);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "fingerprint 12ab, not 34cd"));

    struct client client = {0};
    client_open(&client, channel, "/t/Fail");
    client_send(&client, "a stream's");
    CU_ASSERT(latch_wait(&client.done, 1));
    CU_ASSERT_EQUAL(client.code, SLUICE_RPC_FAILED_PRECONDITION);
    CU_ASSERT_STRING_EQUAL(client.text, "a stream's");
    struct sluice_message late = text_message("late");
    CU_ASSERT_EQUAL(sluice_rpc_stream_send(client.stream, &late), SLUICE_E_CLOSED);
    CU_ASSERT_EQUAL(late.num_segments, 0);
    sluice_rpc_stream_destroy(client.stream);

    pair_stop(&server, channel);
}

TEST(a_deadline_ends_a_call)
{
    struct server server;
    struct sluice_rpc_channel *channel = pair_start(&server, NULL);
    CU_ASSERT_EQUAL(ping(channel), SLUICE_RPC_OK);

    struct sluice_message request = text_message("wait"), answer = {0};
    enum sluice_rpc_code code = SLUICE_RPC_OK;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_rpc_unary(channel, "/t/Hold", &request, 30, &answer, &code, &err),
                    SLUICE_E_IO);
    CU_ASSERT_EQUAL(code, SLUICE_RPC_DEADLINE_EXCEEDED);
    CU_ASSERT(latch_wait(&server.done, 2));

    pair_stop(&server, channel);
}

TEST(nobody_there_is_unavailable_at_once)
{
    char target[64];
    snprintf(target, sizeof(target), "127.0.0.1:%d", sluice_test_port());
    struct sluice_rpc_channel *channel = connect_to(target);
    CU_ASSERT_EQUAL(ping(channel), SLUICE_RPC_UNAVAILABLE);
    struct client client = {0};
    client_open(&client, channel, "/t/Echo");
    CU_ASSERT(latch_wait(&client.done, 1));
    CU_ASSERT_EQUAL(client.code, SLUICE_RPC_UNAVAILABLE);
    sluice_rpc_stream_destroy(client.stream);
    sluice_rpc_channel_destroy(channel);
}

TEST(rejects_a_channel_to_nowhere)
{
    struct sluice_rpc_channel *channel = NULL;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_rpc_channel_create(&(struct sluice_rpc_channel_options){.target = ""},
                                              &channel, &err),
                    SLUICE_E_INVALID);
    CU_ASSERT_PTR_NULL(channel);
    CU_ASSERT(err.text[0]);
    sluice_rpc_channel_destroy(NULL);
    sluice_rpc_stream_destroy(NULL);
}

TEST(cancel_ends_both_sides_once)
{
    struct server server;
    struct sluice_rpc_channel *channel = pair_start(&server, NULL);

    struct client client = {0};
    client_open(&client, channel, "/t/Hold");
    client_send(&client, "hold this");
    CU_ASSERT(latch_wait(&server.messages, 1));
    sluice_rpc_stream_cancel(client.stream);
    sluice_rpc_stream_cancel(client.stream);
    CU_ASSERT(latch_wait(&client.done, 1));
    CU_ASSERT_EQUAL(client.code, SLUICE_RPC_CANCELLED);
    CU_ASSERT(latch_wait(&server.done, 1));
    CU_ASSERT_EQUAL(latch_count(&server.half_closes), 0);
    sluice_rpc_stream_destroy(client.stream);

    /* Destroying is cancelling, at any time: here often before the call has left. */
    for (int i = 0; i < 20; i++) {
        client_open(&client, channel, "/t/Hold");
        sluice_rpc_stream_destroy(client.stream);
        CU_ASSERT_EQUAL(latch_count(&client.done), 1);
        CU_ASSERT_EQUAL(client.code, SLUICE_RPC_CANCELLED);
    }
    pair_stop(&server, channel);
    CU_ASSERT_EQUAL(latch_count(&client.done), 1);
}

TEST(a_restarted_server_is_found_again)
{
    struct server server;
    char target[64];
    snprintf(target, sizeof(target), "127.0.0.1:%d", sluice_test_port());
    server_start(&server, &(struct server_options){.listen = target});
    struct sluice_rpc_channel *channel = connect_to(target);

    struct client client = {0};
    client_open(&client, channel, "/t/Hold");
    client_send(&client, "hold");
    CU_ASSERT(latch_wait(&server.messages, 1));
    server_stop(&server, 0);
    CU_ASSERT(latch_wait(&client.done, 1));
    CU_ASSERT_EQUAL(sluice_rpc_code_to_status(client.code), SLUICE_E_IO);
    sluice_rpc_stream_destroy(client.stream);
    CU_ASSERT_EQUAL(ping(channel), SLUICE_RPC_UNAVAILABLE);

    server_start(&server, &(struct server_options){.listen = target});
    const uint64_t start = sluice_clock_ns();
    enum sluice_rpc_code code;
    while ((code = ping(channel)) == SLUICE_RPC_UNAVAILABLE)
        poll(NULL, 0, 5); /* a caller's pause between two tries; ctest has the limit */
    CU_ASSERT_EQUAL(code, SLUICE_RPC_OK);
    /* 300 ms of backoff and the machine's own time. */
    printf("found again after %.0f ms ", (double)(sluice_clock_ns() - start) / 1e6);

    client_open(&client, channel, "/t/Echo");
    client_send(&client, "again");
    client_close(&client);
    CU_ASSERT_EQUAL(client.code, SLUICE_RPC_OK);
    CU_ASSERT_EQUAL(client.last_len, 5);
    pair_stop(&server, channel);
}

static struct sluice_message kept;

static void keep(struct client *client, struct sluice_message *message)
{
    (void)client;
    kept = take(message);
}

TEST(a_received_message_may_outlive_the_channel)
{
    struct server server;
    struct sluice_rpc_channel *channel = pair_start(&server, NULL);
    struct client client = {.on_message = keep};
    client_open(&client, channel, "/t/Pour");
    client_send(&client, "1 300000");
    client_close(&client);
    pair_stop(&server, channel);

    struct sluice_message expected = filled_message(300000, 1);
    CU_ASSERT_EQUAL(kept.len, 300000);
    CU_ASSERT_EQUAL(message_hash(&kept), message_hash(&expected));
    sluice_message_clear(&expected);
    sluice_message_clear(&kept);
}

static void *hold_unary(void *ctx)
{
    struct sluice_message request = text_message("hello?"), answer = {0};
    enum sluice_rpc_code code = SLUICE_RPC_OK;
    CU_ASSERT_NOT_EQUAL(sluice_rpc_unary(ctx, "/t/Hold", &request, 0, &answer, &code, NULL),
                        SLUICE_OK);
    CU_ASSERT_EQUAL(code, SLUICE_RPC_CANCELLED);
    return NULL;
}

TEST(stopping_a_channel_ends_every_call_and_all_later_ones)
{
    struct server server;
    struct sluice_rpc_channel *channel = pair_start(&server, NULL);
    struct client streams[3] = {0};
    for (int i = 0; i < 3; i++)
        client_open(&streams[i], channel, "/t/Hold");
    pthread_t thread;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, hold_unary, channel), 0);
    CU_ASSERT(latch_wait(&server.opened, 4));
    sluice_rpc_stream_destroy(streams[1].stream); /* the list of calls has a gap */
    sluice_rpc_channel_stop(channel);
    pthread_join(thread, NULL);
    for (int i = 0; i < 3; i += 2) {
        CU_ASSERT(latch_wait(&streams[i].done, 1));
        CU_ASSERT_EQUAL(streams[i].code, SLUICE_RPC_CANCELLED);
        sluice_rpc_stream_destroy(streams[i].stream);
    }
    CU_ASSERT_EQUAL(ping(channel), SLUICE_RPC_CANCELLED);
    sluice_rpc_channel_stop(channel);
    pair_stop(&server, channel);
}
