#include "fixture.h"

#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Everything an exchange promises, seen from outside: through a client's streams and a server's
 * calls, which are both built on it. */

static struct sluice_message number_message(uint32_t number)
{
    struct sluice_message message = {0};
    if (sluice_message_append_copy(&message, &number, sizeof(number), NULL) != SLUICE_OK)
        CU_FAIL_FATAL("no memory");
    return message;
}

static uint32_t number_of(const struct sluice_message *message)
{
    uint32_t number = UINT32_MAX;
    struct sluice_cursor cursor = sluice_cursor_init(message);
    CU_ASSERT_EQUAL(message->len, sizeof(number));
    CU_ASSERT(sluice_cursor_read(&cursor, &number, sizeof(number)));
    return number;
}

/* The high byte names a sender; each sender's numbers must come in order. */
struct order {
    uint32_t next[8];
};

static void check_order(struct client *client, struct sluice_message *message)
{
    struct order *order = client->ctx;
    const uint32_t number = number_of(message);
    CU_ASSERT_FATAL(number >> 24 < 8);
    CU_ASSERT_EQUAL(number & 0xFFFFFF, order->next[number >> 24]++);
}

TEST(messages_arrive_in_the_order_they_were_sent)
{
    struct server server;
    struct sluice_rpc_channel *channel = pair_start(&server, NULL);
    struct order order = {{0}};
    struct client client = {.on_message = check_order, .ctx = &order};
    client_open(&client, channel, "/t/Echo");
    for (uint32_t i = 0; i < 5000; i++) {
        struct sluice_message message = number_message(i);
        CHECK_OK(sluice_rpc_stream_send(client.stream, &message));
    }
    client_close(&client);
    CU_ASSERT_EQUAL(client.code, SLUICE_RPC_OK);
    CU_ASSERT_EQUAL(order.next[0], 5000);
    pair_stop(&server, channel);
}

struct sender {
    struct client *client;
    uint32_t name;
    pthread_t thread;
};

static void *send_numbers(void *arg)
{
    struct sender *sender = arg;
    for (uint32_t i = 0; i < 1000; i++) {
        struct sluice_message message = number_message(sender->name << 24 | i);
        CHECK_OK(sluice_rpc_stream_send(sender->client->stream, &message));
    }
    return NULL;
}

