#include "wire/wire.h"

#include "offload.pb-c.h"
#include "support/test.h"
#include "wire/wire_internal.h"
#include "wire_random.h"

#define MAX_PAYLOAD (1u << 20)

/* --- requests --- */

static struct sluice_wire_fetch_request random_request(void)
{
    struct sluice_wire_fetch_request request = {.grant_bytes = random_u64(),
                                                .cpu_worth = random_u32() / 7.0};
    if (random_bool()) {
        request.open = (struct sluice_wire_fetch_open){
            .is_present = true,
            .protocol_version = random_u32(),
            .pipeline = random_text(200),
            .pipeline_fingerprint = random_u64(),
            .window_bytes = random_u64(),
            .follows_price = random_bool(),
            .wants_file_image = random_bool(),
            .client = random_text(80),
        };
        random_dataset_id(request.open.dataset_id);
    }
    request.num_samples = random_u32() % 50;
    request.samples = calloc(request.num_samples + 1, sizeof(*request.samples));
    for (size_t i = 0; i < request.num_samples; i++)
        request.samples[i] = (struct sluice_wire_sample_request){
            .request_id = random_u64(),
            .key = {.seed = random_u64(),
                    .epoch = random_u32(),
                    .sample_id = random_u64(),
                    .schedule = random_bool() ? random_u32() : 0,
                    .crop = random_bool() ? (struct sluice_box){random_u32(), random_u32(),
                                                                random_u32(), random_u32()}
                                          : (struct sluice_box){0},
                    .bucket = random_bool() ? random_u32() : 0},
            .split = random_u32(),
            .form = random_u32() % SLUICE_NUM_FORMS,
            .jpeg_crop_restart = random_bool() ? random_u32() : 0,
            .listed_id = random_bool() ? random_u64() : 0,
            .trace = random_bool() ? (struct sluice_trace_context){{random_u64() | 1, random_u64()},
                                                                   random_u64() | 1}
                                   : (struct sluice_trace_context){{0}, 0},
        };
    return request;
}

TEST(requests_come_back_as_they_were_put)
{
    for (int i = 0; i < 300; i++) {
        struct sluice_wire_fetch_request request = random_request(), got;
        struct sluice_message message = {0};
        CHECK_OK(sluice_wire_put_fetch_request(&request, &message, NULL));
        message_recut(&message);
        REQUIRE_OK(sluice_wire_get_fetch_request(&message, &got, NULL));
        CU_ASSERT_EQUAL(got.grant_bytes, request.grant_bytes);
        CU_ASSERT_EQUAL(got.cpu_worth, request.cpu_worth);
        CU_ASSERT_EQUAL(got.open.is_present, request.open.is_present);
        if (got.open.is_present && request.open.is_present) {
            CU_ASSERT_EQUAL(got.open.protocol_version, request.open.protocol_version);
            CU_ASSERT_STRING_EQUAL(got.open.pipeline, request.open.pipeline);
            CU_ASSERT_EQUAL(got.open.pipeline_fingerprint, request.open.pipeline_fingerprint);
            CU_ASSERT_STRING_EQUAL(got.open.dataset_id, request.open.dataset_id);
            CU_ASSERT_EQUAL(got.open.window_bytes, request.open.window_bytes);
            CU_ASSERT_EQUAL(got.open.follows_price, request.open.follows_price);
            CU_ASSERT_EQUAL(got.open.wants_file_image, request.open.wants_file_image);
            CU_ASSERT_STRING_EQUAL(got.open.client, request.open.client);
        }
        CU_ASSERT_EQUAL_FATAL(got.num_samples, request.num_samples);
        for (size_t k = 0; k < got.num_samples; k++) {
            CU_ASSERT_EQUAL(got.samples[k].request_id, request.samples[k].request_id);
            CU_ASSERT_EQUAL(got.samples[k].key.seed, request.samples[k].key.seed);
            CU_ASSERT_EQUAL(got.samples[k].key.epoch, request.samples[k].key.epoch);
            CU_ASSERT_EQUAL(got.samples[k].key.sample_id, request.samples[k].key.sample_id);
            CU_ASSERT_EQUAL(got.samples[k].key.schedule, request.samples[k].key.schedule);
            CU_ASSERT_EQUAL(got.samples[k].key.bucket, request.samples[k].key.bucket);
            CU_ASSERT(memcmp(&got.samples[k].key.crop, &request.samples[k].key.crop,
                             sizeof(struct sluice_box)) == 0);
            CU_ASSERT_EQUAL(got.samples[k].split, request.samples[k].split);
            CU_ASSERT_EQUAL(got.samples[k].form, request.samples[k].form);
            CU_ASSERT_EQUAL(got.samples[k].jpeg_crop_restart, request.samples[k].jpeg_crop_restart);
            CU_ASSERT_EQUAL(got.samples[k].listed_id, request.samples[k].listed_id);
            CU_ASSERT(memcmp(&got.samples[k].trace, &request.samples[k].trace,
                             sizeof(got.samples[k].trace)) == 0);
        }
        sluice_wire_fetch_request_clear(&request);
        sluice_wire_fetch_request_clear(&got);
        sluice_message_clear(&message);
    }
}

