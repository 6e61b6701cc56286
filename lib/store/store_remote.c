#include "store/store_remote.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/text.h"
#include "store/known_versions.h"
#include "store/tuning.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct store_remote {
    struct sluice_store store;
    struct sluice_http *http;
    const struct sluice_remote_kind *kind;
    void *ctx;
    char *root; /* without trailing slashes */
    uint64_t max_object_bytes, patience_ns;
    struct sluice_known_versions *known;
    atomic_uint_fast64_t refused; /* relaxed: a counter */
};

static struct store_remote *from_store(struct sluice_store *store)
{
    return SLUICE_CONTAINER_OF(store, struct store_remote, store);
}

int64_t sluice_remote_version(const char *tag)
{
    if (sluice_starts_with(tag, "W/"))
        tag += 2;
    size_t len = strlen(tag);
    if (len >= 2 && tag[0] == '"' && tag[len - 1] == '"') {
        tag++;
        len -= 2;
    }
    return len ? (int64_t)(sluice_hash64(tag, len) | UINT64_C(1) << 63) : 0;
}

/* --- keys --- */

/* Servers and proxies take such parts out, and so read something else. */
static bool has_dot_part(const char *path)
{
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += *part == '/';
        const size_t len = strcspn(part, "/");
        if ((len == 1 && part[0] == '.') || (len == 2 && part[0] == '.' && part[1] == '.'))
            return true;
        if (!part[0])
            break;
    }
    return false;
}

static sluice_status ask(struct store_remote *r, const char *key,
                         struct sluice_remote_request *request, struct sluice_err *err)
{
    if (!key[0])
        return sluice_fail(err, SLUICE_E_NOT_FOUND, "no such object");
    if (key[0] == '/' || has_dot_part(key)) {
        atomic_fetch_add_explicit(&r->refused, 1, memory_order_relaxed);
        return sluice_fail(err, SLUICE_E_INVALID, "refused: leads out of the root");
    }
    return r->kind->ask(r->ctx, key, request, err);
}

/* --- requests --- */

void sluice_remote_fill(const struct sluice_remote_request *request,
                        struct sluice_http_transfer *transfer,
                        struct sluice_http_signature *signature)
{
    size_t num = 0;
    transfer->url = request->url;
    transfer->signature = NULL;
    memset(transfer->headers, 0, sizeof(transfer->headers));
    if (!request->is_signed)
        return;
    *signature = (struct sluice_http_signature){request->scope, request->key_id, request->secret};
    transfer->signature = signature;
    /* A header that libcurl does not add.  The payload is empty and not hashed. */
    transfer->headers[num++] = "x-amz-content-sha256: UNSIGNED-PAYLOAD";
    if (request->token_header[0])
        transfer->headers[num++] = request->token_header;
}

/* Puts a failure into words. */
static sluice_status fail_transfer(struct store_remote *r, const struct sluice_http_transfer *t,
                                   struct sluice_err *err)
{
    if (t->code && r->kind->explain)
        return r->kind->explain(r->ctx, t, err);
    return sluice_fail(err, t->status, "%s", t->err.text);
}

static bool is_denied(const struct sluice_http_transfer *t)
{
    return t->code == 401 || t->code == 403 || t->code == 400; /* 400: a token that has expired */
}

bool sluice_remote_is_refusal(const struct sluice_http_transfer *t)
{
    return is_denied(t) || t->code == 301 || t->code == 307;
}

/* Asks for `count` ranges of an object at once, and once more where the credentials are renewed or
 * the region is another. */
static sluice_status run(struct store_remote *r, const char *key, const void *owner,
                         uint64_t until_ns, struct sluice_http_transfer *transfers, size_t count,
                         struct sluice_err *err)
{
    struct sluice_http_signature signature;
    struct sluice_remote_request *request = malloc(sizeof(*request));
    if (!request)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a request");
    sluice_status status = ask(r, key, request, err);
    for (bool is_again = false; status == SLUICE_OK; is_again = true) {
        const struct sluice_http_transfer *refused = NULL;
        for (size_t i = 0; i < count; i++)
            sluice_remote_fill(request, &transfers[i], &signature);
        sluice_http_run(r->http, transfers, count, until_ns, owner);
        for (size_t i = 0; i < count && !refused; i++)
            refused = sluice_remote_is_refusal(&transfers[i]) ? &transfers[i] : NULL;
        if (!refused || is_again || !r->kind->renew || !r->kind->renew(r->ctx, request, refused))
            break;
        status = ask(r, key, request, err);
    }
    for (size_t i = 0; i < count && status == SLUICE_OK; i++) {
        if (transfers[i].status != SLUICE_OK)
            status = fail_transfer(r, &transfers[i], err);
        transfers[i].url = NULL; /* the request goes */
        transfers[i].signature = NULL;
        memset(transfers[i].headers, 0, sizeof(transfers[i].headers));
    }
    explicit_bzero(request->secret, sizeof(request->secret));
    free(request);
    return status;
}

