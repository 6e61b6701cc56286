#include "storage_server/services/service.h"

#include "base/buf.h"
#include "base/cpu.h"
#include "base/text.h"
#include "datasets/jpeg_index/jpeg_index_file.h"
#include "fixture.h"
#include "image/codecs/codec.h"
#include "image/jpeg/crop.h"
#include "image/jpeg/index.h"
#include "op/form.h"
#include "op/geometry.h"
#include "op/pipeline.h"
#include "support/test.h"
#include "trace/tracer.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

static struct sluice_pipeline *pipeline;
static struct sluice_scratch *scratch;

/* The server, and one stream that needs no credit. */
static struct client *start(struct fixture *f)
{
    fixture_start(f);
    return fetch_open(f, 0);
}

/* The same; whatever it reads waits at the gate. */
static struct client *start_held(struct fixture *f)
{
    fixture_start(f);
    gate_close(f->gate);
    return fetch_open(f, 0);
}

static void end(struct fixture *f, struct client *client)
{
    client_close(client);
    fixture_end(f);
}

/* One job at work and one that waits, in each group. */
static void make_tiny(struct fixture *f)
{
    f->options.prep_workers = 1;
    f->options.io_workers = 1;
    f->options.queue = 1;
}

/* What this process makes of a sample with the key that fetch_ask() names. */
static struct sluice_sample run_locally(uint64_t sample_id, unsigned split)
{
    size_t len;
    uint8_t *bytes = sluice_test_read_file(image_path((unsigned)sample_id), &len);
    struct sluice_sample sample = {.key = {.seed = 5, .epoch = 1, .sample_id = sample_id}};
    REQUIRE_OK(sluice_buf_create(NULL, len, &sample.data, NULL));
    memcpy(sample.data->data, bytes, len);
    sample.data->len = len;
    free(bytes);
    REQUIRE_OK(sluice_pipeline_run(pipeline, scratch, &sample, split, NULL));
    return sample;
}

static void expect_local_bytes(const struct sluice_wire_sample_reply *reply, uint64_t sample_id)
{
    REQUIRE_OK(reply->status);
    const bool is_packed = reply->form == SLUICE_FORM_U8_PACKED;
    struct sluice_sample sample = run_locally(sample_id, is_packed ? 0 : reply->ops_done);
    if (is_packed)
        CHECK_OK(sluice_pipeline_pack(pipeline, scratch, &sample, reply->ops_done, NULL));
    if (reply->form == SLUICE_FORM_JPEG_CROP)
        CHECK_OK(sluice_pipeline_crop_jpeg(pipeline, scratch, &sample, false, 0, NULL));
    CU_ASSERT_EQUAL_FATAL(reply->payload->len, sample.data->len);
    CU_ASSERT(memcmp(reply->payload->data, sample.data->data, sample.data->len) == 0);
    CU_ASSERT_EQUAL(reply->width, sample.width);
    CU_ASSERT_EQUAL(reply->height, sample.height);
    CU_ASSERT_EQUAL(reply->channels, sample.channels);
    CU_ASSERT_EQUAL(reply->form,
                    sluice_sample_form(&sample) == SLUICE_FORM_JPEG_CROP   ? SLUICE_FORM_JPEG_CROP
                    : sample.kind == SLUICE_KIND_FILE                      ? SLUICE_FORM_RAW
                    : sluice_sample_form(&sample) == SLUICE_FORM_U8_PACKED ? SLUICE_FORM_U8_PACKED
                    : sample.kind == SLUICE_KIND_U8                        ? SLUICE_FORM_U8
                                                                           : SLUICE_FORM_F32);
    sluice_sample_clear(&sample);
}

static void expect_all_local(struct client *client, uint64_t count)
{
    for (uint64_t id = 0; id < count; id++)
        expect_local_bytes(fetch_reply_to(client, id), id % NUM_IMAGES);
}

TEST(every_split_equals_the_local_pipeline)
{
    struct fixture f = fixture_init();
    struct client *client = start(&f);
    const unsigned num_ops = sluice_pipeline_num_ops(pipeline);
    for (unsigned split = 0; split <= num_ops; split++)
        fetch_ask(client, split * NUM_IMAGES, NUM_IMAGES, split, SLUICE_FORM_RAW);
    client_half_close(client);
    CU_ASSERT_EQUAL(client_await_done(client, NULL), SLUICE_RPC_OK);
    CU_ASSERT_EQUAL(fetch_count(client), (num_ops + 1) * NUM_IMAGES);
    for (uint64_t id = 0; id < (num_ops + 1) * NUM_IMAGES; id++) {
        const struct sluice_wire_sample_reply *reply = fetch_reply_to(client, id);
        CU_ASSERT_EQUAL(reply->ops_done, id / NUM_IMAGES);
        expect_local_bytes(reply, id % NUM_IMAGES);
    }
    end(&f, client);
}

TEST(replies_with_pixels_say_the_image_of_the_file_where_that_is_wanted)
{
    for (unsigned wants = 0; wants < 2; wants++) {
        struct fixture f = fixture_init();
        f.wants_file_image = wants;
        struct client *client = start(&f);
        const unsigned num_ops = sluice_pipeline_num_ops(pipeline);
        for (unsigned split = 0; split <= num_ops; split++)
            fetch_ask(client, split * NUM_IMAGES, NUM_IMAGES, split, SLUICE_FORM_RAW);
        fetch_await(client, (num_ops + 1) * NUM_IMAGES);
        for (uint64_t id = 0; id < (num_ops + 1) * NUM_IMAGES; id++) {
            const struct sluice_wire_sample_reply *reply = fetch_reply_to(client, id);
            struct sluice_sample file = run_locally(id % NUM_IMAGES, 0);
            struct sluice_file_image image = {0};
            if (wants && reply->ops_done > 0)
                REQUIRE_OK(sluice_file_image_read(pipeline, &file, &image, NULL));
            CU_ASSERT_EQUAL(reply->image.width, image.width);
            CU_ASSERT_EQUAL(reply->image.height, image.height);
            CU_ASSERT_EQUAL(reply->image.orientation, image.orientation);
            sluice_sample_clear(&file);
        }
        end(&f, client);
    }
}

