#include "wire/message_reader.h"
#include "wire/message_writer.h"
#include "wire/wire.h"
#include "wire/wire_fields.h"
#include "wire/wire_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- requests --- */

void sluice_wire_fetch_request_clear(struct sluice_wire_fetch_request *request)
{
    free(request->open.pipeline);
    free(request->open.client);
    free(request->samples);
    *request = (struct sluice_wire_fetch_request){0};
}

static size_t count_traced(const struct sluice_wire_fetch_request *request)
{
    size_t count = 0;
    for (size_t i = 0; i < request->num_samples; i++)
        count += request->samples[i].trace.span != 0;
    return count;
}

sluice_status sluice_wire_put_fetch_request(const struct sluice_wire_fetch_request *request,
                                            struct sluice_message *message, struct sluice_err *err)
{
    const size_t num_samples = request->num_samples;
    Sluice__V1__SampleRequest *rows = calloc(num_samples + 1, sizeof(*rows));
    Sluice__V1__SampleRequest **samples =
        calloc(num_samples + 1, sizeof(*samples)); /* NOLINT(bugprone-sizeof-expression) */
    uint8_t(*traces)[SLUICE_TRACE_CONTEXT_BYTES] = NULL;
    const size_t num_traced = count_traced(request);
    if (num_traced)
        traces = calloc(num_traced, sizeof(*traces));
    uint8_t(*trace)[SLUICE_TRACE_CONTEXT_BYTES] = traces;
    sluice_status status;
    if (rows && samples && (traces || !num_traced)) {
        for (size_t i = 0; i < num_samples; i++) {
            const struct sluice_wire_sample_request *sample = &request->samples[i];
            sluice__v1__sample_request__init(&rows[i]);
            rows[i].request_id = sample->request_id;
            rows[i].sample_id = sample->key.sample_id;
            rows[i].seed = sample->key.seed;
            rows[i].epoch = sample->key.epoch;
            rows[i].schedule = sample->key.schedule;
            rows[i].crop_left = sample->key.crop.left;
            rows[i].crop_top = sample->key.crop.top;
            rows[i].crop_width = sample->key.crop.width;
            rows[i].crop_height = sample->key.crop.height;
            rows[i].bucket = sample->key.bucket;
            rows[i].split = sample->split;
            rows[i].form = sluice_wire_form_to_wire(sample->form);
            rows[i].jpeg_crop_restart = sample->jpeg_crop_restart;
            rows[i].listed_id = sample->listed_id;
            if (sample->trace.span) {
                sluice_trace_context_put(&sample->trace, *trace);
                rows[i].trace_context =
                    (ProtobufCBinaryData){.len = sizeof(*trace), .data = *trace};
                trace++;
            }
            samples[i] = &rows[i];
        }
        Sluice__V1__FetchOpen open = SLUICE__V1__FETCH_OPEN__INIT;
        open.protocol_version = request->open.protocol_version;
        open.pipeline = request->open.pipeline;
        open.pipeline_fingerprint = request->open.pipeline_fingerprint;
        open.dataset_id = (char *)request->open.dataset_id;
        open.window_bytes = request->open.window_bytes;
        open.follows_price = request->open.follows_price;
        open.wants_file_image = request->open.wants_file_image;
        open.client = request->open.client;
        Sluice__V1__FetchRequest wire = SLUICE__V1__FETCH_REQUEST__INIT;
        wire.open = request->open.is_present ? &open : NULL;
        wire.n_samples = num_samples;
        wire.samples = samples;
        wire.grant_bytes = request->grant_bytes;
        assert(request->cpu_worth >= 0 && isfinite(request->cpu_worth));
        wire.cpu_worth = request->cpu_worth;
        status = sluice_wire_pack_hashed(&wire.base, FETCH_REQUEST_HASH, message, err);
    } else {
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a request of %zu samples",
                             num_samples);
    }
    free(rows);
    free(samples);
    free(traces);
    return status;
}

