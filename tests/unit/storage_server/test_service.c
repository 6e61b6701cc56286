#include "storage_server/services/service.h"

#include "base/cpu.h"
#include "datasets/list/fields.h"
#include "fixture.h"
#include "op/pipeline.h"
#include "support/test.h"

#include <math.h>
#include <sched.h>

static enum sluice_rpc_code say_hello(struct fixture *f, const struct sluice_wire_hello *hello,
                                      struct sluice_wire_hello *answer, struct sluice_err *err)
{
    struct sluice_message request = {0}, reply = {0};
    CHECK_OK(sluice_wire_put_hello_request(hello, &request, NULL));
    const enum sluice_rpc_code code = call(f, SLUICE_METHOD_HELLO, &request, &reply, err);
    if (code == SLUICE_RPC_OK)
        REQUIRE_OK(sluice_wire_get_hello_reply(&reply, answer, NULL));
    sluice_message_clear(&reply);
    return code;
}

TEST(hello_tells_limits_and_compares_pipeline_and_data)
{
    struct fixture f = fixture_init();
    f.options.prep_workers = 3;
    f.options.max_in_flight = 77;
    f.options.max_image_pixels = 123456;
    fixture_start(&f);
    struct sluice_pipeline *pipeline = NULL;
    REQUIRE_OK(sluice_pipeline_parse(PIPELINE, &pipeline, NULL));
    const uint64_t fingerprint = sluice_pipeline_fingerprint(pipeline);
    sluice_pipeline_destroy(pipeline);

    struct sluice_wire_hello hello = {.protocol_version = SLUICE_WIRE_PROTOCOL_VERSION,
                                      .pipeline = (char[]){PIPELINE},
                                      .pipeline_fingerprint = fingerprint};
    struct sluice_wire_hello answer = {0};
    CU_ASSERT_EQUAL_FATAL(say_hello(&f, &hello, &answer, NULL), SLUICE_RPC_OK);
    CU_ASSERT_EQUAL(answer.protocol_version, SLUICE_WIRE_PROTOCOL_VERSION);
    CU_ASSERT_EQUAL(answer.pipeline_fingerprint, fingerprint);
    CU_ASSERT_EQUAL(answer.num_samples, NUM_IMAGES);
    CU_ASSERT(answer.prep_cores > 0 && answer.prep_cores <= 3 &&
              answer.prep_cores <= sluice_cpu_count());
    CU_ASSERT_EQUAL(answer.prep_workers, fmax(1, round(answer.prep_cores)));
    CU_ASSERT_EQUAL(answer.max_in_flight, 77);
    CU_ASSERT_EQUAL(answer.max_image_pixels, 123456);
    CU_ASSERT_EQUAL(answer.max_file_bytes, 1 << 20);
    /* Rows of files need an index. */
    CU_ASSERT_EQUAL(answer.forms, ((1u << SLUICE_NUM_FORMS) - 1) & ~(1u << SLUICE_FORM_JPEG_ROWS));
    CU_ASSERT_EQUAL(strlen(answer.dataset_id), 32);
    CU_ASSERT_FALSE(answer.has_jpeg_index);
    CU_ASSERT(answer.has_jpeg_crop_restart && answer.has_listed_id && answer.list_hash);
    CU_ASSERT(answer.has_file_image);
    CU_ASSERT(answer.peer && strncmp(answer.peer, "offload_server ", 15) == 0);

    memcpy(hello.dataset_id, answer.dataset_id, sizeof(hello.dataset_id));
    sluice_wire_hello_clear(&answer);
    CU_ASSERT_EQUAL(say_hello(&f, &hello, &answer, NULL), SLUICE_RPC_OK);
    sluice_wire_hello_clear(&answer);

    /* What is left out is not compared. */
    const struct sluice_wire_hello bare = {.protocol_version = SLUICE_WIRE_PROTOCOL_VERSION};
    CU_ASSERT_EQUAL(say_hello(&f, &bare, &answer, NULL), SLUICE_RPC_OK);
    CU_ASSERT_EQUAL(answer.pipeline_fingerprint, 0);
    sluice_wire_hello_clear(&answer);

    char ours[20], theirs[20];
    snprintf(ours, sizeof(ours), "%016llx", (unsigned long long)fingerprint);
    snprintf(theirs, sizeof(theirs), "%016llx", (unsigned long long)fingerprint + 1);
    struct sluice_err err = {0};
    hello.pipeline_fingerprint++;
    CU_ASSERT_EQUAL(say_hello(&f, &hello, &answer, &err), SLUICE_RPC_FAILED_PRECONDITION);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, ours));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, theirs));

    hello.pipeline_fingerprint--;
    hello.dataset_id[5] ^= 1;
    CU_ASSERT_EQUAL(say_hello(&f, &hello, &answer, NULL), SLUICE_RPC_FAILED_PRECONDITION);
    hello.dataset_id[5] ^= 1;
    hello.protocol_version++;
    CU_ASSERT_EQUAL(say_hello(&f, &hello, &answer, NULL), SLUICE_RPC_FAILED_PRECONDITION);
    fixture_end(&f);
}

