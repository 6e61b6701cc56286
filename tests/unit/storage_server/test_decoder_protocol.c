#include "op/pipeline.h"
#include "storage_server/isolation/decoder_protocol.h"

#include "base/buf.h"
#include "support/test.h"

static struct sluice_pipeline *pipeline;

static const struct sluice_decoder_limits limits = {
    .max_image_pixels = 1000000,
    .in_room = 1 << 20,
    .out_room = 1 << 20,
};

static struct sluice_decoder_request request_for(enum sluice_form form, unsigned end)
{
    return (struct sluice_decoder_request){.number = 7, .form = form, .end = end, .file_len = 1000};
}

/* What an honest decoder says. */
static struct sluice_decoder_reply reply_to(const struct sluice_decoder_request *request)
{
    struct sluice_decoder_reply reply = {.number = request->number, .is_changed = 1};
    const bool is_plain = sluice_form_type(request->form)->is_plain;
    reply.ops_done = request->end;
    reply.kind = sluice_pipeline_kind(pipeline, request->end);
    reply.is_coded = !is_plain;
    reply.len = 999;
    if (reply.kind != SLUICE_KIND_FILE) {
        reply.width = reply.height = 8;
        reply.len = 8 * 8 * (reply.kind == SLUICE_KIND_F32 ? 12 : 3) / (is_plain ? 1 : 2);
    }
    return reply;
}

static sluice_status read_reply(const struct sluice_decoder_request *request,
                                const struct sluice_decoder_reply *reply)
{
    struct sluice_decoder_reply read;
    struct sluice_err err = {0};
    const sluice_status status =
        sluice_decoder_reply_read(reply, sizeof(*reply), request, pipeline, &limits, &read, &err);
    CU_ASSERT_EQUAL(status == SLUICE_OK, err.text[0] == '\0');
    CU_ASSERT(status == SLUICE_OK || status == SLUICE_E_CORRUPT);
    return status;
}

TEST(takes_what_each_task_can_make)
{
    static const struct {
        enum sluice_form form;
        unsigned end;
    } works[] = {{SLUICE_FORM_RAW, 1},       {SLUICE_FORM_RAW, 3},
                 {SLUICE_FORM_RAW, 5},       {SLUICE_FORM_U8_PACKED, 1},
                 {SLUICE_FORM_U8_PACKED, 3}, {SLUICE_FORM_JPEG_CROP, 0}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(works); i++) {
        const struct sluice_decoder_request request = request_for(works[i].form, works[i].end);
        const struct sluice_decoder_reply reply = reply_to(&request);
        CHECK_OK(read_reply(&request, &reply));
    }
    const struct sluice_decoder_request pack = request_for(SLUICE_FORM_U8_PACKED, 3);
    const struct sluice_decoder_request run = request_for(SLUICE_FORM_RAW, 3);
    struct sluice_decoder_reply unpacked = reply_to(&run);
    unpacked.status = SLUICE_E_AGAIN;
    CHECK_OK(read_reply(&pack, &unpacked));
    CU_ASSERT_EQUAL(read_reply(&run, &unpacked), SLUICE_E_CORRUPT);
}

TEST(takes_failures_of_ops)
{
    const struct sluice_decoder_request request = request_for(SLUICE_FORM_RAW, 3);
    for (uint32_t status = 0; status < SLUICE_NUM_STATUS + 2; status++) {
        const struct sluice_decoder_reply reply = {
            .number = 7, .status = status, .text = "what is wrong"};
        const bool is_of_ops = status == SLUICE_E_INVALID || status == SLUICE_E_CORRUPT ||
                               status == SLUICE_E_UNSUPPORTED || status == SLUICE_E_NO_MEMORY ||
                               status == SLUICE_E_AGAIN;
        CU_ASSERT_EQUAL(read_reply(&request, &reply), is_of_ops ? SLUICE_OK : SLUICE_E_CORRUPT);
    }
}

TEST(words_are_printable_and_end)
{
    const struct sluice_decoder_request request = request_for(SLUICE_FORM_RAW, 3);
    struct sluice_decoder_reply reply = {.number = 7, .status = SLUICE_E_CORRUPT}, read;
    memset(reply.text, 'x', sizeof(reply.text));
    memcpy(reply.text, "a\nb\x1b[2J\xff", 8);
    CHECK_OK(
        sluice_decoder_reply_read(&reply, sizeof(reply), &request, pipeline, &limits, &read, NULL));
    CU_ASSERT_EQUAL(strlen(read.text), sizeof(read.text) - 1);
    CU_ASSERT_NSTRING_EQUAL(read.text, "a?b?[2J?xx", 10);
    reply.text[0] = '\0';
    CHECK_OK(
        sluice_decoder_reply_read(&reply, sizeof(reply), &request, pipeline, &limits, &read, NULL));
    CU_ASSERT_NOT_EQUAL(read.text[0], '\0');
}