TEST(a_hint_that_does_not_fit_gets_what_does)
{
    struct fixture f = fixture_init();
    struct client *client = start(&f);
    fetch_ask(client, 0, 1, 99, SLUICE_FORM_F32);
    fetch_ask(client, 1, 1, 1, SLUICE_FORM_JPEG_CROP);
    fetch_ask(client, 2, 1, 4, SLUICE_FORM_U8_PACKED);
    fetch_ask(client, 3, 1, 0, SLUICE_FORM_U8_PACKED);
    static const struct sluice_wire_sample_request outside = {
        .request_id = 4, .key = {.sample_id = NUM_IMAGES}, .split = 2};
    fetch_send(client, &outside, 1, 0);
    fetch_await(client, 5);
    static const unsigned expected[] = {5, 1, 4, 0};
    for (unsigned id = 0; id < 4; id++) {
        CU_ASSERT_EQUAL(fetch_reply_to(client, id)->ops_done, expected[id]);
        expect_local_bytes(fetch_reply_to(client, id), id);
    }
    CU_ASSERT_EQUAL(fetch_reply_to(client, 4)->status, SLUICE_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(fetch_reply_to(client, 4)->error, "12"));
    end(&f, client);
}

/* How many replies to `count` requests for crops are crops; the rest are files. */
static size_t ask_for_crops(struct client *client, uint64_t first, size_t count)
{
    fetch_ask(client, first, count, 0, SLUICE_FORM_JPEG_CROP);
    fetch_await(client, first + count);
    size_t num_crops = 0;
    for (uint64_t id = first; id < first + count; id++) {
        const struct sluice_wire_sample_reply *reply = fetch_reply_to(client, id);
        CU_ASSERT_EQUAL(reply->ops_done, 0);
        CU_ASSERT_EQUAL(reply->width + reply->height + reply->channels, 0);
        num_crops += reply->form == SLUICE_FORM_JPEG_CROP;
    }
    return num_crops;
}

TEST(files_are_cut_where_that_saves_bytes)
{
    struct fixture f = fixture_init();
    struct client *client = start(&f);
    CU_ASSERT(ask_for_crops(client, 0, NUM_IMAGES) > NUM_IMAGES / 2);
    size_t num_expected = 0;
    for (uint64_t id = 0; id < NUM_IMAGES; id++) {
        const struct sluice_wire_sample_reply *reply = fetch_reply_to(client, id);
        struct sluice_sample sample = run_locally(id, 0);
        const bool can_cut =
            sluice_pipeline_crop_jpeg(pipeline, scratch, &sample, false, 0, NULL) == SLUICE_OK;
        sluice_sample_clear(&sample);
        CU_ASSERT_EQUAL(reply->form, can_cut ? SLUICE_FORM_JPEG_CROP : SLUICE_FORM_RAW);
        num_expected += can_cut;
        expect_local_bytes(reply, id);
    }
    const struct sluice_wire_stats stats = sluice_storage_server_stats(f.server);
    CU_ASSERT_EQUAL(stats.choices[0][SLUICE_FORM_JPEG_CROP].samples, num_expected);
    CU_ASSERT_EQUAL(stats.choices[0][SLUICE_FORM_RAW].samples, NUM_IMAGES - num_expected);
    end(&f, client);
}

TEST(optimal_tables_make_smaller_crops)
{
    size_t bytes[2] = {0};
    for (int is_optimal = 0; is_optimal < 2; is_optimal++) {
        struct fixture f = fixture_init();
        f.options.jpeg_crop_huffman = is_optimal ? "optimal" : "fast";
        fixture_start(&f);
        struct client *client = fetch_open(&f, 0);
        CU_ASSERT(ask_for_crops(client, 0, NUM_IMAGES) > 0);
        for (uint64_t id = 0; id < NUM_IMAGES; id++)
            bytes[is_optimal] += fetch_reply_to(client, id)->payload->len;
        client_close(client);
        fixture_end(&f);
    }
    CU_ASSERT(bytes[1] < bytes[0]);
}

/* As asked, but no shorter than the server's own interval, and no longer than a JPEG can say. */
TEST(crops_restart_as_often_as_is_asked_and_allowed)
{
    static const uint32_t least[] = {1, 4, 0}, asked[] = {0, 1, 3, 4, 8, UINT32_MAX};
    for (size_t l = 0; l < SLUICE_ARRAY_LEN(least); l++) {
        struct fixture f = fixture_init();
        CU_ASSERT_EQUAL(f.options.jpeg_crop_restart, 1);
        f.options.jpeg_crop_restart = least[l];
        struct client *client = start(&f);
        size_t num_replies = 0, num_cut = 0;
        for (size_t a = 0; a < SLUICE_ARRAY_LEN(asked); a++) {
            uint32_t want = asked[a] && least[l] ? asked[a] : 0;
            if (want && want < least[l])
                want = least[l];
            if (want > SLUICE_JPEG_MAX_RESTART_INTERVAL)
                want = SLUICE_JPEG_MAX_RESTART_INTERVAL;
            for (uint64_t id = 0; id < NUM_IMAGES; id++) {
                const struct sluice_wire_sample_request request = {
                    .request_id = num_replies,
                    .key = {.seed = 5, .epoch = 1, .sample_id = id},
                    .form = SLUICE_FORM_JPEG_CROP,
                    .jpeg_crop_restart = asked[a],
                };
                fetch_send(client, &request, 1, 0);
                fetch_await(client, ++num_replies);
                const struct sluice_wire_sample_reply *reply =
                    fetch_reply_to(client, request.request_id);
                struct sluice_sample sample = run_locally(id, 0);
                const bool can_cut = sluice_pipeline_crop_jpeg(pipeline, scratch, &sample, false,
                                                               want, NULL) == SLUICE_OK;
                CU_ASSERT_EQUAL(reply->form, can_cut ? SLUICE_FORM_JPEG_CROP : SLUICE_FORM_RAW);
                CU_ASSERT_EQUAL_FATAL(reply->payload->len, sample.data->len);
                CU_ASSERT(memcmp(reply->payload->data, sample.data->data, sample.data->len) == 0);
                sluice_sample_clear(&sample);
                num_cut += can_cut;
            }
        }
        CU_ASSERT(num_cut > SLUICE_ARRAY_LEN(asked) * NUM_IMAGES / 2);
        end(&f, client);
    }
}

