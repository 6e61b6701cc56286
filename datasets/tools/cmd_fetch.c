#include "datasets/tools/commands.h"

#include "base/quit.h"
#include "base/show.h"
#include "base/text.h"
#include "cli/cli.h"
#include "datasets/tools/fetch.h"

#include <jansson.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static void print_totals(const struct sluice_fetch_totals *totals, bool is_json)
{
    if (!is_json) {
        char bytes[SLUICE_SHOW_BYTES];
        printf("%llu listed: %llu downloaded (%llu resumed, %llu retries, %s), %llu already "
               "there, %llu repeated, %llu failed, %llu bad lines\n",
               (unsigned long long)totals->listed, (unsigned long long)totals->downloaded,
               (unsigned long long)totals->resumed, (unsigned long long)totals->retries,
               sluice_show_bytes((double)totals->bytes, bytes),
               (unsigned long long)totals->already_there, (unsigned long long)totals->repeated,
               (unsigned long long)totals->failed, (unsigned long long)totals->bad_lines);
        return;
    }
    json_t *json = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "listed", (json_int_t)totals->listed,
        "downloaded", (json_int_t)totals->downloaded, "resumed", (json_int_t)totals->resumed,
        "retries", (json_int_t)totals->retries, "bytes", (json_int_t)totals->bytes, "already_there",
        (json_int_t)totals->already_there, "repeated", (json_int_t)totals->repeated, "failed",
        (json_int_t)totals->failed, "bad_lines", (json_int_t)totals->bad_lines);
    json_dumpf(json, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
    printf("\n");
    json_decref(json);
}

static struct {
    const char *base_url;
    uint64_t num_parallel, num_retries, max_file_bytes, max_pixels, limit;
    double retry_ms, stall_s;
} given;

enum { DATA, NET };
static const char *const groups[] = {[DATA] = "data", [NET] = "network", NULL};

static const struct sluice_option options[] = {
    {.name = "base-url",
     .group = DATA,
     .type = SLUICE_OPTION_STRING,
     .value = &given.base_url,
     .arg = "URL",
     .help = "Where <split>/<image id>.jpg stand, such as "
             "https://open-images-dataset.s3.amazonaws.com."},
    {.name = "parallel",
     .group = NET,
     .type = SLUICE_OPTION_UINT,
     .value = &given.num_parallel,
     .arg = "N",
     .min = 1,
     .max = 1024,
     .help = "Transfers at a time."},
    {.name = "retries",
     .group = NET,
     .type = SLUICE_OPTION_UINT,
     .value = &given.num_retries,
     .arg = "N",
     .min = 0,
     .max = 1000,
     .help = "Further attempts at a file after the first."},
    {.name = "retry-ms",
     .group = NET,
     .type = SLUICE_OPTION_MS,
     .value = &given.retry_ms,
     .arg = "MS",
     .min = 1,
     .max = 600000,
     .help = "Pause before the second attempt; doubles with each."},
    {.name = "stall",
     .group = NET,
     .type = SLUICE_OPTION_SECONDS,
     .value = &given.stall_s,
     .arg = "SECONDS",
     .min = 1,
     .max = 3600,
     .help = "Time without a byte after which a transfer is attempted again, in whole seconds."},
    {.name = "max-file-bytes",
     .group = DATA,
     .type = SLUICE_OPTION_BYTES,
     .value = &given.max_file_bytes,
     .arg = "BYTES",
     .min = 1,
     .max = 1e12,
     .help = "Give up on larger files."},
    {.name = "max-image-pixels",
     .group = DATA,
     .type = SLUICE_OPTION_UINT,
     .value = &given.max_pixels,
     .arg = "N",
     .help = "Refuse images with more pixels; 0: 178956970."},
    {.name = "limit",
     .group = DATA,
     .type = SLUICE_OPTION_UINT,
     .value = &given.limit,
     .arg = "N",
     .help = "Use only the first N lines of LIST; 0: all."},
};

int sluice_dataset_cmd_fetch(int argc, char **argv)
{
    given.num_parallel = 16;
    given.num_retries = 4;
    given.retry_ms = 500;
    given.stall_s = 30;
    given.max_file_bytes = (uint64_t)64 << 20;
    const struct sluice_cli cli = {
        .program = argv[0],
        .summary =
            "Download the images that LIST names into DIR: many at a time, resumed, checked.",
        .positional = "LIST DIR",
        .options = options,
        .num_options = SLUICE_ARRAY_LEN(options),
        .groups = groups,
        .epilog =
            "A line of LIST is <split>/<image id> or a URL, whose file is named after the last "
            "part of its path; where URLs that differ end alike, each name gets a hash of its "
            "URL. The same command again continues where the last one stopped.",
    };
    const struct sluice_cli_result parsed = sluice_cli_parse(&cli, argc, argv);
    if (parsed.should_exit)
        return parsed.exit_code;

    char trimmed[2048];
    if (given.base_url) {
        size_t len = strlen(given.base_url);
        if (len >= sizeof(trimmed) || !(sluice_starts_with(given.base_url, "http://") ||
                                        sluice_starts_with(given.base_url, "https://")))
            return sluice_cli_usage_error(&cli, "--base-url '%.100s' is no http URL",
                                          given.base_url);
        memcpy(trimmed, given.base_url, len + 1);
        while (len > 0 && trimmed[len - 1] == '/')
            trimmed[--len] = '\0';
        given.base_url = trimmed;
    }
    const struct sluice_fetch_options fetch = {
        .list_path = parsed.positional[0],
        .root = parsed.positional[1],
        .base_url = given.base_url,
        .num_parallel = (unsigned)given.num_parallel,
        .num_retries = (unsigned)given.num_retries,
        .retry_ms = (unsigned)ceil(given.retry_ms),
        .stall_s = (unsigned)ceil(given.stall_s),
        .max_file_bytes = given.max_file_bytes,
        .max_image_pixels = given.max_pixels,
        .limit = given.limit,
    };
    struct sluice_fetch_totals totals = {0};
    struct sluice_err err = {0};
    sluice_status status = sluice_quit_init(&err);
    if (status == SLUICE_OK)
        status = sluice_fetch(&fetch, &totals, &err);
    const int code = sluice_cli_exit_code(status, &err);
    if (status == SLUICE_OK || status == SLUICE_E_CLOSED)
        print_totals(&totals, parsed.is_json);
    return totals.failed > 0 || totals.bad_lines > 0 ? 1 : code;
}
