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
 * The promise: a body reported complete is complete and of one version.  A retry requests the first
 * try's version (If-Match).  Redirects are not followed.
 *
 * Lost connections, timeouts, truncated bodies, 408, 429 and 5xx are retried with exponential
 * backoff and full jitter, within a retry budget over all requests (tuning.h).  A GET slower than
 * nearly all before it is hedged: sent a second time, and the first complete answer counts
 * (hedging.h).  If the first one has begun to answer, both request the same version.
 *
 * Threads: open and close on one thread; run and cancel from any. */

struct sluice_http;

struct sluice_http_options {
    unsigned num_parallel; /* concurrent transfers and kept connections, plus one eighth */
    const char *ca_bundle; /* certificates in PEM; NULL: the system's */
};

SLUICE_MUST_USE sluice_status sluice_http_open(const struct sluice_http_options *options,
                                               struct sluice_http **http, struct sluice_err *err);
/* Cancels the running transfers; start no new one.  NULL is allowed. */
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

/* A request and its answer.  The caller sets the first part; its pointers are borrowed. */
struct sluice_http_transfer {
    const char *url;
    const char *headers[SLUICE_HTTP_MAX_HEADERS];  /* "Name: value"; NULL: none */
    const struct sluice_http_signature *signature; /* NULL: unsigned */
    const char *body;                              /* of a POST; NULL: a GET */
    bool is_head;                                  /* a HEAD: requests no body */
    bool has_range;
    uint64_t from, to; /* bytes [from, to) of the object, from < to */
    uint8_t *data;     /* memory for the body */
    size_t room;       /* a longer body ends the transfer with is_longer; at least to - from */

    /* SLUICE_OK: 200 or 206, and the body is whole.  SLUICE_E_NOT_FOUND (404), SLUICE_E_STALE (412,
     * 416), SLUICE_E_IO (anything else), SLUICE_E_CLOSED (cancelled), SLUICE_E_NO_MEMORY. */
    sluice_status status;
    long code;       /* HTTP status of the last try; 0: no answer */
    bool is_longer;  /* than `room` */
    size_t len;      /* bytes of the body in `data` */
    char region[64]; /* the bucket's region by S3's x-amz-bucket-region; "": not given */
    uint64_t total;  /* of the object; UINT64_MAX: not given */
    /* The ETag as received, or else Last-Modified; "": neither. */
    char tag[SLUICE_HTTP_TAG_BYTES];
    bool is_etag;
    char text[SLUICE_HTTP_TEXT_BYTES]; /* the beginning of an error's body */
    struct sluice_err err;             /* the error in words, without the URL */

    struct sluice_http_flight *flight; /* private */
};

/* Runs all transfers concurrently and waits for the last.  `until_ns` (sluice_clock_ns()) is the
 * deadline of every try.  `owner`: for sluice_http_cancel(); may be NULL. */
void sluice_http_run(struct sluice_http *http, struct sluice_http_transfer *transfers, size_t count,
                     uint64_t until_ns, const void *owner);

/* Cancels the owner's running transfers.  Does not wait. */
void sluice_http_cancel(struct sluice_http *http, const void *owner);

/* --- URLs (RFC 3986) --- */

/* Percent-encodes all but A-Z a-z 0-9 - _ . ~ and, with keep_slash, '/'.  False: no room. */
bool sluice_http_encode(const char *text, bool keep_slash, char *out, size_t room);

struct sluice_http_address {
    bool is_tls;
    char host[256];
    uint16_t port;
    bool is_name; /* needs a DNS lookup */
};

/* Checks an http or https URL.  SLUICE_E_INVALID: not such a URL, or it contains a user, whose
 * password would be in every log. */
SLUICE_MUST_USE sluice_status sluice_http_parse_address(const char *url,
                                                        struct sluice_http_address *address,
                                                        struct sluice_err *err);

#endif