/* As of a shard: the file by its number here, the draws by its number in the whole. */
TEST(a_listed_id_names_the_file_and_the_key_the_draws)
{
    struct fixture f = fixture_init();
    struct client *client = start(&f);
    const unsigned split = sluice_pipeline_u8_split(pipeline);
    for (uint64_t id = 0; id <= NUM_IMAGES; id++) { /* the last one is not there */
        const struct sluice_wire_sample_request request = {
            .request_id = id,
            .key = {.seed = 5, .epoch = 1, .sample_id = 1000 + id},
            .split = split,
            .form = SLUICE_FORM_U8,
            .listed_id = id + 1,
        };
        fetch_send(client, &request, 1, 0);
    }
    fetch_await(client, NUM_IMAGES + 1);
    for (uint64_t id = 0; id < NUM_IMAGES; id++) {
        const struct sluice_wire_sample_reply *reply = fetch_reply_to(client, id);
        struct sluice_sample sample = run_locally(id, 0);
        sample.key.sample_id = 1000 + id;
        REQUIRE_OK(sluice_pipeline_run(pipeline, scratch, &sample, split, NULL));
        REQUIRE_OK(reply->status);
        CU_ASSERT_EQUAL_FATAL(reply->payload->len, sample.data->len);
        CU_ASSERT(memcmp(reply->payload->data, sample.data->data, sample.data->len) == 0);
        sluice_sample_clear(&sample);
    }
    CU_ASSERT_EQUAL(fetch_reply_to(client, NUM_IMAGES)->status, SLUICE_E_INVALID);
    end(&f, client);
}

TEST(a_trace_names_the_file_that_is_listed)
{
    char name[64];
    size_t len;
    const char *path = sluice_test_path("trace.jsonl");
    const struct sluice_tracer_options options = {.path = path, .service = "test", .sample = 1};
    struct fixture f = fixture_init();
    REQUIRE_OK(sluice_tracer_open(&options, &f.parts.tracer, NULL));
    struct client *client = start(&f);
    const struct sluice_wire_sample_request request = {
        .request_id = 1,
        .key = {.sample_id = 3}, /* another file, if it were one's number here */
        .listed_id = 7 + 1,
        .trace = {.trace = {1, 2}, .span = 3},
    };
    fetch_send(client, &request, 1, 0);
    fetch_await(client, 1);
    CHECK_OK(fetch_reply_to(client, 1)->status);
    struct sluice_tracer *tracer = f.parts.tracer;
    end(&f, client);
    sluice_tracer_close(tracer);
    char *text = (char *)sluice_test_read_file(path, &len);
    snprintf(name, sizeof(name), "\"%s\"", image_name(7));
    CU_ASSERT_PTR_NOT_NULL(memmem(text, len, name, strlen(name)));
    snprintf(name, sizeof(name), "\"%s\"", image_name(3));
    CU_ASSERT_PTR_NULL(memmem(text, len, name, strlen(name)));
    free(text);
}

/* At every u8 split, with no more bytes than the plain form has; at split 1 than the file. */
TEST(pixels_come_packed_where_that_saves_bytes)
{
    struct fixture f = fixture_init();
    struct client *client = start(&f);
    const unsigned u8_split = sluice_pipeline_u8_split(pipeline);
    for (unsigned split = 1; split <= u8_split; split++)
        fetch_ask(client, (split - 1) * NUM_IMAGES, NUM_IMAGES, split, SLUICE_FORM_U8_PACKED);
    fetch_await(client, u8_split * NUM_IMAGES);
    size_t num_packed[SLUICE_WIRE_MAX_SPLITS] = {0};
    for (uint64_t id = 0; id < u8_split * NUM_IMAGES; id++) {
        const struct sluice_wire_sample_reply *reply = fetch_reply_to(client, id);
        const unsigned split = 1 + (unsigned)(id / NUM_IMAGES);
        struct sluice_sample sample = run_locally(id % NUM_IMAGES, 0);
        const bool can_pack =
            sluice_pipeline_pack(pipeline, scratch, &sample, split, NULL) == SLUICE_OK;
        sluice_sample_clear(&sample);
        CU_ASSERT_EQUAL(reply->form, can_pack     ? SLUICE_FORM_U8_PACKED
                                     : split == 1 ? SLUICE_FORM_RAW
                                                  : SLUICE_FORM_U8);
        CU_ASSERT_EQUAL(reply->ops_done, reply->form == SLUICE_FORM_RAW ? 0 : split);
        num_packed[split] += can_pack;
        expect_local_bytes(reply, id % NUM_IMAGES);
    }
    const struct sluice_wire_stats stats = sluice_storage_server_stats(f.server);
    for (unsigned split = 1; split <= u8_split; split++) {
        CU_ASSERT(num_packed[split] > 0);
        CU_ASSERT_EQUAL(stats.choices[split][SLUICE_FORM_U8_PACKED].samples, num_packed[split]);
    }
    CU_ASSERT_EQUAL(stats.reduced, NUM_IMAGES - num_packed[1]);
    end(&f, client);
}

TEST_OF("local", no_room_to_cut_gives_the_file)
{
    struct fixture f = fixture_init();
    make_tiny(&f);
    struct client *client = start_held(&f);
    fetch_ask(client, 0, NUM_IMAGES, 0, SLUICE_FORM_JPEG_CROP);
    gate_await_held(f.gate, 2);
    gate_open(f.gate);
    fetch_await(client, NUM_IMAGES);
    size_t num_files = 0;
    for (uint64_t id = 0; id < NUM_IMAGES; id++) {
        expect_local_bytes(fetch_reply_to(client, id), id);
        num_files += fetch_reply_to(client, id)->form == SLUICE_FORM_RAW;
    }
    CU_ASSERT(num_files >= 1);
    end(&f, client);
}

TEST(a_stream_without_a_pipeline_gets_files)
{
    struct fixture f = fixture_init();
    fixture_start(&f);
    struct client *client = client_open(&f, SLUICE_METHOD_FETCH);
    struct sluice_wire_sample_request sample = {.request_id = 7, .split = 3};
    const struct sluice_wire_fetch_request request = {
        .open = {.is_present = true, .protocol_version = SLUICE_WIRE_PROTOCOL_VERSION},
        .samples = &sample,
        .num_samples = 1,
    };
    struct sluice_message message = {0};
    CHECK_OK(sluice_wire_put_fetch_request(&request, &message, NULL));
    client_send(client, &message);
    client_await_messages(client, 1);
    size_t len;
    free(sluice_test_read_file(image_path(0), &len));
    CU_ASSERT(client_message(client, 0)->len > len);
    CU_ASSERT(client_message(client, 0)->len < len + 100);
    end(&f, client);
}