/* Lists `subset` into `list`, one message after the other. */
static enum sluice_rpc_code list_rows(struct fixture *f, const char *subset, uint64_t first_row,
                                      bool is_packed, struct client **client)
{
    struct sluice_message request = {0};
    CHECK_OK(sluice_wire_put_list_request(subset, first_row, is_packed, &request, NULL));
    *client = client_open(f, SLUICE_METHOD_LIST_SAMPLES);
    client_send(*client, &request);
    client_half_close(*client);
    return client_await_done(*client, NULL);
}

static enum sluice_rpc_code list_from(struct fixture *f, const char *subset, uint64_t first_row,
                                      struct client **client)
{
    return list_rows(f, subset, first_row, false, client);
}

static enum sluice_rpc_code list(struct fixture *f, const char *subset, struct client **client)
{
    return list_from(f, subset, 0, client);
}

static sluice_status take_packed(void *ctx, const struct sluice_list_row *row,
                                 struct sluice_err *err)
{
    unsigned *id = ctx;
    size_t len;
    (void)err;
    free(sluice_test_read_file(image_path(*id), &len));
    CU_ASSERT_STRING_EQUAL(row->path, image_name(*id));
    CU_ASSERT_EQUAL(row->bytes, len);
    CU_ASSERT_EQUAL(row->label, *id / (NUM_IMAGES / 2));
    CU_ASSERT_FALSE(row->is_val);
    ++*id;
    return SLUICE_OK;
}

TEST(lists_rows_packed_from_any_row_on)
{
    struct fixture f = fixture_init();
    fixture_start(&f);
    for (unsigned first = 0; first < NUM_IMAGES; first += 3) {
        struct client *client;
        struct sluice_wire_list got = {0};
        unsigned id = first;
        CU_ASSERT_EQUAL(list_rows(&f, "", first, true, &client), SLUICE_RPC_OK);
        REQUIRE_OK(sluice_wire_get_list_reply(client_message(client, 0), &got, NULL));
        CU_ASSERT_EQUAL(got.num_samples, NUM_IMAGES);
        CU_ASSERT_EQUAL(got.num_classes, 2);
        CU_ASSERT_EQUAL(got.first_row, first);
        CU_ASSERT_EQUAL(got.num_samples_here, 0);
        CHECK_OK(sluice_list_block_unpack(&got.packed, take_packed, &id, NULL));
        CU_ASSERT_EQUAL(id, NUM_IMAGES);
        sluice_wire_list_clear(&got);
        client_close(client);
    }
    fixture_end(&f);
}

static sluice_status take_target(void *ctx, const struct sluice_list_row *row,
                                 struct sluice_err *err)
{
    unsigned *id = ctx;
    (void)err;
    CU_ASSERT_PTR_NOT_NULL_FATAL(row->target);
    CU_ASSERT_EQUAL_FATAL(row->target_bytes, *id);
    for (unsigned i = 0; i < *id; i++)
        CU_ASSERT_EQUAL(((const char *)row->target)[i], 'a' + (int)*id);
    ++*id;
    return SLUICE_OK;
}

