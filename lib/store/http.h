#ifndef SLUICE_STORE_HTTP_H
#define SLUICE_STORE_HTTP_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Requests over HTTP, many at a time, from any number of threads: libcurl's multi interface on a
 * thread of its own.  Connections are kept and shared; over TLS they are HTTP/2 where the server
 * offers it.  Bodies arrive in the caller's memory.
 *
 * The promise: a body that is said to be whole is whole, and of one version.  A retry asks for the
 * version that the first try had (If-Match), and no redirect is followed.
 *
 * Retried are lost connections, timeouts, bodies that break off, 408, 429 and 5xx, with exponential
 * backoff and full jitter, and out of a budget over all requests (tuning.h).  A GET that takes
 * longer than nearly all before it is sent a second time, and the first complete answer counts
 * (hedging.h); both ask for the same version, if the first one has begun to answer.
 *
 * Threads: open and close on one; run and cancel from any. */

struct sluice_http;

struct sluice_http_options {
    unsigned num_parallel; /* transfers at a time, and connections kept; and an eighth more */
    const char *ca_bundle; /* certificates in PEM; NULL: the system's */
};

SLUICE_MUST_USE sluice_status sluice_http_open(const struct sluice_http_options *options,
                                               struct sluice_http **http, struct sluice_err *err);
/* Transfers that run end as cancelled; no new one may begin.  NULL is allowed. */
void sluice_http_close(struct sluice_http *http);

/* AWS Signature Version 4, which libcurl computes. */
struct sluice_http_signature {
    const char *scope; /* "aws:amz:REGION:s3" */
    const char *key_id, *secret;
};

#define SLUICE_HTTP_MAX_HEADERS 4
#define SLUICE_HTTP_TAG_BYTES 256
#define SLUICE_HTTP_TEXT_BYTES 1024

struct sluice_http_flight;

/* A request and its answer.  The first part is the caller's, all of it borrowed. */
struct sluice_http_transfer {
    const char *url;
    const char *headers[SLUICE_HTTP_MAX_HEADERS];  /* "Name: value"; NULL: none */
    const struct sluice_http_signature *signature; /* NULL: unsigned */
    const char *body;                              /* of a POST; NULL: a GET */
    bool is_head;                                  /* no body is asked for */
    bool has_range;
    uint64_t from, to; /* bytes [from, to) of the object, from < to */
    uint8_t *data;     /* where the body goes */
    size_t room;       /* a longer body ends the transfer with is_longer; at least to - from */

    /* SLUICE_OK: 200 or 206, and the body is whole.  SLUICE_E_NOT_FOUND (404), SLUICE_E_STALE (412,
     * 416), SLUICE_E_IO (anything else), SLUICE_E_CLOSED (cancelled), SLUICE_E_NO_MEMORY. */
    sluice_status status;
    long code;       /* HTTP's of the last try; 0: there was no answer */
    bool is_longer;  /* than `room` */
    size_t len;      /* bytes of the body in `data` */
    char region[64]; /* where S3 says that the bucket is: x-amz-bucket-region; "": it does not */
    uint64_t total;  /* of the object; UINT64_MAX: not said */
    /* ETag as it came, or else Last-Modified; "": neither. */
    char tag[SLUICE_HTTP_TAG_BYTES];
    bool is_etag;
    char text[SLUICE_HTTP_TEXT_BYTES]; /* the begin of an error's body */
    struct sluice_err err;             /* what was wrong, in words, without the URL */

    struct sluice_http_flight *flight; /* private */
};

/* Runs all of them at once and waits for the last.  `until_ns` (sluice_clock_ns()): no try goes on
 * for longer.  `owner`: for sluice_http_cancel(); may be NULL. */
void sluice_http_run(struct sluice_http *http, struct sluice_http_transfer *transfers, size_t count,
                     uint64_t until_ns, const void *owner);

/* Ends the transfers of this owner that run now.  Does not wait. */
void sluice_http_cancel(struct sluice_http *http, const void *owner);

/* --- URLs (RFC 3986) --- */

/* Percent-encodes all but A-Z a-z 0-9 - _ . ~ and, with keep_slash, '/'.  False: no room. */
bool sluice_http_encode(const char *text, bool keep_slash, char *out, size_t room);

struct sluice_http_address {
    bool is_tls;
    char host[256];
    uint16_t port;
    bool is_name; /* to be looked up, not an address */
};

/* Checks an http or https URL.  SLUICE_E_INVALID: not such a URL, or it names a user, whose
 * password would be in every log. */
SLUICE_MUST_USE sluice_status sluice_http_parse_address(const char *url,
                                                        struct sluice_http_address *address,
                                                        struct sluice_err *err);

#endif