TEST_OF("local", a_full_prep_queue_costs_ops_and_two_full_queues_cost_time)
{
    struct fixture f = fixture_init();
    make_tiny(&f);
    struct client *client = start_held(&f);
    /* At most four find a place: one at work and one queued in each group. */
    fetch_ask(client, 0, 20, 3, SLUICE_FORM_U8);
    gate_await_held(f.gate, 2);
    /* These come while the stream waits for room; they are taken all the same. */
    fetch_ask(client, 20, 10, 5, SLUICE_FORM_F32);
    CU_ASSERT_EQUAL(fetch_count(client), 0);
    gate_open(f.gate);

    fetch_await(client, 30);
    unsigned reduced = 0;
    for (uint64_t id = 0; id < 30; id++) {
        const struct sluice_wire_sample_reply *reply = fetch_reply_to(client, id);
        expect_local_bytes(reply, id % NUM_IMAGES);
        const unsigned asked = id < 20 ? 3 : 5;
        CU_ASSERT(reply->ops_done == asked || reply->ops_done == 0);
        reduced += reply->ops_done == 0;
    }
    CU_ASSERT(reduced >= 1);

    struct sluice_message request = {0}, message = {0};
    CHECK_OK(sluice_wire_put_stats_request(&request, NULL));
    CU_ASSERT_EQUAL(call(&f, SLUICE_METHOD_STATS, &request, &message, NULL), SLUICE_RPC_OK);
    struct sluice_wire_stats stats;
    CHECK_OK(sluice_wire_get_stats_reply(&message, &stats, NULL));
    sluice_message_clear(&message);
    CU_ASSERT_EQUAL(stats.samples, 30);
    CU_ASSERT_EQUAL(stats.reduced, reduced);
    CU_ASSERT_EQUAL(stats.choices[0][SLUICE_FORM_RAW].samples, reduced);
    CU_ASSERT_EQUAL(stats.queue_peak, 1);
    CU_ASSERT_EQUAL(stats.prep_workers, 1);
    CU_ASSERT_EQUAL(stats.streams, 1);
    CU_ASSERT(stats.wire_bytes > stats.payload_bytes);
    CU_ASSERT(stats.busy_cores > 0);
    CU_ASSERT(stats.process_cpu_s > stats.cpu_s);
    CU_ASSERT(sluice_starts_with(stats.server, "offload_server "));
    CU_ASSERT(stats.memory_used > 0 || stats.memory_limit > 0);
    CU_ASSERT_FALSE(stats.is_not_serving);
    CU_ASSERT_EQUAL_FATAL(stats.num_clients, 1);
    CU_ASSERT_EQUAL(stats.clients[0].samples, 30);
    CU_ASSERT_EQUAL(stats.clients[0].streams, 1);
    CU_ASSERT_STRING_EQUAL(stats.clients[0].token, "");
    sluice_wire_stats_clear(&stats);
    end(&f, client);
}

TEST_OF("local", many_streams_share_a_full_server)
{
    struct fixture f = fixture_init();
    make_tiny(&f);
    fixture_start(&f);
    gate_close(f.gate);
    struct client *clients[6];
    for (int i = 0; i < 6; i++) {
        clients[i] = fetch_open(&f, 0);
        fetch_ask(clients[i], 0, 15, i % 2 ? 0 : 3, SLUICE_FORM_RAW);
    }
    gate_await_held(f.gate, 2);
    /* One that waits in line goes away. */
    client_close(clients[3]);
    gate_open(f.gate);
    for (int i = 0; i < 6; i++) {
        if (i == 3)
            continue;
        fetch_await(clients[i], 15);
        expect_all_local(clients[i], 15);
        client_close(clients[i]);
    }
    fixture_end(&f);
}

TEST_OF("local", no_more_than_max_in_flight_are_taken_up)
{
    struct fixture f = fixture_init();
    f.options.prep_workers = 4;
    f.options.max_in_flight = 2;
    struct client *client = start_held(&f);
    fetch_ask(client, 0, 30, 2, SLUICE_FORM_U8);
    gate_await_held(f.gate, 2);
    gate_open(f.gate);
    fetch_await(client, 30);
    expect_all_local(client, 30);
    CU_ASSERT_EQUAL(gate_peak(f.gate), 2);
    end(&f, client);
}

/* Returns when the server has done all that was asked of it before: with one IO worker, a later
 * request is answered after it. */
static void await_io(struct fixture *f)
{
    struct client *other = fetch_open(f, 0);
    fetch_ask(other, 0, 1, 0, SLUICE_FORM_RAW);
    fetch_await(other, 1);
    client_close(other);
}

TEST_OF("local", without_credit_replies_wait_for_a_grant)
{
    struct fixture f = fixture_init();
    f.options.io_workers = 1;
    f.options.grpc_workers = 1;
    fixture_start(&f);
    struct client *client = fetch_open(&f, 1);
    fetch_ask(client, 0, 8, 0, SLUICE_FORM_RAW);
    /* One may overdraw the credit. */
    fetch_await(client, 1);
    await_io(&f);
    CU_ASSERT_EQUAL(fetch_count(client), 1);

    /* Paying back less than was sent opens nothing; the last byte lets one more through. */
    const size_t sent = fetch_reply(client, 0)->payload->len;
    fetch_send(client, NULL, 0, sent - 1);
    await_io(&f);
    CU_ASSERT_EQUAL(fetch_count(client), 1);
    fetch_send(client, NULL, 0, 1);
    fetch_await(client, 2);
    await_io(&f);
    CU_ASSERT_EQUAL(fetch_count(client), 2);
    CU_ASSERT_EQUAL(client_num_messages(client), 2);

    /* The six small ones that were held share one message. */
    fetch_send(client, NULL, 0, UINT64_MAX);
    fetch_await(client, 8);
    CU_ASSERT_EQUAL(client_num_messages(client), 3);
    for (uint64_t id = 0; id < 8; id++)
        expect_local_bytes(fetch_reply_to(client, id), id);
    end(&f, client);
}

