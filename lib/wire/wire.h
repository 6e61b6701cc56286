#ifndef SLUICE_WIRE_WIRE_H
#define SLUICE_WIRE_WIRE_H

#include "base/buf.h"
#include "base/error.h"
#include "base/message.h"
#include "base/trace_context.h"
#include "host/machine.h"
#include "op/form_words.h"
#include "op/pipeline.h"
#include "wire/list_block.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The messages of protos/offload.proto as plain structs.
 *
 * The only module that knows protobuf: `put` turns a struct into a message ready to send (payloads
 * by reference), `get` checks a received message and turns it into a struct (strings copied;
 * payloads left in the message). A `get` of invalid bytes is SLUICE_E_CORRUPT; its result is
 * consistent and needs no further check.  Messages other than FetchReply are at most 4 MiB and hold
 * at most 131,072 samples, classes or unknown fields; more is SLUICE_E_CORRUPT too.
 * docs/PROTOCOL.md lists what else is rejected, and what later versions may send.
 *
 * A message whose hash does not match was damaged in transit: SLUICE_E_IO, worth a retry.  `get`
 * checks the hashes of HelloReply, ListSamplesReply, ListSizesReply and FetchRequest; two functions below check a
 * FetchReply and its samples.
 *
 * `put` appends to *message (start from {0}); if it fails (SLUICE_E_NO_MEMORY), *message is
 * untouched.  NULL strings are put as ""; `get` never returns NULL strings.  Bytes that are not
 * UTF-8 in a path, a class name or an error text are put as '?', because a protobuf string must be
 * UTF-8.
 *
 * Threads: pure functions. */

#define SLUICE_WIRE_PROTOCOL_VERSION 1

#define SLUICE_METHOD_HELLO "/sluice.v1.Offload/Hello"
#define SLUICE_METHOD_LIST_SAMPLES "/sluice.v1.Offload/ListSamples"
#define SLUICE_METHOD_LIST_SIZES "/sluice.v1.Offload/ListSizes"
#define SLUICE_METHOD_FETCH "/sluice.v1.Offload/Fetch"
#define SLUICE_METHOD_PROBE "/sluice.v1.Offload/Probe"
#define SLUICE_METHOD_STATS "/sluice.v1.Offload/Stats"
#define SLUICE_METHOD_HEALTH_CHECK "/grpc.health.v1.Health/Check"
#define SLUICE_METHOD_HEALTH_WATCH "/grpc.health.v1.Health/Watch"
#define SLUICE_METHOD_DT_NOOFF "/DataTransfer/get_data_nooff"
#define SLUICE_METHOD_DT_ALLOFF "/DataTransfer/get_data_alloff"
#define SLUICE_METHOD_DT_PILOFF "/DataTransfer/get_data_piloff"
#define SLUICE_METHOD_DT_SOPHON "/DataTransfer/get_data_sophon"
#define SLUICE_METHOD_DT_SMARTOFF "/DataTransfer/get_data_smartoff"

/* --- Hello --- */

/* Unknown forms of a reply are left out. */
struct sluice_wire_hello {
    uint32_t protocol_version;
    char *peer;     /* the sender's program and version; owned */
    char *pipeline; /* request only; owned */
    uint64_t pipeline_fingerprint;
    char dataset_id[33]; /* empty: not compared */
    bool has_fields;     /* request only: list_hash is to be that of a list with fields */
    /* reply only: */
    uint64_t num_samples;
    double prep_cores;     /* 0: not given; use prep_workers */
    uint32_t prep_workers; /* the same in whole cores */
    uint32_t max_in_flight;
    uint64_t max_image_pixels, max_file_bytes;
    uint32_t forms; /* bit (1 << enum sluice_form) */
    bool has_jpeg_index;
    bool has_hashes;               /* the server's messages have hashes, including this reply */
    bool has_jpeg_crop_restart;    /* the server uses a request's jpeg_crop_restart */
    bool has_listed_id;            /* the server uses a request's listed_id */
    bool has_file_image;           /* the server uses FetchOpen's wants_file_image */
    uint64_t list_hash;            /* 0: not given */
    struct sluice_machine machine; /* boot is 0: not given */
};
void sluice_wire_hello_clear(struct sluice_wire_hello *hello);