/* Plain rows are as without targets, so that those who know none take the list. */
TEST(packed_rows_have_targets_and_plain_ones_have_none)
{
    struct fixture f = fixture_init();
    struct client *client;
    struct sluice_wire_list got = {0};
    unsigned id = 0;
    char id_without[33];
    fixture_start(&f);
    CU_ASSERT_EQUAL(list(&f, "", &client), SLUICE_RPC_OK);
    REQUIRE_OK(sluice_wire_get_list_reply(client_message(client, 0), &got, NULL));
    memcpy(id_without, got.dataset_id, sizeof(id_without));
    sluice_wire_list_clear(&got);
    client_close(client);
    fixture_end(&f);

    write_targets();
    f = fixture_init();
    fixture_start(&f);
    CU_ASSERT_EQUAL(list_rows(&f, "", 0, true, &client), SLUICE_RPC_OK);
    REQUIRE_OK(sluice_wire_get_list_reply(client_message(client, 0), &got, NULL));
    CU_ASSERT(got.target_kind == SLUICE_TARGETS_BYTES && got.target_dim == 0);
    CU_ASSERT_EQUAL(got.target_bytes, NUM_IMAGES * (NUM_IMAGES - 1) / 2);
    CU_ASSERT_STRING_EQUAL(got.dataset_id, id_without);
    CHECK_OK(sluice_list_block_unpack(&got.packed, take_target, &id, NULL));
    CU_ASSERT_EQUAL(id, NUM_IMAGES);
    sluice_wire_list_clear(&got);
    client_close(client);
    CU_ASSERT_EQUAL(list(&f, "", &client), SLUICE_RPC_OK);
    REQUIRE_OK(sluice_wire_get_list_reply(client_message(client, 0), &got, NULL));
    CU_ASSERT(got.target_kind == SLUICE_TARGETS_NONE && got.target_bytes == 0);
    CU_ASSERT_EQUAL(got.num_samples_here, NUM_IMAGES);
    sluice_wire_list_clear(&got);
    client_close(client);
    fixture_end(&f);
    remove_targets();
}

static sluice_status take_fields(void *ctx, const struct sluice_list_row *row,
                                 struct sluice_err *err)
{
    static const struct sluice_fields fields = {
        2, {{{SLUICE_FIELD_TEXT, 0}, "caption"}, {{SLUICE_FIELD_BOXES, 0}, "boxes"}}};
    unsigned *id = ctx;
    (void)err;
    CU_ASSERT_PTR_NULL(sluice_fields_values_flaw(&fields, row->target, row->target_bytes));
    CU_ASSERT_EQUAL(sluice_fields_value(&fields, 0, row->target, row->target_bytes).bytes, *id);
    CU_ASSERT_EQUAL(sluice_fields_value(&fields, 1, row->target, row->target_bytes).bytes,
                    *id ? SLUICE_BOX_BYTES : 0);
    ++*id;
    return SLUICE_OK;
}

static sluice_status take_none(void *ctx, const struct sluice_list_row *row, struct sluice_err *err)
{
    unsigned *id = ctx;
    (void)err;
    CU_ASSERT_PTR_NULL(row->target);
    ++*id;
    return SLUICE_OK;
}

/* The hash of the list as clients have it that ask for fields, or do not. */
static uint64_t list_hash_of(struct fixture *f, bool has_fields)
{
    struct sluice_wire_hello hello = {.protocol_version = SLUICE_WIRE_PROTOCOL_VERSION,
                                      .has_fields = has_fields};
    struct sluice_wire_hello answer = {0};
    CU_ASSERT_EQUAL_FATAL(say_hello(f, &hello, &answer, NULL), SLUICE_RPC_OK);
    const uint64_t hash = answer.list_hash;
    sluice_wire_hello_clear(&answer);
    return hash;
}

/* Packed rows for a client of an earlier version. */
static void list_as_before(struct fixture *f, struct sluice_wire_list *got)
{
    static const uint8_t packed[] = {3 << 3, 1}; /* field 3: true */
    struct sluice_message request = {0};
    REQUIRE_OK(sluice_message_append_copy(&request, packed, sizeof(packed), NULL));
    struct client *client = client_open(f, SLUICE_METHOD_LIST_SAMPLES);
    client_send(client, &request);
    client_half_close(client);
    CU_ASSERT_EQUAL(client_await_done(client, NULL), SLUICE_RPC_OK);
    REQUIRE_OK(sluice_wire_get_list_reply(client_message(client, 0), got, NULL));
    client_close(client);
}

