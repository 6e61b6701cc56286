#include "lend/switch/wire.h"

#include "support/test.h"

static size_t put_head(uint8_t *to, const char *name, uint32_t data_bytes)
{
    const uint32_t length = (uint32_t)strlen(name);
    memcpy(to, &length, 4);
    memcpy(to + 4, name, length);
    memcpy(to + 4 + length, &data_bytes, 4);
    return 8 + length;
}

TEST(a_head_is_found_in_as_many_bytes_as_it_asks_for)
{
    uint8_t bytes[SWITCH_WIRE_HEAD_BYTES];
    struct switch_wire_head head = {.data_bytes = 0};
    const size_t length = put_head(bytes, "vgg16_inference", 4000000000u);
    for (size_t have = 0; have < length; have++) {
        size_t wanted = 0;
        CU_ASSERT_EQUAL(switch_wire_parse(bytes, have, &wanted, &head), SWITCH_WIRE_MORE);
        CU_ASSERT_EQUAL(wanted, have < 4 ? 4 : length);
    }
    size_t wanted = 0;
    CU_ASSERT_EQUAL(switch_wire_parse(bytes, length, &wanted, &head), SWITCH_WIRE_HEAD);
    CU_ASSERT_STRING_EQUAL(head.name, "vgg16_inference");
    CU_ASSERT_EQUAL(head.data_bytes, 4000000000u);
}

TEST(a_name_of_256_bytes_is_the_longest)
{
    uint8_t bytes[SWITCH_WIRE_HEAD_BYTES];
    char name[257] = "";
    struct switch_wire_head head;
    size_t wanted;
    memset(name, 'x', 256);
    CU_ASSERT_EQUAL(put_head(bytes, name, 7), sizeof bytes);
    CU_ASSERT_EQUAL(switch_wire_parse(bytes, sizeof bytes, &wanted, &head), SWITCH_WIRE_HEAD);
    CU_ASSERT_STRING_EQUAL(head.name, name);
    CU_ASSERT_EQUAL(head.data_bytes, 7);
    for (uint64_t length = 257; length <= UINT32_MAX; length *= 3) {
        memcpy(bytes, &(uint32_t){(uint32_t)length}, 4);
        CU_ASSERT_EQUAL(switch_wire_parse(bytes, 4, &wanted, &head), SWITCH_WIRE_TOO_LONG);
    }
}

TEST(a_length_of_0_ends_the_connection)
{
    const uint8_t bytes[4] = {0};
    struct switch_wire_head head;
    size_t wanted;
    CU_ASSERT_EQUAL(switch_wire_parse(bytes, 4, &wanted, &head), SWITCH_WIRE_END);
}

TEST(a_0_ends_a_name)
{
    uint8_t bytes[16];
    struct switch_wire_head head;
    size_t wanted;
    const size_t length = put_head(bytes, "a.b", 1);
    bytes[5] = 0;
    CU_ASSERT_EQUAL(switch_wire_parse(bytes, length, &wanted, &head), SWITCH_WIRE_HEAD);
    CU_ASSERT_STRING_EQUAL(head.name, "a");
}