/* A request that asks for no restart interval has the bytes that it had before there was one. */
TEST(a_request_without_restart_interval_stays_the_same)
{
    static const uint8_t before[] = {0x12, 13, 0x08, 9, 0x10, 0xAC, 2,    0x18, 7,
                                     0x20, 2,  0x28, 3, 0x30, 1,    0x18, 0x80, 0x20};
    static const uint8_t asking[] = {0x12, 15,   0x08, 9,    0x10, 0xAC, 2, 0x18, 7,    0x20,
                                     2,    0x28, 3,    0x30, 1,    0x38, 8, 0x18, 0x80, 0x20};
    for (int asks = 0; asks < 2; asks++) {
        struct sluice_wire_sample_request sample = {
            .request_id = 9,
            .key = {.sample_id = 300, .seed = 7, .epoch = 2},
            .split = 3,
            .form = SLUICE_FORM_JPEG_CROP,
            .jpeg_crop_restart = asks ? 8 : 0,
        };
        const struct sluice_wire_fetch_request request = {
            .samples = &sample, .num_samples = 1, .grant_bytes = 4096};
        const uint8_t *want = asks ? asking : before;
        const size_t len = asks ? sizeof(asking) : sizeof(before);
        struct sluice_message message = {0};
        REQUIRE_OK(sluice_wire_put_fetch_request(&request, &message, NULL));
        CU_ASSERT_EQUAL_FATAL(message.len, len + 9); /* and the hash */
        uint8_t *flat = message_flatten(&message);
        CU_ASSERT_EQUAL(memcmp(flat, want, len), 0);
        free(flat);
        sluice_message_clear(&message);
    }
}

TEST(a_listed_id_is_the_number_in_the_servers_list)
{
    struct sluice_wire_sample_request request = {.key = {.sample_id = 300}};
    CU_ASSERT_EQUAL(sluice_wire_listed_id(&request), 300);
    request.listed_id = 1;
    CU_ASSERT_EQUAL(sluice_wire_listed_id(&request), 0);
    request.listed_id = UINT64_MAX;
    CU_ASSERT_EQUAL(sluice_wire_listed_id(&request), UINT64_MAX - 1);
}

/* As a server that knows no jpeg_crop_restart reads it. */
TEST(fields_of_a_sample_request_that_are_not_known_are_passed_over)
{
    static const uint8_t bytes[] = {0x12, 10, 0x08, 9, 0x28, 3, 0x78, 8, 0x30, 1, 0x10, 5};
    struct sluice_message message = message_cut(bytes, sizeof(bytes));
    struct sluice_wire_fetch_request got;
    REQUIRE_OK(sluice_wire_get_fetch_request(&message, &got, NULL));
    CU_ASSERT_EQUAL_FATAL(got.num_samples, 1);
    CU_ASSERT(got.samples[0].request_id == 9 && got.samples[0].key.sample_id == 5 &&
              got.samples[0].split == 3 && got.samples[0].form == SLUICE_FORM_JPEG_CROP &&
              got.samples[0].jpeg_crop_restart == 0);
    sluice_wire_fetch_request_clear(&got);
    sluice_message_clear(&message);
}

