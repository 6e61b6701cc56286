/* Messages as the release before this one sent them (wire_n1, recorded by scripts/test-compat
 * --record): we send the same bytes where nothing new is asked for, and read theirs. */
#include "wire/wire.h"

#include "golden/wire_messages.h"
#include "support/test.h"

static uint8_t *flatten(const struct sluice_message *message)
{
    uint8_t *bytes = malloc(message->len + 1);
    struct sluice_cursor cursor = sluice_cursor_init(message);
    CU_ASSERT_FATAL(sluice_cursor_read(&cursor, bytes, message->len));
    return bytes;
}

static uint8_t *read_golden(const char *name, size_t *len)
{
    char path[1300];
    snprintf(path, sizeof(path), "%s/tests/golden/wire_n1/%s.bin", sluice_test_source_dir(), name);
    return sluice_test_read_file(path, len);
}

static struct sluice_message received(const char *name)
{
    size_t len;
    uint8_t *bytes = read_golden(name, &len);
    struct sluice_message message = {0};
    REQUIRE_OK(sluice_message_append_copy(&message, bytes, len, NULL));
    free(bytes);
    return message;
}

TEST(sends_the_bytes_that_the_previous_release_sent)
{
    for (size_t i = 0; i < wire_num_goldens; i++) {
        struct sluice_message message = {0};
        REQUIRE_OK(wire_goldens[i].put(&message, NULL));
        uint8_t *ours = flatten(&message);
        size_t len;
        uint8_t *theirs = read_golden(wire_goldens[i].name, &len);
        const bool is_same = len == message.len && memcmp(ours, theirs, len) == 0;
        if (!is_same)
            printf("%s: %zu bytes, and %zu of the release before\n", wire_goldens[i].name,
                   message.len, len);
        CU_ASSERT(is_same);
        free(ours);
        free(theirs);
        sluice_message_clear(&message);
    }
}

TEST(reads_its_hello)
{
    struct sluice_wire_hello hello;
    struct sluice_message message = received("hello_request");
    REQUIRE_OK(sluice_wire_get_hello_request(&message, &hello, NULL));
    CU_ASSERT_EQUAL(hello.protocol_version, SLUICE_WIRE_PROTOCOL_VERSION);
    CU_ASSERT_STRING_EQUAL(hello.peer, "offload_train 0.1.0");
    CU_ASSERT_STRING_EQUAL(hello.pipeline, WIRE_GOLDEN_PIPELINE);
    CU_ASSERT_EQUAL(hello.pipeline_fingerprint, WIRE_GOLDEN_FINGERPRINT);
    CU_ASSERT_STRING_EQUAL(hello.dataset_id, WIRE_GOLDEN_DATASET);
    sluice_wire_hello_clear(&hello);
    sluice_message_clear(&message);

    message = received("hello_reply");
    REQUIRE_OK(sluice_wire_get_hello_reply(&message, &hello, NULL));
    CU_ASSERT_EQUAL(hello.protocol_version, SLUICE_WIRE_PROTOCOL_VERSION);
    CU_ASSERT_EQUAL(hello.num_samples, 1281167);
    CU_ASSERT_EQUAL(hello.prep_cores, 7.5);
    CU_ASSERT_EQUAL(hello.prep_workers, 8);
    CU_ASSERT_EQUAL(hello.max_in_flight, 512);
    CU_ASSERT_EQUAL(hello.max_image_pixels, 178956970);
    CU_ASSERT_EQUAL(hello.max_file_bytes, 33554432);
    CU_ASSERT_EQUAL(hello.forms, (1u << WIRE_GOLDEN_NUM_FORMS) - 1);
    CU_ASSERT(hello.has_jpeg_index);
    CU_ASSERT(hello.has_hashes);
    /* What it did not know yet it does not claim. */
    CU_ASSERT(!hello.has_jpeg_crop_restart);
    sluice_wire_hello_clear(&hello);
    sluice_message_clear(&message);
}