TEST(takes_the_image_that_it_asked_for_and_no_impossible_one)
{
    struct sluice_decoder_request request = request_for(SLUICE_FORM_RAW, 3);
    struct sluice_decoder_reply reply = reply_to(&request);
    request.reads_image = true;
    CU_ASSERT_EQUAL(read_reply(&request, &reply), SLUICE_E_CORRUPT);
    reply.image = (struct sluice_file_image){65535, 1, 8};
    CHECK_OK(read_reply(&request, &reply));
    reply.image.orientation = 9;
    CU_ASSERT_EQUAL(read_reply(&request, &reply), SLUICE_E_CORRUPT);
    reply.image = (struct sluice_file_image){65536, 1, 1};
    CU_ASSERT_EQUAL(read_reply(&request, &reply), SLUICE_E_CORRUPT);
}

TEST(rejects_lies)
{
    const struct sluice_decoder_request run = request_for(SLUICE_FORM_RAW, 3);
    const struct sluice_decoder_request whole = request_for(SLUICE_FORM_RAW, 1);
    const struct sluice_decoder_request pack = request_for(SLUICE_FORM_U8_PACKED, 3);
    const struct sluice_decoder_request cut = request_for(SLUICE_FORM_JPEG_CROP, 0);
#define LIE(request, field, value)                                                                 \
    do {                                                                                           \
        struct sluice_decoder_reply reply = reply_to(&(request));                                  \
        reply.field = (value);                                                                     \
        CU_ASSERT_EQUAL(read_reply(&(request), &reply), SLUICE_E_CORRUPT);                         \
    } while (0)
    LIE(run, number, 8);
    LIE(run, is_changed, 0);
    LIE(run, is_changed, 2);
    LIE(run, status, SLUICE_E_CORRUPT);
    LIE(run, ops_done, 2);
    LIE(run, ops_done, 5);
    LIE(run, kind, SLUICE_KIND_FILE);
    LIE(run, kind, SLUICE_KIND_F32);
    LIE(run, kind, 3);
    LIE(run, kind, UINT32_MAX);
    LIE(run, width, 9);
    LIE(run, height, 0);
    LIE(run, len, 8 * 8 * 3 - 1);
    LIE(run, len, UINT64_MAX);
    LIE(run, is_coded, 1);
    LIE(whole, width, 7);
    LIE(whole, width, 100000);
    LIE(whole, len, (1 << 20) + 1);
    LIE(pack, is_coded, 0);
    LIE(pack, len, 8 * 8 * 3);
    LIE(cut, is_coded, 0);
    LIE(cut, len, 1000);
    LIE(cut, ops_done, 1);
    LIE(cut, width, 8);
#undef LIE
    /* Larger than the region, with sizes that fit each other. */
    struct sluice_decoder_reply large = reply_to(&whole);
    large.width = 1000;
    large.height = 1000;
    large.len = 3000000;
    CU_ASSERT_EQUAL(read_reply(&whole, &large), SLUICE_E_CORRUPT);

    const struct sluice_decoder_reply honest = reply_to(&run);
    struct sluice_decoder_reply read;
    char longer[sizeof(honest) + 1] = {0};
    memcpy(longer, &honest, sizeof(honest));
    for (size_t len = 0; len <= sizeof(longer); len++) {
        if (len != sizeof(honest))
            CU_ASSERT_EQUAL(
                sluice_decoder_reply_read(longer, len, &run, pipeline, &limits, &read, NULL),
                SLUICE_E_CORRUPT);
    }
}

TEST(places_an_index_behind_the_file)
{
    const struct sluice_jpeg_index index = {.mcus_down = 30, .points_across = 5};
    uint64_t points_at = 0, rows_at = 0;
    const size_t end = sluice_decoder_place_index(&index, 1001, 1 << 20, &points_at, &rows_at);
    CU_ASSERT(points_at >= 1001 + SLUICE_BUF_SLACK && points_at % 64 == 0);
    CU_ASSERT(rows_at >= points_at + 150 * sizeof(struct sluice_jpeg_index_point));
    CU_ASSERT_EQUAL(end, rows_at + 30 * sizeof(uint32_t));
    CU_ASSERT_EQUAL(sluice_decoder_place_index(&index, 1001, end, &points_at, &rows_at), end);
    CU_ASSERT_EQUAL(sluice_decoder_place_index(&index, 1001, end - 1, &points_at, &rows_at), 0);
    const struct sluice_jpeg_index huge = {.mcus_down = UINT32_MAX, .points_across = UINT32_MAX};
    CU_ASSERT_EQUAL(sluice_decoder_place_index(&huge, 1, 1 << 20, &points_at, &rows_at), 0);
    CU_ASSERT_EQUAL(sluice_decoder_place_index(&index, UINT64_MAX, 1 << 20, &points_at, &rows_at),
                    0);
}

int main(void)
{
    if (sluice_pipeline_parse("decode,random_resized_crop=8,hflip,to_tensor,normalize=imagenet",
                              &pipeline, NULL) != SLUICE_OK)
        return 1;
    const int code = sluice_test_main();
    sluice_pipeline_destroy(pipeline);
    return code;
}
