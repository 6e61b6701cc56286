#ifndef SLUICE_STORE_WEB_LIST_H
#define SLUICE_STORE_WEB_LIST_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* The list file of a store that cannot list: a line for each object,
 *
 *     train/cat/a photo.jpg 48123 "5d41402abc4b2a76b9719d911017c592"
 *     PATH BYTES ETAG
 *
 * with blanks or tabs between them.  A path may have blanks within.  "-" stands for an unknown
 * ETag; quotes around an ETag are ignored.  Empty lines and lines that begin with '#' are skipped.
 *
 * Threads: pure functions. */

struct sluice_web_object {
    const char *path; /* not empty, relative, without "." and ".." */
    uint64_t bytes;
    const char *etag; /* "": not known */
};

/* Calls `fn` for each line.  SLUICE_E_CORRUPT names the line. */
SLUICE_MUST_USE sluice_status sluice_web_list_parse(
    const char *text, size_t len,
    sluice_status (*fn)(void *ctx, const struct sluice_web_object *object, struct sluice_err *err),
    void *ctx, struct sluice_err *err);

#endif
