#ifndef SLUICE_WIRE_WIRE_INTERNAL_H
#define SLUICE_WIRE_WIRE_INTERNAL_H

#include "base/error.h"
#include "base/message.h"
#include "sluice/sluice.h"

#include "offload.pb-c.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Shared by the parts of lib/wire, and private to it.
 *
 * Threads: pure functions. */

/* --- wire_status.c: sluice_status and SampleStatus, one table --- */

Sluice__V1__SampleStatus sluice_wire_status_to_wire(sluice_status status);
/* False: an unknown number. */
bool sluice_wire_status_from_wire(int64_t number, sluice_status *status);

/* --- wire_form.c: enum sluice_form and Form, one table --- */

Sluice__V1__Form sluice_wire_form_to_wire(enum sluice_form form);
/* False: a number unknown to this version, or not that of a sample's form. */
bool sluice_wire_form_from_wire(uint64_t number, enum sluice_form *form);

/* --- wire_text.c --- */

/* A protobuf string must be UTF-8 (some readers drop a whole message otherwise),
 * but paths and error texts come from file names, which need not be.  Copies
 * `text` (NULL: ""), cut to `capacity - 1` bytes at a character's end, with '?' for every
 * byte that is not part of UTF-8. */
void sluice_wire_copy_utf8(const char *text, char *out, size_t capacity);

/* `text` itself if it is UTF-8; else a clean copy, which *owned holds for the
 * caller to free (untouched otherwise).  NULL: no memory. */
const char *sluice_wire_clean_utf8(const char *text, char **owned);

/* A new string; NULL is "". */
SLUICE_MUST_USE sluice_status sluice_wire_copy_string(const char *text, char **out,
                                                      struct sluice_err *err);

/* Empty, or 32 lower-case hex digits. */
SLUICE_MUST_USE sluice_status sluice_wire_copy_dataset_id(const char *text, char out[33],
                                                          struct sluice_err *err);

/* --- wire_hash.c: the hash that a message ends with (docs/PROTOCOL.md) --- */

#define SLUICE_WIRE_HASH_BYTES 9 /* tag and value */

/* Appends the hash as field `number`. */
SLUICE_MUST_USE sluice_status sluice_wire_put_hash(uint32_t number, struct sluice_message *message,
                                                   struct sluice_err *err);

enum sluice_wire_hash {
    SLUICE_WIRE_HASH_NONE,  /* no hash field in the readable part */
    SLUICE_WIRE_HASH_RIGHT, /* the last field, and equal to the hash of the bytes before it */
    SLUICE_WIRE_HASH_WRONG,
};
enum sluice_wire_hash sluice_wire_check_hash(uint32_t number, const struct sluice_message *message);

/* The error of a `get` for a message with a wrong hash: SLUICE_E_IO. */
SLUICE_MUST_USE sluice_status sluice_wire_damaged(const char *name, struct sluice_err *err);

/* Writes the hash field of a FetchReply, which excludes payloads, for the message followed by
 * `tail`. */
void sluice_wire_put_fetch_reply_hash(const struct sluice_message *message, const uint8_t *tail,
                                      size_t len, uint8_t field[SLUICE_WIRE_HASH_BYTES]);

#endif
