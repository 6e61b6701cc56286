#include "store/s3.h"

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "store/s3_list.h"
#include "store/store_remote.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A page of a list: 1000 objects of 1 kB of key, each byte of which may be an entity of 6. */
#define MAX_PAGE_BYTES (8u << 20)

/* The limit of a list: a billion objects. */
#define MAX_PAGES 1000000u

/* s before they end, at which credentials are looked up again. */
#define RENEW_BEFORE_S 300

/* Where requests of a bucket go. */
struct place {
    char region[64];
    char base[SLUICE_STORE_URL_BYTES]; /* of the bucket: "https://host/bucket" */
};

struct endpoint {
    const char *scheme;
    char host[SLUICE_STORE_URL_BYTES]; /* and its port, if one is given */
    char bucket[64];
    bool is_virtual; /* the bucket is a part of the host's name */
};

struct s3 {
    pthread_mutex_t lock;
    struct sluice_s3_credentials credentials; /* under the lock, like the next */
    unsigned generation;                      /* of the credentials; 0: none yet */

    struct sluice_http *http; /* constant from here; borrowed */
    struct sluice_s3_places places;
    char root[SLUICE_STORE_URL_BYTES];
    struct endpoint endpoint;
    struct place given;
    char prefix[SLUICE_S3_MAX_KEY + 1]; /* "" or with a slash at its end */
    uint64_t patience_ns;

    struct place named; /* the region that S3 names; written under the lock, before `place` is it */
    _Atomic(const struct place *) place; /* `given`, and `named` once that is there */
};

/* --- credentials --- */

/* Under the lock. */
static sluice_status find_credentials(struct s3 *s3, struct sluice_err *err)
{
    struct sluice_s3_credentials *found = malloc(sizeof(*found));
    if (!found)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for credentials");
    const sluice_status status = sluice_s3_credentials_find(
        &s3->places, s3->http, sluice_clock_ns() + s3->patience_ns, found, err);
    if (status == SLUICE_OK) {
        if (!s3->generation)
            sluice_log(SLUICE_LOG_INFO, "%s: credentials from %s", s3->root, found->from);
        s3->credentials = *found;
        s3->generation++;
    }
    explicit_bzero(found, sizeof(*found));
    free(found);
    return status;
}

static bool is_due(const struct s3 *s3)
{
    const int64_t expires_s = s3->credentials.expires_s;
    return !s3->generation || (expires_s && time(NULL) > expires_s - RENEW_BEFORE_S);
}

static void print_scope(char scope[96], const struct place *place)
{
    snprintf(scope, 96, "aws:amz:%s:s3", place->region);
}

/* Signs the request, whose URL is there, and is of the place. */
static sluice_status sign(struct s3 *s3, const struct place *place,
                          struct sluice_remote_request *request, struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    pthread_mutex_lock(&s3->lock);
    if (is_due(s3)) {
        struct sluice_err why = {0};
        status = find_credentials(s3, &why);
        /* Those of before may hold for some minutes more. */
        if (status != SLUICE_OK && s3->generation)
            status = SLUICE_OK;
        else if (status != SLUICE_OK)
            sluice_fail(err, status, "%s", why.text);
    }
    const struct sluice_s3_credentials *credentials = &s3->credentials;
    if (status == SLUICE_OK) {
        request->generation = s3->generation;
        request->is_signed = !credentials->is_anonymous;
        request->token_header[0] = '\0';
        memcpy(request->key_id, credentials->key_id, sizeof(request->key_id));
        memcpy(request->secret, credentials->secret, sizeof(request->secret));
        print_scope(request->scope, place);
        if (credentials->token[0])
            snprintf(request->token_header, sizeof(request->token_header),
                     "x-amz-security-token: %s", credentials->token);
    }
    pthread_mutex_unlock(&s3->lock);
    return status;
}

static bool is_same(const struct sluice_s3_credentials *a, const struct sluice_s3_credentials *b)
{
    return strcmp(a->key_id, b->key_id) == 0 && strcmp(a->secret, b->secret) == 0 &&
           strcmp(a->token, b->token) == 0;
}

/* --- the bucket's region --- */

/* The host of the same service in another region: AWS has one for each, and any other host stays.
 */
