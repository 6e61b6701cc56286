#include "store/web.h"

#include "base/clock.h"
#include "base/text.h"
#include "store/object_list.h"
#include "store/store_remote.h"
#include "store/web_list.h"

#include <stdlib.h>
#include <string.h>

/* Ten million lines of 100 bytes. */
#define MAX_LIST_BYTES (UINT64_C(1) << 30)

struct web {
    struct sluice_http *http; /* borrowed */
    char list[SLUICE_STORE_URL_BYTES];
    char base[SLUICE_STORE_URL_BYTES]; /* without a slash at its end */
    uint64_t patience_ns;
};

static sluice_status ask(void *ctx, const char *key, struct sluice_remote_request *request,
                         struct sluice_err *err)
{
    const struct web *web = ctx;
    char encoded[SLUICE_REMOTE_URL_BYTES - SLUICE_STORE_URL_BYTES];
    if (!sluice_http_encode(key, true, encoded, sizeof(encoded)) ||
        !sluice_print(request->url, sizeof(request->url), "%s/%s", web->base, encoded))
        return sluice_fail(err, SLUICE_E_NOT_FOUND, "no such object: the path is too long");
    request->is_signed = false;
    return SLUICE_OK;
}

static sluice_status explain(void *ctx, const struct sluice_http_transfer *transfer,
                             struct sluice_err *err)
{
    (void)ctx;
    return sluice_fail(err, transfer->status, "%s",
                       transfer->code == 404 ? "no such object" : transfer->err.text);
}

static sluice_status on_line(void *ctx, const struct sluice_web_object *object,
                             struct sluice_err *err)
{
    const struct sluice_object found = {object->path, object->bytes,
                                        sluice_remote_version(object->etag)};
    return sluice_object_list_add(ctx, &found, err);
}

/* The list file, in new memory. */
static sluice_status get_list(const struct web *web, uint8_t **data, size_t *len,
                              struct sluice_err *err)
{
    const uint64_t until_ns = sluice_clock_ns() + web->patience_ns;
    struct sluice_http_transfer head = {.url = web->list, .is_head = true};
    sluice_http_run(web->http, &head, 1, until_ns, NULL);
    if (head.status != SLUICE_OK)
        return sluice_fail(err,
                           head.status == SLUICE_E_NOT_FOUND ? SLUICE_E_NOT_FOUND : SLUICE_E_IO,
                           "%s: %s", web->list, head.err.text);
    if (head.total > MAX_LIST_BYTES)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "%s: too long for a list, or of no length",
                           web->list);
    struct sluice_http_transfer get = {
        .url = web->list, .data = malloc((size_t)head.total + 1), .room = (size_t)head.total};
    if (!get.data)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "%s: no memory for a list", web->list);
    sluice_http_run(web->http, &get, 1, until_ns, NULL);
    sluice_status status = get.status;
    if (status != SLUICE_OK)
        sluice_fail(err, status, "%s: %s", web->list, get.err.text);
    else if (get.is_longer || get.len != head.total)
        status = sluice_fail(err, SLUICE_E_IO, "%s: changed while it was read", web->list);
    if (status != SLUICE_OK) {
        free(get.data);
        return status;
    }
    *data = get.data;
    *len = get.len;
    return SLUICE_OK;
}

static sluice_status list(void *ctx, const char *prefix, sluice_object_fn *fn, void *fn_ctx,
                          struct sluice_err *err)
{
    const struct web *web = ctx;
    struct sluice_object_list objects = {.num_objects = 0};
    uint8_t *data = NULL;
    size_t len = 0;
    sluice_status status = get_list(web, &data, &len, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_err why = {0};
    status = sluice_web_list_parse((const char *)data, len, on_line, &objects, &why);
    free(data);
    if (status != SLUICE_OK)
        sluice_fail(err, status, "%s: %s", web->list, why.text);
    else
        status = sluice_object_list_tell(&objects, prefix, fn, fn_ctx, err);
    sluice_object_list_clear(&objects);
    return status;
}

static void destroy(void *ctx)
{
    free(ctx);
}

static const struct sluice_remote_kind kind = {
    .ask = ask, .explain = explain, .list = list, .destroy = destroy};

sluice_status sluice_web_check_root(const char *root, struct sluice_err *err)
{
    struct sluice_http_address address;
    struct sluice_err why = {0};
    if (sluice_http_parse_address(root, &address, &why) != SLUICE_OK)
        return sluice_fail(err, SLUICE_E_INVALID, "the root: %s", why.text);
    const char *slash = strrchr(root, '/');
    if (strlen(root) >= SLUICE_STORE_URL_BYTES || strpbrk(root, "?#") || slash[-1] == '/' ||
        !slash[1])
        return sluice_fail(err, SLUICE_E_INVALID,
                           "the root %.200s is no URL of a list file (https://HOST/FOLDER/LIST)",
                           root);
    return SLUICE_OK;
}

sluice_status sluice_store_web_open(const struct sluice_store_options *options,
                                    struct sluice_http *http, struct sluice_store **store,
                                    struct sluice_err *err)
{
    struct web *web = calloc(1, sizeof(*web));
    sluice_status status = web ? sluice_web_check_root(options->root, err)
                               : sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a store");
    if (status != SLUICE_OK) {
        sluice_http_close(http);
        free(web);
        return status;
    }
    web->http = http;
    web->patience_ns = options->patience_ms * UINT64_C(1000000);
    (void)sluice_print(web->list, sizeof(web->list), "%s", options->root);
    (void)sluice_print(web->base, sizeof(web->base), "%.*s",
                       (int)(strrchr(options->root, '/') - options->root), options->root);
    const struct sluice_remote_options remote = {
        .root = web->base,
        .max_object_bytes = options->max_object_bytes,
        .patience_ms = options->patience_ms,
        .http = http,
        .kind = &kind,
        .ctx = web,
    };
    return sluice_remote_open(&remote, store, err);
}
