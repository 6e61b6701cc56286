#include "golden/wire_messages.h"

#include "base/buf.h"

#include <string.h>

static sluice_status put_hello_request(struct sluice_message *message, struct sluice_err *err)
{
    const struct sluice_wire_hello hello = {
        .protocol_version = 1,
        .peer = "offload_train 0.1.0",
        .pipeline = WIRE_GOLDEN_PIPELINE,
        .pipeline_fingerprint = WIRE_GOLDEN_FINGERPRINT,
        .dataset_id = WIRE_GOLDEN_DATASET,
    };
    return sluice_wire_put_hello_request(&hello, message, err);
}

static sluice_status put_hello_reply(struct sluice_message *message, struct sluice_err *err)
{
    const struct sluice_wire_hello hello = {
        .protocol_version = 1,
        .peer = "offload_server 0.1.0",
        .pipeline_fingerprint = WIRE_GOLDEN_FINGERPRINT,
        .dataset_id = WIRE_GOLDEN_DATASET,
        .num_samples = 1281167,
        .prep_cores = 7.5,
        .prep_workers = 8,
        .max_in_flight = 512,
        .max_image_pixels = 178956970,
        .max_file_bytes = 33554432,
        .forms = (1u << WIRE_GOLDEN_NUM_FORMS) - 1,
        .has_jpeg_index = true,
        .has_hashes = true,
    };
    return sluice_wire_put_hello_reply(&hello, message, err);
}

static sluice_status put_list_request(struct sluice_message *message, struct sluice_err *err)
{
    return sluice_wire_put_list_request("train", 2000, false, message, err);
}