TEST(a_form_of_a_later_version_asks_for_the_file)
{
    static const uint8_t bytes[] = {0x12, 8, 0x08, 9, 0x28, 3, 0x30, 77, 0x10, 5};
    struct sluice_message message = message_cut(bytes, sizeof(bytes));
    struct sluice_wire_fetch_request got;
    REQUIRE_OK(sluice_wire_get_fetch_request(&message, &got, NULL));
    CU_ASSERT_EQUAL_FATAL(got.num_samples, 1);
    CU_ASSERT_EQUAL(got.samples[0].request_id, 9);
    CU_ASSERT_EQUAL(got.samples[0].key.sample_id, 5);
    CU_ASSERT_EQUAL(got.samples[0].split, 0);
    CU_ASSERT_EQUAL(got.samples[0].form, SLUICE_FORM_RAW);
    sluice_wire_fetch_request_clear(&got);
    sluice_message_clear(&message);
}

/* --- replies --- */

static struct sluice_wire_sample_reply random_reply(void)
{
    struct sluice_wire_sample_reply reply = {
        .request_id = random_u64(),
        .status = random_bool() ? SLUICE_OK : random_u32() % SLUICE_WIRE_NUM_STATUS,
        .ops_done = random_u32(),
        .form = random_u32() % SLUICE_NUM_FORMS,
        .width = random_u32(),
        .height = random_u32(),
        .channels = random_u32(),
        .image = {random_u32(), random_u32(), random_u32()},
        .queue_us = random_u32(),
        .cpu_us = random_u32(),
        .disk_us = random_u32(),
        .backlog_us = random_u32(),
        .work_us = random_u32(),
        .disk_busy_us = random_u32(),
        .read_bytes = random_u32(),
    };
    char *error = random_text(sizeof(reply.error) - 1);
    strcpy(reply.error, error);
    free(error);
    if (reply.status == SLUICE_OK)
        reply.payload = random_buf(random_u32() % (random_bool() ? 64 : 100000));
    return reply;
}

struct collected {
    struct sluice_wire_sample_reply replies[64];
    size_t num_replies;
};

/* Keeps them, payloads gathered. */
static void collect(void *ctx, const struct sluice_wire_sample_reply *reply)
{
    struct collected *collected = ctx;
    CU_ASSERT_FATAL(collected->num_replies < 64);
    CU_ASSERT_PTR_NULL(reply->payload);
    struct sluice_wire_sample_reply *kept = &collected->replies[collected->num_replies++];
    *kept = *reply;
    const size_t len = sluice_cursor_left(&kept->arrived);
    if (reply->status == SLUICE_OK)
        REQUIRE_OK(sluice_cursor_gather(&kept->arrived, len, NULL, &kept->payload, NULL));
    CU_ASSERT(reply->status == SLUICE_OK || len == 0);
}

static void clear_collected(struct collected *collected)
{
    for (size_t i = 0; i < collected->num_replies; i++)
        sluice_wire_sample_reply_clear(&collected->replies[i]);
    collected->num_replies = 0;
}

static void assert_replies_equal(const struct sluice_wire_sample_reply *a,
                                 const struct sluice_wire_sample_reply *b)
{
    CU_ASSERT_EQUAL(a->request_id, b->request_id);
    CU_ASSERT_EQUAL(a->status, b->status);
    CU_ASSERT_STRING_EQUAL(a->error, b->error);
    CU_ASSERT_EQUAL(a->ops_done, b->ops_done);
    CU_ASSERT_EQUAL(a->form, b->form);
    CU_ASSERT_EQUAL(a->width, b->width);
    CU_ASSERT_EQUAL(a->height, b->height);
    CU_ASSERT_EQUAL(a->channels, b->channels);
    CU_ASSERT(memcmp(&a->image, &b->image, sizeof(a->image)) == 0);
    CU_ASSERT_EQUAL(a->queue_us, b->queue_us);
    CU_ASSERT_EQUAL(a->cpu_us, b->cpu_us);
    CU_ASSERT_EQUAL(a->disk_us, b->disk_us);
    CU_ASSERT_EQUAL(a->disk_busy_us, b->disk_busy_us);
    CU_ASSERT_EQUAL(a->read_bytes, b->read_bytes);
    CU_ASSERT_EQUAL(a->backlog_us, b->backlog_us);
    CU_ASSERT_EQUAL(a->work_us, b->work_us);
    CU_ASSERT_EQUAL_FATAL(a->payload != NULL, b->payload != NULL);
    if (a->payload) {
        CU_ASSERT_EQUAL_FATAL(a->payload->len, b->payload->len);
        CU_ASSERT(memcmp(a->payload->data, b->payload->data, a->payload->len) == 0);
    }
}

