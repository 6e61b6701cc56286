#ifndef SLUICE_WIRE_MESSAGE_WRITER_H
#define SLUICE_WIRE_MESSAGE_WRITER_H

#include "base/buf.h"
#include "base/error.h"
#include "base/message.h"

#include <protobuf-c/protobuf-c.h>

/* Serializes protobuf-c structs into segments.  Private to lib/wire.
 *
 * Threads: pure functions. */

/* Payloads shorter than this are copied, which is cheaper than a reference. */
#define SLUICE_WIRE_MIN_REF_BYTES 1024

/* Appends `source` to `message`.  A bytes field that points at payload->data with payload->len
 * bytes travels by reference (the message adds a reference of its own); everything else is copied.
 * `payload` may be NULL.  On failure (SLUICE_E_NO_MEMORY) the message is untouched. */
SLUICE_MUST_USE sluice_status sluice_wire_pack(const ProtobufCMessage *source,
                                               struct sluice_buf *payload,
                                               struct sluice_message *message,
                                               struct sluice_err *err);

/* As sluice_wire_pack() without a payload; appends the message's hash as the last field,
 * `hash_number`. */
SLUICE_MUST_USE sluice_status sluice_wire_pack_hashed(const ProtobufCMessage *source,
                                                      uint32_t hash_number,
                                                      struct sluice_message *message,
                                                      struct sluice_err *err);

#endif