TEST(fields_go_to_those_who_ask_for_them)
{
    struct client *client;
    struct sluice_wire_list got = {0};
    unsigned id = 0;
    struct fixture f = fixture_init();
    fixture_start(&f);
    const uint64_t hash_without = list_hash_of(&f, false);
    fixture_end(&f);
    write_fields();
    f = fixture_init();
    fixture_start(&f);
    CU_ASSERT_EQUAL(list_rows(&f, "", 0, true, &client), SLUICE_RPC_OK);
    REQUIRE_OK(sluice_wire_get_list_reply(client_message(client, 0), &got, NULL));
    CU_ASSERT_STRING_EQUAL(got.fields, "caption\ttext\t0\nboxes\tboxes\t0\n");
    CHECK_OK(sluice_list_block_unpack(&got.packed, take_fields, &id, NULL));
    CU_ASSERT_EQUAL(id, NUM_IMAGES);
    sluice_wire_list_clear(&got);
    client_close(client);

    id = 0;
    list_as_before(&f, &got);
    CU_ASSERT(got.target_kind == 0 && got.target_bytes == 0 && !got.packed.has_targets);
    CU_ASSERT_STRING_EQUAL(got.fields, "");
    CHECK_OK(sluice_list_block_unpack(&got.packed, take_none, &id, NULL));
    CU_ASSERT_EQUAL(id, NUM_IMAGES);
    sluice_wire_list_clear(&got);
    CU_ASSERT_EQUAL(list_hash_of(&f, false), hash_without);
    CU_ASSERT_NOT_EQUAL(list_hash_of(&f, true), hash_without);
    fixture_end(&f);
    remove_targets();
}

#define MASK_BYTES ((size_t)5 << 20)

static sluice_status take_mask(void *ctx, const struct sluice_list_row *row, struct sluice_err *err)
{
    unsigned *id = ctx;
    (void)err;
    CU_ASSERT_EQUAL_FATAL(row->target_bytes, MASK_BYTES);
    const char *mask = row->target;
    CU_ASSERT(mask[0] == 'a' + (int)*id && memcmp(mask, mask + 1, MASK_BYTES - 1) == 0);
    ++*id;
    return SLUICE_OK;
}

static uint64_t memory_used(struct fixture *f)
{
    struct sluice_message request = {0}, message = {0};
    struct sluice_wire_stats stats;
    REQUIRE_OK(sluice_wire_put_stats_request(&request, NULL));
    CU_ASSERT_EQUAL_FATAL(call(f, SLUICE_METHOD_STATS, &request, &message, NULL), SLUICE_RPC_OK);
    REQUIRE_OK(sluice_wire_get_stats_reply(&message, &stats, NULL));
    sluice_message_clear(&message);
    const uint64_t used = stats.memory_used;
    sluice_wire_stats_clear(&stats);
    return used;
}

TEST(rows_with_large_masks_come_one_by_one_and_take_memory)
{
    struct client *client;
    struct sluice_wire_list got = {0};
    struct sluice_err err = {0};
    unsigned id = 0;
    write_masks(MASK_BYTES);
    struct fixture f = fixture_init();
    f.options.memory_limit = 1 << 30;
    fixture_start(&f);
    CU_ASSERT_EQUAL(list_rows(&f, "", 0, true, &client), SLUICE_RPC_OK);
    CU_ASSERT_EQUAL_FATAL(client_num_messages(client), NUM_IMAGES);
    for (size_t i = 0; i < NUM_IMAGES; i++) {
        REQUIRE_OK(sluice_wire_get_list_reply(client_message(client, i), &got, NULL));
        CHECK_OK(sluice_list_block_unpack(&got.packed, take_mask, &id, NULL));
        CU_ASSERT_EQUAL(id, i + 1);
        sluice_wire_list_clear(&got);
    }
    client_close(client);
    while (memory_used(&f) > 0) /* until the server has seen the end, too */
        sched_yield();
    fixture_end(&f);

    f = fixture_init();
    f.options.memory_limit = 1 << 25; /* of which a part is for clients */
    fixture_start(&f);
    struct sluice_message request = {0};
    CHECK_OK(sluice_wire_put_list_request("", 0, true, &request, NULL));
    client = client_open(&f, SLUICE_METHOD_LIST_SAMPLES);
    client_send(client, &request);
    client_half_close(client);
    CU_ASSERT_EQUAL(client_await_done(client, &err), SLUICE_RPC_RESOURCE_EXHAUSTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "of values to list: this client's share"));
    client_close(client);
    fixture_end(&f);
    remove_targets();
}

