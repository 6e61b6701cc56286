#include "wire/message_writer.h"

#include "base/array.h"
#include "wire/wire_internal.h"

#include <stdlib.h>
#include <string.h>

/* protobuf-c computes nested sizes in 32 bits, and no protobuf reader takes
 * more than 2 GiB; the fields around a payload stay far below the difference. */
#define MAX_PAYLOAD_BYTES ((size_t)INT32_MAX - (1u << 20))

struct writer {
    ProtobufCBuffer base;
    struct sluice_message part;
    struct sluice_buf *payload;
    sluice_status status;
    struct sluice_err *err;
};

static void append(ProtobufCBuffer *base, size_t len, const uint8_t *data)
{
    struct writer *writer = (struct writer *)base;
    if (writer->status != SLUICE_OK)
        return;
    if (writer->payload && data == writer->payload->data && len == writer->payload->len &&
        len >= SLUICE_WIRE_MIN_REF_BYTES)
        writer->status = sluice_message_append_buf(&writer->part, writer->payload, writer->err);
    else
        writer->status = sluice_message_append_copy(&writer->part, data, len, writer->err);
}

/* Moves the segments of `part` behind those of `message`. */
static sluice_status splice(struct sluice_message *message, struct sluice_message *part,
                            struct sluice_err *err)
{
    if (message->num_segments == 0) {
        sluice_message_clear(message);
        *message = *part;
        *part = (struct sluice_message){0};
        return SLUICE_OK;
    }
    const size_t needed = message->num_segments + part->num_segments;
    if (!sluice_array_reserve(&message->segments, &message->capacity, needed,
                              sizeof(*message->segments)))
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a message of %zu segments",
                           needed);
    if (part->num_segments)
        memcpy(message->segments + message->num_segments, part->segments,
               part->num_segments * sizeof(*part->segments));
    message->num_segments = needed;
    message->len += part->len;
    free(part->segments);
    *part = (struct sluice_message){0};
    return SLUICE_OK;
}

static sluice_status pack(const ProtobufCMessage *source, struct sluice_buf *payload,
                          uint32_t hash_number, struct sluice_message *message,
                          struct sluice_err *err)
{
    if (payload && payload->len > MAX_PAYLOAD_BYTES)
        return sluice_fail(err, SLUICE_E_NO_MEMORY,
                           "a payload of %zu bytes is more than a message holds", payload->len);
    struct writer writer = {
        .base = {.append = append}, .payload = payload, .status = SLUICE_OK, .err = err};
    protobuf_c_message_pack_to_buffer(source, &writer.base);
    if (writer.status == SLUICE_OK && hash_number)
        writer.status = sluice_wire_put_hash(hash_number, &writer.part, err);
    if (writer.status == SLUICE_OK)
        writer.status = splice(message, &writer.part, err);
    sluice_message_clear(&writer.part);
    return writer.status;
}

sluice_status sluice_wire_pack(const ProtobufCMessage *source, struct sluice_buf *payload,
                               struct sluice_message *message, struct sluice_err *err)
{
    return pack(source, payload, 0, message, err);
}

sluice_status sluice_wire_pack_hashed(const ProtobufCMessage *source, uint32_t hash_number,
                                      struct sluice_message *message, struct sluice_err *err)
{
    return pack(source, NULL, hash_number, message, err);
}
