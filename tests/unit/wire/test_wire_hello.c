#include "wire/wire.h"

#include "offload.pb-c.h"
#include "support/test.h"
#include "wire_random.h"

#include <math.h>

static struct sluice_wire_hello random_hello(bool is_request)
{
    struct sluice_wire_hello hello = {
        .protocol_version = random_u32(),
        .peer = random_text(40),
        .pipeline = is_request ? random_text(3000) : random_text(0),
        .pipeline_fingerprint = random_u64(),
    };
    random_dataset_id(hello.dataset_id);
    if (!is_request) {
        hello.num_samples = random_u64();
        hello.prep_workers = random_u32();
        hello.prep_cores = random_u32() / 7.0;
        hello.has_jpeg_index = random_bool();
        hello.has_jpeg_crop_restart = random_bool();
        hello.has_listed_id = random_bool();
        hello.has_file_image = random_bool();
        hello.has_hashes = random_bool();
        hello.list_hash = random_u64();
        hello.max_in_flight = random_u32();
        hello.max_image_pixels = random_u64();
        hello.max_file_bytes = random_u64();
        hello.forms = random_u32() & ((1u << SLUICE_NUM_FORMS) - 1);
        hello.machine.quota = INFINITY;
        if (random_bool()) {
            hello.machine.boot = random_u64() | 1;
            hello.machine.num_cpu_bytes = 1 + random_u32() % SLUICE_MACHINE_CPU_BYTES;
            for (size_t i = 0; i < hello.machine.num_cpu_bytes; i++)
                hello.machine.cpus[i] = (uint8_t)random_u32();
            if (random_bool()) {
                hello.machine.group = random_u64();
                hello.machine.quota = 0.5 + random_u32() % 64;
            }
        }
    }
    return hello;
}

static void assert_equal(const struct sluice_wire_hello *a, const struct sluice_wire_hello *b)
{
    CU_ASSERT_EQUAL(a->protocol_version, b->protocol_version);
    CU_ASSERT_STRING_EQUAL(a->peer, b->peer);
    CU_ASSERT_STRING_EQUAL(a->pipeline, b->pipeline);
    CU_ASSERT_EQUAL(a->pipeline_fingerprint, b->pipeline_fingerprint);
    CU_ASSERT_STRING_EQUAL(a->dataset_id, b->dataset_id);
    CU_ASSERT_EQUAL(a->num_samples, b->num_samples);
    CU_ASSERT_EQUAL(a->prep_workers, b->prep_workers);
    CU_ASSERT_EQUAL(a->prep_cores, b->prep_cores);
    CU_ASSERT_EQUAL(a->has_jpeg_index, b->has_jpeg_index);
    CU_ASSERT_EQUAL(a->has_jpeg_crop_restart, b->has_jpeg_crop_restart);
    CU_ASSERT_EQUAL(a->has_listed_id, b->has_listed_id);
    CU_ASSERT_EQUAL(a->has_file_image, b->has_file_image);
    CU_ASSERT_EQUAL(a->has_hashes, b->has_hashes);
    CU_ASSERT_EQUAL(a->max_in_flight, b->max_in_flight);
    CU_ASSERT_EQUAL(a->max_image_pixels, b->max_image_pixels);
    CU_ASSERT_EQUAL(a->max_file_bytes, b->max_file_bytes);
    CU_ASSERT_EQUAL(a->forms, b->forms);
    CU_ASSERT_EQUAL(a->list_hash, b->list_hash);
    CU_ASSERT_EQUAL(a->machine.boot, b->machine.boot);
    CU_ASSERT_EQUAL(a->machine.group, b->machine.group);
    CU_ASSERT_EQUAL(a->machine.quota, b->machine.quota);
    CU_ASSERT_EQUAL(a->machine.num_cpu_bytes, b->machine.num_cpu_bytes);
    CU_ASSERT_EQUAL(memcmp(a->machine.cpus, b->machine.cpus, sizeof(a->machine.cpus)), 0);
}

TEST(what_is_put_is_what_is_got)
{
    for (int i = 0; i < 300; i++) {
        const bool is_request = random_bool();
        struct sluice_wire_hello hello = random_hello(is_request), got = {0};
        struct sluice_message message = {0};
        CHECK_OK(is_request ? sluice_wire_put_hello_request(&hello, &message, NULL)
                            : sluice_wire_put_hello_reply(&hello, &message, NULL));
        message_recut(&message);
        REQUIRE_OK(is_request ? sluice_wire_get_hello_request(&message, &got, NULL)
                              : sluice_wire_get_hello_reply(&message, &got, NULL));
        assert_equal(&hello, &got);
        sluice_wire_hello_clear(&hello);
        sluice_wire_hello_clear(&got);
        sluice_wire_hello_clear(&got);
        sluice_message_clear(&message);
    }
}