TEST_OF("local", replies_wait_for_those_that_are_worked_on)
{
    struct fixture f = fixture_init();
    f.options.prep_workers = 1;
    f.options.reply_wait_ms = PATIENCE_MS;
    struct client *client = start_held(&f);
    fetch_ask(client, 0, 8, 2, SLUICE_FORM_U8);
    while (sluice_storage_server_stats(f.server).queue_depth < 7)
        sched_yield();
    gate_open(f.gate);
    fetch_await(client, 8);
    CU_ASSERT_EQUAL(client_num_messages(client), 1);
    expect_all_local(client, 8);
    end(&f, client);
}

TEST_OF("local", no_reply_waits_long_for_those_that_take_long)
{
    struct fixture f = fixture_init();
    f.options.reply_wait_ms = 1;
    struct client *client = start_held(&f);
    static const struct sluice_wire_sample_request outside = {.request_id = 1,
                                                              .key = {.sample_id = NUM_IMAGES}};
    fetch_ask(client, 0, 1, 0, SLUICE_FORM_RAW);
    gate_await_held(f.gate, 1);
    fetch_send(client, &outside, 1, 0);
    fetch_await(client, 1);
    CU_ASSERT_EQUAL(fetch_reply_to(client, 1)->status, SLUICE_E_INVALID);
    gate_open(f.gate);
    fetch_await(client, 2);
    end(&f, client);
}

/* The grants stand behind requests that cannot be taken up before them. */
TEST_OF("local", grants_are_read_past_requests_that_wait)
{
    struct fixture f = fixture_init();
    f.options.max_in_flight = 2;
    fixture_start(&f);
    struct client *client = fetch_open(&f, 1);
    for (uint64_t first = 0; first < 300; first += 50)
        fetch_ask(client, first, 50, 0, SLUICE_FORM_RAW);
    fetch_await(client, 1);
    fetch_send(client, NULL, 0, UINT64_MAX);
    fetch_await(client, 300);
    for (uint64_t id = 0; id < 300; id++)
        expect_local_bytes(fetch_reply_to(client, id), id % NUM_IMAGES);
    end(&f, client);
}

TEST_OF("local", a_very_long_backlog_pauses_the_stream_and_is_answered_all_the_same)
{
    struct fixture f = fixture_init();
    f.options.max_in_flight = 1;
    struct client *client = start_held(&f);
    fetch_ask(client, 0, 1, 0, SLUICE_FORM_RAW);
    gate_await_held(f.gate, 1);
    /* No such samples: answered without reading any file. */
    enum { per_message = 10000, count = 80000 };
    static struct sluice_wire_sample_request requests[per_message];
    for (size_t i = 0; i < per_message; i++)
        requests[i] = (struct sluice_wire_sample_request){.request_id = 1,
                                                          .key = {.sample_id = NUM_IMAGES + i}};
    for (size_t sent = 0; sent < count; sent += per_message)
        fetch_send(client, requests, per_message, 0);
    gate_open(f.gate);
    fetch_await(client, 1 + count);
    CU_ASSERT_EQUAL(fetch_reply(client, count)->status, SLUICE_E_INVALID);
    end(&f, client);
}

/* 64 MiB may wait in the server for a stream, beside what its client's transport has taken. */
TEST_OF("local", a_client_that_does_not_read_fills_no_more_than_its_share)
{
    char kept[700];
    snprintf(kept, sizeof(kept), "%s.kept", image_path(0));
    rename(image_path(0), kept);
    const size_t len = 1 << 20;
    uint8_t *large = calloc(1, len);
    sluice_test_write_file(image_path(0), large, len);
    free(large);

    struct fixture f = fixture_init();
    struct client *client = start(&f);
    struct fixture beside = f;
    beside.channel = fixture_connect(&f);
    client_stall(client);
    enum { count = 1000 };
    static struct sluice_wire_sample_request requests[count];
    for (size_t i = 0; i < count; i++)
        requests[i].request_id = i;
    fetch_send(client, requests, count, 0);
    /* Others are served meanwhile. */
    struct client *other = fetch_open(&beside, 0);
    uint64_t num_others = 0;
    for (; sluice_storage_server_stats(f.server).files.read_bytes < 64 * len; num_others++) {
        fetch_ask(other, 1 + num_others * NUM_IMAGES, 1, 0, SLUICE_FORM_RAW);
        fetch_await(other, num_others + 1);
    }
    for (unsigned i = 0; i < 100; i++, num_others++) {
        fetch_ask(other, 1 + num_others * NUM_IMAGES, 1, 0, SLUICE_FORM_RAW);
        fetch_await(other, num_others + 1);
    }
    /* Asked for in this order, so that what goes on in between makes it less. */
    const uint64_t bytes_read = sluice_storage_server_stats(f.server).files.read_bytes;
    const uint64_t bytes_sent = sluice_storage_server_stats(f.server).wire_bytes;
    CU_ASSERT(bytes_read < bytes_sent + 80 * len);
    client_close(other);
    sluice_rpc_channel_destroy(beside.channel);
    client_go_on(client);
    fetch_await(client, 70);
    CU_ASSERT_EQUAL(fetch_reply_to(client, 0)->payload->len, len);
    end(&f, client);
    rename(kept, image_path(0));
}

/* A tall picture in place of an image, with an index of it; its length. */
static size_t write_indexed(unsigned id, const char *index_path)
{
    enum { WIDTH = 120, HEIGHT = 1200, STEP = 8 };
    static uint8_t rgb[WIDTH * HEIGHT * 3];
    for (size_t i = 0; i < sizeof(rgb); i++)
        rgb[i] = (uint8_t)(i * i >> 5);
    struct sluice_buf *file, *entry;
    struct sluice_jpeg_index index;
    struct sluice_jpeg_index_writer *writer;
    uint64_t bytes;
    REQUIRE_OK(sluice_jpeg_encode(
        rgb, WIDTH, HEIGHT, &(struct sluice_jpeg_encode_options){.quality = 95}, &file, NULL));
    sluice_test_write_file(image_path(id), file->data, file->len);
    struct stat st;
    CU_ASSERT_EQUAL_FATAL(stat(image_path(id), &st), 0);
    const int64_t mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    REQUIRE_OK(sluice_jpeg_index_build(file->data, file->len, mtime_ns, STEP, &index, NULL));
    REQUIRE_OK(sluice_jpeg_index_write(&index, &entry, NULL));
    REQUIRE_OK(sluice_jpeg_index_writer_create(index_path, STEP, 1, &writer, NULL));
    REQUIRE_OK(sluice_jpeg_index_writer_add(writer, image_name(id), entry, NULL));
    REQUIRE_OK(sluice_jpeg_index_writer_commit(writer, &bytes, NULL));
    sluice_jpeg_index_writer_destroy(writer);
    sluice_jpeg_index_clear(&index);
    const size_t len = file->len;
    sluice_buf_unref(file);
    sluice_buf_unref(entry);
    return len;
}

