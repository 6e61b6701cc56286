#include "storage_server/data/size_reader.h"

#include "fixture.h"
#include "image/image.h"
#include "support/test.h"

/* Asks for the sizes from a row on, until `num` are there. */
static enum sluice_rpc_code ask(struct fixture *f, struct sluice_wire_sizes_request *request,
                                struct sluice_wire_image_size **sizes, size_t *num,
                                struct sluice_err *err)
{
    struct sluice_message message = {0}, reply = {0};
    REQUIRE_OK(sluice_wire_put_sizes_request(request, &message, NULL));
    const enum sluice_rpc_code code = call(f, SLUICE_METHOD_LIST_SIZES, &message, &reply, err);
    if (code == SLUICE_RPC_OK)
        REQUIRE_OK(sluice_wire_get_sizes_reply(&reply, sizes, num, NULL));
    sluice_message_clear(&message);
    sluice_message_clear(&reply);
    return code;
}

static void find_dataset(struct fixture *f, struct sluice_wire_sizes_request *request)
{
    struct sluice_wire_hello hello = {.protocol_version = SLUICE_WIRE_PROTOCOL_VERSION}, said;
    struct sluice_message message = {0}, reply = {0};
    REQUIRE_OK(sluice_wire_put_hello_request(&hello, &message, NULL));
    CU_ASSERT_EQUAL_FATAL(call(f, SLUICE_METHOD_HELLO, &message, &reply, NULL), SLUICE_RPC_OK);
    REQUIRE_OK(sluice_wire_get_hello_reply(&reply, &said, NULL));
    memcpy(request->dataset_id, said.dataset_id, sizeof(request->dataset_id));
    sluice_wire_hello_clear(&said);
    sluice_message_clear(&message);
    sluice_message_clear(&reply);
}

/* The size in the header of a PNG. */
static void check_size(unsigned id, const struct sluice_wire_image_size *size)
{
    size_t len;
    uint8_t *file = sluice_test_read_file(image_path(id), &len);
    struct sluice_image_info info;
    REQUIRE_OK(sluice_image_probe(file, len, &info, NULL));
    CU_ASSERT_EQUAL(size->width, info.width);
    CU_ASSERT_EQUAL(size->height, info.height);
    CU_ASSERT_EQUAL(size->orientation, 1);
    free(file);
}

TEST(sizes_are_read_while_clients_ask_again)
{
    struct fixture f = fixture_init();
    fixture_start(&f);
    struct sluice_wire_sizes_request request = {.first_row = 0};
    struct sluice_wire_image_size *sizes = NULL;
    size_t num = 99;
    find_dataset(&f, &request);
    gate_close(f.gate); /* nothing is known yet, and no call waits */
    for (unsigned i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(ask(&f, &request, &sizes, &num, NULL), SLUICE_RPC_OK);
        CU_ASSERT_EQUAL(num, 0);
        free(sizes);
    }
    gate_await_held(f.gate, 1);
    gate_open(f.gate);
    while (request.first_row < NUM_IMAGES) {
        CU_ASSERT_EQUAL_FATAL(ask(&f, &request, &sizes, &num, NULL), SLUICE_RPC_OK);
        for (size_t i = 0; i < num; i++)
            check_size((unsigned)(request.first_row + i), &sizes[i]);
        request.first_row += num;
        free(sizes);
    }
    /* The same once more, with the orientations that were not read before. */
    request.is_upright = true;
    for (request.first_row = 0; request.first_row < NUM_IMAGES; request.first_row += num) {
        CU_ASSERT_EQUAL_FATAL(ask(&f, &request, &sizes, &num, NULL), SLUICE_RPC_OK);
        for (size_t i = 0; i < num; i++)
            check_size((unsigned)(request.first_row + i), &sizes[i]);
        free(sizes);
    }
    fixture_end(&f);
}

TEST(a_server_ends_while_sizes_are_read)
{
    struct fixture f = fixture_init();
    fixture_start(&f);
    struct sluice_wire_sizes_request request = {.first_row = 0};
    struct sluice_wire_image_size *sizes = NULL;
    size_t num;
    find_dataset(&f, &request);
    CU_ASSERT_EQUAL(ask(&f, &request, &sizes, &num, NULL), SLUICE_RPC_OK);
    free(sizes);
    fixture_end(&f);
}

TEST(other_datasets_and_rows_are_refused)
{
    struct fixture f = fixture_init();
    fixture_start(&f);
    struct sluice_wire_sizes_request request = {.first_row = NUM_IMAGES + 1};
    struct sluice_wire_image_size *sizes = NULL;
    struct sluice_err err = {0};
    size_t num;
    find_dataset(&f, &request);
    CU_ASSERT_EQUAL(ask(&f, &request, &sizes, &num, &err), SLUICE_RPC_OUT_OF_RANGE);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "row 13 of 12"));
    request.dataset_id[0] ^= 1;
    err = (struct sluice_err){0};
    CU_ASSERT_EQUAL(ask(&f, &request, &sizes, &num, &err), SLUICE_RPC_FAILED_PRECONDITION);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "the dataset here is "));
    fixture_end(&f);
}