static sluice_status get_request(const Sluice__V1__FetchRequest *wire,
                                 struct sluice_wire_fetch_request *got, struct sluice_err *err)
{
    if (!(wire->cpu_worth >= 0 && isfinite(wire->cpu_worth)))
        return sluice_fail(err, SLUICE_E_CORRUPT, "a core is worth %g", wire->cpu_worth);
    got->grant_bytes = wire->grant_bytes;
    got->cpu_worth = wire->cpu_worth;
    if (wire->open) {
        got->open.is_present = true;
        got->open.protocol_version = wire->open->protocol_version;
        got->open.pipeline_fingerprint = wire->open->pipeline_fingerprint;
        got->open.window_bytes = wire->open->window_bytes;
        got->open.follows_price = wire->open->follows_price;
        got->open.wants_file_image = wire->open->wants_file_image;
        sluice_status status =
            sluice_wire_copy_dataset_id(wire->open->dataset_id, got->open.dataset_id, err);
        if (status == SLUICE_OK)
            status = sluice_wire_copy_string(wire->open->pipeline, &got->open.pipeline, err);
        if (status == SLUICE_OK)
            status = sluice_wire_copy_string(wire->open->client, &got->open.client, err);
        if (status != SLUICE_OK)
            return status;
    }
    got->samples = calloc(wire->n_samples + 1, sizeof(*got->samples));
    if (!got->samples)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a request of %zu samples",
                           wire->n_samples);
    got->num_samples = wire->n_samples;
    for (size_t i = 0; i < wire->n_samples; i++) {
        const Sluice__V1__SampleRequest *sample = wire->samples[i];
        /* A form of a later version: the file serves every client. */
        enum sluice_form form = SLUICE_FORM_RAW;
        const bool is_known = sluice_wire_form_from_wire((uint64_t)sample->form, &form);
        got->samples[i] = (struct sluice_wire_sample_request){
            .request_id = sample->request_id,
            .key = {.seed = sample->seed,
                    .epoch = sample->epoch,
                    .sample_id = sample->sample_id,
                    .schedule = sample->schedule,
                    .crop = {.left = sample->crop_left,
                             .top = sample->crop_top,
                             .width = sample->crop_width,
                             .height = sample->crop_height},
                    .bucket = sample->bucket},
            .split = is_known ? sample->split : 0,
            .form = form,
            .jpeg_crop_restart = sample->jpeg_crop_restart,
            .listed_id = sample->listed_id,
            .trace =
                sluice_trace_context_get(sample->trace_context.data, sample->trace_context.len),
        };
    }
    return SLUICE_OK;
}

sluice_status sluice_wire_get_fetch_request(const struct sluice_message *message,
                                            struct sluice_wire_fetch_request *request,
                                            struct sluice_err *err)
{
    if (sluice_wire_check_hash(FETCH_REQUEST_HASH, message) == SLUICE_WIRE_HASH_WRONG)
        return sluice_wire_damaged("FetchRequest", err);
    ProtobufCMessage *unpacked;
    sluice_status status =
        sluice_wire_unpack(&sluice__v1__fetch_request__descriptor, message, &unpacked, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_wire_fetch_request got = {0};
    status = get_request((const Sluice__V1__FetchRequest *)unpacked, &got, err);
    protobuf_c_message_free_unpacked(unpacked, NULL);
    if (status == SLUICE_OK)
        *request = got;
    else
        sluice_wire_fetch_request_clear(&got);
    return status;
}

/* --- replies --- */

void sluice_wire_sample_reply_clear(struct sluice_wire_sample_reply *reply)
{
    sluice_buf_unref(reply->payload);
    *reply = (struct sluice_wire_sample_reply){0};
}

sluice_status sluice_wire_put_sample_reply(const struct sluice_wire_sample_reply *reply,
                                           struct sluice_message *message, struct sluice_err *err)
{
    assert((reply->status == SLUICE_OK) == (reply->payload != NULL));
    assert(reply->form < SLUICE_MAX_FORMS);
    char error[sizeof(reply->error)];
    sluice_wire_copy_utf8(reply->error, error, sizeof(error));

    Sluice__V1__SampleReply sample = SLUICE__V1__SAMPLE_REPLY__INIT;
    sample.request_id = reply->request_id;
    sample.status = sluice_wire_status_to_wire(reply->status);
    sample.error = error;
    sample.ops_done = reply->ops_done;
    sample.form = sluice_wire_form_to_wire(reply->form);
    sample.width = reply->width;
    sample.height = reply->height;
    sample.channels = reply->channels;
    sample.file_width = reply->image.width;
    sample.file_height = reply->image.height;
    sample.file_orientation = reply->image.orientation;
    sample.queue_us = reply->queue_us;
    sample.cpu_us = reply->cpu_us;
    sample.disk_us = reply->disk_us;
    sample.backlog_us = reply->backlog_us;
    sample.work_us = reply->work_us;
    sample.disk_busy_us = reply->disk_busy_us;
    sample.read_bytes = reply->read_bytes;
    sample.hash = reply->hash;
    if (reply->payload)
        sample.payload =
            (ProtobufCBinaryData){.len = reply->payload->len, .data = reply->payload->data};

