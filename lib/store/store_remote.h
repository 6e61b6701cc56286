#ifndef SLUICE_STORE_STORE_REMOTE_H
#define SLUICE_STORE_STORE_REMOTE_H

#include "store/http.h"
#include "store/store.h"

/* Private to lib/store: a store over HTTP.  A kind (s3.c, web.c) requests and lists objects;
 * ranges, versions and statuses are handled here.
 *
 * A version is a hash of the ETag or, if the server sends none, of Last-Modified.  Every answer of
 * a read must have the version listed, or found by an earlier request for the headers, so parts of
 * a read never mix versions. */

#define SLUICE_REMOTE_URL_BYTES 16384
#define SLUICE_REMOTE_TOKEN_BYTES 8192

/* A request for an object. */
struct sluice_remote_request {
    char url[SLUICE_REMOTE_URL_BYTES];
    bool is_signed;
    char scope[96], key_id[256], secret[256];
    char token_header[SLUICE_REMOTE_TOKEN_BYTES + 32]; /* "": none */
    unsigned generation;                               /* of the credentials */
};

struct sluice_remote_kind {
    /* Makes the request for a key.  SLUICE_E_INVALID: not a valid key. */
    sluice_status (*ask)(void *ctx, const char *key, struct sluice_remote_request *request,
                         struct sluice_err *err);
    /* Whether a request rejected with this answer is worth repeating with other credentials or
     * another region.  May be NULL. */
    bool (*renew)(void *ctx, const struct sluice_remote_request *request,
                  const struct sluice_http_transfer *transfer);
    /* Converts an error's body to a message and a status.  May be NULL. */
    sluice_status (*explain)(void *ctx, const struct sluice_http_transfer *transfer,
                             struct sluice_err *err);
    /* As the store's. */
    sluice_status (*list)(void *ctx, const char *prefix, sluice_object_fn *fn, void *fn_ctx,
                          struct sluice_err *err);
    void (*destroy)(void *ctx);
};

struct sluice_remote_options {
    const char *root; /* as given, for store->relative */
    uint64_t max_object_bytes;
    unsigned patience_ms;
    struct sluice_http *http;              /* taken */
    const struct sluice_remote_kind *kind; /* its ctx is taken, too */
    void *ctx;
};

/* Takes the options marked as taken, also on failure. */
SLUICE_MUST_USE sluice_status sluice_remote_open(const struct sluice_remote_options *options,
                                                 struct sluice_store **store,
                                                 struct sluice_err *err);

/* The version of a tag; 0: no tag.  Ignores quotes and the mark of a weak ETag. */
int64_t sluice_remote_version(const char *tag);

/* Whether other credentials (400, 401, 403) or another region (301, 307, 400) may help. */
bool sluice_remote_is_refusal(const struct sluice_http_transfer *transfer);

/* Fills in the transfer for this request; borrows request and signature. */
void sluice_remote_fill(const struct sluice_remote_request *request,
                        struct sluice_http_transfer *transfer,
                        struct sluice_http_signature *signature);

#endif
