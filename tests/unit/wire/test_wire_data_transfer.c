#include "wire/wire.h"

#include "data_transfer.pb-c.h"
#include "support/test.h"
#include "wire_random.h"

TEST(reads_requests_of_protobuf_c)
{
    for (int i = 0; i < 100; i++) {
        DataRequest request = DATA_REQUEST__INIT;
        request.fname = random_text(200);
        request.pproc = (int32_t)random_u32();
        request.size = i % 2 ? -1 : (int32_t)random_u32();
        uint8_t packed[256];
        struct sluice_message message = message_cut(packed, data_request__pack(&request, packed));
        struct sluice_wire_data_request got;
        REQUIRE_OK(sluice_wire_get_data_request(&message, &got, NULL));
        CU_ASSERT_STRING_EQUAL(got.fname, request.fname);
        CU_ASSERT_EQUAL(got.pproc, request.pproc);
        CU_ASSERT_EQUAL(got.size, request.size);
        sluice_wire_data_request_clear(&got);
        sluice_wire_data_request_clear(&got);
        sluice_message_clear(&message);
        free(request.fname);
    }
}

TEST(rejects_a_file_name_with_a_nul)
{
    static const uint8_t bytes[] = {0x0A, 5, 'a', 0, '/', '.', '.'};
    struct sluice_message message = message_cut(bytes, sizeof(bytes));
    struct sluice_wire_data_request got;
    CU_ASSERT_EQUAL(sluice_wire_get_data_request(&message, &got, NULL), SLUICE_E_CORRUPT);
    sluice_message_clear(&message);
}

TEST(protobuf_c_reads_responses)
{
    const struct sluice_wire_data_response response = {
        .image = random_buf(602112),
        .label = "n01440764",
        .fname = "a\xFF/b.jpg",
        .pil_mode = "RGB",
        .dtype = "float32",
        .pproc = -1,
        .width = 224,
        .height = 225,
        .shape = {3, 224, -5},
        .num_shape = 3,
    };
    struct sluice_message message = {0};
    CHECK_OK(sluice_wire_put_data_response(&response, &message, NULL));
    bool is_by_reference = false;
    for (size_t i = 0; i < message.num_segments; i++)
        is_by_reference |= message.segments[i].data == response.image->data;
    CU_ASSERT(is_by_reference);

    uint8_t *flat = message_flatten(&message);
    DataResponse *wire = data_response__unpack(NULL, message.len, flat);
    CU_ASSERT_PTR_NOT_NULL_FATAL(wire);
    CU_ASSERT_EQUAL_FATAL(wire->image.len, response.image->len);
    CU_ASSERT(memcmp(wire->image.data, response.image->data, wire->image.len) == 0);
    CU_ASSERT_EQUAL_FATAL(wire->label.len, 9);
    CU_ASSERT(memcmp(wire->label.data, "n01440764", 9) == 0);
    CU_ASSERT_EQUAL(wire->pproc, -1);
    CU_ASSERT_STRING_EQUAL(wire->fname, "a?/b.jpg");
    CU_ASSERT_STRING_EQUAL(wire->pil_mode, "RGB");
    CU_ASSERT_STRING_EQUAL(wire->dtype, "float32");
    CU_ASSERT_EQUAL(wire->width, 224);
    CU_ASSERT_EQUAL(wire->height, 225);
    CU_ASSERT_EQUAL_FATAL(wire->n_shape, 3);
    CU_ASSERT_EQUAL(wire->shape[2], -5);
    data_response__free_unpacked(wire, NULL);
    free(flat);
    sluice_message_clear(&message);
    CU_ASSERT_EQUAL(response.image->refs, 1);
    sluice_buf_unref(response.image);
}

TEST(nulls_are_empty)
{
    const struct sluice_wire_data_response response = {0};
    struct sluice_message message = {0};
    CHECK_OK(sluice_wire_put_data_response(&response, &message, NULL));
    CU_ASSERT_EQUAL(message.len, 0);
    sluice_message_clear(&message);
}
