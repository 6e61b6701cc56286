/* A decoder's reply.  Whatever its bytes, reading it ends in a status with words or in a sample
 * that the task can make and that fits the region. */

#include "fuzz_wire.h"

#include "op/pipeline.h"
#include "storage_server/isolation/decoder_protocol.h"

static const struct sluice_decoder_limits limits = {
    .max_image_pixels = 100000,
    .in_room = 1 << 16,
    .out_room = 1 << 18,
};

static void check_result(const struct sluice_decoder_request *request,
                         const struct sluice_pipeline *pipeline,
                         const struct sluice_decoder_reply *reply)
{
    FUZZ_CHECK(reply->status == SLUICE_OK || request->form == SLUICE_FORM_U8_PACKED);
    FUZZ_CHECK(reply->len <= limits.out_room);
    FUZZ_CHECK(reply->ops_done == request->end);
    FUZZ_CHECK(reply->kind == (uint32_t)sluice_pipeline_kind(pipeline, reply->ops_done));
    const uint64_t pixels = (uint64_t)reply->width * reply->height;
    if (request->form == SLUICE_FORM_JPEG_CROP)
        FUZZ_CHECK(reply->is_coded && pixels == 0 && reply->len < request->file_len);
    else if (reply->is_coded)
        FUZZ_CHECK(reply->len < 3 * pixels);
    else
        FUZZ_CHECK(reply->len == pixels * (reply->kind == SLUICE_KIND_F32 ? 12 : 3));
    FUZZ_CHECK(pixels <= limits.max_image_pixels);
}

/* The first byte says what was asked for. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sluice_pipeline *pipeline;
    if (!pipeline)
        FUZZ_CHECK(sluice_pipeline_parse("decode,random_resized_crop=8,hflip,to_tensor", &pipeline,
                                         NULL) == SLUICE_OK);
    if (size < 1)
        return 0;
    static const enum sluice_form forms[] = {SLUICE_FORM_RAW, SLUICE_FORM_U8_PACKED,
                                             SLUICE_FORM_JPEG_CROP};
    struct sluice_decoder_request request = {
        .number = 1,
        .form = forms[data[0] % 3],
        .file_len = 5000,
    };
    if (request.form != SLUICE_FORM_JPEG_CROP)
        request.end = 1 + data[0] / 3 % (request.form == SLUICE_FORM_U8_PACKED ? 3 : 4);
    struct sluice_decoder_reply reply;
    struct sluice_err err = {{0}};
    const sluice_status status =
        sluice_decoder_reply_read(data + 1, size - 1, &request, pipeline, &limits, &reply, &err);
    if (status != SLUICE_OK) {
        FUZZ_CHECK(status == SLUICE_E_CORRUPT && err.text[0]);
        return 0;
    }
    FUZZ_CHECK(memchr(reply.text, 0, sizeof(reply.text)) != NULL);
    for (const char *at = reply.text; *at; at++)
        FUZZ_CHECK(*at >= ' ' && *at <= '~');
    if (reply.is_changed)
        check_result(&request, pipeline, &reply);
    else
        FUZZ_CHECK(reply.status != SLUICE_OK && reply.text[0]);
    return 0;
}