    /* A message that holds one sample, appended to what is there: repeated
     * fields of concatenated messages are one list. */
    Sluice__V1__SampleReply *samples[1] = {&sample};
    Sluice__V1__FetchReply wire = SLUICE__V1__FETCH_REPLY__INIT;
    wire.n_samples = 1;
    wire.samples = samples;
    return sluice_wire_pack(&wire.base, reply->payload, message, err);
}

sluice_status sluice_wire_put_load(const struct sluice_wire_load *load,
                                   struct sluice_message *message, struct sluice_err *err)
{
    assert(load->cpu_price >= 0 && isfinite(load->cpu_price));
    assert(load->prep_cores >= 0 && isfinite(load->prep_cores));
    Sluice__V1__FetchReply wire = SLUICE__V1__FETCH_REPLY__INIT;
    wire.queue_depth = load->queue_depth;
    wire.cpu_price = load->cpu_price;
    wire.prep_cores = load->prep_cores;
    uint8_t tail[64]; /* a uint32, two doubles and their tags, and the hash: at most 33 bytes */
    assert(protobuf_c_message_get_packed_size(&wire.base) + SLUICE_WIRE_HASH_BYTES <= sizeof(tail));
    const size_t len = protobuf_c_message_pack(&wire.base, tail);
    sluice_wire_put_fetch_reply_hash(message, tail, len, tail + len);
    return sluice_message_append_copy(message, tail, len + SLUICE_WIRE_HASH_BYTES, err);
}

/* Reads a string of any length and keeps as much as fits. */
static bool read_error(struct sluice_cursor data, char *out, size_t capacity)
{
    char text[sizeof(((struct sluice_wire_sample_reply *)0)->error)];
    size_t left = sluice_cursor_left(&data);
    const size_t keep = left < sizeof(text) - 1 ? left : sizeof(text) - 1;
    if (!sluice_cursor_read(&data, text, keep) || memchr(text, 0, keep))
        return false;
    text[keep] = 0;
    for (left -= keep; left > 0;) {
        char rest[64];
        const size_t take = left < sizeof(rest) ? left : sizeof(rest);
        if (!sluice_cursor_read(&data, rest, take) || memchr(rest, 0, take))
            return false;
        left -= take;
    }
    sluice_wire_copy_utf8(text, out, capacity);
    return true;
}

/* The fields of a SampleReply; its payload stays in the message. */
struct parsed {
    struct sluice_wire_sample_reply reply;
    uint64_t status, form;
    struct sluice_cursor payload;
};

static bool parse_field(const struct sluice_wire_field *field, struct parsed *parsed)
{
    struct sluice_wire_sample_reply *reply = &parsed->reply;
    uint32_t *narrow = NULL;
    uint64_t *wide = NULL;
    switch (field->number) {
    case SAMPLE_REPLY_ERROR:
        return field->type == SLUICE_WIRE_BYTES &&
               read_error(field->data, reply->error, sizeof(reply->error));
    case SAMPLE_REPLY_PAYLOAD:
        parsed->payload = field->data;
        return field->type == SLUICE_WIRE_BYTES;
    case SAMPLE_REPLY_HASH:
        reply->hash = field->value;
        return field->type == SLUICE_WIRE_64BIT;
    case SAMPLE_REPLY_REQUEST_ID:
        wide = &reply->request_id;
        break;
    case SAMPLE_REPLY_STATUS:
        wide = &parsed->status;
        break;
    case SAMPLE_REPLY_FORM:
        wide = &parsed->form;
        break;
    case SAMPLE_REPLY_OPS_DONE:
        narrow = &reply->ops_done;
        break;
    case SAMPLE_REPLY_WIDTH:
        narrow = &reply->width;
        break;
    case SAMPLE_REPLY_HEIGHT:
        narrow = &reply->height;
        break;
    case SAMPLE_REPLY_CHANNELS:
        narrow = &reply->channels;
        break;
    case SAMPLE_REPLY_FILE_WIDTH:
        narrow = &reply->image.width;
        break;
    case SAMPLE_REPLY_FILE_HEIGHT:
        narrow = &reply->image.height;
        break;
    case SAMPLE_REPLY_FILE_ORIENTATION:
        narrow = &reply->image.orientation;
        break;
    case SAMPLE_REPLY_QUEUE_US:
        narrow = &reply->queue_us;
        break;
    case SAMPLE_REPLY_CPU_US:
        narrow = &reply->cpu_us;
        break;
    case SAMPLE_REPLY_DISK_US:
        narrow = &reply->disk_us;
        break;
    case SAMPLE_REPLY_BACKLOG_US:
        narrow = &reply->backlog_us;
        break;
    case SAMPLE_REPLY_WORK_US:
        narrow = &reply->work_us;
        break;
    case SAMPLE_REPLY_DISK_BUSY_US:
        narrow = &reply->disk_busy_us;
        break;
    case SAMPLE_REPLY_READ_BYTES:
        narrow = &reply->read_bytes;
        break;
    default:
        return true;
    }
    if (field->type != SLUICE_WIRE_VARINT || (narrow && field->value > UINT32_MAX))
        return false;
    if (narrow)
        *narrow = (uint32_t)field->value;
    else
        *wide = field->value;
    return true;
}

static sluice_status get_sample_reply(struct sluice_cursor cursor, size_t max_payload_bytes,
                                      struct sluice_wire_sample_reply *out, struct sluice_err *err)
{
    struct parsed parsed = {0};
    while (sluice_cursor_left(&cursor) > 0) {
        struct sluice_wire_field field;
        if (!sluice_wire_next_field(&cursor, &field) || !parse_field(&field, &parsed))
            return sluice_fail(err, SLUICE_E_CORRUPT, "a SampleReply that is not well formed");
    }

