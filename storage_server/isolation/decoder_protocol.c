#include "storage_server/isolation/decoder_protocol.h"

#include "base/buf.h"
#include "base/checked.h"
#include "op/geometry.h"
#include "op/pipeline.h"

#include <string.h>

static size_t align(size_t at)
{
    return (at + 63) & ~(size_t)63;
}

size_t sluice_decoder_place_index(const struct sluice_jpeg_index *index, uint64_t file_len,
                                  size_t in_room, uint64_t *points_at, uint64_t *rows_at)
{
    size_t points, rows, end;
    if (file_len > in_room ||
        !sluice_mul_size((size_t)index->mcus_down * index->points_across, sizeof(*index->points),
                         &points) ||
        !sluice_mul_size(index->mcus_down, sizeof(*index->row_hashes), &rows) || points > in_room ||
        rows > in_room)
        return 0;
    *points_at = align((size_t)file_len + SLUICE_BUF_SLACK);
    *rows_at = align((size_t)*points_at + points);
    end = (size_t)*rows_at + rows;
    return end <= in_room ? end : 0;
}

/* Whether ops on a file fail in this way. */
static bool is_failure_of_ops(uint32_t status)
{
    return status == SLUICE_E_INVALID || status == SLUICE_E_CORRUPT ||
           status == SLUICE_E_UNSUPPORTED || status == SLUICE_E_NO_MEMORY ||
           status == SLUICE_E_AGAIN;
}

/* The words go into logs and messages of UTF-8. */
static void make_printable(char *text, size_t room)
{
    text[room - 1] = '\0';
    for (char *at = text; *at; at++) {
        if (*at < ' ' || *at > '~')
            *at = '?';
    }
}

static sluice_status check_result(const struct sluice_decoder_reply *reply,
                                  const struct sluice_decoder_request *request,
                                  const struct sluice_pipeline *pipeline,
                                  const struct sluice_decoder_limits *limits,
                                  struct sluice_err *err)
{
    const struct sluice_form_type *coding =
        reply->status == SLUICE_OK ? sluice_form_coding(request->form) : NULL;
    if (reply->ops_done != request->end || reply->is_coded != (coding != NULL))
        return sluice_fail(err, SLUICE_E_CORRUPT, "it did what nobody asked for");
    const bool is_too_long = coding && coding->kind == SLUICE_KIND_FILE &&
                             reply->len >= request->file_len * coding->max_percent / 100;
    if (reply->len > limits->out_room || is_too_long)
        return sluice_fail(err, SLUICE_E_CORRUPT, "a result of %llu bytes",
                           (unsigned long long)reply->len);
    if (request->reads_image && !sluice_file_image_is_possible(&reply->image))
        return sluice_fail(err, SLUICE_E_CORRUPT, "an image of %u x %u pixels, turned by %u",
                           reply->image.width, reply->image.height, reply->image.orientation);
    if (reply->kind > SLUICE_KIND_F32)
        return sluice_fail(err, SLUICE_E_CORRUPT, "a result of kind %u", reply->kind);
    struct sluice_buf data = {.len = (size_t)reply->len}; /* its length is all that is looked at */
    const struct sluice_sample sample = {
        .ops_done = reply->ops_done,
        .kind = (enum sluice_kind)reply->kind,
        .width = reply->width,
        .height = reply->height,
        .channels = reply->kind == SLUICE_KIND_FILE ? 0 : 3,
        .data = &data,
        .coding = coding,
    };
    return sluice_pipeline_check_sample(pipeline, &sample, limits->max_image_pixels, err);
}

sluice_status sluice_decoder_reply_read(const void *bytes, size_t len,
                                        const struct sluice_decoder_request *request,
                                        const struct sluice_pipeline *pipeline,
                                        const struct sluice_decoder_limits *limits,
                                        struct sluice_decoder_reply *reply, struct sluice_err *err)
{
    struct sluice_decoder_reply read;
    if (len != sizeof(read))
        return sluice_fail(err, SLUICE_E_CORRUPT, "a reply of %zu bytes", len);
    memcpy(&read, bytes, sizeof(read));
    make_printable(read.text, sizeof(read.text));
    if (read.number != request->number)
        return sluice_fail(err, SLUICE_E_CORRUPT, "a reply to another request");
    if (read.is_changed > 1 || read.is_coded > 1)
        return sluice_fail(err, SLUICE_E_CORRUPT, "a reply that is neither yes nor no");
    if (read.status != SLUICE_OK && !is_failure_of_ops(read.status))
        return sluice_fail(err, SLUICE_E_CORRUPT, "a failure of kind %u", read.status);
    /* Where packing saves nothing the pixels are what there is. */
    const bool may_change =
        read.status == SLUICE_OK || (read.status == SLUICE_E_AGAIN && request->end > 0 &&
                                     !sluice_form_type(request->form)->is_plain);
    if (read.is_changed ? !may_change : read.status == SLUICE_OK)
        return sluice_fail(err, SLUICE_E_CORRUPT, "a result and a failure, or neither");
    if (read.is_changed) {
        const sluice_status status = check_result(&read, request, pipeline, limits, err);
        if (status != SLUICE_OK)
            return status;
    } else if (!read.text[0]) {
        memcpy(read.text, "no reason given", sizeof("no reason given"));
    }
    *reply = read;
    return SLUICE_OK;
}
