#include "store/open.h"

#include "base/text.h"
#include "store/http.h"
#include "store/s3.h"
#include "store/s3_credentials.h"
#include "store/store_roots.h"
#include "store/tuning.h"
#include "store/web.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_PATIENCE_MS 30000

static bool is_s3(const char *root)
{
    return sluice_starts_with(root, "s3://");
}

bool sluice_store_is_remote(const char *root)
{
    return is_s3(root) || sluice_starts_with(root, "http://") ||
           sluice_starts_with(root, "https://");
}

unsigned sluice_store_parallel_reads(const char *root)
{
    return sluice_store_is_remote(root) ? STORE_PARALLEL_READS : STORE_PARALLEL_READS_OF_DISKS;
}

sluice_status sluice_store_check(const struct sluice_store_options *options, struct sluice_err *err)
{
    if (options->s3_style && strcmp(options->s3_style, "path") != 0 &&
        strcmp(options->s3_style, "virtual") != 0)
        return sluice_fail(err, SLUICE_E_INVALID, "the S3 style is path or virtual");
    if (is_s3(options->root)) {
        /* Regions and endpoints of the environment are not part of the options. */
        static const struct sluice_s3_places nowhere = {.region = "us-east-1"};
        char url[SLUICE_STORE_URL_BYTES];
        return sluice_s3_endpoint(options, &nowhere, NULL, url, err);
    }
    return sluice_store_is_remote(options->root) ? sluice_web_check_root(options->root, err)
                                                 : SLUICE_OK;
}

static sluice_status open_remote(const struct sluice_store_options *given,
                                 struct sluice_store **store, struct sluice_err *err)
{
    struct sluice_store_options options = *given;
    struct sluice_http *http = NULL;
    struct sluice_s3_places *places = calloc(1, sizeof(*places));
    if (!places)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a store");
    if (!options.patience_ms)
        options.patience_ms = DEFAULT_PATIENCE_MS;
    sluice_status status = sluice_s3_places_find(places, err);
    const struct sluice_http_options transfers = {
        .num_parallel = STORE_PARALLEL_READS,
        .ca_bundle = places->ca_bundle[0] ? places->ca_bundle : NULL,
    };
    if (status == SLUICE_OK)
        status = sluice_http_open(&transfers, &http, err);
    if (status == SLUICE_OK)
        status = is_s3(options.root) ? sluice_store_s3_open(&options, places, http, store, err)
                                     : sluice_store_web_open(&options, http, store, err);
    explicit_bzero(places, sizeof(*places));
    free(places);
    return status;
}

sluice_status sluice_store_open(const struct sluice_store_options *options,
                                struct sluice_store **store, struct sluice_err *err)
{
    if (sluice_store_is_remote(options->root))
        return open_remote(options, store, err);
    const struct sluice_store_file_options file = {
        .root = options->root,
        .max_file_bytes = options->max_object_bytes,
        .turns = options->turns,
        .is_cached = options->is_cached,
    };
    return sluice_store_file_open(&file, store, err);
}

sluice_status sluice_store_open_roots(const struct sluice_store_options *options,
                                      const struct sluice_roots *roots,
                                      const struct sluice_file_turns *turns,
                                      struct sluice_store **store, struct sluice_err *err)
{
    struct sluice_store *stores[SLUICE_MAX_ROOTS];
    const char *names[SLUICE_MAX_ROOTS];
    size_t num = 0;
    sluice_status status = SLUICE_OK;
    assert(roots->num > 0);
    for (; num < roots->num; num++) {
        struct sluice_store_options one = *options;
        one.root = roots->at[num].place;
        if (turns)
            one.turns = turns[num];
        names[num] = roots->at[num].name;
        status = sluice_store_open(&one, &stores[num], err);
        if (status != SLUICE_OK)
            break;
    }
    if (status != SLUICE_OK) {
        while (num-- > 0)
            stores[num]->destroy(stores[num]);
        return status;
    }
    if (names[0][0])
        return sluice_store_roots_create(names, stores, num, store, err);
    *store = stores[0];
    return SLUICE_OK;
}

/* --- for a sandbox --- */

static void add_file(struct sluice_store_needs *needs, const char *path)
{
    if (path && path[0] && needs->num_files < SLUICE_STORE_MAX_NEEDS &&
        sluice_print(needs->files[needs->num_files], sizeof(needs->files[0]), "%s", path))
        needs->num_files++;
}

static sluice_status add_url(struct sluice_store_needs *needs, const char *url,
                             struct sluice_err *err)
{
    struct sluice_http_address address;
    const sluice_status status = sluice_http_parse_address(url, &address, err);
    if (status != SLUICE_OK)
        return status;
    needs->ports[needs->num_ports++] = address.port;
    needs->has_names |= address.is_name;
    return SLUICE_OK;
}

sluice_status sluice_store_needs_of(const struct sluice_store_options *options,
                                    struct sluice_store_needs *needs, struct sluice_err *err)
{
    *needs = (struct sluice_store_needs){.num_ports = 0};
    if (!sluice_store_is_remote(options->root))
        return SLUICE_OK;
    char url[SLUICE_STORE_URL_BYTES];
    struct sluice_s3_places *places = calloc(1, sizeof(*places));
    if (!places)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a store");
    sluice_status status = sluice_s3_places_find(places, err);
    if (status == SLUICE_OK && is_s3(options->root)) {
        status = sluice_s3_endpoint(options, places, NULL, url, err);
        if (status == SLUICE_OK)
            status = add_url(needs, url, err);
        if (status == SLUICE_OK && places->token_file[0])
            status = add_url(needs, places->sts_url, err);
        add_file(needs, places->credentials_file);
        add_file(needs, places->config_file);
        add_file(needs, places->token_file);
    } else if (status == SLUICE_OK) {
        status = add_url(needs, options->root, err);
    }
    add_file(needs, places->ca_bundle);
    add_file(needs, "/etc/ssl/certs"); /* the system's certificates, and what they are links to */
    add_file(needs, "/usr/share/ca-certificates");
    add_file(needs, "/usr/local/share/ca-certificates");
    explicit_bzero(places, sizeof(*places));
    free(places);
    return status;
}