    struct sluice_wire_sample_reply *reply = &parsed.reply;
    if (!sluice_wire_status_from_wire((int64_t)parsed.status, &reply->status)) {
        reply->status = SLUICE_E_INTERNAL;
        if (!reply->error[0])
            snprintf(reply->error, sizeof(reply->error),
                     "the server gave a status that this version does not know (%" PRId64 ")",
                     (int64_t)parsed.status);
    }
    if (!sluice_wire_form_from_wire(parsed.form, &reply->form) && reply->status == SLUICE_OK) {
        reply->status = SLUICE_E_UNSUPPORTED;
        snprintf(reply->error, sizeof(reply->error),
                 "the payload has a form that this version does not know (%" PRId64 ")",
                 (int64_t)parsed.form);
    }

    reply->hashed = parsed.payload;
    if (reply->status == SLUICE_OK) {
        /* An empty payload is not on the wire at all: parsed.payload is one of no bytes then. */
        reply->arrived = parsed.payload;
        const size_t len = sluice_cursor_left(&reply->arrived);
        if (len > max_payload_bytes)
            return sluice_fail(err, SLUICE_E_CORRUPT,
                               "a payload of %zu bytes; at most %zu are taken", len,
                               max_payload_bytes);
    }
    *out = *reply;
    return SLUICE_OK;
}

/* A finite double that is not negative. */
static bool read_amount(const struct sluice_wire_field *field, double *out)
{
    double amount;
    memcpy(&amount, &field->value, sizeof(amount));
    if (field->type != SLUICE_WIRE_64BIT || !isfinite(amount) || amount < 0)
        return false;
    *out = amount;
    return true;
}

sluice_status sluice_wire_get_fetch_reply(
    const struct sluice_message *message, size_t max_payload_bytes,
    void (*on_sample)(void *ctx, const struct sluice_wire_sample_reply *reply), void *ctx,
    struct sluice_wire_load *load, struct sluice_err *err)
{
    struct sluice_cursor cursor = sluice_cursor_init(message);
    struct sluice_wire_load got = {0};
    while (sluice_cursor_left(&cursor) > 0) {
        struct sluice_wire_field field;
        if (!sluice_wire_next_field(&cursor, &field))
            return sluice_fail(err, SLUICE_E_CORRUPT, "a FetchReply that is not well formed");
        if (field.number == FETCH_REPLY_SAMPLES) {
            if (field.type != SLUICE_WIRE_BYTES)
                return sluice_fail(err, SLUICE_E_CORRUPT, "a FetchReply whose samples are none");
            struct sluice_wire_sample_reply reply;
            const sluice_status status =
                get_sample_reply(field.data, max_payload_bytes, &reply, err);
            if (status != SLUICE_OK)
                return status;
            on_sample(ctx, &reply);
        } else if (field.number == FETCH_REPLY_QUEUE_DEPTH) {
            if (field.type != SLUICE_WIRE_VARINT || field.value > UINT32_MAX)
                return sluice_fail(err, SLUICE_E_CORRUPT, "a FetchReply's queue depth is none");
            got.queue_depth = (uint32_t)field.value;
        } else if (field.number == FETCH_REPLY_CPU_PRICE) {
            if (!read_amount(&field, &got.cpu_price))
                return sluice_fail(err, SLUICE_E_CORRUPT, "a FetchReply's price is none");
        } else if (field.number == FETCH_REPLY_PREP_CORES) {
            if (!read_amount(&field, &got.prep_cores))
                return sluice_fail(err, SLUICE_E_CORRUPT, "a FetchReply's cores are none");
        }
    }
    if (load)
        *load = got;
    return SLUICE_OK;
}