TEST(replies_come_back_as_they_were_put)
{
    for (int i = 0; i < 100; i++) {
        struct collected put = {0}, got = {0};
        struct sluice_message message = {0};
        const uint32_t num_replies = random_u32() % 8;
        const struct sluice_wire_load load = {random_u32(), random_u32() / 7.0, random_u32() / 3.0};
        struct sluice_wire_load got_load = {99, 99, 99};
        for (uint32_t k = 0; k < num_replies; k++) {
            put.replies[put.num_replies++] = random_reply();
            CHECK_OK(sluice_wire_put_sample_reply(&put.replies[k], &message, NULL));
        }
        CHECK_OK(sluice_wire_put_load(&load, &message, NULL));
        if (random_bool())
            message_recut(&message);
        CHECK_OK(
            sluice_wire_get_fetch_reply(&message, MAX_PAYLOAD, collect, &got, &got_load, NULL));
        CU_ASSERT_EQUAL(got_load.queue_depth, load.queue_depth);
        CU_ASSERT_EQUAL(got_load.cpu_price, load.cpu_price);
        CU_ASSERT_EQUAL(got_load.prep_cores, load.prep_cores);
        CU_ASSERT_EQUAL_FATAL(got.num_replies, put.num_replies);
        for (size_t k = 0; k < put.num_replies; k++)
            assert_replies_equal(&got.replies[k], &put.replies[k]);
        sluice_message_clear(&message);
        clear_collected(&put);
        clear_collected(&got);
    }
}

TEST(every_status_and_form_survives)
{
    for (unsigned status = 0; status < SLUICE_WIRE_NUM_STATUS; status++) {
        for (unsigned form = 0; form < SLUICE_NUM_FORMS; form++) {
            struct sluice_wire_sample_reply reply = {.status = (sluice_status)status,
                                                     .form = (enum sluice_form)form};
            if (status == SLUICE_OK)
                reply.payload = random_buf(3);
            struct sluice_message message = {0};
            struct collected got = {0};
            CHECK_OK(sluice_wire_put_sample_reply(&reply, &message, NULL));
            CHECK_OK(sluice_wire_get_fetch_reply(&message, MAX_PAYLOAD, collect, &got, NULL, NULL));
            CU_ASSERT_EQUAL_FATAL(got.num_replies, 1);
            assert_replies_equal(&got.replies[0], &reply);
            clear_collected(&got);
            sluice_wire_sample_reply_clear(&reply);
            sluice_message_clear(&message);
        }
    }
}

TEST(payloads_travel_by_reference)
{
    struct sluice_message message = {0};
    struct sluice_buf *bufs[3];
    for (int i = 0; i < 3; i++) {
        struct sluice_wire_sample_reply reply = {.request_id = 7, .form = SLUICE_FORM_U8};
        bufs[i] = reply.payload = random_buf(150528);
        CHECK_OK(sluice_wire_put_sample_reply(&reply, &message, NULL));
    }
    unsigned found = 0;
    size_t other_bytes = 0;
    for (size_t s = 0; s < message.num_segments; s++) {
        bool is_payload = false;
        for (int i = 0; i < 3; i++) {
            if (message.segments[s].data == bufs[i]->data) {
                CU_ASSERT_EQUAL(message.segments[s].len, bufs[i]->len);
                CU_ASSERT_EQUAL(bufs[i]->refs, 2);
                is_payload = true;
                found |= 1u << i;
            }
        }
        other_bytes += is_payload ? 0 : message.segments[s].len;
    }
    CU_ASSERT_EQUAL(found, 7);
    CU_ASSERT(other_bytes < 3 * 40); /* 0.03 % of the payload */
    sluice_message_clear(&message);
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(bufs[i]->refs, 1);
        sluice_buf_unref(bufs[i]);
    }
}

TEST(a_payload_too_large_for_any_message_leaves_it_as_it_was)
{
    struct sluice_message message = {0};
    CHECK_OK(sluice_wire_put_load(&(struct sluice_wire_load){.queue_depth = 5}, &message, NULL));
    const size_t len = message.len;
    struct sluice_wire_sample_reply reply = {.payload = random_buf(16)};
    reply.payload->len = (size_t)1 << 31; /* nothing reads that far: it is refused first */
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_wire_put_sample_reply(&reply, &message, &err), SLUICE_E_NO_MEMORY);
    CU_ASSERT(strstr(err.text, "2147483648") != NULL);
    CU_ASSERT_EQUAL(message.len, len);
    sluice_wire_sample_reply_clear(&reply);
    sluice_message_clear(&message);
}

