#ifndef SLUICE_BASE_ERROR_H
#define SLUICE_BASE_ERROR_H

#include "base/compiler.h"

/* How this code base reports failure: a status by value, words on the side.
 *
 * A function that can fail returns sluice_status and takes, last, an optional
 * `struct sluice_err *` which it fills with a sentence for a person.  The first
 * message wins, so a caller may add context after a failure without hiding
 * the cause.  A function that cannot fail returns void or its value. */

typedef enum sluice_status {
    SLUICE_OK = 0,
    SLUICE_E_INVALID,     /* the caller's argument, option or request is wrong */
    SLUICE_E_CORRUPT,     /* bytes from outside are not what they claim to be */
    SLUICE_E_UNSUPPORTED, /* a feature we do not have, or data above a limit on what comes in */
    SLUICE_E_NOT_FOUND,
    SLUICE_E_IO,        /* the operating system or the network said no */
    SLUICE_E_NO_MEMORY, /* memory is short now: the same may succeed later */
    SLUICE_E_AGAIN,     /* nothing is wrong; there is no room or nothing ready */
    SLUICE_E_CLOSED,    /* the object is shutting down */
    SLUICE_E_INTERNAL,  /* an invariant broke: a bug of ours */
    SLUICE_E_STALE,     /* the data changed since it was listed, indexed or hashed */
#define SLUICE_NUM_STATUS (SLUICE_E_STALE + 1)
} sluice_status;

struct sluice_err {
    char text[640]; /* empty until the first failure; zero-initialise */
};

const char *sluice_status_name(sluice_status status);

/* Sets `err` unless it is NULL or already says something.  Returns `status`,
 * so that a failure is one line: return sluice_fail(err, SLUICE_E_IO, "..."); */
sluice_status sluice_fail(struct sluice_err *err, sluice_status status, const char *fmt, ...)
    SLUICE_PRINTF(3, 4);

#ifdef __clang_analyzer__
/* The analyser does not see into the function: tell it that a failure is one. */
#define sluice_fail(err, status, ...) ((void)(sluice_fail)((err), (status), __VA_ARGS__), (status))
#endif

#endif
