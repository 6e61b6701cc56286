#include "wire/message_reader.h"

#include <stdlib.h>
#include <string.h>

/* Our messages nest two deep; each level of the check is a stack frame. */
#define MAX_DEPTH 4

static bool read_little_endian_64(struct sluice_cursor *cursor, uint64_t *value)
{
    uint8_t bytes[8];
    if (!sluice_cursor_read(cursor, bytes, sizeof(bytes)))
        return false;
    *value = 0;
    for (int i = 7; i >= 0; i--)
        *value = *value << 8 | bytes[i];
    return true;
}

bool sluice_wire_next_field(struct sluice_cursor *cursor, struct sluice_wire_field *field)
{
    uint64_t tag;
    if (!sluice_cursor_varint(cursor, &tag) || tag > UINT32_MAX || tag >> 3 == 0)
        return false;
    struct sluice_wire_field found = {.number = (uint32_t)(tag >> 3)};
    uint64_t len;
    switch (tag & 7) {
    case SLUICE_WIRE_VARINT:
        found.type = SLUICE_WIRE_VARINT;
        if (!sluice_cursor_varint(cursor, &found.value))
            return false;
        break;
    case SLUICE_WIRE_64BIT:
        found.type = SLUICE_WIRE_64BIT;
        if (!read_little_endian_64(cursor, &found.value))
            return false;
        break;
    case SLUICE_WIRE_32BIT:
        found.type = SLUICE_WIRE_32BIT;
        if (!sluice_cursor_skip(cursor, 4))
            return false;
        break;
    case SLUICE_WIRE_BYTES:
        found.type = SLUICE_WIRE_BYTES;
        if (!sluice_cursor_varint(cursor, &len) || len > sluice_cursor_left(cursor) ||
            !sluice_cursor_sub(cursor, (size_t)len, &found.data))
            return false;
        break;
    default: /* groups, which proto3 does not have, and numbers without a meaning */
        return false;
    }
    *field = found;
    return true;
}

static enum sluice_wire_type wire_type_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return SLUICE_WIRE_64BIT;
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return SLUICE_WIRE_32BIT;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return SLUICE_WIRE_BYTES;
    default:
        return SLUICE_WIRE_VARINT;
    }
}

static bool varint_fits(ProtobufCType type, uint64_t value)
{
    return type != PROTOBUF_C_TYPE_UINT32 || value <= UINT32_MAX;
}

static bool packed_is_whole(const ProtobufCFieldDescriptor *known, struct sluice_cursor data)
{
    const enum sluice_wire_type type = wire_type_of(known->type);
    while (sluice_cursor_left(&data) > 0) {
        uint64_t value = 0;
        const bool ok = type == SLUICE_WIRE_VARINT  ? sluice_cursor_varint(&data, &value)
                        : type == SLUICE_WIRE_64BIT ? sluice_cursor_skip(&data, 8)
                                                    : sluice_cursor_skip(&data, 4);
        if (!ok || !varint_fits(known->type, value))
            return false;
    }
    return true;
}

/* protobuf-c neither looks for NULs in strings nor bounds what it allocates,
 * so this walk goes first.  `flat` is the one segment that the cursor reads. */
static bool check(const ProtobufCMessageDescriptor *descriptor, const uint8_t *flat,
                  struct sluice_cursor cursor, unsigned depth, size_t *elements)
{
    if (depth == MAX_DEPTH)
        return false;
    while (sluice_cursor_left(&cursor) > 0) {
        struct sluice_wire_field field;
        if (!sluice_wire_next_field(&cursor, &field))
            return false;
        const ProtobufCFieldDescriptor *known =
            protobuf_c_message_descriptor_get_field(descriptor, field.number);
        if ((!known || known->label == PROTOBUF_C_LABEL_REPEATED) &&
            ++*elements > SLUICE_WIRE_MAX_ELEMENTS)
            return false;
        if (!known)
            continue;
        const enum sluice_wire_type expected = wire_type_of(known->type);
        if (field.type != expected) {
            if (known->label != PROTOBUF_C_LABEL_REPEATED || field.type != SLUICE_WIRE_BYTES ||
                !packed_is_whole(known, field.data))
                return false;
            continue;
        }
        if (known->type == PROTOBUF_C_TYPE_STRING &&
            memchr(flat + field.data.pos, 0, sluice_cursor_left(&field.data)))
            return false;
        if (known->type == PROTOBUF_C_TYPE_MESSAGE &&
            !check(known->descriptor, flat, field.data, depth + 1, elements))
            return false;
        if (field.type == SLUICE_WIRE_VARINT && !varint_fits(known->type, field.value))
            return false;
    }
    return true;
}

/* Records a failed allocation, because protobuf-c reports it like an invalid message. */
static void *alloc_noted(void *is_short, size_t size)
{
    void *memory = malloc(size);
    if (!memory)
        *(bool *)is_short = true;
    return memory;
}

static void free_noted(void *is_short, void *memory)
{
    (void)is_short;
    free(memory);
}

sluice_status sluice_wire_unpack(const ProtobufCMessageDescriptor *descriptor,
                                 const struct sluice_message *message, ProtobufCMessage **out,
                                 struct sluice_err *err)
{
    return sluice_wire_unpack_at_most(descriptor, SLUICE_WIRE_MAX_BYTES, message, out, err);
}

sluice_status sluice_wire_unpack_at_most(const ProtobufCMessageDescriptor *descriptor,
                                         size_t max_bytes, const struct sluice_message *message,
                                         ProtobufCMessage **out, struct sluice_err *err)
{
    if (message->len > max_bytes)
        return sluice_fail(err, SLUICE_E_CORRUPT, "a %s of %zu bytes; at most %zu are taken",
                           descriptor->short_name, message->len, max_bytes);
    uint8_t *flat = malloc(message->len + 1);
    if (!flat)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a message of %zu bytes",
                           message->len);
    struct sluice_cursor all = sluice_cursor_init(message);
    const bool is_whole = sluice_cursor_read(&all, flat, message->len);
    struct sluice_segment segment = {.data = flat, .len = message->len};
    const struct sluice_message view = {
        .segments = &segment, .num_segments = 1, .capacity = 1, .len = message->len};
    size_t elements = 0;
    bool is_short = false;
    ProtobufCAllocator allocator = {alloc_noted, free_noted, &is_short};
    ProtobufCMessage *found = NULL;
    if (is_whole && check(descriptor, flat, sluice_cursor_init(&view), 0, &elements))
        found = protobuf_c_message_unpack(descriptor, &allocator, message->len, flat);
    free(flat);
    if (is_short)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a %s of %zu bytes",
                           descriptor->short_name, message->len);
    if (!found)
        return sluice_fail(err, SLUICE_E_CORRUPT, "%zu bytes that are no %s", message->len,
                           descriptor->short_name);
    *out = found;
    return SLUICE_OK;
}