TEST(reads_its_list)
{
    struct sluice_message message = received("list_request");
    char *subset;
    uint64_t first_row;
    bool is_packed;
    REQUIRE_OK(sluice_wire_get_list_request(&message, &subset, &first_row, &is_packed, NULL));
    CU_ASSERT(!is_packed);
    CU_ASSERT_STRING_EQUAL(subset, "train");
    CU_ASSERT_EQUAL(first_row, 2000);
    free(subset);
    sluice_message_clear(&message);

    message = received("list_reply");
    struct sluice_wire_list list;
    REQUIRE_OK(sluice_wire_get_list_reply(&message, &list, NULL));
    CU_ASSERT_EQUAL_FATAL(list.num_classes, 2);
    CU_ASSERT_STRING_EQUAL(list.classes[1], "dog");
    CU_ASSERT_STRING_EQUAL(list.dataset_id, WIRE_GOLDEN_DATASET);
    CU_ASSERT_EQUAL(list.num_samples, 1281167);
    CU_ASSERT(list.has_hash);
    CU_ASSERT_EQUAL_FATAL(list.num_samples_here, 3);
    CU_ASSERT_STRING_EQUAL(list.samples[0].path, "train/cat/a.jpg");
    CU_ASSERT_EQUAL(list.samples[0].sample_id, 1000);
    CU_ASSERT_EQUAL(list.samples[0].bytes, 110000);
    CU_ASSERT_EQUAL(list.samples[0].width, 500);
    CU_ASSERT_EQUAL(list.samples[0].height, 375);
    CU_ASSERT_EQUAL(list.samples[0].coding, 3);
    CU_ASSERT(!list.samples[0].has_hash);
    CU_ASSERT(list.samples[1].has_hash);
    CU_ASSERT_EQUAL(list.samples[1].hash[15], 16);
    CU_ASSERT_EQUAL(list.samples[1].label, 1);
    CU_ASSERT(!list.samples[1].is_val);
    CU_ASSERT(list.samples[2].is_val);
    sluice_wire_list_clear(&list);
    sluice_message_clear(&message);
}

TEST(reads_its_requests)
{
    struct sluice_wire_fetch_request request;
    struct sluice_message message = received("fetch_open");
    REQUIRE_OK(sluice_wire_get_fetch_request(&message, &request, NULL));
    CU_ASSERT(request.open.is_present);
    CU_ASSERT_EQUAL(request.open.protocol_version, SLUICE_WIRE_PROTOCOL_VERSION);
    CU_ASSERT_STRING_EQUAL(request.open.pipeline, WIRE_GOLDEN_PIPELINE);
    CU_ASSERT_EQUAL(request.open.window_bytes, 4000000);
    CU_ASSERT(request.open.follows_price);
    CU_ASSERT_STRING_EQUAL(request.open.client, "gpu-node-7");
    CU_ASSERT_EQUAL(request.num_samples, 0);
    sluice_wire_fetch_request_clear(&request);
    sluice_message_clear(&message);

    message = received("fetch_samples");
    REQUIRE_OK(sluice_wire_get_fetch_request(&message, &request, NULL));
    CU_ASSERT(!request.open.is_present);
    CU_ASSERT_EQUAL(request.grant_bytes, 1000000);
    CU_ASSERT_EQUAL(request.cpu_worth, 12.5);
    CU_ASSERT_EQUAL_FATAL(request.num_samples, WIRE_GOLDEN_NUM_FORMS);
    for (size_t k = 0; k < request.num_samples; k++) {
        const struct sluice_wire_sample_request *sample = &request.samples[k];
        const struct sluice_draw_key key = wire_golden_key(k);
        CU_ASSERT_EQUAL(sample->request_id, 70 + k);
        CU_ASSERT_EQUAL(sample->key.seed, key.seed);
        CU_ASSERT_EQUAL(sample->key.epoch, key.epoch);
        CU_ASSERT_EQUAL(sample->key.sample_id, key.sample_id);
        CU_ASSERT_EQUAL(sample->split, k);
        CU_ASSERT_EQUAL(sample->form, k);
        CU_ASSERT_EQUAL(sample->jpeg_crop_restart, 0);
    }
    sluice_wire_fetch_request_clear(&request);
    sluice_message_clear(&message);

    message = received("probe_request");
    uint64_t bytes;
    uint32_t message_bytes;
    REQUIRE_OK(sluice_wire_get_probe_request(&message, &bytes, &message_bytes, NULL));
    CU_ASSERT_EQUAL(bytes, 8000000);
    CU_ASSERT_EQUAL(message_bytes, 500000);
    sluice_message_clear(&message);
}

