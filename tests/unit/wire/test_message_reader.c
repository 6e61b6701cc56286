#include "wire/message_reader.h"

#include "data_transfer.pb-c.h"
#include "offload.pb-c.h"
#include "support/test.h"
#include "wire_random.h"

TEST(fields_are_read_one_after_the_other)
{
    static const uint8_t bytes[] = {0x08, 0xAC, 0x02, 0x12, 3,    'a',  'b',  'c',  0x19, 1,
                                    2,    3,    4,    5,    6,    7,    8,    0x25, 1,    2,
                                    3,    4,    0xF8, 0xFF, 0xFF, 0xFF, 0x0F, 1};
    for (int i = 0; i < 50; i++) {
        struct sluice_message message = message_cut(bytes, sizeof(bytes));
        struct sluice_cursor cursor = sluice_cursor_init(&message);
        struct sluice_wire_field field;
        CU_ASSERT(sluice_wire_next_field(&cursor, &field));
        CU_ASSERT_EQUAL(field.number, 1);
        CU_ASSERT_EQUAL(field.type, SLUICE_WIRE_VARINT);
        CU_ASSERT_EQUAL(field.value, 300);
        CU_ASSERT(sluice_wire_next_field(&cursor, &field));
        CU_ASSERT_EQUAL(field.number, 2);
        CU_ASSERT_EQUAL(field.type, SLUICE_WIRE_BYTES);
        char text[4] = "";
        CU_ASSERT_EQUAL(sluice_cursor_left(&field.data), 3);
        CU_ASSERT(sluice_cursor_read(&field.data, text, 3));
        CU_ASSERT_STRING_EQUAL(text, "abc");
        CU_ASSERT(sluice_wire_next_field(&cursor, &field));
        CU_ASSERT_EQUAL(field.type, SLUICE_WIRE_64BIT);
        CU_ASSERT(sluice_wire_next_field(&cursor, &field));
        CU_ASSERT_EQUAL(field.type, SLUICE_WIRE_32BIT);
        CU_ASSERT(sluice_wire_next_field(&cursor, &field));
        CU_ASSERT_EQUAL(field.number, (1u << 29) - 1); /* the largest there is */
        CU_ASSERT_EQUAL(sluice_cursor_left(&cursor), 0);
        CU_ASSERT_FALSE(sluice_wire_next_field(&cursor, &field));
        sluice_message_clear(&message);
    }
}

static sluice_status unpack(const ProtobufCMessageDescriptor *descriptor, const void *data,
                            size_t len, ProtobufCMessage **out)
{
    struct sluice_message message = message_cut(data, len);
    ProtobufCMessage *found = NULL;
    const sluice_status status = sluice_wire_unpack(descriptor, &message, &found, NULL);
    sluice_message_clear(&message);
    if (out)
        *out = found;
    else if (found)
        protobuf_c_message_free_unpacked(found, NULL);
    return status;
}

TEST(scalars_repeated_and_packed_are_read_either_way)
{
    static const struct {
        uint8_t data[16];
        size_t len;
    } cases[] = {
        {{0x42, 3, 1, 2, 3}, 5}, {{0x40, 1, 0x40, 2, 0x40, 3}, 6}, {{0x40, 1, 0x42, 2, 2, 3}, 6}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        ProtobufCMessage *found;
        REQUIRE_OK(unpack(&data_response__descriptor, cases[i].data, cases[i].len, &found));
        const DataResponse *response = (const DataResponse *)found;
        CU_ASSERT_EQUAL_FATAL(response->n_shape, 3);
        for (int32_t k = 0; k < 3; k++)
            CU_ASSERT_EQUAL(response->shape[k], k + 1);
        protobuf_c_message_free_unpacked(found, NULL);
    }
}

TEST(rejects_what_is_not_well_formed)
{
    static const struct {
        const char *why;
        const ProtobufCMessageDescriptor *descriptor;
        uint8_t data[16];
        size_t len;
    } cases[] = {
        {"cut varint", &data_response__descriptor, {0x18, 0x80}, 2},
        {"string as a varint", &data_response__descriptor, {0x20, 1}, 2},
        {"int as a string", &data_response__descriptor, {0x1A, 1, 'a'}, 3},
        {"bytes beyond the end", &data_response__descriptor, {0x0A, 4, 'a'}, 3},
        {"NUL in a string", &data_response__descriptor, {0x22, 2, 'a', 0}, 4},
        {"packed value cut off", &data_response__descriptor, {0x42, 2, 1, 0x80}, 4},
        {"packed as 32 bits", &data_response__descriptor, {0x45, 1, 0, 0, 0}, 5},
        {"group", &data_response__descriptor, {0xA3, 0x06, 0xA4, 0x06}, 4},
        {"field 0", &data_response__descriptor, {0x00, 0}, 2},
        {"fixed64 as a varint", &sluice__v1__hello_request__descriptor, {0x20, 1}, 2},
        {"fixed64 cut off", &sluice__v1__hello_request__descriptor, {0x21, 1, 2}, 3},
        {"inside a submessage: cut off",
         &sluice__v1__fetch_request__descriptor,
         {0x0A, 2, 0x12, 5},
         4},
        {"inside a submessage: NUL",
         &sluice__v1__fetch_request__descriptor,
         {0x0A, 3, 0x12, 1, 0},
         5},
        {"inside a submessage: 33 bits",
         &sluice__v1__fetch_request__descriptor,
         {0x12, 6, 0x20, 0x80, 0x80, 0x80, 0x80, 0x10},
         8},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        const sluice_status status = unpack(cases[i].descriptor, cases[i].data, cases[i].len, NULL);
        if (status != SLUICE_E_CORRUPT)
            printf("%s: %s\n", cases[i].why, sluice_status_name(status));
        CU_ASSERT_EQUAL(status, SLUICE_E_CORRUPT);
    }
}

