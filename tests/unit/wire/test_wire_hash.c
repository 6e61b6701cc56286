#include "wire/wire.h"

#include "base/hash.h"
#include "support/test.h"
#include "wire_random.h"

#define MAX_PAYLOAD (1u << 20)
#define NUM_SAMPLES 3

/* What a client asked for; its request ids are 100, 101, ... */
static const struct sluice_draw_key asked[NUM_SAMPLES] = {
    {.seed = 7, .epoch = 2, .sample_id = 40},
    {.seed = 7, .epoch = 2, .sample_id = 41, .crop = {3, 0, 9, 7}},
    {.seed = 7, .epoch = 2, .sample_id = 300, .schedule = 1, .bucket = 2},
};
/* As on the wire: one of them has none. */
static const uint64_t listed[NUM_SAMPLES] = {5, 0, 77};

static struct sluice_message whole(const uint8_t *data, size_t len)
{
    struct sluice_message message = {0};
    REQUIRE_OK(sluice_message_append_copy(&message, data, len, NULL));
    return message;
}

/* Calls check(flipped, ctx) for each bit of the message. */
static void flip_every_bit(const struct sluice_message *message,
                           void (*check)(const struct sluice_message *flipped, void *ctx),
                           void *ctx)
{
    uint8_t *flat = message_flatten(message);
    for (size_t bit = 0; bit < 8 * message->len; bit++) {
        flat[bit / 8] ^= (uint8_t)(1u << bit % 8);
        struct sluice_message flipped = whole(flat, message->len);
        check(&flipped, ctx);
        sluice_message_clear(&flipped);
        flat[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    free(flat);
}

/* --- replies --- */

static struct sluice_wire_sample_reply make_reply(unsigned i)
{
    struct sluice_wire_sample_reply reply = {.request_id = 100 + i, .read_bytes = 9};
    if (i == 1) {
        reply.status = SLUICE_E_NOT_FOUND;
        strcpy(reply.error, "b.jpg: no such file");
        return reply;
    }
    reply.ops_done = 3;
    reply.form = SLUICE_FORM_U8;
    reply.width = reply.height = 2;
    reply.channels = 3;
    reply.cpu_us = 1234;
    reply.payload = random_buf(12 + i);
    return reply;
}

static struct sluice_message make_message(struct sluice_wire_sample_reply replies[NUM_SAMPLES])
{
    struct sluice_message message = {0};
    for (unsigned i = 0; i < NUM_SAMPLES; i++) {
        replies[i] = make_reply(i);
        sluice_wire_seal_sample_reply(&replies[i], &asked[i], listed[i]);
        CHECK_OK(sluice_wire_put_sample_reply(&replies[i], &message, NULL));
    }
    const struct sluice_wire_load load = {.queue_depth = 3, .cpu_price = 2.5, .prep_cores = 4};
    CHECK_OK(sluice_wire_put_load(&load, &message, NULL));
    return message;
}

struct arrival {
    const struct sluice_wire_sample_reply *sent;
    unsigned accepted, refused;
};

static void arrive(void *ctx, const struct sluice_wire_sample_reply *got)
{
    struct arrival *arrival = ctx;
    const uint64_t i = got->request_id - 100;
    if (i >= NUM_SAMPLES || !sluice_wire_sample_reply_is_whole(got, &asked[i], listed[i])) {
        arrival->refused++;
        return;
    }
    arrival->accepted++;
    const struct sluice_wire_sample_reply *sent = &arrival->sent[i];
    CU_ASSERT_EQUAL(got->status, sent->status);
    CU_ASSERT_EQUAL(got->ops_done, sent->ops_done);
    CU_ASSERT_EQUAL(got->form, sent->form);
    CU_ASSERT_EQUAL(got->width, sent->width);
    CU_ASSERT_EQUAL(got->height, sent->height);
    CU_ASSERT_EQUAL(got->channels, sent->channels);
    CU_ASSERT_EQUAL(got->cpu_us, sent->cpu_us);
    CU_ASSERT_EQUAL(got->read_bytes, sent->read_bytes);
    CU_ASSERT_STRING_EQUAL(got->error, sent->error);
    struct sluice_cursor arrived = got->arrived;
    const size_t len = sluice_cursor_left(&arrived);
    CU_ASSERT_EQUAL_FATAL(len, sent->payload ? sent->payload->len : 0);
    uint8_t bytes[64];
    CU_ASSERT_TRUE(sluice_cursor_read(&arrived, bytes, len));
    CU_ASSERT(len == 0 || memcmp(bytes, sent->payload->data, len) == 0);
}

/* As a client takes a message in: nothing of one that is not whole. */
static void take(const struct sluice_message *message, void *ctx)
{
    struct arrival *arrival = ctx;
    struct sluice_wire_load load = {0};
    arrival->accepted = arrival->refused = 0;
    if (!sluice_wire_fetch_reply_is_whole(message)) {
        arrival->refused = NUM_SAMPLES;
        return;
    }
    CHECK_OK(sluice_wire_get_fetch_reply(message, MAX_PAYLOAD, arrive, arrival, &load, NULL));
    CU_ASSERT_EQUAL(load.queue_depth, 3);
    CU_ASSERT_EQUAL(load.cpu_price, 2.5);
    CU_ASSERT_EQUAL(load.prep_cores, 4);
}

static void take_flipped(const struct sluice_message *message, void *ctx)
{
    struct arrival *arrival = ctx;
    take(message, arrival);
    /* One flipped bit costs one sample or the message, and is never missed. */
    CU_ASSERT(arrival->refused == 1 || arrival->refused == NUM_SAMPLES);
    if (arrival->refused == 1)
        CU_ASSERT_EQUAL(arrival->accepted, NUM_SAMPLES - 1);
}

TEST(no_flipped_bit_of_a_reply_is_taken)
{
    struct sluice_wire_sample_reply replies[NUM_SAMPLES];
    struct sluice_message message = make_message(replies);
    struct arrival arrival = {.sent = replies};
    message_recut(&message);
    take(&message, &arrival);
    CU_ASSERT_EQUAL(arrival.accepted, NUM_SAMPLES);
    CU_ASSERT_EQUAL(arrival.refused, 0);
    flip_every_bit(&message, take_flipped, &arrival);
    sluice_message_clear(&message);
    for (unsigned i = 0; i < NUM_SAMPLES; i++)
        sluice_wire_sample_reply_clear(&replies[i]);
}

TEST(a_cut_reply_is_not_whole)
{
    struct sluice_wire_sample_reply replies[NUM_SAMPLES];
    struct sluice_message message = make_message(replies);
    uint8_t *flat = message_flatten(&message);
    for (size_t len = 0; len < message.len; len++) {
        struct sluice_message cut = message_cut(flat, len);
        CU_ASSERT_FALSE(sluice_wire_fetch_reply_is_whole(&cut));
        sluice_message_clear(&cut);
    }
    free(flat);
    sluice_message_clear(&message);
    for (unsigned i = 0; i < NUM_SAMPLES; i++)
        sluice_wire_sample_reply_clear(&replies[i]);
}

static void keep_reply(void *ctx, const struct sluice_wire_sample_reply *got)
{
    *(struct sluice_wire_sample_reply *)ctx = *got;
}

/* docs/PROTOCOL.md gives these definitions to whoever writes another client. */
TEST(hashes_are_what_the_protocol_says)
{
    static const uint8_t payload[] = "payload";
    struct sluice_wire_sample_reply reply = {.request_id = 0x0102030405060708}, got = {0};
    reply.payload = random_buf(7);
    memcpy(reply.payload->data, payload, 7);
    const struct sluice_draw_key key = {.seed = 5, .epoch = 6, .sample_id = 0xFF00};
    sluice_wire_seal_sample_reply(&reply, &key, 0);
    uint8_t numbers[48] = {8, 7, 6, 5, 4, 3, 2, 1, 0, 0xFF};
    numbers[16] = 5;
    numbers[24] = 6;
    const uint64_t of_payload = sluice_hash64(payload, 7);
    for (int i = 0; i < 8; i++)
        numbers[32 + i] = (uint8_t)(of_payload >> 8 * i);
    CU_ASSERT_EQUAL(reply.hash, sluice_hash64(numbers, 40));
    sluice_wire_seal_sample_reply(&reply, &key, 0x0203);
    numbers[40] = 3;
    numbers[41] = 2;
    CU_ASSERT_EQUAL(reply.hash, sluice_hash64(numbers, 48));

    /* One sample: SampleReply up to its payload's content, what is behind it, the load. */
    struct sluice_message message = {0};
    CHECK_OK(sluice_wire_put_sample_reply(&reply, &message, NULL));
    CHECK_OK(sluice_wire_put_load(&(struct sluice_wire_load){.queue_depth = 1}, &message, NULL));
    CHECK_OK(sluice_wire_get_fetch_reply(&message, MAX_PAYLOAD, keep_reply, &got, NULL, NULL));
    uint8_t *flat = message_flatten(&message);
    const size_t at = got.arrived.pos;
    CU_ASSERT_EQUAL_FATAL(memcmp(flat + at, payload, 7), 0);
    uint64_t said = 0;
    for (int i = 7; i >= 0; i--)
        said = said << 8 | flat[message.len - 8 + (size_t)i];
    CU_ASSERT_EQUAL(flat[message.len - 9], 5 << 3 | 1);
    memmove(flat + at, flat + at + 7, message.len - at - 7);
    CU_ASSERT_EQUAL(said, sluice_hash64(flat, message.len - 7 - 9));
    free(flat);
    sluice_message_clear(&message);
    sluice_wire_sample_reply_clear(&reply);
}

/* --- requests --- */

static struct sluice_message make_request(bool has_hash)
{
    struct sluice_wire_sample_request samples[NUM_SAMPLES];
    for (unsigned i = 0; i < NUM_SAMPLES; i++)
        samples[i] = (struct sluice_wire_sample_request){.request_id = 100 + i,
                                                         .key = asked[i],
                                                         .split = 3,
                                                         .form = SLUICE_FORM_U8,
                                                         .jpeg_crop_restart = 8,
                                                         .listed_id = listed[i]};
    const struct sluice_wire_fetch_request request = {
        .open = {.is_present = true,
                 .protocol_version = 1,
                 .pipeline = (char[]){"decode"},
                 .pipeline_fingerprint = 77,
                 .window_bytes = 1000},
        .samples = samples,
        .num_samples = NUM_SAMPLES,
        .grant_bytes = 4096,
        .cpu_worth = 1.5,
    };
    struct sluice_message message = {0};
    CHECK_OK(sluice_wire_put_fetch_request(&request, &message, NULL));
    if (!has_hash) {
        uint8_t *flat = message_flatten(&message);
        const size_t len = message.len - 9;
        sluice_message_clear(&message);
        message = whole(flat, len);
        free(flat);
    }
    return message;
}

static void read_flipped_request(const struct sluice_message *message, void *ctx)
{
    struct sluice_wire_fetch_request got;
    unsigned *refused = ctx;
    if (sluice_wire_get_fetch_request(message, &got, NULL) != SLUICE_OK) {
        ++*refused;
        return;
    }
    /* What is read is what was sent: the bit was one of the hash's tag. */
    CU_ASSERT_TRUE(got.open.is_present);
    CU_ASSERT_STRING_EQUAL(got.open.pipeline, "decode");
    CU_ASSERT_EQUAL(got.open.pipeline_fingerprint, 77);
    CU_ASSERT_EQUAL(got.open.window_bytes, 1000);
    CU_ASSERT_EQUAL(got.grant_bytes, 4096);
    CU_ASSERT_EQUAL(got.cpu_worth, 1.5);
    CU_ASSERT_EQUAL_FATAL(got.num_samples, NUM_SAMPLES);
    for (unsigned i = 0; i < NUM_SAMPLES; i++) {
        CU_ASSERT_EQUAL(got.samples[i].request_id, 100 + i);
        CU_ASSERT_EQUAL(got.samples[i].key.sample_id, asked[i].sample_id);
        CU_ASSERT_EQUAL(got.samples[i].split, 3);
        CU_ASSERT_EQUAL(got.samples[i].jpeg_crop_restart, 8);
        CU_ASSERT_EQUAL(got.samples[i].listed_id, listed[i]);
    }
    sluice_wire_fetch_request_clear(&got);
}

TEST(no_flipped_bit_of_a_request_is_taken)
{
    struct sluice_message message = make_request(true);
    unsigned refused = 0;
    flip_every_bit(&message, read_flipped_request, &refused);
    CU_ASSERT(refused >= 8 * (message.len - 1));
    CU_ASSERT(refused < 8 * message.len);
    sluice_message_clear(&message);
}

/* A server that does not check requests: it answers what it read, and seals it so. */
static void answer_flipped_request(const struct sluice_message *message, void *ctx)
{
    struct sluice_wire_fetch_request got;
    unsigned *refused = ctx;
    if (sluice_wire_get_fetch_request(message, &got, NULL) != SLUICE_OK)
        return;
    for (size_t i = 0; i < got.num_samples; i++) {
        struct sluice_wire_sample_reply reply = {.request_id = got.samples[i].request_id};
        reply.payload = random_buf(12);
        sluice_wire_seal_sample_reply(&reply, &got.samples[i].key, got.samples[i].listed_id);
        struct sluice_message answer = {0};
        struct sluice_wire_sample_reply arrived = {0};
        CHECK_OK(sluice_wire_put_sample_reply(&reply, &answer, NULL));
        CHECK_OK(
            sluice_wire_get_fetch_reply(&answer, MAX_PAYLOAD, keep_reply, &arrived, NULL, NULL));
        const uint64_t index = arrived.request_id - 100;
        if (index < NUM_SAMPLES) {
            const struct sluice_draw_key *a = &asked[index], *b = &got.samples[i].key;
            const bool is_same =
                a->sample_id == b->sample_id && a->seed == b->seed && a->epoch == b->epoch &&
                a->schedule == b->schedule && memcmp(&a->crop, &b->crop, sizeof(a->crop)) == 0 &&
                a->bucket == b->bucket && listed[index] == got.samples[i].listed_id;
            CU_ASSERT_EQUAL(sluice_wire_sample_reply_is_whole(&arrived, a, listed[index]), is_same);
            *refused += !is_same;
        }
        sluice_message_clear(&answer);
        sluice_wire_sample_reply_clear(&reply);
    }
    sluice_wire_fetch_request_clear(&got);
}

TEST(an_answer_to_another_question_is_not_whole)
{
    struct sluice_message message = make_request(false);
    unsigned refused = 0;
    flip_every_bit(&message, answer_flipped_request, &refused);
    CU_ASSERT(refused > 0);
    sluice_message_clear(&message);
}

/* --- Hello and lists --- */

static void read_flipped_hello(const struct sluice_message *message, void *ctx)
{
    (void)ctx;
    struct sluice_wire_hello got;
    CU_ASSERT_NOT_EQUAL(sluice_wire_get_hello_reply(message, &got, NULL), SLUICE_OK);
}

TEST(no_flipped_bit_of_a_hello_turns_the_check_off)
{
    struct sluice_wire_hello hello = {.protocol_version = 1,
                                      .peer = (char[]){"server"},
                                      .num_samples = 1000,
                                      .prep_workers = 2,
                                      .has_jpeg_crop_restart = true,
                                      .forms = 0x1F,
                                      .has_hashes = true},
                             got;
    struct sluice_message message = {0};
    CHECK_OK(sluice_wire_put_hello_reply(&hello, &message, NULL));
    message_recut(&message);
    REQUIRE_OK(sluice_wire_get_hello_reply(&message, &got, NULL));
    CU_ASSERT_TRUE(got.has_hashes);
    sluice_wire_hello_clear(&got);
    flip_every_bit(&message, read_flipped_hello, NULL);
    sluice_message_clear(&message);

    /* An older server's. */
    hello.has_hashes = false;
    CHECK_OK(sluice_wire_put_hello_reply(&hello, &message, NULL));
    REQUIRE_OK(sluice_wire_get_hello_reply(&message, &got, NULL));
    CU_ASSERT_FALSE(got.has_hashes);
    sluice_wire_hello_clear(&got);
    sluice_message_clear(&message);
}

static void read_flipped_list(const struct sluice_message *message, void *ctx)
{
    unsigned *unhashed = ctx;
    struct sluice_wire_list got;
    if (sluice_wire_get_list_reply(message, &got, NULL) != SLUICE_OK)
        return;
    CU_ASSERT_FALSE(got.has_hash); /* which Hello promised */
    ++*unhashed;
    sluice_wire_list_clear(&got);
}

TEST(no_flipped_bit_of_a_list_is_taken)
{
    char *classes[] = {"ant"};
    struct sluice_wire_sample_info rows[] = {
        {.sample_id = 70, .path = "ant/1.jpg", .bytes = 12, .width = 3, .has_hash = true},
        {.sample_id = 71, .path = "ant/2.jpg", .bytes = 13}};
    const struct sluice_wire_list list = {.classes = classes,
                                          .num_classes = 1,
                                          .num_samples = 200,
                                          .first_row = 70,
                                          .has_hash = true,
                                          .samples = rows,
                                          .num_samples_here = 2};
    struct sluice_message message = {0};
    CHECK_OK(sluice_wire_put_list_reply(&list, &message, NULL));
    unsigned unhashed = 0;
    flip_every_bit(&message, read_flipped_list, &unhashed);
    CU_ASSERT(unhashed <= 8);
    sluice_message_clear(&message);
}
