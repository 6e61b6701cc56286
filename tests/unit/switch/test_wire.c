#include "lend/switch/wire.h"

#include "support/test.h"

/* Feeds bytes in pieces of `step`; the last event.  `until` ends it. */
static enum switch_wire_event feed(struct switch_wire *wire, const uint8_t **bytes, size_t *len,
                                   size_t step)
{
    enum switch_wire_event event = SWITCH_WIRE_MORE;
    while (*len > 0 && event == SWITCH_WIRE_MORE) {
        void *to;
        size_t room;
        switch_wire_want(wire, &to, &room);
        CU_ASSERT_FATAL(room > 0);
        size_t n = room < step ? room : step;
        if (n > *len)
            n = *len;
        memcpy(to, *bytes, n);
        *bytes += n;
        *len -= n;
        event = switch_wire_took(wire, n);
    }
    return event;
}

static size_t put_request(uint8_t *to, const char *name, const void *data, uint32_t data_length)
{
    const uint32_t name_length = (uint32_t)strlen(name);
    memcpy(to, &name_length, 4);
    memcpy(to + 4, name, name_length);
    memcpy(to + 4 + name_length, &data_length, 4);
    memcpy(to + 8 + name_length, data, data_length);
    return 8 + name_length + data_length;
}

TEST(requests_are_found_in_pieces_of_any_size)
{
    static struct switch_wire wire;
    uint8_t stream[256], data[16];
    size_t length = put_request(stream, "vgg16_inference", "0123456789", 10);
    length += put_request(stream + length, "vgg16_training", "", 0);
    memset(stream + length, 0, 4);
    length += 4;
    for (size_t step = 1; step <= length; step++) {
        const uint8_t *bytes = stream;
        size_t left = length;
        switch_wire_init(&wire);
        CU_ASSERT_EQUAL(feed(&wire, &bytes, &left, step), SWITCH_WIRE_NAMED);
        CU_ASSERT_STRING_EQUAL(wire.name, "vgg16_inference");
        CU_ASSERT_EQUAL(wire.data_length, 10);
        CU_ASSERT_EQUAL(switch_wire_accept(&wire, data), SWITCH_WIRE_MORE);
        CU_ASSERT_EQUAL(feed(&wire, &bytes, &left, step), SWITCH_WIRE_COMPLETE);
        CU_ASSERT_EQUAL(memcmp(data, "0123456789", 10), 0);
        CU_ASSERT_EQUAL(feed(&wire, &bytes, &left, step), SWITCH_WIRE_NAMED);
        CU_ASSERT_STRING_EQUAL(wire.name, "vgg16_training");
        CU_ASSERT_EQUAL(switch_wire_accept(&wire, data), SWITCH_WIRE_COMPLETE);
        CU_ASSERT_EQUAL(feed(&wire, &bytes, &left, step), SWITCH_WIRE_END);
        CU_ASSERT_EQUAL(left, 0);
    }
}

TEST(data_of_a_refused_request_are_dropped_and_the_next_is_found)
{
    static struct switch_wire wire;
    static uint8_t stream[300000], zeros[200000], data[4];
    size_t length = put_request(stream, "inception_v3_inference", zeros, sizeof zeros);
    length += put_request(stream + length, "a", "", 0);
    length += put_request(stream + length, "b", "done", 4);
    const uint8_t *bytes = stream;
    switch_wire_init(&wire);
    CU_ASSERT_EQUAL(feed(&wire, &bytes, &length, SIZE_MAX), SWITCH_WIRE_NAMED);
    CU_ASSERT_EQUAL(switch_wire_refuse(&wire), SWITCH_WIRE_MORE);
    CU_ASSERT_EQUAL(feed(&wire, &bytes, &length, SIZE_MAX), SWITCH_WIRE_REFUSED);
    CU_ASSERT_EQUAL(feed(&wire, &bytes, &length, SIZE_MAX), SWITCH_WIRE_NAMED);
    CU_ASSERT_EQUAL(switch_wire_refuse(&wire), SWITCH_WIRE_REFUSED);
    CU_ASSERT_EQUAL(feed(&wire, &bytes, &length, SIZE_MAX), SWITCH_WIRE_NAMED);
    CU_ASSERT_STRING_EQUAL(wire.name, "b");
    CU_ASSERT_EQUAL(switch_wire_accept(&wire, data), SWITCH_WIRE_MORE);
    CU_ASSERT_EQUAL(feed(&wire, &bytes, &length, 3), SWITCH_WIRE_COMPLETE);
    CU_ASSERT_EQUAL(memcmp(data, "done", 4), 0);
}

TEST(a_name_of_257_bytes_is_too_long_and_one_of_256_is_not)
{
    static struct switch_wire wire;
    uint8_t stream[300];
    memset(stream, 'x', sizeof stream);
    for (uint32_t name_length = 256; name_length <= 257; name_length++) {
        memcpy(stream, &name_length, 4);
        const uint8_t *bytes = stream;
        size_t left = 4 + 256 + 4;
        switch_wire_init(&wire);
        CU_ASSERT_EQUAL(feed(&wire, &bytes, &left, SIZE_MAX),
                        name_length == 256 ? SWITCH_WIRE_NAMED : SWITCH_WIRE_TOO_LONG);
    }
    const uint8_t *bytes = stream;
    size_t left = sizeof stream;
    CU_ASSERT_EQUAL(feed(&wire, &bytes, &left, SIZE_MAX), SWITCH_WIRE_MORE); /* all is dropped */
    CU_ASSERT_EQUAL(left, 0);
}
