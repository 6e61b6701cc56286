#ifndef SLUICE_BASE_ERROR_H
#define SLUICE_BASE_ERROR_H

#include "base/compiler.h"
#include "sluice/sluice.h" /* sluice_status, struct sluice_err: they are the library's, too */

/* Error reporting: a status as the return value, a message in struct sluice_err.
 *
 * A function that can fail returns sluice_status and takes, last, an optional `struct sluice_err *`
 * which it fills with a sentence for a person.  The first message wins, so a caller may add context
 * after a failure without hiding the cause.  A function that cannot fail returns void or its value.
 */

/* Sets `err`, unless it is NULL or already has a message, to one line without control characters
 * and secrets, even if they come from a file or a peer (sluice_escape_line, sluice_redact).
 * Returns `status`, so that a failure is one line: return sluice_fail(err, SLUICE_E_IO, "..."); */
sluice_status sluice_fail(struct sluice_err *err, sluice_status status, const char *fmt, ...)
    SLUICE_PRINTF(3, 4);

#ifdef __clang_analyzer__
/* Tells the static analyser, which does not see the function's body, that the status is a failure.
 */
#define sluice_fail(err, status, ...) ((void)(sluice_fail)((err), (status), __VA_ARGS__), (status))
#endif

#endif