/* Another picture of the same length and time, so that its index is seen to be wrong on use. */
static void change_hidden(const char *path)
{
    struct stat st;
    size_t len;
    uint8_t *bytes = sluice_test_read_file(path, &len);
    CU_ASSERT_EQUAL_FATAL(stat(path, &st), 0);
    size_t dqt = 0;
    while (bytes[dqt] != 0xFF || bytes[dqt + 1] != 0xDB)
        dqt++;
    bytes[dqt + 20] ^= 1;
    sluice_test_write_file(path, bytes, len);
    free(bytes);
    CU_ASSERT_EQUAL_FATAL(
        utimensat(AT_FDCWD, path, (const struct timespec[]){st.st_mtim, st.st_mtim}, 0), 0);
}

TEST(a_reply_says_how_much_of_the_file_was_read)
{
    enum { ID = 3 };
    char kept[700];
    snprintf(kept, sizeof(kept), "%s.kept", image_path(ID));
    rename(image_path(ID), kept);
    const char *index_path = sluice_test_path("of_one.bin");
    const size_t len = write_indexed(ID, index_path);
    for (int is_changed = 0; is_changed < 2; is_changed++) {
        if (is_changed)
            change_hidden(image_path(ID));
        struct fixture f = fixture_init();
        f.options.jpeg_index = index_path;
        struct client *client = start(&f);
        fetch_ask(client, ID, 1, 0, SLUICE_FORM_RAW);
        fetch_ask(client, ID + NUM_IMAGES, 1, 0, SLUICE_FORM_JPEG_CROP);
        fetch_ask(client, ID + 2 * NUM_IMAGES, 1, 3, SLUICE_FORM_U8);
        fetch_ask(client, ID + 1, 1, 3, SLUICE_FORM_U8); /* not in the index */
        fetch_await(client, 4);
        CU_ASSERT_EQUAL(fetch_reply_to(client, ID)->read_bytes, 0);
        CU_ASSERT_EQUAL(fetch_reply_to(client, ID + 1)->read_bytes, 0);
        for (unsigned k = 1; k < 3; k++) {
            const struct sluice_wire_sample_reply *reply =
                fetch_reply_to(client, ID + k * NUM_IMAGES);
            CHECK_OK(reply->status);
            const size_t part = is_changed ? reply->read_bytes - len : reply->read_bytes;
            CU_ASSERT(part > 0 && part < len * 85 / 100);
        }
        end(&f, client);
    }
    rename(kept, image_path(ID));
}

/* As a client makes pixels of them; false: they do not do. */
static bool rows_are_the_files_pixels(const struct sluice_wire_sample_reply *reply, uint64_t id)
{
    struct sluice_sample want = run_locally(id, 3);
    struct sluice_sample got = {.key = want.key,
                                .data = sluice_buf_ref(reply->payload),
                                .coding = sluice_form_type(SLUICE_FORM_JPEG_ROWS)};
    const bool is_same = sluice_pipeline_run(pipeline, scratch, &got, 3, NULL) == SLUICE_OK &&
                         got.data->len == want.data->len &&
                         memcmp(got.data->data, want.data->data, want.data->len) == 0;
    sluice_sample_clear(&got);
    sluice_sample_clear(&want);
    return is_same;
}

TEST(rows_are_sent_of_files_with_an_index_and_other_files_whole)
{
    enum { ID = 3 };
    char kept[700];
    snprintf(kept, sizeof(kept), "%s.kept", image_path(ID));
    rename(image_path(ID), kept);
    const char *index_path = sluice_test_path("of_one_more.bin");
    const size_t len = write_indexed(ID, index_path);
    for (int is_changed = 0; is_changed < 2; is_changed++) {
        if (is_changed)
            change_hidden(image_path(ID));
        struct fixture f = fixture_init();
        f.options.jpeg_index = index_path;
        make_tiny(&f); /* so that nothing but a worker of IO can be free */
        struct client *client = start(&f);
        fetch_ask(client, ID, 2, 0, SLUICE_FORM_JPEG_ROWS);
        fetch_await(client, 2);
        const struct sluice_wire_sample_reply *rows = fetch_reply_to(client, ID);
        REQUIRE_OK(rows->status);
        CU_ASSERT_EQUAL(rows->ops_done, 0);
        CU_ASSERT_EQUAL(rows->width + rows->height + rows->channels, 0);
        if (is_changed) { /* what is not as it was indexed goes whole */
            CU_ASSERT_EQUAL(rows->form, SLUICE_FORM_RAW);
            expect_local_bytes(rows, ID);
        } else {
            CU_ASSERT_EQUAL(rows->form, SLUICE_FORM_JPEG_ROWS);
            CU_ASSERT(rows->payload->len < len * 85 / 100);
            CU_ASSERT(sluice_cpu_level() == SLUICE_CPU_C || rows_are_the_files_pixels(rows, ID));
        }
        CU_ASSERT_EQUAL(fetch_reply_to(client, ID + 1)->form, SLUICE_FORM_RAW);
        expect_local_bytes(fetch_reply_to(client, ID + 1), ID + 1);
        const struct sluice_wire_stats stats = sluice_storage_server_stats(f.server);
        CU_ASSERT_EQUAL(stats.choices[0][SLUICE_FORM_JPEG_ROWS].samples, !is_changed);
        CU_ASSERT_EQUAL(stats.jpeg_index.again, (uint64_t)is_changed);
        CU_ASSERT_EQUAL(stats.reduced, 0);
        end(&f, client);
    }
    rename(kept, image_path(ID));
}