static bool print_host(const char *host, const char *region, char out[SLUICE_STORE_URL_BYTES])
{
    static const char *const kinds[] = {"s3.", "s3.dualstack.", "s3-fips.", "s3-fips.dualstack."};
    static const char aws[] = "amazonaws.com";
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(kinds); i++) {
        const size_t len = strlen(kinds[i]);
        if (sluice_strncasecmp(host, kinds[i], len) != 0)
            continue;
        const char *rest = host + len, *dot = strchr(rest, '.');
        if (sluice_strcasecmp(rest, aws) == 0 || (dot && sluice_strcasecmp(dot + 1, aws) == 0))
            return sluice_print(out, SLUICE_STORE_URL_BYTES, "%s%s.%s", kinds[i], region, aws);
    }
    return sluice_print(out, SLUICE_STORE_URL_BYTES, "%s", host);
}

/* "https://host[/bucket]".  `region`: another than the endpoint's own; NULL: that. */
static bool print_base(const struct endpoint *endpoint, const char *region,
                       char url[SLUICE_STORE_URL_BYTES])
{
    char host[SLUICE_STORE_URL_BYTES];
    const bool is_virtual = endpoint->is_virtual;
    if (region && !print_host(endpoint->host, region, host))
        return false;
    return sluice_print(url, SLUICE_STORE_URL_BYTES, "%s%s%s%s%s%s", endpoint->scheme,
                        is_virtual ? endpoint->bucket : "", is_virtual ? "." : "",
                        region ? host : endpoint->host, is_virtual ? "" : "/",
                        is_virtual ? "" : endpoint->bucket);
}

/* Where an answer says that the bucket is, in a header or its body; "": it does not. */
static void find_region(const struct sluice_http_transfer *transfer, char region[64])
{
    const struct sluice_s3_field field = {"Region", region, 64};
    memcpy(region, transfer->region, 64);
    if (transfer->code != 301 && transfer->code != 307 && transfer->code != 400)
        region[0] = '\0';
    else if (!region[0] && sluice_s3_fields_parse(transfer->text, strlen(transfer->text), &field, 1,
                                                  NULL) != SLUICE_OK)
        return; /* what comes before a cut is there */
}

/* It becomes a part of a host's name, to which a signature is sent. */
static bool is_region(const char *region)
{
    const char *at = region;
    while (sluice_is_alnum(*at) || (*at == '-' && at > region))
        at++;
    return at > region && !*at;
}

/* Goes to the region that S3 names, if it has not been followed to one yet.  False: the request
 * would be the same again. */
static bool follow(struct s3 *s3, const struct sluice_remote_request *request, const char *region)
{
    char scope[sizeof(request->scope)];
    bool is_first = false;
    pthread_mutex_lock(&s3->lock);
    if (atomic_load(&s3->place) == &s3->given && strcmp(region, s3->given.region) != 0 &&
        is_region(region) && print_base(&s3->endpoint, region, s3->named.base)) {
        snprintf(s3->named.region, sizeof(s3->named.region), "%s", region);
        atomic_store(&s3->place, &s3->named);
        is_first = true;
    }
    print_scope(scope, atomic_load(&s3->place));
    pthread_mutex_unlock(&s3->lock);
    if (is_first)
        sluice_log(SLUICE_LOG_WARN,
                   "%s: the bucket is in the region %s, and %s was asked: set AWS_REGION=%s",
                   s3->root, region, s3->given.region, region);
    return strcmp(scope, request->scope) != 0;
}

static bool renew(void *ctx, const struct sluice_remote_request *request,
                  const struct sluice_http_transfer *transfer)
{
    struct s3 *s3 = ctx;
    char region[64];
    find_region(transfer, region);
    if (region[0] && follow(s3, request, region))
        return true;
    if (transfer->code < 400)
        return false;
    bool has_changed = true;
    struct sluice_s3_credentials *before = malloc(sizeof(*before));
    if (!before)
        return false;
    pthread_mutex_lock(&s3->lock);
    if (request->generation == s3->generation) { /* nobody else has looked meanwhile */
        *before = s3->credentials;
        has_changed = find_credentials(s3, NULL) == SLUICE_OK && !is_same(before, &s3->credentials);
        if (!has_changed)
            s3->generation = request->generation;
        explicit_bzero(before, sizeof(*before));
    }
    pthread_mutex_unlock(&s3->lock);
    free(before);
    return has_changed;
}

/* --- objects --- */

static sluice_status ask(void *ctx, const char *key, struct sluice_remote_request *request,
                         struct sluice_err *err)
{
    struct s3 *s3 = ctx;
    const struct place *place = atomic_load(&s3->place);
    char whole[2 * SLUICE_S3_MAX_KEY], encoded[6 * SLUICE_S3_MAX_KEY];
    if (!sluice_print(whole, sizeof(whole), "%s%s", s3->prefix, key) ||
        strlen(whole) > SLUICE_S3_MAX_KEY)
        return sluice_fail(err, SLUICE_E_NOT_FOUND, "no such object: the key is too long");
    if (!sluice_http_encode(whole, true, encoded, sizeof(encoded)) ||
        !sluice_print(request->url, sizeof(request->url), "%s/%s", place->base, encoded))
        return sluice_fail(err, SLUICE_E_INVALID, "the key is too long");
    return sign(s3, place, request, err);
}

