#ifndef SLUICE_WIRE_WIRE_INTERNAL_H
#define SLUICE_WIRE_WIRE_INTERNAL_H

#include "base/error.h"

#include "offload.pb-c.h"

#include <stdbool.h>
#include <stddef.h>

/* What the parts of lib/wire share.  Private to it.
 *
 * Threads: pure functions. */

/* --- wire_status.c: sluice_status and SampleStatus, one table --- */

Sluice__V1__SampleStatus sluice_wire_status_to_wire(sluice_status status);
/* false: a number that this version does not know. */
bool sluice_wire_status_from_wire(int64_t number, sluice_status *status);

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

#endif