TEST(any_thread_may_send)
{
    struct server server;
    struct sluice_rpc_channel *channel = pair_start(&server, NULL);
    struct order order = {{0}};
    struct client client = {.on_message = check_order, .ctx = &order};
    client_open(&client, channel, "/t/Echo");
    struct sender senders[4];
    for (uint32_t i = 0; i < 4; i++) {
        senders[i] = (struct sender){.client = &client, .name = i};
        CU_ASSERT_EQUAL_FATAL(pthread_create(&senders[i].thread, NULL, send_numbers, &senders[i]),
                              0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(senders[i].thread, NULL);
    client_close(&client);
    CU_ASSERT_EQUAL(client.code, SLUICE_RPC_OK);
    for (int i = 0; i < 4; i++)
        CU_ASSERT_EQUAL(order.next[i], 1000);
    pair_stop(&server, channel);
}

TEST(workers_answer_in_any_order_and_all_arrive)
{
    struct server server;
    server_start(&server, &(struct server_options){.num_threads = 4});
    struct sluice_rpc_channel *channels[2] = {connect_to(server.target), connect_to(server.target)};
    struct client clients[12] = {{0}};
    uint64_t sums[12] = {0};
    const unsigned num_clients = 12, num_messages = 250;

    for (unsigned c = 0; c < num_clients; c++)
        client_open(&clients[c], channels[c % 2], "/t/Workers");
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    for (unsigned i = 0; i < num_messages; i++) {
        for (unsigned c = 0; c < num_clients; c++) {
            struct sluice_message message =
                filled_message(sluice_rng_below(&rng, 9000), (uint8_t)(i * 7 + c));
            sums[c] += message_hash(&message);
            CHECK_OK(sluice_rpc_stream_send(clients[c].stream, &message));
        }
    }
    for (unsigned c = 0; c < num_clients; c++) {
        client_close(&clients[c]);
        CU_ASSERT_EQUAL(clients[c].code, SLUICE_RPC_OK);
        CU_ASSERT_EQUAL(latch_count(&clients[c].messages), num_messages);
        CU_ASSERT_EQUAL(clients[c].hash_sum, sums[c]);
    }
    sluice_rpc_channel_destroy(channels[0]);
    sluice_rpc_channel_destroy(channels[1]);
    server_stop(&server, 5000);
    CU_ASSERT_EQUAL(atomic_load(&server.replies_sent), num_clients * num_messages);
}

TEST(empty_messages_are_messages)
{
    struct server server;
    struct sluice_rpc_channel *channel = pair_start(&server, NULL);
    struct client client = {0};
    client_open(&client, channel, "/t/Echo");
    for (int i = 0; i < 3; i++) {
        struct sluice_message empty = {0};
        CHECK_OK(sluice_rpc_stream_send(client.stream, &empty));
    }
    client_close(&client);
    CU_ASSERT_EQUAL(latch_count(&client.messages), 3);
    CU_ASSERT_EQUAL(client.bytes, 0);
    pair_stop(&server, channel);
}

TEST(eight_megabytes_in_one_message)
{
    const size_t len = 8u << 20;
    struct server server;
    struct sluice_rpc_channel *channel =
        pair_start(&server, &(struct server_options){.max_receive_bytes = 16u << 20});

    struct sluice_message message = filled_message(len, 0x5A), answer = {0};
    const uint64_t hash = message_hash(&message);
    struct sluice_err err = {0};
    CHECK_OK(sluice_rpc_unary(channel, "/t/Unary", &message, 0, &answer, NULL, &err));
    CU_ASSERT_EQUAL(answer.len, len);
    CU_ASSERT_EQUAL(message_hash(&answer), hash);
    sluice_message_clear(&answer);

    struct client client = {0};
    client_open(&client, channel, "/t/Echo");
    message = filled_message(len, 0x5A);
    CHECK_OK(sluice_rpc_stream_send(client.stream, &message));
    client_close(&client);
    CU_ASSERT_EQUAL(client.code, SLUICE_RPC_OK);
    CU_ASSERT_EQUAL(client.last_len, len);
    CU_ASSERT_EQUAL(client.last_hash, hash);
    pair_stop(&server, channel);
}

TEST(a_message_above_the_limit_is_refused)
{
    struct server server;
    struct sluice_rpc_channel *channel = pair_start(&server, NULL);
    struct sluice_message message = filled_message((4u << 20) + 1, 1), answer = {0};
    enum sluice_rpc_code code = SLUICE_RPC_OK;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_rpc_unary(channel, "/t/Unary", &message, 0, &answer, &code, &err),
                    SLUICE_E_NO_MEMORY);
    CU_ASSERT_EQUAL(code, SLUICE_RPC_RESOURCE_EXHAUSTED);
    CU_ASSERT_EQUAL(ping(channel), SLUICE_RPC_OK);
    pair_stop(&server, channel);
}

TEST(segments_of_any_size_arrive_as_one_run_of_bytes)
{
    struct server server;
    struct sluice_rpc_channel *channel = pair_start(&server, NULL);
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 1, 0, 0);
    static const char constant[4000] = "memory that needs no letting go";

    atomic_uint released = 0;
    unsigned num_owned = 0;
    struct client client = {0};
    client_open(&client, channel, "/t/Echo");
    uint64_t sum = 0;
    for (int i = 0; i < 10; i++) {
        struct sluice_message message = {0};
        for (int k = 0; k < 400; k++) {
            sluice_status status = SLUICE_OK;
            switch (sluice_rng_below(&rng, 4)) {
            case 0:
                status = sluice_message_append_copy(&message, "some header bytes",
                                                    1 + sluice_rng_below(&rng, 17), NULL);
                break;
            case 1: /* around the size from which bytes travel by reference */
                append_owned(&message, 2040 + sluice_rng_below(&rng, 16), (uint8_t)k, &released);
                num_owned++;
                break;
            case 2:
                append_owned(&message, sluice_rng_below(&rng, 3), (uint8_t)k, &released);
                num_owned++;
                break;
            default:
                status = sluice_message_append_ref(&message, (const uint8_t *)constant,
                                                   sluice_rng_below(&rng, sizeof(constant)), NULL,
                                                   NULL, NULL);
            }
            CHECK_OK(status);
        }
        sum += message_hash(&message);
        CHECK_OK(sluice_rpc_stream_send(client.stream, &message));
    }
    client_close(&client);
    CU_ASSERT_EQUAL(client.code, SLUICE_RPC_OK);
    CU_ASSERT_EQUAL(client.hash_sum, sum);
    pair_stop(&server, channel);
    CU_ASSERT_EQUAL(atomic_load(&released), num_owned);
}