static sluice_status put_list_reply(struct sluice_message *message, struct sluice_err *err)
{
    char *classes[] = {"cat", "dog"};
    struct sluice_wire_sample_info samples[] = {
        {.sample_id = 1000,
         .path = "train/cat/a.jpg",
         .bytes = 110000,
         .width = 500,
         .height = 375,
         .coding = 3},
        {.sample_id = 1001,
         .path = "train/dog/b.png",
         .bytes = 300000,
         .label = 1,
         .has_hash = true,
         .hash = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
        {.sample_id = 1002, .path = "val/dog/c.jpeg", .bytes = 5, .label = 1, .is_val = true},
    };
    const struct sluice_wire_list list = {
        .classes = classes,
        .num_classes = 2,
        .dataset_id = WIRE_GOLDEN_DATASET,
        .num_samples = 1281167,
        .first_row = 0,
        .has_hash = true,
        .samples = samples,
        .num_samples_here = 3,
    };
    return sluice_wire_put_list_reply(&list, message, err);
}

static sluice_status put_fetch_open(struct sluice_message *message, struct sluice_err *err)
{
    const struct sluice_wire_fetch_request request = {
        .open = {.is_present = true,
                 .protocol_version = 1,
                 .pipeline = WIRE_GOLDEN_PIPELINE,
                 .pipeline_fingerprint = WIRE_GOLDEN_FINGERPRINT,
                 .dataset_id = WIRE_GOLDEN_DATASET,
                 .window_bytes = 4000000,
                 .follows_price = true,
                 .client = "gpu-node-7"},
    };
    return sluice_wire_put_fetch_request(&request, message, err);
}

static sluice_status put_fetch_samples(struct sluice_message *message, struct sluice_err *err)
{
    struct sluice_wire_sample_request samples[WIRE_GOLDEN_NUM_FORMS];
    for (size_t k = 0; k < WIRE_GOLDEN_NUM_FORMS; k++)
        samples[k] = (struct sluice_wire_sample_request){.request_id = 70 + k,
                                                         .key = wire_golden_key(k),
                                                         .split = (uint32_t)k,
                                                         .form = (enum sluice_form)k};
    const struct sluice_wire_fetch_request request = {.samples = samples,
                                                      .num_samples = WIRE_GOLDEN_NUM_FORMS,
                                                      .grant_bytes = 1000000,
                                                      .cpu_worth = 12.5};
    return sluice_wire_put_fetch_request(&request, message, err);
}

static sluice_status put_replies(struct sluice_buf *payload, struct sluice_message *message,
                                 struct sluice_err *err)
{
    struct sluice_wire_sample_reply replies[] = {
        {.request_id = 70,
         .form = SLUICE_FORM_RAW,
         .queue_us = 5,
         .cpu_us = 6,
         .disk_us = 7,
         .backlog_us = 8,
         .work_us = 9,
         .disk_busy_us = 10,
         .read_bytes = 11,
         .payload = payload},
        {.request_id = 71,
         .ops_done = 3,
         .form = SLUICE_FORM_U8,
         .width = 10,
         .height = 10,
         .channels = 3,
         .payload = payload},
        {.request_id = 72, .status = SLUICE_E_CORRUPT, .error = "train/cat/a.jpg: no JPEG"},
    };
    for (size_t k = 0; k < sizeof(replies) / sizeof(replies[0]); k++) {
        const struct sluice_draw_key key = wire_golden_key(k);
        sluice_wire_seal_sample_reply(&replies[k], &key, 0);
        const sluice_status status = sluice_wire_put_sample_reply(&replies[k], message, err);
        if (status != SLUICE_OK)
            return status;
    }
    const struct sluice_wire_load load = {.queue_depth = 4, .cpu_price = 2.5, .prep_cores = 7.5};
    return sluice_wire_put_load(&load, message, err);
}

/* With a payload that `put` sends. */
static sluice_status with_payload(sluice_status (*put)(struct sluice_buf *payload,
                                                       struct sluice_message *message,
                                                       struct sluice_err *err),
                                  struct sluice_message *message, struct sluice_err *err)
{
    struct sluice_buf *payload = NULL;
    sluice_status status = sluice_buf_create(NULL, WIRE_GOLDEN_PAYLOAD_BYTES, &payload, err);
    if (status != SLUICE_OK)
        return status;
    payload->len = WIRE_GOLDEN_PAYLOAD_BYTES;
    for (size_t i = 0; i < payload->len; i++)
        payload->data[i] = wire_golden_byte(i);
    status = put(payload, message, err);
    sluice_buf_unref(payload);
    return status;
}

static sluice_status put_fetch_reply(struct sluice_message *message, struct sluice_err *err)
{
    return with_payload(put_replies, message, err);
}

static sluice_status put_probe_request(struct sluice_message *message, struct sluice_err *err)
{
    return sluice_wire_put_probe_request(8000000, 500000, message, err);
}

static sluice_status put_probe_reply(struct sluice_message *message, struct sluice_err *err)
{
    return with_payload(sluice_wire_put_probe_reply, message, err);
}

static sluice_status put_stats_reply(struct sluice_message *message, struct sluice_err *err)
{
    struct sluice_wire_stats stats = {
        .uptime_s = 12.5,
        .samples = 400,
        .payload_bytes = 43808000,
        .wire_bytes = 43820400,
        .reduced = 3,
        .refused_paths = 2,
        .queue_depth = 1,
        .queue_peak = 37,
        .prep_workers = 8,
        .streams = 2,
        .busy_cores = 0.42,
        .cpu_price = 1.5,
        .cpu_s = 1.9,
        .prep_cores = 7.5,
        .process_cpu_s = 2.3,
        .files = {400, 43808000, 41200000},
        .jpeg_index = {48, 1, 1, 2},
    };
    stats.choices[0][SLUICE_FORM_RAW].samples = 350;
    stats.choices[0][SLUICE_FORM_RAW].bytes = 36281600;
    stats.choices[3][SLUICE_FORM_U8].samples = 50;
    stats.choices[3][SLUICE_FORM_U8].bytes = 7526400;
    stats.errors[SLUICE_E_CORRUPT] = 1;
    return sluice_wire_put_stats_reply(&stats, message, err);
}

static sluice_status put_health_reply(struct sluice_message *message, struct sluice_err *err)
{
    return sluice_wire_put_health_reply(2, message, err);
}

static sluice_status put_data(struct sluice_buf *payload, struct sluice_message *message,
                              struct sluice_err *err)
{
    const struct sluice_wire_data_response response = {
        .image = payload,
        .label = "7",
        .fname = "train/cat/a.jpg",
        .pil_mode = "RGB",
        .dtype = "float32",
        .pproc = 2,
        .width = 10,
        .height = 10,
        .shape = {3, 10, 10},
        .num_shape = 3,
    };
    return sluice_wire_put_data_response(&response, message, err);
}

static sluice_status put_data_response(struct sluice_message *message, struct sluice_err *err)
{
    return with_payload(put_data, message, err);
}

const struct wire_golden wire_goldens[] = {
    {"hello_request", put_hello_request}, {"hello_reply", put_hello_reply},
    {"list_request", put_list_request},   {"list_reply", put_list_reply},
    {"fetch_open", put_fetch_open},       {"fetch_samples", put_fetch_samples},
    {"fetch_reply", put_fetch_reply},     {"probe_request", put_probe_request},
    {"probe_reply", put_probe_reply},     {"stats_reply", put_stats_reply},
    {"health_reply", put_health_reply},   {"data_response", put_data_response},
};
const size_t wire_num_goldens = sizeof(wire_goldens) / sizeof(wire_goldens[0]);
