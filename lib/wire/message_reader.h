#ifndef SLUICE_WIRE_MESSAGE_READER_H
#define SLUICE_WIRE_MESSAGE_READER_H

#include "base/error.h"
#include "base/message.h"

#include <protobuf-c/protobuf-c.h>

#include <stdbool.h>
#include <stdint.h>

/* Reads received messages.  Private to lib/wire.
 *
 * Stricter than a general protobuf reader: groups, field number
 * 0, a known field with another wire type, uint32 values of more than 32 bits
 * and strings with a NUL inside are SLUICE_E_CORRUPT.  Unknown fields, fields in
 * any order and repeated scalar fields (the last counts) are fine.
 *
 * Threads: pure functions. */

enum sluice_wire_type {
    SLUICE_WIRE_VARINT = 0,
    SLUICE_WIRE_64BIT = 1,
    SLUICE_WIRE_BYTES = 2,
    SLUICE_WIRE_32BIT = 5,
};

/* A field: its number, its wire type and the value for that type. */
struct sluice_wire_field {
    uint32_t number;
    enum sluice_wire_type type;
    uint64_t value;            /* VARINT and 64BIT; 32BIT: not kept */
    struct sluice_cursor data; /* BYTES: a cursor over the content */
};

/* Reads the next field; the cursor moves past it.  False: malformed. */
bool sluice_wire_next_field(struct sluice_cursor *cursor, struct sluice_wire_field *field);

/* Limits of small messages (all but payloads): bytes, also of those that hold a packed list; and
 * repeated or unknown fields in all, because each costs an allocation. */
#define SLUICE_WIRE_MAX_BYTES ((size_t)4 << 20)
#define SLUICE_WIRE_MAX_LIST_BYTES ((size_t)20 << 20)
#define SLUICE_WIRE_MAX_ELEMENTS ((size_t)1 << 17)

/* Checks the message against its descriptor, then lets protobuf-c unpack it.  Free it with
 * protobuf_c_message_free_unpacked(*out, NULL). */
SLUICE_MUST_USE sluice_status sluice_wire_unpack(const ProtobufCMessageDescriptor *descriptor,
                                                 const struct sluice_message *message,
                                                 ProtobufCMessage **out, struct sluice_err *err);
/* The same, with a limit in place of SLUICE_WIRE_MAX_BYTES. */
SLUICE_MUST_USE sluice_status sluice_wire_unpack_at_most(
    const ProtobufCMessageDescriptor *descriptor, size_t max_bytes,
    const struct sluice_message *message, ProtobufCMessage **out, struct sluice_err *err);

#endif