TEST(what_is_taken_is_released_exactly_once)
{
    struct server server;
    struct sluice_rpc_channel *channel = pair_start(&server, NULL);
    atomic_uint released = 0;
    unsigned taken = 0;

    /* sent and answered */
    struct client client = {0};
    client_open(&client, channel, "/t/Echo");
    for (int i = 0; i < 100; i++, taken++) {
        struct sluice_message message = {0};
        append_owned(&message, i * 100, 1, &released);
        CHECK_OK(sluice_rpc_stream_send(client.stream, &message));
    }
    client_close(&client);
    CU_ASSERT_EQUAL(latch_count(&client.messages), 100);

    /* queued behind a window that nobody opens, then cancelled; then too late */
    client_open(&client, channel, "/t/Paused");
    for (int i = 0; i < 100; i++, taken++) {
        struct sluice_message message = {0};
        append_owned(&message, 100000, 1, &released);
        CHECK_OK(sluice_rpc_stream_send(client.stream, &message));
    }
    CU_ASSERT(latch_wait(&server.opened, 2));
    sluice_rpc_stream_cancel(client.stream);
    CU_ASSERT(latch_wait(&client.done, 1));
    for (int i = 0; i < 10; i++, taken++) {
        struct sluice_message message = {0};
        append_owned(&message, 100000, 1, &released);
        CU_ASSERT_EQUAL(sluice_rpc_stream_send(client.stream, &message), SLUICE_E_CLOSED);
        CU_ASSERT_EQUAL(message.num_segments, 0);
    }
    sluice_rpc_stream_destroy(client.stream);

    /* unary, with and without a server */
    for (int i = 0; i < 4; i++, taken++) {
        struct sluice_message message = {0}, answer = {0};
        append_owned(&message, 100000, 1, &released);
        const sluice_status status = sluice_rpc_unary(channel, i < 2 ? "/t/Unary" : "/t/Nobody",
                                                      &message, 0, &answer, NULL, NULL);
        CU_ASSERT_EQUAL(status, i < 2 ? SLUICE_OK : SLUICE_E_UNSUPPORTED);
        sluice_message_clear(&answer);
    }
    server_stop(&server, 5000);
    struct sluice_message message = {0}, answer = {0};
    append_owned(&message, 100000, 1, &released);
    taken++;
    CU_ASSERT_NOT_EQUAL(sluice_rpc_unary(channel, "/t/Unary", &message, 0, &answer, NULL, NULL),
                        SLUICE_OK);
    sluice_rpc_channel_destroy(channel);
    /* gRPC may let go on a thread of its own, but it has when its call and channel are gone. */
    CU_ASSERT_EQUAL(atomic_load(&released), taken);
}

TEST(on_writable_keeps_a_sender_within_its_bound)
{
    struct server server;
    struct sluice_rpc_channel *channel = pair_start(&server, NULL);
    struct client client = {0};
    client_open(&client, channel, "/t/Pour");
    client_send(&client, "600 50000");
    CU_ASSERT(latch_wait(&client.done, 1));
    CU_ASSERT_EQUAL(client.code, SLUICE_RPC_OK);
    CU_ASSERT_EQUAL(latch_count(&client.messages), 600);
    CU_ASSERT_EQUAL(client.bytes, 600u * 50000u);
    sluice_rpc_stream_destroy(client.stream);
    pair_stop(&server, channel);
    CU_ASSERT(atomic_load(&server.most_queued) >= POUR_BYTES);
    CU_ASSERT(atomic_load(&server.most_queued) < POUR_BYTES + 50000);
}