static sluice_status explain(void *ctx, const struct sluice_http_transfer *transfer,
                             struct sluice_err *err)
{
    struct s3 *s3 = ctx;
    char code[SLUICE_S3_CODE_BYTES], message[SLUICE_S3_MESSAGE_BYTES];
    char from[sizeof(s3->credentials.from)];
    sluice_s3_error_parse(transfer->text, code, message);
    if (transfer->code == 404 && strcmp(code, "NoSuchBucket") != 0)
        return sluice_fail(err, SLUICE_E_NOT_FOUND, "no such object");
    const sluice_status status = transfer->code == 404 ? SLUICE_E_IO : transfer->status;
    char named[64], region[2 * sizeof(named)];
    find_region(transfer, named);
    if (named[0] && strcmp(named, s3->places.region) != 0) {
        sluice_escape_line(region, sizeof(region), named);
        return sluice_fail(err, status,
                           "the bucket is in the region %s, and %s was asked (AWS_REGION=%s, and "
                           "an endpoint of that region if one is given)",
                           region, s3->places.region, region);
    }
    if (transfer->code == 403 || transfer->code == 401) {
        pthread_mutex_lock(&s3->lock);
        memcpy(from, s3->credentials.from, sizeof(from));
        pthread_mutex_unlock(&s3->lock);
        return sluice_fail(err, status, "denied (%s%s%s; credentials from %s)",
                           code[0] ? code : "HTTP 403", message[0] ? ": " : "", message, from);
    }
    return sluice_fail(err, status, "%s%s%s%s%s", transfer->err.text, code[0] ? ", " : "", code,
                       message[0] ? ": " : "", message);
}

/* --- lists --- */

struct listing {
    struct s3 *s3;
    sluice_object_fn *fn;
    void *ctx;
    uint64_t num_passed;                /* objects that cannot be served */
    char passed[4 * SLUICE_S3_MAX_KEY]; /* the first of them, for the log */
};

static sluice_status on_object(void *ctx, const struct sluice_s3_object *object,
                               struct sluice_err *err)
{
    struct listing *listing = ctx;
    const size_t prefix_len = strlen(listing->s3->prefix), len = strlen(object->key);
    /* Consoles create folders as keys that end in a slash. */
    if (!sluice_starts_with(object->key, listing->s3->prefix) || len == prefix_len ||
        object->key[len - 1] == '/')
        return SLUICE_OK;
    if (sluice_has_control(object->key, len) || !sluice_is_utf8(object->key) ||
        object->bytes > SLUICE_STORE_MAX_OBJECT_BYTES) {
        if (listing->num_passed++ == 0)
            sluice_escape_line(listing->passed, sizeof(listing->passed), object->key);
        return SLUICE_OK;
    }
    const struct sluice_object found = {object->key + prefix_len, object->bytes,
                                        sluice_remote_version(object->etag)};
    return listing->fn(listing->ctx, &found, err);
}

/* The query's names are in order and all have a value: so libcurl signs it as it is. */
static sluice_status ask_page(struct s3 *s3, const char *prefix, const char *continuation,
                              struct sluice_remote_request *request, struct sluice_err *err)
{
    const struct place *place = atomic_load(&s3->place);
    char whole[2 * SLUICE_S3_MAX_KEY], encoded[6 * SLUICE_S3_MAX_KEY];
    char token[3 * SLUICE_S3_CONTINUE_BYTES];
    if (!sluice_print(whole, sizeof(whole), "%s%s", s3->prefix, prefix) ||
        !sluice_http_encode(whole, false, encoded, sizeof(encoded)) ||
        !sluice_http_encode(continuation, false, token, sizeof(token)) ||
        !sluice_print(request->url, sizeof(request->url),
                      "%s/?%s%s%sencoding-type=url&list-type=2&prefix=%s", place->base,
                      token[0] ? "continuation-token=" : "", token, token[0] ? "&" : "", encoded))
        return sluice_fail(err, SLUICE_E_INVALID, "the prefix is too long");
    return sign(s3, place, request, err);
}

