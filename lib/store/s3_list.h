#ifndef SLUICE_STORE_S3_LIST_H
#define SLUICE_STORE_S3_LIST_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Parses answers of S3 and STS, in XML (expat).  Documents with a DTD, and so with entities of
 * their own, are refused.
 *
 * Threads: pure functions. */

#define SLUICE_S3_MAX_KEY 1024 /* bytes, as S3 has it */
#define SLUICE_S3_CONTINUE_BYTES 2048

struct sluice_s3_object {
    const char *key; /* not empty; any bytes, where the page has keys as URLs have them */
    uint64_t bytes;
    const char *etag; /* "": not given */
};

struct sluice_s3_page {
    bool is_truncated; /* more pages follow */
    char continuation
        [SLUICE_S3_CONTINUE_BYTES]; /* the token for the next page; not "" if is_truncated */
};

/* Parses a page of ListObjectsV2, with encoding-type=url or without.  Calls `fn` for each object in
 * the page's order.  SLUICE_E_CORRUPT: not a list; `fn` may have been called before. */
SLUICE_MUST_USE sluice_status sluice_s3_list_parse(
    const char *xml, size_t len,
    sluice_status (*fn)(void *ctx, const struct sluice_s3_object *object, struct sluice_err *err),
    void *ctx, struct sluice_s3_page *page, struct sluice_err *err);

/* The text of the first element with this name, at any depth. */
struct sluice_s3_field {
    const char *name;
    char *text; /* "": missing, or it does not fit */
    size_t room;
};
/* SLUICE_E_CORRUPT: not XML; fields before the fault are set. */
SLUICE_MUST_USE sluice_status sluice_s3_fields_parse(const char *xml, size_t len,
                                                     const struct sluice_s3_field *fields,
                                                     size_t num_fields, struct sluice_err *err);

/* Parses the code and message of an error's body, which may be truncated; "": missing. */
#define SLUICE_S3_CODE_BYTES 128
#define SLUICE_S3_MESSAGE_BYTES 256
void sluice_s3_error_parse(const char *xml, char code[SLUICE_S3_CODE_BYTES],
                           char message[SLUICE_S3_MESSAGE_BYTES]);

#endif