TEST(error_texts_are_made_utf8)
{
    struct sluice_wire_sample_reply reply = {.status = SLUICE_E_NOT_FOUND,
                                             .error = "no file a\xFF.\xC3-\xC3\xA4.jpg"};
    struct sluice_message message = {0};
    CHECK_OK(sluice_wire_put_sample_reply(&reply, &message, NULL));
    uint8_t *flat = message_flatten(&message);
    Sluice__V1__FetchReply *wire = sluice__v1__fetch_reply__unpack(NULL, message.len, flat);
    CU_ASSERT_PTR_NOT_NULL_FATAL(wire);
    CU_ASSERT_STRING_EQUAL(wire->samples[0]->error, "no file a?.?-\xC3\xA4.jpg");
    sluice__v1__fetch_reply__free_unpacked(wire, NULL);
    free(flat);
    sluice_message_clear(&message);
}

TEST(a_worth_that_is_no_amount_is_refused)
{
    const double wrong[] = {-1e-3, NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(wrong); i++) {
        Sluice__V1__FetchRequest wire = SLUICE__V1__FETCH_REQUEST__INIT;
        wire.cpu_worth = wrong[i];
        uint8_t packed[32];
        const size_t len = sluice__v1__fetch_request__pack(&wire, packed);
        struct sluice_message message = message_cut(packed, len);
        struct sluice_wire_fetch_request got;
        CU_ASSERT_EQUAL(sluice_wire_get_fetch_request(&message, &got, NULL), SLUICE_E_CORRUPT);
        sluice_message_clear(&message);
    }
}

TEST(protobuf_c_reads_what_is_put)
{
    struct collected put = {0};
    struct sluice_message message = {0};
    for (int i = 0; i < 20; i++) {
        put.replies[put.num_replies++] = random_reply();
        CHECK_OK(sluice_wire_put_sample_reply(&put.replies[i], &message, NULL));
    }
    CHECK_OK(sluice_wire_put_load(&(struct sluice_wire_load){123456, 1e-3, 2.5}, &message, NULL));
    uint8_t *flat = message_flatten(&message);
    Sluice__V1__FetchReply *wire = sluice__v1__fetch_reply__unpack(NULL, message.len, flat);
    CU_ASSERT_PTR_NOT_NULL_FATAL(wire);
    CU_ASSERT_EQUAL(wire->queue_depth, 123456);
    CU_ASSERT_EQUAL(wire->cpu_price, 1e-3);
    CU_ASSERT_EQUAL(wire->prep_cores, 2.5);
    CU_ASSERT_EQUAL_FATAL(wire->n_samples, 20);
    for (int i = 0; i < 20; i++) {
        const Sluice__V1__SampleReply *a = wire->samples[i];
        const struct sluice_wire_sample_reply *b = &put.replies[i];
        CU_ASSERT_EQUAL(a->request_id, b->request_id);
        CU_ASSERT_EQUAL((int)a->status, (int)b->status); /* the numbers agree by choice */
        CU_ASSERT_EQUAL(a->ops_done, b->ops_done);
        CU_ASSERT_EQUAL((int)a->form, (int)sluice_wire_form_to_wire(b->form));
        CU_ASSERT_EQUAL(a->height, b->height);
        CU_ASSERT_EQUAL(a->cpu_us, b->cpu_us);
        CU_ASSERT_EQUAL_FATAL(a->payload.len, b->payload ? b->payload->len : 0);
        if (b->payload && b->payload->len)
            CU_ASSERT(memcmp(a->payload.data, b->payload->data, b->payload->len) == 0);
    }
    sluice__v1__fetch_reply__free_unpacked(wire, NULL);
    free(flat);
    sluice_message_clear(&message);
    clear_collected(&put);
}