TEST(a_client_of_before_has_one_vector_or_bytes_as_its_target)
{
    struct sluice_wire_list got = {0};
    unsigned id = 0;
    write_targets();
    struct fixture f = fixture_init();
    fixture_start(&f);
    list_as_before(&f, &got);
    CU_ASSERT(got.target_kind == SLUICE_TARGETS_BYTES && got.packed.has_targets);
    CHECK_OK(sluice_list_block_unpack(&got.packed, take_target, &id, NULL));
    CU_ASSERT_EQUAL(id, NUM_IMAGES);
    sluice_wire_list_clear(&got);
    CU_ASSERT_EQUAL(list_hash_of(&f, false), list_hash_of(&f, true));
    fixture_end(&f);
    remove_targets();
}

TEST(lists_every_sample_once_in_order)
{
    struct fixture f = fixture_init();
    fixture_start(&f);
    struct client *client;
    CU_ASSERT_EQUAL(list(&f, "", &client), SLUICE_RPC_OK);
    CU_ASSERT_EQUAL(client_num_messages(client), 1);
    struct sluice_wire_list got = {0};
    REQUIRE_OK(sluice_wire_get_list_reply(client_message(client, 0), &got, NULL));
    CU_ASSERT_EQUAL(got.num_classes, 2);
    CU_ASSERT_STRING_EQUAL(got.classes[0], "ant");
    CU_ASSERT_STRING_EQUAL(got.classes[1], "bee");
    CU_ASSERT_EQUAL(got.num_samples, NUM_IMAGES);
    CU_ASSERT_EQUAL(strlen(got.dataset_id), 32);
    CU_ASSERT_EQUAL_FATAL(got.num_samples_here, NUM_IMAGES);
    for (unsigned id = 0; id < NUM_IMAGES; id++) {
        const struct sluice_wire_sample_info *info = &got.samples[id];
        size_t len;
        free(sluice_test_read_file(image_path(id), &len));
        CU_ASSERT_EQUAL(info->sample_id, id);
        CU_ASSERT_STRING_EQUAL(info->path, image_name(id));
        CU_ASSERT_EQUAL(info->bytes, len);
        CU_ASSERT_EQUAL(info->label, id / (NUM_IMAGES / 2));
        CU_ASSERT_FALSE(info->is_val);
    }
    sluice_wire_list_clear(&got);
    client_close(client);

    /* Without a val folder there is nothing in it, and the classes are still told. */
    CU_ASSERT_EQUAL(list(&f, "val", &client), SLUICE_RPC_OK);
    REQUIRE_OK(sluice_wire_get_list_reply(client_message(client, 0), &got, NULL));
    CU_ASSERT_EQUAL(got.num_samples, 0);
    CU_ASSERT_EQUAL(got.num_samples_here, 0);
    CU_ASSERT_EQUAL(got.num_classes, 2);
    sluice_wire_list_clear(&got);
    client_close(client);

    CU_ASSERT_EQUAL(list(&f, "test", &client), SLUICE_RPC_INVALID_ARGUMENT);
    client_close(client);
    fixture_end(&f);
}