/* As forms, which a client that does not know it passes over, and before the hash. */
TEST(abilities_are_more_forms)
{
    struct sluice_wire_hello hello = random_hello(false);
    hello.has_hashes = true;
    hello.forms = 1u << SLUICE_FORM_RAW | 1u << SLUICE_FORM_JPEG_CROP;
    hello.has_jpeg_crop_restart = hello.has_listed_id = true;
    struct sluice_message message = {0};
    REQUIRE_OK(sluice_wire_put_hello_reply(&hello, &message, NULL));
    uint8_t *flat = message_flatten(&message);
    Sluice__V1__HelloReply *wire = sluice__v1__hello_reply__unpack(NULL, message.len, flat);
    CU_ASSERT_PTR_NOT_NULL_FATAL(wire);
    CU_ASSERT_EQUAL_FATAL(wire->n_forms, 4);
    CU_ASSERT_EQUAL((int)wire->forms[2], SLUICE__V1__FORM__FORM_JPEG_CROP_RESTART);
    CU_ASSERT_EQUAL((int)wire->forms[3], SLUICE__V1__FORM__FORM_LISTED_ID);
    CU_ASSERT(message.len > 9 && flat[message.len - 9] == (14 << 3 | 1)); /* the hash is last */
    struct sluice_wire_hello got = {0};
    CHECK_OK(sluice_wire_get_hello_reply(&message, &got, NULL));
    CU_ASSERT_EQUAL(got.forms, hello.forms);
    CU_ASSERT(got.has_jpeg_crop_restart && got.has_listed_id);
    sluice__v1__hello_reply__free_unpacked(wire, NULL);
    free(flat);
    sluice_message_clear(&message);
    sluice_wire_hello_clear(&got);
    sluice_wire_hello_clear(&hello);
}

TEST(protobuf_c_reads_what_is_put)
{
    struct sluice_wire_hello hello = random_hello(false);
    hello.forms = 1u << SLUICE_FORM_RAW | 1u << SLUICE_FORM_U8;
    hello.has_jpeg_crop_restart = hello.has_listed_id = false;
    struct sluice_message message = {0};
    REQUIRE_OK(sluice_wire_put_hello_reply(&hello, &message, NULL));
    uint8_t *flat = message_flatten(&message);
    Sluice__V1__HelloReply *wire = sluice__v1__hello_reply__unpack(NULL, message.len, flat);
    CU_ASSERT_PTR_NOT_NULL_FATAL(wire);
    CU_ASSERT_EQUAL(wire->pipeline_fingerprint, hello.pipeline_fingerprint);
    CU_ASSERT_STRING_EQUAL(wire->server, hello.peer);
    CU_ASSERT_EQUAL(wire->max_file_bytes, hello.max_file_bytes);
    CU_ASSERT_EQUAL_FATAL(wire->n_forms, 2);
    CU_ASSERT_EQUAL(wire->forms[0], SLUICE__V1__FORM__FORM_RAW);
    CU_ASSERT_EQUAL(wire->forms[1], SLUICE__V1__FORM__FORM_U8);
    sluice__v1__hello_reply__free_unpacked(wire, NULL);
    free(flat);
    sluice_message_clear(&message);
    sluice_wire_hello_clear(&hello);
}

/* More CPUs than can be named, and a quota that is no number. */
TEST(a_machine_that_cannot_be_told_is_not_told)
{
    for (int k = 0; k < 3; k++) {
        uint8_t cpus[SLUICE_MACHINE_CPU_BYTES + 1] = {1};
        Sluice__V1__HelloReply wire = SLUICE__V1__HELLO_REPLY__INIT;
        wire.boot = 7;
        wire.cpus.data = cpus;
        wire.cpus.len = k == 1 ? sizeof(cpus) : 1;
        wire.cpu_quota = k == 2 ? NAN : 0;
        uint8_t flat[1024];
        struct sluice_message message =
            message_cut(flat, sluice__v1__hello_reply__pack(&wire, flat));
        struct sluice_wire_hello got = {0};
        REQUIRE_OK(sluice_wire_get_hello_reply(&message, &got, NULL));
        CU_ASSERT_EQUAL(got.machine.boot, k == 0 ? 7 : 0);
        CU_ASSERT_EQUAL(got.machine.num_cpu_bytes, k == 0);
        sluice_wire_hello_clear(&got);
        sluice_message_clear(&message);
    }
}