TEST(what_protobuf_c_packs_is_read)
{
    uint8_t *bytes = malloc(200000);
    random_bytes(bytes, 200000);
    Sluice__V1__SampleReply a = SLUICE__V1__SAMPLE_REPLY__INIT;
    a.request_id = UINT64_MAX;
    a.ops_done = 3;
    a.form = SLUICE__V1__FORM__FORM_U8;
    a.width = a.height = 224;
    a.channels = 3;
    a.queue_us = UINT32_MAX;
    a.cpu_us = 1;
    a.payload = (ProtobufCBinaryData){.len = 200000, .data = bytes};
    Sluice__V1__SampleReply b = SLUICE__V1__SAMPLE_REPLY__INIT;
    b.request_id = 2;
    b.status = SLUICE__V1__SAMPLE_STATUS__SAMPLE_AGAIN;
    b.error = "busy";
    Sluice__V1__SampleReply *samples[] = {&a, &b};
    Sluice__V1__FetchReply wire = SLUICE__V1__FETCH_REPLY__INIT;
    wire.samples = samples;
    wire.n_samples = 2;
    wire.queue_depth = 17;
    wire.cpu_price = 2.5;
    wire.prep_cores = 0.75;
    const size_t len = sluice__v1__fetch_reply__get_packed_size(&wire);
    uint8_t *packed = malloc(len);
    sluice__v1__fetch_reply__pack(&wire, packed);

    for (int i = 0; i < 20; i++) {
        struct sluice_message message = message_cut(packed, len);
        struct collected got = {0};
        struct sluice_wire_load load = {0};
        CHECK_OK(sluice_wire_get_fetch_reply(&message, MAX_PAYLOAD, collect, &got, &load, NULL));
        CU_ASSERT_EQUAL(load.queue_depth, 17);
        CU_ASSERT_EQUAL(load.cpu_price, 2.5);
        CU_ASSERT_EQUAL(load.prep_cores, 0.75);
        CU_ASSERT_EQUAL_FATAL(got.num_replies, 2);
        CU_ASSERT_EQUAL(got.replies[0].request_id, UINT64_MAX);
        CHECK_OK(got.replies[0].status);
        CU_ASSERT_EQUAL(got.replies[0].ops_done, 3);
        CU_ASSERT_EQUAL(got.replies[0].form, SLUICE_FORM_U8);
        CU_ASSERT_EQUAL(got.replies[0].width, 224);
        CU_ASSERT_EQUAL(got.replies[0].channels, 3);
        CU_ASSERT_EQUAL(got.replies[0].queue_us, UINT32_MAX);
        CU_ASSERT_EQUAL_FATAL(got.replies[0].payload->len, 200000);
        CU_ASSERT(memcmp(got.replies[0].payload->data, bytes, 200000) == 0);
        CU_ASSERT_EQUAL(got.replies[1].status, SLUICE_E_AGAIN);
        CU_ASSERT_STRING_EQUAL(got.replies[1].error, "busy");
        CU_ASSERT_PTR_NULL(got.replies[1].payload);
        clear_collected(&got);
        sluice_message_clear(&message);
    }
    free(packed);
    free(bytes);
}

/* --- replies by hand --- */

#define BYTES(...) (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})
#define CASE(why, ...)                                                                             \
    {                                                                                              \
        why, {__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})                                 \
    }

static sluice_status get(const uint8_t *data, size_t len, struct collected *got)
{
    struct sluice_message message = message_cut(data, len);
    struct sluice_wire_load load = {.queue_depth = 4711, .cpu_price = 47.11};
    struct sluice_err err = {0};
    const sluice_status status =
        sluice_wire_get_fetch_reply(&message, 8, collect, got, &load, &err);
    if (status != SLUICE_OK) {
        CU_ASSERT_EQUAL(load.queue_depth, 4711);
        CU_ASSERT_EQUAL(load.cpu_price, 47.11);
        CU_ASSERT(err.text[0] != 0);
    }
    sluice_message_clear(&message);
    return status;
}