/* The headers of an object. */
static sluice_status look_up(struct store_remote *r, const char *key, const void *owner,
                             uint64_t until_ns, struct sluice_object *object,
                             struct sluice_err *err)
{
    struct sluice_http_transfer head = {.is_head = true};
    struct sluice_err why = {0};
    sluice_status status = run(r, key, owner, until_ns, &head, 1, &why);
    if (status != SLUICE_OK && is_denied(&head)) {
        /* Only the answer to a GET has a body, which says why. */
        uint8_t byte;
        struct sluice_err reason = {0};
        struct sluice_http_transfer get = {.has_range = true, .to = 1, .data = &byte, .room = 1};
        if (run(r, key, owner, until_ns, &get, 1, &reason) != SLUICE_OK)
            why = reason;
    }
    if (status != SLUICE_OK)
        return sluice_fail(err, status, "%s", why.text);
    if (head.total == UINT64_MAX)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "the server does not say how long it is");
    *object = (struct sluice_object){key, head.total, sluice_remote_version(head.tag)};
    return SLUICE_OK;
}

static sluice_status remote_describe(struct sluice_store *store, const char *key,
                                     struct sluice_object *object, struct sluice_err *err)
{
    struct store_remote *r = from_store(store);
    return look_up(r, key, NULL, sluice_clock_ns() + r->patience_ns, object, err);
}

/* --- reading --- */

/* Whether an answer is of the object that is read. */
static sluice_status check(const struct sluice_http_transfer *t, const struct sluice_object *object,
                           size_t expected, struct sluice_err *err)
{
    if (object->version && sluice_remote_version(t->tag) != object->version)
        return sluice_fail(err, SLUICE_E_STALE, "the object changed since it was listed");
    if (object->bytes != UINT64_MAX && t->total != UINT64_MAX && t->total != object->bytes)
        return sluice_fail(err, SLUICE_E_STALE, "%llu bytes, but %llu are listed",
                           (unsigned long long)t->total, (unsigned long long)object->bytes);
    if (t->is_longer || t->len != expected)
        return sluice_fail(err, SLUICE_E_STALE, "%s than the %zu bytes that are listed",
                           t->is_longer ? "longer" : "shorter", expected);
    return SLUICE_OK;
}

/* Reads the parts, which count from `offset`, to their places in the buffer. */
static sluice_status read_parts(struct store_remote *r, const struct sluice_store_read *read,
                                const struct sluice_object *object, uint64_t until_ns,
                                const struct sluice_file_part *parts, unsigned num_parts,
                                struct sluice_buf *buf, struct sluice_err *err)
{
    struct sluice_http_transfer transfers[SLUICE_STORE_MAX_PARTS] = {{0}};
    unsigned count = 0;
    for (unsigned i = 0; i < num_parts; i++) {
        const size_t len = parts[i].to - parts[i].from;
        if (!len)
            continue;
        transfers[count++] = (struct sluice_http_transfer){
            .has_range = read->offset || read->is_range || len < buf->len,
            .from = read->offset + parts[i].from,
            .to = read->offset + parts[i].to,
            .data = buf->data + parts[i].from,
            .room = len,
        };
    }
    sluice_status status =
        count ? run(r, read->key, read->owner, until_ns, transfers, count, err) : SLUICE_OK;
    for (unsigned i = 0; i < count && status == SLUICE_OK; i++)
        status = check(&transfers[i], object, transfers[i].room, err);
    return status;
}

static bool is_range(const struct sluice_store_read *read)
{
    return read->offset || read->is_range;
}

/* Length and version of what is to be read, unless they are listed. */
static sluice_status find(struct store_remote *r, const struct sluice_store_read *read,
                          uint64_t until_ns, struct sluice_object *object, struct sluice_err *err)
{
    if (read->version < 0 ||
        (read->version > 0 &&
         sluice_known_versions_get(r->known, read->key, &object->bytes, &object->version)))
        return SLUICE_OK;
    const sluice_status status = look_up(r, read->key, read->owner, until_ns, object, err);
    if (status == SLUICE_OK && read->version > 0)
        sluice_known_versions_put(r->known, read->key, object->bytes, object->version);
    return status;
}