static void check_reply(void *ctx, const struct sluice_wire_sample_reply *reply)
{
    size_t *num = ctx;
    const struct sluice_draw_key key = wire_golden_key(*num), other = wire_golden_key(*num + 1);
    CU_ASSERT_EQUAL(reply->request_id, 70 + *num);
    CU_ASSERT(sluice_wire_sample_reply_is_whole(reply, &key, 0));
    CU_ASSERT(!sluice_wire_sample_reply_is_whole(reply, &other, 0));
    if (*num < 2) {
        CHECK_OK(reply->status);
        struct sluice_cursor payload = reply->arrived;
        CU_ASSERT_EQUAL_FATAL(sluice_cursor_left(&payload), WIRE_GOLDEN_PAYLOAD_BYTES);
        for (size_t i = 0; i < WIRE_GOLDEN_PAYLOAD_BYTES; i++) {
            uint8_t byte;
            CU_ASSERT_FATAL(sluice_cursor_read(&payload, &byte, 1));
            CU_ASSERT_EQUAL(byte, wire_golden_byte(i));
        }
    }
    if (*num == 0) {
        CU_ASSERT_EQUAL(reply->form, SLUICE_FORM_RAW);
        CU_ASSERT_EQUAL(reply->queue_us, 5);
        CU_ASSERT_EQUAL(reply->cpu_us, 6);
        CU_ASSERT_EQUAL(reply->disk_us, 7);
        CU_ASSERT_EQUAL(reply->backlog_us, 8);
        CU_ASSERT_EQUAL(reply->work_us, 9);
        CU_ASSERT_EQUAL(reply->disk_busy_us, 10);
        CU_ASSERT_EQUAL(reply->read_bytes, 11);
    } else if (*num == 1) {
        CU_ASSERT_EQUAL(reply->ops_done, 3);
        CU_ASSERT_EQUAL(reply->form, SLUICE_FORM_U8);
        CU_ASSERT_EQUAL(reply->width, 10);
        CU_ASSERT_EQUAL(reply->height, 10);
        CU_ASSERT_EQUAL(reply->channels, 3);
    } else {
        CU_ASSERT_EQUAL(reply->status, SLUICE_E_CORRUPT);
        CU_ASSERT_STRING_EQUAL(reply->error, "train/cat/a.jpg: no JPEG");
    }
    ++*num;
}

TEST(reads_its_replies)
{
    struct sluice_message message = received("fetch_reply");
    struct sluice_wire_load load;
    size_t num = 0;
    CU_ASSERT(sluice_wire_fetch_reply_is_whole(&message));
    CHECK_OK(sluice_wire_get_fetch_reply(&message, 1u << 20, check_reply, &num, &load, NULL));
    CU_ASSERT_EQUAL(num, 3);
    CU_ASSERT_EQUAL(load.queue_depth, 4);
    CU_ASSERT_EQUAL(load.cpu_price, 2.5);
    CU_ASSERT_EQUAL(load.prep_cores, 7.5);
    sluice_message_clear(&message);

    message = received("stats_reply");
    struct sluice_wire_stats stats;
    REQUIRE_OK(sluice_wire_get_stats_reply(&message, &stats, NULL));
    CU_ASSERT_EQUAL(stats.samples, 400);
    CU_ASSERT_EQUAL(stats.choices[3][SLUICE_FORM_U8].bytes, 7526400);
    CU_ASSERT_EQUAL(stats.errors[SLUICE_E_CORRUPT], 1);
    CU_ASSERT_EQUAL(stats.process_cpu_s, 2.3);
    CU_ASSERT_EQUAL(stats.jpeg_index.again, 2);
    sluice_message_clear(&message);
}