SLUICE_MUST_USE sluice_status sluice_wire_put_hello_request(const struct sluice_wire_hello *hello,
                                                            struct sluice_message *message,
                                                            struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_wire_get_hello_request(const struct sluice_message *message,
                                                            struct sluice_wire_hello *hello,
                                                            struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_wire_put_hello_reply(const struct sluice_wire_hello *hello,
                                                          struct sluice_message *message,
                                                          struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_wire_get_hello_reply(const struct sluice_message *message,
                                                          struct sluice_wire_hello *hello,
                                                          struct sluice_err *err);

/* --- ListSamples: rows as datasets/manifest/manifest.h has them, without including it --- */

struct sluice_wire_sample_info {
    uint64_t sample_id;
    char *path; /* owned */
    uint64_t bytes;
    uint32_t label;
    bool is_val;
    uint32_t width, height;
    uint8_t coding; /* image/codecs/coding.h */
    bool has_hash;
    uint8_t hash[16];
};

struct sluice_wire_list {
    char **classes; /* first messages only; owned */
    size_t num_classes;
    char dataset_id[33];  /* first message only */
    uint64_t num_samples; /* of the whole subset; first message only */
    uint64_t first_row;   /* samples[0]; 0 from a server without hashes */
    bool has_hash;
    char *fields; /* a line for each, or NULL or ""; then targets are the values of all fields */
    uint32_t target_kind, target_dim; /* of the samples' targets, which only packed rows have */
    uint64_t target_bytes;            /* of all targets; these four in the first message only */
    struct sluice_wire_sample_info *samples; /* owned */
    size_t num_samples_here;
    struct sluice_list_block packed; /* in place of samples; owned; .num_rows 0: none */
};
void sluice_wire_list_clear(struct sluice_wire_list *list);

SLUICE_MUST_USE sluice_status sluice_wire_put_list_request(const char *subset, uint64_t first_row,
                                                           bool is_packed,
                                                           struct sluice_message *message,
                                                           struct sluice_err *err);
/* *subset is a new string. */
SLUICE_MUST_USE sluice_status sluice_wire_get_list_request(const struct sluice_message *message,
                                                           char **subset, uint64_t *first_row,
                                                           bool *is_packed, struct sluice_err *err);
/* Whether a list request that get_list_request() took asks for fields, as all do that take packed
 * rows but those of earlier versions. */
bool sluice_wire_list_request_has_fields(const struct sluice_message *message);
SLUICE_MUST_USE sluice_status sluice_wire_put_list_reply(const struct sluice_wire_list *list,
                                                         struct sluice_message *message,
                                                         struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_wire_get_list_reply(const struct sluice_message *message,
                                                         struct sluice_wire_list *list,
                                                         struct sluice_err *err);

/* --- ListSizes --- */

struct sluice_wire_sizes_request {
    char dataset_id[33];
    uint64_t first_row;
    bool is_upright;
};

struct sluice_wire_image_size {
    uint16_t width, height; /* both or none are 0 */
    uint8_t orientation;    /* 1 to 8 */
};
/* The most of one message. */
#define SLUICE_WIRE_MAX_SIZES (1u << 16)

SLUICE_MUST_USE sluice_status
sluice_wire_put_sizes_request(const struct sluice_wire_sizes_request *request,
                              struct sluice_message *message, struct sluice_err *err);
SLUICE_MUST_USE sluice_status
sluice_wire_get_sizes_request(const struct sluice_message *message,
                              struct sluice_wire_sizes_request *request, struct sluice_err *err);
SLUICE_MUST_USE sluice_status
sluice_wire_put_sizes_reply(const struct sluice_wire_image_size *sizes, size_t num,
                            struct sluice_message *message, struct sluice_err *err);
/* *sizes is new memory for *num of them. */
SLUICE_MUST_USE sluice_status sluice_wire_get_sizes_reply(const struct sluice_message *message,
                                                          struct sluice_wire_image_size **sizes,
                                                          size_t *num, struct sluice_err *err);

/* --- Fetch --- */

struct sluice_wire_fetch_open {
    bool is_present;
    uint32_t protocol_version;
    char *pipeline; /* owned */
    uint64_t pipeline_fingerprint;
    char dataset_id[33];
    uint64_t window_bytes;
    bool follows_price, wants_file_image;
    char *client; /* owned; any bytes; NULL: not given */
};

struct sluice_wire_sample_request {
    uint64_t request_id;
    struct sluice_draw_key key; /* sample id, seed, epoch */
    uint32_t split;             /* an unknown form becomes split 0, raw */
    enum sluice_form form;
    uint32_t jpeg_crop_restart; /* MCUs, any number; 0: an MCU row */
    /* The sample's number in the server's list plus 1; 0: use key.sample_id.  Draws always use the
     * key. */
    uint64_t listed_id;
    struct sluice_trace_context trace;
};
/* The sample's number in the server's list. */
static inline uint64_t sluice_wire_listed_id(const struct sluice_wire_sample_request *request)
{
    return request->listed_id ? request->listed_id - 1 : request->key.sample_id;
}

struct sluice_wire_fetch_request {
    struct sluice_wire_fetch_open open;
    struct sluice_wire_sample_request *samples; /* owned */
    size_t num_samples;
    uint64_t grant_bytes;
    double cpu_worth; /* of another storage core to the client, as cpu_price; finite, >= 0 */
};
void sluice_wire_fetch_request_clear(struct sluice_wire_fetch_request *request);

SLUICE_MUST_USE sluice_status
sluice_wire_put_fetch_request(const struct sluice_wire_fetch_request *request,
                              struct sluice_message *message, struct sluice_err *err);
SLUICE_MUST_USE sluice_status
sluice_wire_get_fetch_request(const struct sluice_message *message,
                              struct sluice_wire_fetch_request *request, struct sluice_err *err);

struct sluice_wire_sample_reply {
    uint64_t request_id;
    sluice_status status; /* SLUICE_OK: there is a payload */
    char error[200];
    uint32_t ops_done;
    enum sluice_form form;
    uint32_t width, height, channels;
    struct sluice_file_image image; /* any numbers; 0: not given */
    /* offload.proto explains them */
    uint32_t queue_us, cpu_us, disk_us, backlog_us, work_us, disk_busy_us, read_bytes;
    struct sluice_buf *payload;   /* to put: one reference; NULL unless status is OK */
    struct sluice_cursor arrived; /* got: the payload's bytes in the message; none unless OK */
    uint64_t hash;                /* sluice_wire_seal_sample_reply() */
    struct sluice_cursor hashed;  /* got: what sluice_wire_sample_reply_is_whole() reads */
};
void sluice_wire_sample_reply_clear(struct sluice_wire_sample_reply *reply);

/* Sets the hash of a complete reply.  Reads the payload: call it while a cache holds it.  `key` and
 * `listed_id` are those of the request as parsed. */
void sluice_wire_seal_sample_reply(struct sluice_wire_sample_reply *reply,
                                   const struct sluice_draw_key *key, uint64_t listed_id);
/* Whether a received reply has the payload with which it was sealed, for `key` and `listed_id`.
 * Its message must still exist.  The FetchReply's hash covers the other fields. */
bool sluice_wire_sample_reply_is_whole(const struct sluice_wire_sample_reply *reply,
                                       const struct sluice_draw_key *key, uint64_t listed_id);

/* Appends one sample to a FetchReply under construction.  The payload travels by
 * reference: the message takes a reference of its own. */
SLUICE_MUST_USE sluice_status
sluice_wire_put_sample_reply(const struct sluice_wire_sample_reply *reply,
                             struct sluice_message *message, struct sluice_err *err);
/* How busy the server was when it sent a message. */
struct sluice_wire_load {
    uint32_t queue_depth; /* jobs waiting for a PREP worker */
    double cpu_price;     /* of a storage core: seconds of a million samples; finite, >= 0 */
    double prep_cores;    /* cores that preprocessing may use; finite, >= 0; 0: not given */
};
/* Appends the load and the message's hash after the samples.  Call it once per message. */
SLUICE_MUST_USE sluice_status sluice_wire_put_load(const struct sluice_wire_load *load,
                                                   struct sluice_message *message,
                                                   struct sluice_err *err);

/* Whether a FetchReply, without its samples' payloads, matches the hash of put_load().  False for a
 * server without hashes. */
bool sluice_wire_fetch_reply_is_whole(const struct sluice_message *message);

/* Walks a FetchReply and calls on_sample for each sample, in order.  A payload stays in the message
 * (reply->arrived) and lives as long as the message.  A payload above max_payload_bytes and a
 * truncated message are SLUICE_E_CORRUPT; samples before that were delivered.  SLUICE_OK without a
 * payload on the wire is an empty payload; a payload of an error is dropped.  For its sample, an
 * unknown status becomes SLUICE_E_INTERNAL, an unknown form SLUICE_E_UNSUPPORTED, with a text.
 * `load` may be NULL; its fields that the message lacks are 0. A price that is not finite or below
 * 0 is SLUICE_E_CORRUPT. */
SLUICE_MUST_USE sluice_status sluice_wire_get_fetch_reply(
    const struct sluice_message *message, size_t max_payload_bytes,
    void (*on_sample)(void *ctx, const struct sluice_wire_sample_reply *reply), void *ctx,
    struct sluice_wire_load *load, struct sluice_err *err);

/* --- Probe, Stats, health --- */

SLUICE_MUST_USE sluice_status sluice_wire_put_probe_request(uint64_t bytes, uint32_t message_bytes,
                                                            struct sluice_message *message,
                                                            struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_wire_get_probe_request(const struct sluice_message *message,
                                                            uint64_t *bytes,
                                                            uint32_t *message_bytes,
                                                            struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_wire_put_probe_reply(struct sluice_buf *payload,
                                                          struct sluice_message *message,
                                                          struct sluice_err *err);

/* Allows the forms that this process registered (op/form.h) in messages; num_forms is
 * sluice_num_forms().  Call it before other threads run. */
void sluice_wire_know_forms(unsigned num_forms);

#define SLUICE_WIRE_MAX_SPLITS (SLUICE_PIPELINE_MAX_OPS + 1)
#define SLUICE_WIRE_NUM_STATUS SLUICE_NUM_STATUS

/* Counters of one client. */
#define SLUICE_WIRE_CLIENT_NAME 64
struct sluice_wire_client {
    /* Cut to the room; received text is UTF-8 and may contain control characters. */
    char name[SLUICE_WIRE_CLIENT_NAME], address[SLUICE_WIRE_CLIENT_NAME];
    char token[SLUICE_WIRE_CLIENT_NAME]; /* its name; "": none */
    uint64_t samples, payload_bytes, errors;
    uint32_t streams;
};

/* The most clients that are read from a message. */
#define SLUICE_WIRE_MAX_CLIENTS 256

struct sluice_wire_stats {
    double uptime_s;
    struct {
        uint64_t samples, bytes;
    } choices[SLUICE_WIRE_MAX_SPLITS][SLUICE_MAX_FORMS];
    uint64_t errors[SLUICE_WIRE_NUM_STATUS]; /* by sluice_status */
    uint64_t samples, payload_bytes, wire_bytes, reduced, refused_paths;
    uint32_t queue_depth, queue_peak, prep_workers, streams;
    double busy_cores, cpu_price, cpu_s, prep_cores, process_cpu_s;
    struct {
        uint64_t reads, bytes, read_bytes;
    } files;
    struct {
        uint64_t hits, stale, missing, again;
    } jpeg_index;
    char server[64]; /* program and version; "": not given, as all fields below */
    bool is_not_serving;
    uint32_t hanging_workers;
    uint64_t refused_connections, refused_calls, memory_limit, memory_used;
    struct sluice_wire_client *clients; /* owned after get, borrowed for put */
    size_t num_clients;
};
void sluice_wire_stats_clear(struct sluice_wire_stats *stats); /* after get; idempotent */

SLUICE_MUST_USE sluice_status sluice_wire_put_stats_request(struct sluice_message *message,
                                                            struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_wire_put_stats_reply(const struct sluice_wire_stats *stats,
                                                          struct sluice_message *message,
                                                          struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_wire_get_stats_reply(const struct sluice_message *message,
                                                          struct sluice_wire_stats *stats,
                                                          struct sluice_err *err);

/* *service is a new string. */
SLUICE_MUST_USE sluice_status sluice_wire_get_health_request(const struct sluice_message *message,
                                                             char **service,
                                                             struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_wire_put_health_reply(int serving_status,
                                                           struct sluice_message *message,
                                                           struct sluice_err *err);

/* --- DataTransfer, the original's wire --- */

struct sluice_wire_data_request {
    char *fname; /* owned */
    int32_t pproc, size;
};
void sluice_wire_data_request_clear(struct sluice_wire_data_request *request);
SLUICE_MUST_USE sluice_status sluice_wire_get_data_request(const struct sluice_message *message,
                                                           struct sluice_wire_data_request *request,
                                                           struct sluice_err *err);

struct sluice_wire_data_response {
    struct sluice_buf *image; /* borrowed; the message takes its own reference */
    const char *label, *fname, *pil_mode, *dtype; /* borrowed; NULL: empty */
    int32_t pproc, width, height;
    int32_t shape[3];
    size_t num_shape;
};
SLUICE_MUST_USE sluice_status
sluice_wire_put_data_response(const struct sluice_wire_data_response *response,
                              struct sluice_message *message, struct sluice_err *err);

#endif