TEST(negative_numbers_are_fine_where_the_type_has_them)
{
    static const uint8_t minus_one[] = {0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
                                        0xFF, 0xFF, 0xFF, 0xFF, 0x01};
    ProtobufCMessage *found;
    REQUIRE_OK(unpack(&data_response__descriptor, minus_one, sizeof(minus_one), &found));
    CU_ASSERT_EQUAL(((const DataResponse *)found)->pproc, -1);
    protobuf_c_message_free_unpacked(found, NULL);
}

TEST(rejects_more_bytes_than_the_limit)
{
    const size_t len = SLUICE_WIRE_MAX_BYTES + 1;
    uint8_t *bytes = calloc(1, len);
    bytes[0] = 0x0A; /* one bytes field, well formed */
    size_t left = len - 5;
    for (int i = 1; i < 5; i++, left >>= 7)
        bytes[i] = (uint8_t)((left & 0x7F) | (i < 4 ? 0x80 : 0));
    CU_ASSERT_EQUAL(unpack(&data_response__descriptor, bytes, len, NULL), SLUICE_E_CORRUPT);
    bytes[1]--; /* and one less is taken */
    CHECK_OK(unpack(&data_response__descriptor, bytes, len - 1, NULL));
    free(bytes);
}

TEST(rejects_more_elements_than_the_limit)
{
    /* Empty samples and empty unknown fields alike: two bytes that cost an allocation each. */
    static const uint8_t tags[] = {0x12, 0x7A};
    for (int i = 0; i < 2; i++) {
        const size_t most = SLUICE_WIRE_MAX_ELEMENTS;
        uint8_t *bytes = calloc(2, most + 1);
        for (size_t k = 0; k <= most; k++)
            bytes[2 * k] = tags[i];
        CHECK_OK(unpack(&sluice__v1__fetch_request__descriptor, bytes, 2 * most, NULL));
        CU_ASSERT_EQUAL(unpack(&sluice__v1__fetch_request__descriptor, bytes, 2 * most + 2, NULL),
                        SLUICE_E_CORRUPT);
        free(bytes);
    }
}

/* Bytes of real messages, a few of them changed: whatever is accepted must be what
 * protobuf-c's own unpack accepts, and the sanitizers watch. */
TEST(what_passes_is_never_more_than_protobuf_c_takes)
{
    unsigned accepted = 0, refused = 0;
    for (int i = 0; i < 4000; i++) {
        Sluice__V1__SampleRequest a = SLUICE__V1__SAMPLE_REQUEST__INIT, b = a;
        Sluice__V1__SampleRequest *samples[] = {&a, &b};
        Sluice__V1__FetchOpen open = SLUICE__V1__FETCH_OPEN__INIT;
        Sluice__V1__FetchRequest wire = SLUICE__V1__FETCH_REQUEST__INIT;
        a.request_id = random_u64();
        b.sample_id = random_u64();
        b.epoch = random_u32();
        open.pipeline = random_text(30);
        open.pipeline_fingerprint = random_u64();
        wire.open = random_bool() ? &open : NULL;
        wire.samples = samples;
        wire.n_samples = 2;
        uint8_t packed[256];
        const size_t len = sluice__v1__fetch_request__pack(&wire, packed);
        free(open.pipeline);
        for (uint32_t flips = 1 + random_u32() % 3; flips > 0; flips--)
            packed[random_u32() % len] ^= (uint8_t)(1u << (random_u32() % 8));
        const bool is_accepted =
            unpack(&sluice__v1__fetch_request__descriptor, packed, len, NULL) == SLUICE_OK;
        if (is_accepted) {
            Sluice__V1__FetchRequest *theirs = sluice__v1__fetch_request__unpack(NULL, len, packed);
            CU_ASSERT_PTR_NOT_NULL_FATAL(theirs);
            sluice__v1__fetch_request__free_unpacked(theirs, NULL);
        }
        *(is_accepted ? &accepted : &refused) += 1;
    }
    CU_ASSERT(accepted > 100);
    CU_ASSERT(refused > 100);
}