TEST(lists_from_any_row)
{
    struct fixture f = fixture_init();
    fixture_start(&f);
    struct client *client;
    for (unsigned row = 0; row <= NUM_IMAGES; row++) {
        CU_ASSERT_EQUAL(list_from(&f, "", row, &client), SLUICE_RPC_OK);
        struct sluice_wire_list got = {0};
        REQUIRE_OK(sluice_wire_get_list_reply(client_message(client, 0), &got, NULL));
        CU_ASSERT_TRUE(got.has_hash);
        CU_ASSERT_EQUAL(got.first_row, row);
        CU_ASSERT_EQUAL(got.num_samples, NUM_IMAGES); /* of all, wherever it begins */
        CU_ASSERT_EQUAL(got.num_classes, 2);
        CU_ASSERT_EQUAL(strlen(got.dataset_id), 32);
        CU_ASSERT_EQUAL_FATAL(got.num_samples_here, NUM_IMAGES - row);
        for (unsigned i = 0; i < got.num_samples_here; i++)
            CU_ASSERT_EQUAL(got.samples[i].sample_id, row + i);
        sluice_wire_list_clear(&got);
        client_close(client);
    }
    CU_ASSERT_EQUAL(list_from(&f, "", NUM_IMAGES + 1, &client), SLUICE_RPC_OUT_OF_RANGE);
    client_close(client);
    fixture_end(&f);
}

static enum sluice_rpc_code probe(struct fixture *f, uint64_t bytes, uint32_t message_bytes,
                                  struct client **client)
{
    struct sluice_message request = {0};
    CHECK_OK(sluice_wire_put_probe_request(bytes, message_bytes, &request, NULL));
    *client = client_open(f, SLUICE_METHOD_PROBE);
    client_send(*client, &request);
    client_half_close(*client);
    return client_await_done(*client, NULL);
}

/* Tag and length of ProbeReply's one field. */
static size_t probe_overhead(size_t len)
{
    return len < 128 ? 2 : len < 16384 ? 3 : 4;
}

TEST(a_probe_sends_what_it_was_asked_for)
{
    struct fixture f = fixture_init();
    fixture_start(&f);
    static const struct {
        uint64_t bytes;
        uint32_t message_bytes;
        size_t messages, first, last;
    } cases[] = {
        {3000000, 200000, 15, 200000, 200000},
        {3000001, 200000, 16, 200000, 1},
        {300000, 0, 2, 262144, 37856},
        {100, 1000, 1, 100, 100},
        {0, 0, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct client *client;
        CU_ASSERT_EQUAL(probe(&f, cases[i].bytes, cases[i].message_bytes, &client), SLUICE_RPC_OK);
        const size_t count = client_num_messages(client);
        CU_ASSERT_EQUAL(count, cases[i].messages);
        if (count) {
            CU_ASSERT_EQUAL(client_message(client, 0)->len,
                            cases[i].first + probe_overhead(cases[i].first));
            CU_ASSERT_EQUAL(client_message(client, count - 1)->len,
                            cases[i].last + probe_overhead(cases[i].last));
        }
        client_close(client);
    }
    struct client *client;
    CU_ASSERT_EQUAL(probe(&f, (1ull << 30) + 1, 0, &client), SLUICE_RPC_INVALID_ARGUMENT);
    client_close(client);
    CU_ASSERT_EQUAL(probe(&f, 1, (1u << 20) + 1, &client), SLUICE_RPC_INVALID_ARGUMENT);
    client_close(client);
    fixture_end(&f);
}

TEST(a_request_that_is_none_is_refused)
{
    static const char *const methods[] = {SLUICE_METHOD_HELLO, SLUICE_METHOD_LIST_SAMPLES,
                                          SLUICE_METHOD_LIST_SIZES, SLUICE_METHOD_PROBE};
    struct fixture f = fixture_init();
    fixture_start(&f);
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        struct sluice_message junk = {0};
        CHECK_OK(sluice_message_append_copy(&junk, "\xff\xff\xff", 3, NULL));
        struct client *client = client_open(&f, methods[i]);
        client_send(client, &junk);
        client_half_close(client);
        CU_ASSERT_EQUAL(client_await_done(client, NULL), SLUICE_RPC_INVALID_ARGUMENT);
        client_close(client);

        /* And so is none at all. */
        client = client_open(&f, methods[i]);
        client_half_close(client);
        CU_ASSERT_NOT_EQUAL(client_await_done(client, NULL), SLUICE_RPC_OK);
        client_close(client);
    }
    fixture_end(&f);
}