/* The body of a page, in `data` of MAX_PAGE_BYTES. */
static sluice_status get_page(struct s3 *s3, const char *prefix, const char *continuation,
                              uint8_t *data, size_t *len, struct sluice_err *err)
{
    struct sluice_http_signature signature;
    struct sluice_remote_request *request = malloc(sizeof(*request));
    if (!request)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a request");
    sluice_status status = SLUICE_OK;
    for (bool is_again = false; status == SLUICE_OK; is_again = true) {
        struct sluice_http_transfer transfer = {.data = data, .room = MAX_PAGE_BYTES};
        status = ask_page(s3, prefix, continuation, request, err);
        if (status != SLUICE_OK)
            break;
        sluice_remote_fill(request, &transfer, &signature);
        sluice_http_run(s3->http, &transfer, 1, sluice_clock_ns() + s3->patience_ns, NULL);
        if (transfer.status == SLUICE_OK && transfer.is_longer) {
            status = sluice_fail(err, SLUICE_E_UNSUPPORTED, "a page of the list is too long");
        } else if (transfer.status == SLUICE_OK) {
            *len = transfer.len;
            break;
        } else if (is_again || !sluice_remote_is_refusal(&transfer) ||
                   !renew(s3, request, &transfer)) {
            status = explain(s3, &transfer, err);
        }
    }
    explicit_bzero(request, sizeof(*request));
    free(request);
    return status;
}

static sluice_status list(void *ctx, const char *prefix, sluice_object_fn *fn, void *fn_ctx,
                          struct sluice_err *err)
{
    struct listing listing = {.s3 = ctx, .fn = fn, .ctx = fn_ctx};
    struct sluice_s3_page page = {.is_truncated = true};
    struct sluice_err why = {0};
    unsigned num_pages = 0;
    uint8_t *data = malloc(MAX_PAGE_BYTES);
    if (!data)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a list of objects");
    sluice_status status = SLUICE_OK;
    while (page.is_truncated && status == SLUICE_OK) {
        size_t len = 0;
        char continuation[SLUICE_S3_CONTINUE_BYTES];
        memcpy(continuation, page.continuation, sizeof(continuation));
        status = get_page(listing.s3, prefix, page.continuation, data, &len, &why);
        if (status == SLUICE_OK)
            status =
                sluice_s3_list_parse((const char *)data, len, on_object, &listing, &page, &why);
        if (status == SLUICE_OK && page.is_truncated &&
            strcmp(page.continuation, continuation) == 0)
            status = sluice_fail(&why, SLUICE_E_CORRUPT,
                                 "a page of the list is continued by itself, without end");
        if (status == SLUICE_OK && ++num_pages == MAX_PAGES && page.is_truncated)
            status =
                sluice_fail(&why, SLUICE_E_UNSUPPORTED, "a list of more than %u pages", MAX_PAGES);
    }
    free(data);
    if (status == SLUICE_OK && listing.num_passed)
        sluice_log(SLUICE_LOG_WARN,
                   "%s: %llu objects are passed over, as their keys have control characters or are "
                   "not UTF-8, or their sizes cannot be (%s%s)",
                   listing.s3->root, (unsigned long long)listing.num_passed, listing.passed,
                   listing.num_passed > 1 ? ", ..." : "");
    if (status == SLUICE_OK)
        return status;
    return sluice_fail(err, status == SLUICE_E_NOT_FOUND ? SLUICE_E_IO : status, "%s: %s",
                       listing.s3->root, why.text);
}

/* --- the whole --- */

static void destroy(void *ctx)
{
    struct s3 *s3 = ctx;
    pthread_mutex_destroy(&s3->lock);
    explicit_bzero(s3, sizeof(*s3));
    free(s3);
}

static const struct sluice_remote_kind kind = {
    .ask = ask, .renew = renew, .explain = explain, .list = list, .destroy = destroy};

/* "BUCKET" and what follows it in s3://BUCKET/PREFIX. */
static sluice_status split_root(const char *root, char bucket[64], const char **prefix,
                                struct sluice_err *err)
{
    const char *at = root + strlen("s3://");
    const size_t len = strcspn(at, "/");
    bool is_name = len >= 3 && len < 64;
    for (size_t i = 0; i < len && is_name; i++)
        is_name = sluice_is_alnum(at[i]) || strchr("-._", at[i]);
    if (!is_name)
        return sluice_fail(err, SLUICE_E_INVALID, "%s: no bucket's name (s3://BUCKET/PREFIX)",
                           root);
    memcpy(bucket, at, len);
    bucket[len] = '\0';
    *prefix = at + len + strspn(at + len, "/");
    return SLUICE_OK;
}

static const char *given_endpoint(const struct sluice_store_options *options,
                                  const struct sluice_s3_places *places)
{
    return options->s3_endpoint  ? options->s3_endpoint
           : places->endpoint[0] ? places->endpoint
                                 : NULL;
}