TEST(malformed_replies_are_corrupt)
{
    static const struct {
        const char *why;
        uint8_t data[24];
        size_t len;
    } cases[] = {
        CASE("tag cut off", 0x80),
        CASE("length cut off", 0x0A),
        CASE("length beyond the end", 0x0A, 3, 0x08, 1),
        CASE("length of 2^64 - 1", 0x0A, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
             0x01),
        CASE("field 0", 0x00, 0),
        CASE("group", 0x0B, 0x0C),
        CASE("wire type 7", 0x1F, 0),
        CASE("tag beyond 32 bits", 0x88, 0x80, 0x80, 0x80, 0x10, 1),
        CASE("samples as a varint", 0x08, 1),
        CASE("queue depth as bytes", 0x12, 1, 0),
        CASE("queue depth of 33 bits", 0x10, 0x80, 0x80, 0x80, 0x80, 0x10),
        CASE("price as a varint", 0x18, 1),
        CASE("price cut off", 0x19, 0, 0, 0, 0, 0, 0, 0xF0),
        CASE("price below nothing", 0x19, 0, 0, 0, 0, 0, 0, 0xF0, 0xBF),
        CASE("price without an end", 0x19, 0, 0, 0, 0, 0, 0, 0xF0, 0x7F),
        CASE("price that is no number", 0x19, 0, 0, 0, 0, 0, 0, 0xF8, 0x7F),
        CASE("varint of 11 bytes", 0x10, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
             0),
        CASE("varint of 65 bits", 0x10, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02),
        CASE("negative cores", 0x21, 0, 0, 0, 0, 0, 0, 0xF0, 0xBF),
        CASE("infinite cores", 0x21, 0, 0, 0, 0, 0, 0, 0xF0, 0x7F),
        CASE("cores as a varint", 0x20, 1),
        CASE("unknown 64-bit field cut off", 0x79, 1, 2, 3),
        CASE("unknown 32-bit field cut off", 0x7D, 1, 2, 3),
        CASE("in a sample: varint cut off by the sample's end", 0x0A, 2, 0x08, 0x80, 0x01),
        CASE("in a sample: field 0", 0x0A, 2, 0x00, 0),
        CASE("in a sample: payload beyond the sample", 0x0A, 3, 0x7A, 2, 1, 2),
        CASE("in a sample: payload as a varint", 0x0A, 2, 0x78, 1),
        CASE("in a sample: status as bytes", 0x0A, 3, 0x12, 1, 0),
        CASE("in a sample: status as 32 bits", 0x0A, 5, 0x15, 0, 0, 0, 0),
        CASE("in a sample: width of 33 bits", 0x0A, 6, 0x30, 0x80, 0x80, 0x80, 0x80, 0x10),
        CASE("in a sample: error as a varint", 0x0A, 2, 0x18, 1),
        CASE("in a sample: NUL in the error", 0x0A, 5, 0x1A, 3, 'a', 0, 'b'),
        CASE("payload above the limit", 0x0A, 11, 0x7A, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9),
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct collected got = {0};
        const sluice_status status = get(cases[i].data, cases[i].len, &got);
        if (status != SLUICE_E_CORRUPT)
            printf("%s: %s\n", cases[i].why, sluice_status_name(status));
        CU_ASSERT_EQUAL(status, SLUICE_E_CORRUPT);
        CU_ASSERT_EQUAL(got.num_replies, 0);
        clear_collected(&got);
    }
}

TEST(samples_before_the_break_are_delivered)
{
    struct collected got = {0};
    CU_ASSERT_EQUAL(get(BYTES(0x0A, 2, 0x08, 1, 0x0A, 2, 0x08, 2, 0x0A, 9, 0x08), &got),
                    SLUICE_E_CORRUPT);
    CU_ASSERT_EQUAL_FATAL(got.num_replies, 2);
    CU_ASSERT_EQUAL(got.replies[1].request_id, 2);
    clear_collected(&got);
}

TEST(the_last_of_a_repeated_scalar_counts_and_order_does_not)
{
    struct collected got = {0};
    /* payload first, twice; unknown fields between; request id thrice */
    CHECK_OK(get(BYTES(0x10, 1, 0x0A, 21, 0x7A, 2, 'a', 'b', 0x08, 1, 0xA0, 0x06, 5, 0x08, 2, 0x7A,
                       3, 'x', 'y', 'z', 0x08, 3, 0x9A, 0x06, 0, 0x10, 2),
                 &got));
    CU_ASSERT_EQUAL_FATAL(got.num_replies, 1);
    CU_ASSERT_EQUAL(got.replies[0].request_id, 3);
    CU_ASSERT_EQUAL_FATAL(got.replies[0].payload->len, 3);
    CU_ASSERT(memcmp(got.replies[0].payload->data, "xyz", 3) == 0);
    clear_collected(&got);
}

