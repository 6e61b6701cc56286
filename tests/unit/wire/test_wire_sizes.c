#include "wire/wire.h"

#include "offload.pb-c.h"
#include "support/test.h"
#include "wire_random.h"

TEST(a_request_says_what_was_put)
{
    const struct sluice_wire_sizes_request request = {.dataset_id =
                                                          "00112233445566778899aabbccddeeff",
                                                      .first_row = 1ull << 33,
                                                      .is_upright = true};
    struct sluice_wire_sizes_request got;
    struct sluice_message message = {0};
    CHECK_OK(sluice_wire_put_sizes_request(&request, &message, NULL));
    REQUIRE_OK(sluice_wire_get_sizes_request(&message, &got, NULL));
    CU_ASSERT_STRING_EQUAL(got.dataset_id, request.dataset_id);
    CU_ASSERT_EQUAL(got.first_row, request.first_row);
    CU_ASSERT(got.is_upright);
    sluice_message_clear(&message);
}

TEST(a_reply_says_what_was_put)
{
    static const struct sluice_wire_image_size sizes[] = {
        {640, 480, 1}, {65535, 1, 8}, {0, 0, 1}, {258, 513, 6}};
    for (size_t num = 0; num <= SLUICE_ARRAY_LEN(sizes); num++) {
        struct sluice_wire_image_size *got = NULL;
        size_t num_got = 99;
        struct sluice_message message = {0};
        CHECK_OK(sluice_wire_put_sizes_reply(sizes, num, &message, NULL));
        REQUIRE_OK(sluice_wire_get_sizes_reply(&message, &got, &num_got, NULL));
        CU_ASSERT_EQUAL_FATAL(num_got, num);
        for (size_t i = 0; i < num; i++) {
            CU_ASSERT_EQUAL(got[i].width, sizes[i].width);
            CU_ASSERT_EQUAL(got[i].height, sizes[i].height);
            CU_ASSERT_EQUAL(got[i].orientation, sizes[i].orientation);
        }
        free(got);
        sluice_message_clear(&message);
    }
}

TEST(protobuf_c_reads_what_is_put)
{
    static const struct sluice_wire_image_size size = {0x1234, 0x0506, 7};
    struct sluice_message message = {0};
    CHECK_OK(sluice_wire_put_sizes_reply(&size, 1, &message, NULL));
    uint8_t *flat = message_flatten(&message);
    Sluice__V1__ListSizesReply *wire =
        sluice__v1__list_sizes_reply__unpack(NULL, message.len, flat);
    CU_ASSERT_PTR_NOT_NULL_FATAL(wire);
    CU_ASSERT_EQUAL_FATAL(wire->sizes.len, 5);
    CU_ASSERT_EQUAL(memcmp(wire->sizes.data, "\x34\x12\x06\x05\x07", 5), 0);
    sluice__v1__list_sizes_reply__free_unpacked(wire, NULL);
    free(flat);
    sluice_message_clear(&message);
}

TEST(a_damaged_reply_is_noticed)
{
    static const struct sluice_wire_image_size size = {640, 480, 1};
    struct sluice_message message = {0};
    CHECK_OK(sluice_wire_put_sizes_reply(&size, 1, &message, NULL));
    uint8_t *flat = message_flatten(&message);
    for (size_t bit = 0; bit < 8 * message.len; bit++) {
        struct sluice_wire_image_size *got = NULL;
        size_t num;
        flat[bit / 8] ^= (uint8_t)(1u << bit % 8);
        struct sluice_message cut = message_cut(flat, message.len);
        CU_ASSERT_NOT_EQUAL(sluice_wire_get_sizes_reply(&cut, &got, &num, NULL), SLUICE_OK);
        flat[bit / 8] ^= (uint8_t)(1u << bit % 8);
        sluice_message_clear(&cut);
    }
    free(flat);
    sluice_message_clear(&message);
}

TEST(rejects_sizes_that_no_image_has)
{
    static const struct sluice_wire_image_size wrong[] = {
        {640, 0, 1}, {0, 1, 1}, {5, 5, 0}, {5, 5, 9}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(wrong); i++) {
        struct sluice_wire_image_size *got = NULL;
        size_t num;
        struct sluice_message message = {0};
        CHECK_OK(sluice_wire_put_sizes_reply(&wrong[i], 1, &message, NULL));
        CHECK_FAILS(SLUICE_E_CORRUPT, "an image of ",
                    sluice_wire_get_sizes_reply(&message, &got, &num, sluice_test_err()));
        sluice_message_clear(&message);
    }
}