/* The bucket is there. */
static sluice_status find_endpoint(const struct sluice_store_options *options,
                                   const struct sluice_s3_places *places, struct endpoint *out,
                                   struct sluice_err *err)
{
    const char *endpoint = given_endpoint(options, places), *bucket = out->bucket;
    /* A certificate of *.s3... does not hold for a name with dots. */
    out->is_virtual = options->s3_style ? strcmp(options->s3_style, "virtual") == 0
                                        : !endpoint && !strchr(bucket, '.');
    if (!endpoint &&
        !sluice_print(out->host, sizeof(out->host), "s3.%s.amazonaws.com", places->region))
        return sluice_fail(err, SLUICE_E_INVALID, "the region's name is too long");
    out->scheme = "https://";
    if (endpoint) {
        struct sluice_http_address address;
        struct sluice_err why = {0};
        if (sluice_http_parse_address(endpoint, &address, &why) != SLUICE_OK)
            return sluice_fail(err, SLUICE_E_INVALID, "the S3 endpoint: %s", why.text);
        out->scheme = address.is_tls ? "https://" : "http://";
        const char *at = endpoint + strlen(out->scheme);
        const size_t len = strcspn(at, "/?#");
        if (strspn(at + len, "/") != strlen(at + len) ||
            !sluice_print(out->host, sizeof(out->host), "%.*s", (int)len, at))
            return sluice_fail(err, SLUICE_E_INVALID,
                               "the S3 endpoint has a host and a port, and no path");
        if (out->is_virtual && !address.is_name)
            return sluice_fail(err, SLUICE_E_INVALID,
                               "the S3 endpoint is an address: its buckets have no names of their "
                               "own (style path)");
    }
    return SLUICE_OK;
}

/* "https://host[/bucket]". */
static sluice_status find_base(const struct endpoint *endpoint, const char *region,
                               char url[SLUICE_STORE_URL_BYTES], struct sluice_err *err)
{
    if (!print_base(endpoint, region, url))
        return sluice_fail(err, SLUICE_E_INVALID, "the S3 endpoint is too long");
    return SLUICE_OK;
}

sluice_status sluice_s3_endpoint(const struct sluice_store_options *options,
                                 const struct sluice_s3_places *places, const char *region,
                                 char url[SLUICE_STORE_URL_BYTES], struct sluice_err *err)
{
    struct endpoint endpoint;
    const char *prefix;
    sluice_status status = split_root(options->root, endpoint.bucket, &prefix, err);
    if (status == SLUICE_OK)
        status = find_endpoint(options, places, &endpoint, err);
    return status == SLUICE_OK ? find_base(&endpoint, region, url, err) : status;
}

sluice_status sluice_store_s3_open(const struct sluice_store_options *options,
                                   const struct sluice_s3_places *places, struct sluice_http *http,
                                   struct sluice_store **store, struct sluice_err *err)
{
    const char *prefix;
    struct s3 *s3 = calloc(1, sizeof(*s3));
    sluice_status status = s3 ? split_root(options->root, s3->endpoint.bucket, &prefix, err)
                              : sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a store");
    if (status == SLUICE_OK)
        status = find_endpoint(options, places, &s3->endpoint, err);
    if (status == SLUICE_OK)
        status = find_base(&s3->endpoint, NULL, s3->given.base, err);
    if (status == SLUICE_OK && (!sluice_print(s3->root, sizeof(s3->root), "%s", options->root) ||
                                !sluice_print(s3->prefix, sizeof(s3->prefix), "%s", prefix)))
        status = sluice_fail(err, SLUICE_E_INVALID, "the root is too long");
    if (status != SLUICE_OK) {
        sluice_http_close(http);
        free(s3);
        return status;
    }
    const size_t len = strlen(s3->prefix);
    if (len && s3->prefix[len - 1] != '/' && len + 1 < sizeof(s3->prefix))
        memcpy(s3->prefix + len, "/", 2);
    pthread_mutex_init(&s3->lock, NULL);
    s3->http = http;
    s3->places = *places;
    memcpy(s3->given.region, places->region, sizeof(s3->given.region));
    atomic_init(&s3->place, &s3->given);
    s3->patience_ns = options->patience_ms * UINT64_C(1000000);
    const struct sluice_remote_options remote = {
        .root = options->root,
        .max_object_bytes = options->max_object_bytes,
        .patience_ms = options->patience_ms,
        .http = http,
        .kind = &kind,
        .ctx = s3,
    };
    return sluice_remote_open(&remote, store, err);
}