TEST(an_absent_payload_is_an_empty_one)
{
    struct collected got = {0};
    CHECK_OK(get(BYTES(0x0A, 0), &got));
    CU_ASSERT_EQUAL_FATAL(got.num_replies, 1);
    CHECK_OK(got.replies[0].status);
    CU_ASSERT_PTR_NOT_NULL_FATAL(got.replies[0].payload);
    CU_ASSERT_EQUAL(got.replies[0].payload->len, 0);
    clear_collected(&got);
}

TEST(a_payload_beside_an_error_is_dropped)
{
    struct collected got = {0};
    CHECK_OK(get(BYTES(0x0A, 15, 0x10, 2, 0x7A, 11, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), &got));
    CU_ASSERT_EQUAL_FATAL(got.num_replies, 1);
    CU_ASSERT_EQUAL(got.replies[0].status, SLUICE_E_CORRUPT);
    CU_ASSERT_PTR_NULL(got.replies[0].payload);
    clear_collected(&got);
}

TEST(an_unknown_status_is_an_internal_error_with_its_number)
{
    struct collected got = {0};
    CHECK_OK(get(BYTES(0x0A, 6, 0x10, 77, 0x7A, 2, 1, 2), &got));
    /* -1, as enums are sign-extended to 64 bits */
    CHECK_OK(get(BYTES(0x0A, 11, 0x10, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01),
                 &got));
    CU_ASSERT_EQUAL_FATAL(got.num_replies, 2);
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(got.replies[i].status, SLUICE_E_INTERNAL);
        CU_ASSERT(strstr(got.replies[i].error, i ? "(-1)" : "(77)") != NULL);
        CU_ASSERT_PTR_NULL(got.replies[i].payload);
    }
    clear_collected(&got);
}

TEST(an_unknown_form_is_an_unsupported_sample)
{
    struct collected got = {0};
    CHECK_OK(get(BYTES(0x0A, 6, 0x28, 5, 0x7A, 2, 1, 2), &got));
    CU_ASSERT_EQUAL_FATAL(got.num_replies, 1);
    CU_ASSERT_EQUAL(got.replies[0].status, SLUICE_E_UNSUPPORTED);
    CU_ASSERT(strstr(got.replies[0].error, "(5)") != NULL);
    CU_ASSERT_PTR_NULL(got.replies[0].payload);
    clear_collected(&got);
}

TEST(a_long_error_is_cut)
{
    uint8_t bytes[400];
    memset(bytes, 'e', sizeof(bytes));
    const uint8_t head[] = {0x0A, 0xA2, 0x02, 0x1A, 0x9F, 0x02}; /* 290 = 3 + 287 */
    memcpy(bytes, head, sizeof(head));
    struct collected got = {0};
    CHECK_OK(get(bytes, sizeof(head) + 287, &got));
    CU_ASSERT_EQUAL_FATAL(got.num_replies, 1);
    CU_ASSERT_EQUAL(strlen(got.replies[0].error), sizeof(got.replies[0].error) - 1);
    clear_collected(&got);
    bytes[sizeof(head) + 280] = 0; /* a NUL in what is not kept is one all the same */
    CU_ASSERT_EQUAL(get(bytes, sizeof(head) + 287, &got), SLUICE_E_CORRUPT);
}

static void stay(void *ctx, const struct sluice_wire_sample_reply *reply)
{
    struct sluice_cursor *arrived = ctx;
    *arrived = reply->arrived;
}

TEST(got_payloads_stay_in_the_message)
{
    const struct sluice_wire_sample_reply reply = {.payload = random_buf(5000)};
    struct sluice_message message = {0};
    CHECK_OK(sluice_wire_put_sample_reply(&reply, &message, NULL));
    struct sluice_cursor arrived = {0};
    CHECK_OK(sluice_wire_get_fetch_reply(&message, MAX_PAYLOAD, stay, &arrived, NULL, NULL));
    CU_ASSERT_PTR_EQUAL_FATAL(arrived.message, &message);
    CU_ASSERT_EQUAL(sluice_cursor_left(&arrived), 5000);
    uint8_t bytes[5000];
    CU_ASSERT(sluice_cursor_read(&arrived, bytes, sizeof(bytes)));
    CU_ASSERT(memcmp(bytes, reply.payload->data, sizeof(bytes)) == 0);
    sluice_buf_unref(reply.payload);
    sluice_message_clear(&message);
}