TEST(a_paused_call_gets_nothing_until_it_is_resumed)
{
    struct server server;
    struct sluice_rpc_channel *channel = pair_start(&server, NULL);
    struct client client = {0};
    client_open(&client, channel, "/t/Paused");
    for (uint32_t i = 0; i < 100; i++) {
        struct sluice_message message = filled_message(64000, (uint8_t)i);
        CHECK_OK(sluice_rpc_stream_send(client.stream, &message));
    }
    CU_ASSERT(latch_wait(&server.opened, 1));
    /* These go to the same connection behind the stream's messages and come back. */
    for (int i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(ping(channel), SLUICE_RPC_OK);
    CU_ASSERT_EQUAL(latch_count(&server.messages), 3);
    CU_ASSERT_EQUAL(latch_count(&client.messages), 0);

    sluice_rpc_call_resume(server.calls[0]);
    CU_ASSERT(latch_wait(&client.messages, 100));

    /* Paused again and resumed: one message may have been on its way already. */
    sluice_rpc_call_pause(server.calls[0]);
    for (int i = 0; i < 10; i++)
        client_send(&client, "more");
    CU_ASSERT_EQUAL(ping(channel), SLUICE_RPC_OK);
    CU_ASSERT(latch_count(&client.messages) <= 101);
    sluice_rpc_call_resume(server.calls[0]);
    sluice_rpc_call_resume(server.calls[0]);
    CU_ASSERT(latch_wait(&client.messages, 110));
    client_close(&client);
    CU_ASSERT_EQUAL(client.code, SLUICE_RPC_OK);
    pair_stop(&server, channel);
}

TEST(nothing_but_done_comes_after_finish)
{
    struct server server;
    struct sluice_rpc_channel *channel = pair_start(&server, NULL);
    struct client client = {0};
    client_open(&client, channel, "/t/First");
    for (int i = 0; i < 50; i++) {
        struct sluice_message message = text_message("first and last");
        const sluice_status status = sluice_rpc_stream_send(client.stream, &message);
        CU_ASSERT(status == SLUICE_OK || status == SLUICE_E_CLOSED);
    }
    client_close(&client);
    CU_ASSERT_EQUAL(client.code, SLUICE_RPC_OK);
    CU_ASSERT(latch_wait(&server.done, 1));
    CU_ASSERT_EQUAL(latch_count(&server.messages), 1);
    CU_ASSERT_EQUAL(latch_count(&server.half_closes), 0);
    pair_stop(&server, channel);
}

/* --- pace --- */

struct pacer {
    atomic_uint asked, granted;
    atomic_ullong bytes;
    atomic_ullong tokens;
    unsigned refuse; /* how many asks of `refuse` + 1 are refused */
};

/* Grants one ask in so many. */
static uint64_t grant_some(struct server *server, size_t bytes)
{
    struct pacer *pacer = server->pace_ctx;
    if (atomic_fetch_add(&pacer->asked, 1) % (pacer->refuse + 1) != pacer->refuse)
        return 200000;
    atomic_fetch_add(&pacer->granted, 1);
    atomic_fetch_add(&pacer->bytes, bytes);
    return 0;
}

TEST(what_the_pace_grants_is_what_is_sent)
{
    for (unsigned refuse = 0; refuse < 3; refuse++) {
        struct pacer pacer = {.refuse = refuse};
        struct server server;
        server_start(&server, &(struct server_options){
                                  .num_threads = 3, .pace = grant_some, .pace_ctx = &pacer});
        struct sluice_rpc_channel *channels[3];
        struct client clients[6] = {{0}};
        for (int c = 0; c < 3; c++)
            channels[c] = connect_to(server.target);
        for (int c = 0; c < 6; c++) {
            client_open(&clients[c], channels[c % 3], "/t/Workers");
            for (int i = 0; i < 20; i++)
                client_send(&clients[c], "about so much");
        }
        for (int c = 0; c < 6; c++) {
            client_close(&clients[c]);
            CU_ASSERT_EQUAL(clients[c].code, SLUICE_RPC_OK);
            CU_ASSERT_EQUAL(latch_count(&clients[c].messages), 20);
        }
        for (int c = 0; c < 3; c++)
            sluice_rpc_channel_destroy(channels[c]);
        sluice_rpc_server_shutdown(server.rpc, 5000);
        /* Each message was granted once, with its frame header; each ask was answered for one
         * message; and there was no asking in a circle. */
        CU_ASSERT_EQUAL(atomic_load(&pacer.granted), 120);
        CU_ASSERT_EQUAL(atomic_load(&pacer.bytes), 120 * (13 + 5));
        CU_ASSERT_EQUAL(atomic_load(&pacer.bytes), sluice_rpc_server_bytes_sent(server.rpc));
        CU_ASSERT_EQUAL(atomic_load(&pacer.asked) / (refuse + 1), 120);
        server_free(&server);
    }
}

/* A bucket whose clock is the asking: each ask brings tokens. */
static uint64_t grant_when_full(struct server *server, size_t bytes)
{
    struct pacer *pacer = server->pace_ctx;
    atomic_fetch_add(&pacer->asked, 1);
    if (atomic_fetch_add(&pacer->tokens, 1500) + 1500 < bytes)
        return 1000;
    atomic_fetch_sub(&pacer->tokens, bytes);
    return 0;
}

/* How far the other stream is when this one's message comes; both on the channel's thread. */
struct overtaken {
    struct client *other;
    unsigned count;
};

static void note_other(struct client *client, struct sluice_message *message)
{
    struct overtaken *overtaken = client->ctx;
    (void)message;
    overtaken->count = latch_count(&overtaken->other->messages);
}

TEST(a_large_message_is_not_overtaken_for_ever)
{
    struct pacer pacer = {0};
    struct server server;
    struct sluice_rpc_channel *channel = pair_start(
        &server,
        &(struct server_options){.num_threads = 1, .pace = grant_when_full, .pace_ctx = &pacer});
    struct client small = {0};
    struct overtaken overtaken = {.other = &small};
    struct client large = {.on_message = note_other, .ctx = &overtaken};
    client_open(&small, channel, "/t/Echo");
    client_open(&large, channel, "/t/Echo");
    /* The small ones need two asks each, so that somebody always waits; the large one needs all
     * the tokens of twenty. */
    for (int i = 0; i < 200; i++) {
        if (i == 20) {
            struct sluice_message message = filled_message(30000, 1);
            CHECK_OK(sluice_rpc_stream_send(large.stream, &message));
        }
        struct sluice_message message = filled_message(2500, 1);
        CHECK_OK(sluice_rpc_stream_send(small.stream, &message));
    }
    CU_ASSERT(latch_wait(&large.messages, 1));
    CU_ASSERT(overtaken.count < 200);
    client_close(&large);
    client_close(&small);
    CU_ASSERT_EQUAL(latch_count(&small.messages), 200);
    pair_stop(&server, channel);
}

static uint64_t grant_nothing(struct server *server, size_t bytes)
{
    struct pacer *pacer = server->pace_ctx;
    (void)bytes;
    atomic_fetch_add(&pacer->asked, 1);
    return 3600 * 1000000000ull;
}

TEST(a_call_that_waits_for_the_pace_can_be_cancelled)
{
    struct pacer pacer = {0};
    struct server server;
    struct sluice_rpc_channel *channel = pair_start(
        &server,
        &(struct server_options){.num_threads = 1, .pace = grant_nothing, .pace_ctx = &pacer});
    struct client clients[3] = {{0}};
    for (int c = 0; c < 3; c++) {
        client_open(&clients[c], channel, "/t/Echo");
        client_send(&clients[c], "not today");
    }
    CU_ASSERT(latch_wait(&server.messages, 3));
    /* From the middle, the end and the head of those who wait. */
    const int order[] = {1, 2, 0};
    for (unsigned i = 0; i < 3; i++) {
        sluice_rpc_stream_destroy(clients[order[i]].stream);
        CU_ASSERT_EQUAL(clients[order[i]].code, SLUICE_RPC_CANCELLED);
        CU_ASSERT(latch_wait(&server.done, i + 1));
    }
    CU_ASSERT_EQUAL(atomic_load(&pacer.asked), 1);
    sluice_rpc_channel_destroy(channel);
    CU_ASSERT_EQUAL(sluice_rpc_server_bytes_sent(server.rpc), 0);
    server_stop(&server, 5000);
}

int main(void)
{
    sluice_rpc_process_init();
    return sluice_test_main();
}