TEST(a_bad_file_is_an_error_of_its_own)
{
    struct fixture f = fixture_init();
    f.options.max_image_pixels = 100000;
    static const char *const names[] = {"cut",  "empty", "text", "folder",
                                        "fifo", "gone",  "out",  "large"};
    static const sluice_status expected[] = {
        SLUICE_E_CORRUPT,     SLUICE_E_CORRUPT,   SLUICE_E_UNSUPPORTED, SLUICE_E_UNSUPPORTED,
        SLUICE_E_UNSUPPORTED, SLUICE_E_NOT_FOUND, SLUICE_E_INVALID,     SLUICE_E_UNSUPPORTED};
    enum { NUM_BAD = sizeof(names) / sizeof(names[0]) };
    char kept[NUM_BAD][700];
    for (unsigned id = 0; id < NUM_BAD; id++) {
        snprintf(kept[id], sizeof(kept[id]), "%s.kept", image_path(id));
        rename(image_path(id), kept[id]);
        sluice_test_write_file(image_path(id), "listed", 6);
    }
    size_t len;
    uint8_t *bytes = sluice_test_read_file(kept[0], &len);
    sluice_test_write_file(image_path(0), bytes, len / 2);
    free(bytes);
    sluice_test_write_file(image_path(1), "", 0);
    sluice_test_write_file(image_path(2), "no image at all", 15);
    uint8_t *large = calloc(1, 2 << 20);
    sluice_test_write_file(image_path(7), large, 2 << 20);
    free(large);
    fixture_start(&f);

    /* The server knows them all from its list; what lies there now is something else. */
    for (unsigned id = 3; id < 7; id++)
        CU_ASSERT_EQUAL(unlink(image_path(id)), 0);
    mkdir(image_path(3), 0700);
    mkfifo(image_path(4), 0600);
    CU_ASSERT_EQUAL(symlink("/etc/passwd", image_path(6)), 0);

    struct client *client = fetch_open(&f, 0);
    fetch_ask(client, 0, NUM_IMAGES, 3, SLUICE_FORM_U8);
    fetch_await(client, NUM_IMAGES);
    for (unsigned id = 0; id < NUM_IMAGES; id++) {
        const struct sluice_wire_sample_reply *reply = fetch_reply_to(client, id);
        if (id >= NUM_BAD) {
            expect_local_bytes(reply, id);
            continue;
        }
        if (reply->status != expected[id])
            printf("%s: %s\n", names[id], reply->error);
        CU_ASSERT_EQUAL(reply->status, expected[id]);
        CU_ASSERT_PTR_NULL(reply->payload);
        CU_ASSERT_PTR_NOT_NULL(strstr(reply->error, image_name(id)));
        CU_ASSERT(strlen(reply->error) > strlen(image_name(id)) + 2);
    }

    char *json = NULL;
    CHECK_OK(sluice_storage_server_stats_json(f.server, &json, NULL));
    CU_ASSERT_PTR_NOT_NULL(strstr(json, "\"errors\":{\"invalid\":1,\"corrupt\":2,\"unsupported\":4,"
                                        "\"not found\":1}"));
    CU_ASSERT_PTR_NOT_NULL(strstr(json, "\"refused_paths\":1"));
    free(json);

    rmdir(image_path(3));
    for (unsigned id = 0; id < NUM_BAD; id++)
        rename(kept[id], image_path(id));
    end(&f, client);
}

TEST(too_many_pixels_are_refused_by_the_header)
{
    struct fixture f = fixture_init();
    f.options.max_image_pixels = 48 * 40; /* the size of sample 0; the others are larger */
    struct client *client = start(&f);
    fetch_ask(client, 0, 2, 1, SLUICE_FORM_U8);
    fetch_await(client, 2);
    expect_local_bytes(fetch_reply_to(client, 0), 0);
    CU_ASSERT_EQUAL(fetch_reply_to(client, 1)->status, SLUICE_E_UNSUPPORTED);
    end(&f, client);
}

/* Opens a stream with `request` as its first message; returns how it ends. */
static enum sluice_rpc_code
end_of(struct fixture *f, const struct sluice_wire_fetch_request *request, struct sluice_err *err)
{
    struct client *client = client_open(f, SLUICE_METHOD_FETCH);
    struct sluice_message message = {0};
    CHECK_OK(sluice_wire_put_fetch_request(request, &message, NULL));
    client_send(client, &message);
    const enum sluice_rpc_code code = client_await_done(client, err);
    client_close(client);
    return code;
}

TEST(refuses_streams_that_do_not_agree)
{
    struct fixture f = fixture_init();
    fixture_start(&f);
    struct sluice_err err = {0};
    struct sluice_wire_sample_request sample = {.request_id = 1};

    const struct sluice_wire_fetch_request unopened = {.samples = &sample, .num_samples = 1};
    CU_ASSERT_EQUAL(end_of(&f, &unopened, &err), SLUICE_RPC_INVALID_ARGUMENT);

    struct sluice_wire_fetch_request request = {
        .open = {.is_present = true,
                 .protocol_version = SLUICE_WIRE_PROTOCOL_VERSION,
                 .pipeline = (char[]){PIPELINE},
                 .pipeline_fingerprint = sluice_pipeline_fingerprint(pipeline) ^ 1},
    };
    CU_ASSERT_EQUAL(end_of(&f, &request, &err), SLUICE_RPC_FAILED_PRECONDITION);
    char ours[20], theirs[20];
    snprintf(ours, sizeof(ours), "%016llx",
             (unsigned long long)sluice_pipeline_fingerprint(pipeline));
    snprintf(theirs, sizeof(theirs), "%016llx",
             (unsigned long long)sluice_pipeline_fingerprint(pipeline) ^ 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, ours));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, theirs));

    request.open.pipeline_fingerprint ^= 1;
    strcpy(request.open.dataset_id, "0123456789abcdef0123456789abcdef");
    CU_ASSERT_EQUAL(end_of(&f, &request, &err), SLUICE_RPC_FAILED_PRECONDITION);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "0123456789abcdef0123456789abcdef"));

    request.open.dataset_id[0] = '\0';
    request.open.protocol_version = 2;
    CU_ASSERT_EQUAL(end_of(&f, &request, &err), SLUICE_RPC_FAILED_PRECONDITION);

    request.open.protocol_version = SLUICE_WIRE_PROTOCOL_VERSION;
    request.open.pipeline = (char[]){"decode,frobnicate"};
    CU_ASSERT_EQUAL(end_of(&f, &request, &err), SLUICE_RPC_INVALID_ARGUMENT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "frobnicate"));

    struct client *client = fetch_open(&f, 0);
    request.open.pipeline = (char[]){PIPELINE};
    struct sluice_message message = {0};
    CHECK_OK(sluice_wire_put_fetch_request(&request, &message, NULL));
    client_send(client, &message);
    CU_ASSERT_EQUAL(client_await_done(client, &err), SLUICE_RPC_INVALID_ARGUMENT);
    client_close(client);

    client = client_open(&f, SLUICE_METHOD_FETCH);
    struct sluice_message junk = {0};
    CHECK_OK(sluice_message_append_copy(&junk, "\xff\xff\xff", 3, NULL));
    client_send(client, &junk);
    CU_ASSERT_EQUAL(client_await_done(client, &err), SLUICE_RPC_INVALID_ARGUMENT);
    end(&f, client);
}