static sluice_status get_request_of(const void *data, size_t len)
{
    struct sluice_message message = message_cut(data, len);
    struct sluice_wire_hello got = {.protocol_version = 77};
    const sluice_status status = sluice_wire_get_hello_request(&message, &got, NULL);
    if (status == SLUICE_OK)
        sluice_wire_hello_clear(&got);
    else
        CU_ASSERT_EQUAL(got.protocol_version, 77); /* untouched */
    sluice_message_clear(&message);
    return status;
}

TEST(an_empty_message_is_all_defaults)
{
    struct sluice_message message = {0};
    struct sluice_wire_hello got;
    REQUIRE_OK(sluice_wire_get_hello_request(&message, &got, NULL));
    CU_ASSERT_EQUAL(got.protocol_version, 0);
    CU_ASSERT_STRING_EQUAL(got.peer, "");
    CU_ASSERT_STRING_EQUAL(got.pipeline, "");
    CU_ASSERT_STRING_EQUAL(got.dataset_id, "");
    sluice_wire_hello_clear(&got);
}

TEST(fields_of_later_versions_are_passed_over)
{
    /* field 100: a varint, field 101: bytes, field 102: 64 bits, field 103: 32 bits */
    CHECK_OK(get_request_of("\xA0\x06\x05\xAA\x06\x02xy\xB1\x06"
                            "12345678\xBD\x06"
                            "1234\x08\x01",
                            26));
}

TEST(rejects_a_dataset_id_that_is_none)
{
    CHECK_OK(get_request_of("\x2A\x20"
                            "0123456789abcdef0123456789abcdef",
                            34));
    CU_ASSERT_EQUAL(get_request_of("\x2A\x20"
                                   "0123456789abcdef0123456789abcdeg",
                                   34),
                    SLUICE_E_CORRUPT);
    CU_ASSERT_EQUAL(get_request_of("\x2A\x04"
                                   "0123",
                                   6),
                    SLUICE_E_CORRUPT);
}

TEST(forms_of_a_later_version_are_left_out)
{
    const char packed[] = "\x52\x03\x00\x4D\x02"; /* 0, 77, 2 */
    const char single[] = "\x50\x04\x50\x4D";     /* 4, 77, unpacked */
    const struct {
        const char *data;
        size_t len;
        uint32_t forms;
    } cases[] = {{packed, sizeof(packed) - 1, 1u << 0 | 1u << 2},
                 {single, sizeof(single) - 1, 1u << 4}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_message message = message_cut((const uint8_t *)cases[i].data, cases[i].len);
        struct sluice_wire_hello got;
        REQUIRE_OK(sluice_wire_get_hello_reply(&message, &got, NULL));
        CU_ASSERT_EQUAL(got.forms, cases[i].forms);
        sluice_wire_hello_clear(&got);
        sluice_message_clear(&message);
    }
}

TEST(rejects_cores_that_are_no_number)
{
    const struct {
        const char *data;
        sluice_status status;
    } cases[] = {{"\x59\x00\x00\x00\x00\x00\x00\xF8\x3F", SLUICE_OK},        /* 1.5 */
                 {"\x59\x00\x00\x00\x00\x00\x00\xF8\xBF", SLUICE_E_CORRUPT}, /* -1.5 */
                 {"\x59\x00\x00\x00\x00\x00\x00\xF0\x7F", SLUICE_E_CORRUPT}, /* infinite */
                 {"\x59\x00\x00\x00\x00\x00\x00\xF8\x7F", SLUICE_E_CORRUPT}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_message message = message_cut((const uint8_t *)cases[i].data, 9);
        struct sluice_wire_hello got = {.prep_cores = 77};
        CU_ASSERT_EQUAL(sluice_wire_get_hello_reply(&message, &got, NULL), cases[i].status);
        CU_ASSERT_EQUAL(got.prep_cores, cases[i].status == SLUICE_OK ? 1.5 : 77);
        if (cases[i].status == SLUICE_OK)
            sluice_wire_hello_clear(&got);
        sluice_message_clear(&message);
    }
}