static sluice_status remote_read(struct sluice_store *store, const struct sluice_store_read *read,
                                 struct sluice_buf **out, struct sluice_err *err)
{
    struct store_remote *r = from_store(store);
    const uint64_t until_ns = sluice_clock_ns() + r->patience_ns;
    struct sluice_object object = {read->key, is_range(read) ? UINT64_MAX : read->bytes,
                                   read->version};
    sluice_status status = find(r, read, until_ns, &object, err);
    if (status != SLUICE_OK)
        return status;
    const uint64_t len = is_range(read) ? read->bytes : object.bytes;
    if (object.bytes != UINT64_MAX &&
        (read->offset > object.bytes || len > object.bytes - read->offset))
        return sluice_fail(err, SLUICE_E_STALE, "the shard ends before this member does");
    struct sluice_file_part parts[SLUICE_STORE_MAX_PARTS] = {{0, (size_t)len}};
    unsigned num_parts = 1;
    if (read->choose)
        status = read->choose(read->ctx, len, object.version, parts, &num_parts, err);
    if (status != SLUICE_OK)
        return status;
    if (len > r->max_object_bytes)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "%llu bytes, more than the limit of %llu",
                           (unsigned long long)len, (unsigned long long)r->max_object_bytes);
    if (len == 0)
        return sluice_fail(err, SLUICE_E_CORRUPT, "the file is empty");
    for (unsigned i = 0; i < num_parts; i++) {
        if (parts[i].from > parts[i].to || parts[i].to > len)
            return sluice_fail(err, SLUICE_E_INVALID, "bytes %zu to %zu of %llu", parts[i].from,
                               parts[i].to, (unsigned long long)len);
    }
    /* Without versions only one answer is surely of one. */
    if (object.version == 0) {
        parts[0] = (struct sluice_file_part){0, (size_t)len};
        num_parts = 1;
    }
    struct sluice_buf *buf;
    status = sluice_buf_create(read->pool, (size_t)len, &buf, err);
    if (status != SLUICE_OK)
        return status;
    buf->len = (size_t)len;
    status = read_parts(r, read, &object, until_ns, parts, num_parts, buf, err);
    if (status == SLUICE_E_STALE && read->version > 0)
        sluice_known_versions_put(r->known, read->key, 0, 0);
    if (status != SLUICE_OK)
        sluice_buf_unref(buf);
    else
        *out = buf;
    return status;
}

/* --- the rest --- */

static sluice_status remote_list(struct sluice_store *store, const char *prefix,
                                 sluice_object_fn *fn, void *ctx, struct sluice_err *err)
{
    struct store_remote *r = from_store(store);
    return r->kind->list(r->ctx, prefix, fn, ctx, err);
}

static void remote_cancel(struct sluice_store *store, const void *owner)
{
    sluice_http_cancel(from_store(store)->http, owner);
}

static void remote_limits(struct sluice_store *store, struct sluice_store_limits *limits)
{
    *limits = (struct sluice_store_limits){
        .max_object_bytes = from_store(store)->max_object_bytes,
        .merge_gap_bytes = STORE_MERGE_GAP_BYTES,
        .parallel_reads = STORE_PARALLEL_READS,
        .is_remote = true,
    };
}

static const char *remote_relative(struct sluice_store *store, const char *path)
{
    struct store_remote *r = from_store(store);
    const size_t len = strlen(r->root);
    const char *rest = path;
    if (strncmp(path, r->root, len) == 0 && path[len] == '/')
        rest = path + len + 1;
    if (rest[0] == '/' || (rest == path && strstr(path, "://")) || has_dot_part(rest)) {
        atomic_fetch_add_explicit(&r->refused, 1, memory_order_relaxed);
        return NULL;
    }
    return rest;
}

static uint64_t remote_refused(struct sluice_store *store)
{
    return atomic_load_explicit(&from_store(store)->refused, memory_order_relaxed);
}

static void remote_destroy(struct sluice_store *store)
{
    if (!store)
        return;
    struct store_remote *r = from_store(store);
    sluice_http_close(r->http);
    r->kind->destroy(r->ctx);
    sluice_known_versions_destroy(r->known);
    free(r->root);
    free(r);
}

sluice_status sluice_remote_open(const struct sluice_remote_options *options,
                                 struct sluice_store **store, struct sluice_err *err)
{
    struct store_remote *r = calloc(1, sizeof(*r));
    char *root = strdup(options->root);
    struct sluice_known_versions *known = NULL;
    if (!r || !root || sluice_known_versions_create(&known, NULL) != SLUICE_OK) {
        sluice_http_close(options->http);
        options->kind->destroy(options->ctx);
        free(root);
        free(r);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a store");
    }
    for (size_t len = strlen(root); len && root[len - 1] == '/'; len--)
        root[len - 1] = '\0';
    *r = (struct store_remote){
        .store = {.list = remote_list,
                  .describe = remote_describe,
                  .read = remote_read,
                  .cancel = remote_cancel,
                  .limits = remote_limits,
                  .relative = remote_relative,
                  .refused = remote_refused,
                  .destroy = remote_destroy},
        .http = options->http,
        .kind = options->kind,
        .ctx = options->ctx,
        .root = root,
        .known = known,
        .max_object_bytes = options->max_object_bytes,
        .patience_ns = options->patience_ms * UINT64_C(1000000),
    };
    atomic_init(&r->refused, 0);
    *store = &r->store;
    return SLUICE_OK;
}
