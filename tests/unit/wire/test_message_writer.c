#include "wire/message_writer.h"

#include "offload.pb-c.h"
#include "support/test.h"
#include "wire_random.h"

static sluice_status put(struct sluice_buf *payload, struct sluice_message *message)
{
    Sluice__V1__ProbeReply wire = SLUICE__V1__PROBE_REPLY__INIT;
    wire.payload = (ProtobufCBinaryData){.len = payload->len, .data = payload->data};
    return sluice_wire_pack(&wire.base, payload, message, NULL);
}

TEST(short_payloads_are_copied_and_long_ones_referred_to)
{
    const size_t lens[] = {0, 1, SLUICE_WIRE_MIN_REF_BYTES - 1, SLUICE_WIRE_MIN_REF_BYTES, 100000};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(lens); i++) {
        struct sluice_buf *payload = random_buf(lens[i]);
        struct sluice_message message = {0};
        CHECK_OK(put(payload, &message));
        const bool is_referred = lens[i] >= SLUICE_WIRE_MIN_REF_BYTES;
        CU_ASSERT_EQUAL(payload->refs, is_referred ? 2 : 1);
        sluice_message_clear(&message);
        CU_ASSERT_EQUAL(payload->refs, 1);
        sluice_buf_unref(payload);
    }
}

TEST(the_message_outlives_the_callers_reference)
{
    struct sluice_buf *payload = random_buf(5000);
    uint8_t first = payload->data[0];
    struct sluice_message message = {0};
    CHECK_OK(put(payload, &message));
    sluice_buf_unref(payload);
    uint8_t *flat = message_flatten(&message);
    CU_ASSERT_EQUAL(flat[message.len - 5000], first);
    free(flat);
    sluice_message_clear(&message);
}

TEST(appends_behind_what_is_there)
{
    struct sluice_message message = {0};
    uint8_t expected[64 * 1200];
    size_t len = 0;
    for (int i = 0; i < 40; i++) {
        struct sluice_buf *payload = random_buf(i % 2 ? 10 : 1100);
        Sluice__V1__ProbeReply wire = SLUICE__V1__PROBE_REPLY__INIT;
        wire.payload = (ProtobufCBinaryData){.len = payload->len, .data = payload->data};
        len += sluice__v1__probe_reply__pack(&wire, expected + len);
        CHECK_OK(put(payload, &message));
        sluice_buf_unref(payload);
    }
    CU_ASSERT_EQUAL_FATAL(message.len, len);
    uint8_t *flat = message_flatten(&message);
    CU_ASSERT(memcmp(flat, expected, len) == 0);
    free(flat);
    sluice_message_clear(&message);
}

TEST(packing_nothing_leaves_the_message_as_it_was)
{
    const Sluice__V1__StatsRequest wire = SLUICE__V1__STATS_REQUEST__INIT;
    struct sluice_message message = {0};
    CHECK_OK(sluice_message_append_copy(&message, "abc", 3, NULL));
    CHECK_OK(sluice_wire_pack(&wire.base, NULL, &message, NULL));
    CU_ASSERT_EQUAL(message.len, 3);
    sluice_message_clear(&message);
}
