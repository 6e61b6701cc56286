#include "datasets/tools/commands.h"

#include "base/quit.h"
#include "base/show.h"
#include "base/text.h"
#include "cli/cli.h"
#include "datasets/tools/download.h"

#include <stdio.h>

static struct sluice_download_options given = {.num_parallel = 16,
                                               .num_retries = 4,
                                               .retry_ms = 500,
                                               .stall_s = 30,
                                               .max_file_bytes = (uint64_t)64 << 20};

static void print_totals(const uint64_t totals[SLUICE_DOWNLOAD_NUM_TOTALS], bool is_json)
{
    /* By enum sluice_download_total. */
    static const char *const names[] = {"listed",   "downloaded", "resumed",
                                        "retries",  "bytes",      "already_there",
                                        "repeated", "failed",     "bad_lines"};
    unsigned long long n[SLUICE_DOWNLOAD_NUM_TOTALS];
    for (size_t i = 0; i < SLUICE_DOWNLOAD_NUM_TOTALS; i++) {
        n[i] = totals[i];
        if (is_json)
            printf("%s\"%s\":%llu", i == 0 ? "{" : ",", names[i], n[i]);
    }
    char bytes[SLUICE_SHOW_BYTES];
    if (is_json)
        printf("}\n");
    else
        printf("%llu listed: %llu downloaded (%llu resumed, %llu retries, %s), %llu already "
               "there, %llu repeated, %llu failed, %llu bad lines\n",
               n[SLUICE_DOWNLOAD_LISTED], n[SLUICE_DOWNLOAD_DOWNLOADED], n[SLUICE_DOWNLOAD_RESUMED],
               n[SLUICE_DOWNLOAD_RETRIES],
               sluice_show_bytes((double)n[SLUICE_DOWNLOAD_BYTES], bytes), n[SLUICE_DOWNLOAD_THERE],
               n[SLUICE_DOWNLOAD_REPEATED], n[SLUICE_DOWNLOAD_FAILED],
               n[SLUICE_DOWNLOAD_BAD_LINES]);
}

enum { DATA, NET };
static const char *const groups[] = {[DATA] = "data", [NET] = "network", NULL};

static const struct sluice_option options[] = {
    {.name = "base-url",
     .group = DATA,
     SLUICE_VALUE_STRING(given.base_url, "URL"),
     .help = "Where <split>/<image id>.jpg stand, such as "
             "https://open-images-dataset.s3.amazonaws.com."},
    {.name = "parallel",
     .group = NET,
     SLUICE_VALUE_UINT(given.num_parallel, "N"),
     SLUICE_RANGE(1, 1024),
     .help = "Transfers at a time."},
    {.name = "retries",
     .group = NET,
     SLUICE_VALUE_UINT(given.num_retries, "N"),
     SLUICE_RANGE(0, 1000),
     .help = "Further attempts at a file after the first."},
    {.name = "retry-ms",
     .group = NET,
     SLUICE_VALUE_MS(given.retry_ms, "MS"),
     SLUICE_RANGE(1, 600000),
     .help = "Pause before the second attempt; doubles with each."},
    {.name = "stall",
     .group = NET,
     SLUICE_VALUE_SECONDS(given.stall_s, "SECONDS"),
     SLUICE_RANGE(1, 3600),
     .help = "Time without a byte after which a transfer is attempted again, in whole seconds."},
    {.name = "max-file-bytes",
     .group = DATA,
     SLUICE_VALUE_BYTES(given.max_file_bytes, "BYTES"),
     SLUICE_RANGE(1, 1e12),
     .help = "Give up on larger files."},
    {.name = "max-image-pixels",
     .group = DATA,
     SLUICE_VALUE_UINT(given.max_pixels, "N"),
     .help = "Refuse images with more pixels; 0: 178956970."},
    {.name = "limit",
     .group = DATA,
     SLUICE_VALUE_UINT(given.limit, "N"),
     .help = "Use only the first N lines of LIST; 0: all."},
};

int sluice_dataset_cmd_fetch(int argc, char **argv)
{
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

    if (given.base_url && !sluice_starts_with(given.base_url, "http://") &&
        !sluice_starts_with(given.base_url, "https://"))
        return sluice_cli_usage_error(&cli, "--base-url '%.100s' is no http URL", given.base_url);
    uint64_t totals[SLUICE_DOWNLOAD_NUM_TOTALS] = {0};
    struct sluice_err err = {0};
    sluice_status status = sluice_quit_init(&err);
    if (status == SLUICE_OK)
        status = sluice_download(&given, parsed.positional[0], parsed.positional[1], totals, &err);
    const int code = sluice_cli_exit_code(status, &err);
    if (status == SLUICE_OK || status == SLUICE_E_CLOSED)
        print_totals(totals, parsed.is_json);
    return totals[SLUICE_DOWNLOAD_FAILED] > 0 || totals[SLUICE_DOWNLOAD_BAD_LINES] > 0 ? 1 : code;
}