TEST(a_client_that_goes_away_takes_nothing_with_it)
{
    struct fixture f = fixture_init();
    fixture_start(&f);
    gate_close(f.gate);
    struct client *gone = fetch_open(&f, 0);
    fetch_ask(gone, 0, 40, 3, SLUICE_FORM_U8);
    gate_await_held(f.gate, 2);
    client_close(gone);
    struct client *client = fetch_open(&f, 0);
    fetch_ask(client, 0, 12, 3, SLUICE_FORM_U8);
    gate_open(f.gate);
    fetch_await(client, 12);
    for (uint64_t id = 0; id < 12; id++)
        expect_local_bytes(fetch_reply_to(client, id), id);
    end(&f, client);
}

static void *stop_server(void *arg)
{
    sluice_storage_server_stop(arg);
    return NULL;
}

/* Returns once the server refuses calls: the stop has begun. */
static void await_refusal(struct fixture *f)
{
    enum sluice_rpc_code code = SLUICE_RPC_OK;
    while (code == SLUICE_RPC_OK) {
        struct sluice_message request = {0};
        CHECK_OK(sluice_wire_put_stats_request(&request, NULL));
        code = call(f, SLUICE_METHOD_STATS, &request, NULL, NULL);
    }
    /* The second where it was late (rpc/rpc_server.h). */
    CU_ASSERT(code == SLUICE_RPC_UNAVAILABLE || code == SLUICE_RPC_CANCELLED);
}

TEST_OF("local", a_stop_answers_what_was_accepted)
{
    struct fixture f = fixture_init();
    f.options.prep_workers = 1;
    f.options.io_workers = 1;
    f.options.queue = 2;
    fixture_start(&f);
    gate_close(f.gate);
    struct client *idle = fetch_open(&f, 0);
    struct client *client = fetch_open(&f, 0);
    fetch_ask(client, 0, 40, 3, SLUICE_FORM_U8);
    gate_await_held(f.gate, 2);

    pthread_t stopper;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&stopper, NULL, stop_server, f.server), 0);
    await_refusal(&f);
    CU_ASSERT_EQUAL(client_await_done(idle, NULL), SLUICE_RPC_UNAVAILABLE);
    /* Too late: the stream ends without it. */
    fetch_ask(client, 40, 5, 0, SLUICE_FORM_RAW);
    gate_open(f.gate);
    CU_ASSERT_EQUAL(client_await_done(client, NULL), SLUICE_RPC_UNAVAILABLE);
    CU_ASSERT_EQUAL(fetch_count(client), 40);
    for (uint64_t id = 0; id < 40; id++)
        expect_local_bytes(fetch_reply_to(client, id), id % NUM_IMAGES);
    pthread_join(stopper, NULL);
    client_close(idle);
    end(&f, client);
}

TEST(a_stop_waits_no_longer_than_the_grace)
{
    struct fixture f = fixture_init();
    f.options.grace_s = 0;
    fixture_start(&f);
    /* It will never grant what its replies need. */
    struct client *client = fetch_open(&f, 1);
    fetch_ask(client, 0, 10, 0, SLUICE_FORM_RAW);
    fetch_await(client, 1);
    sluice_storage_server_stop(f.server);
    CU_ASSERT_NOT_EQUAL(client_await_done(client, NULL), SLUICE_RPC_OK);
    end(&f, client);
}

/* In two stages: what is read and finds PREP full goes as the file. */
TEST_OF("remote", what_is_read_is_worked_on_or_goes_as_it_is)
{
    struct fixture f = fixture_init();
    f.options.prep_workers = 1;
    f.options.io_workers = 4;
    f.options.queue = 1;
    struct client *client = start(&f);
    const unsigned num_ops = sluice_pipeline_num_ops(pipeline);
    fetch_ask(client, 0, 10 * NUM_IMAGES, num_ops, SLUICE_FORM_F32);
    fetch_await(client, 10 * NUM_IMAGES);
    for (uint64_t id = 0; id < 10 * NUM_IMAGES; id++) {
        const unsigned done = fetch_reply_to(client, id)->ops_done;
        CU_ASSERT(done == 0 || done == num_ops);
        expect_local_bytes(fetch_reply_to(client, id), id % NUM_IMAGES);
    }
    end(&f, client);
}

/* While files are read over a network no thread of PREP waits for them. */
TEST_OF("remote", reads_take_threads_of_io_alone)
{
    struct fixture f = fixture_init();
    f.options.prep_workers = 1;
    f.options.io_workers = 4;
    struct client *client = start_held(&f);
    fetch_ask(client, 0, 4, 2, SLUICE_FORM_U8);
    gate_await_held(f.gate, 4); /* one thread of PREP could not */
    gate_open(f.gate);
    fetch_await(client, 4);
    for (uint64_t id = 0; id < 4; id++) {
        CU_ASSERT_EQUAL(fetch_reply_to(client, id)->ops_done, 2);
        expect_local_bytes(fetch_reply_to(client, id), id);
    }
    end(&f, client);
}

/* With "remote": in two stages, as where files come over a network. */
int main(int argc, char **argv)
{
    if (sluice_pipeline_parse(PIPELINE, &pipeline, NULL) != SLUICE_OK ||
        sluice_scratch_create(NULL, &scratch, NULL) != SLUICE_OK)
        return 1;
    gate_is_remote = argc > 1 && strcmp(argv[1], "remote") == 0;
    const int failed = sluice_test_main_with(gate_is_remote ? "remote" : "local");
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(pipeline);
    return failed;
}
