#include "datasets/tools/commands.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/show.h"
#include "cli/cli.h"
#include "datasets/manifest/parallel.h"
#include "datasets/tools/synth.h"

#include <jansson.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct synth {
    const char *root;
    uint64_t num_train, num_val, num_threads;
    struct sluice_synth_options options;
    _Atomic uint64_t bytes, num_large; /* sums only */
};

/* A quarter of ImageNet's files are larger. */
#define LARGE_BYTES 150000

static void folder_of(const struct synth *synth, const char *subset, uint32_t label, char *path,
                      size_t capacity)
{
    snprintf(path, capacity, "%s/%s/class%03u", synth->root, subset, label);
}

static sluice_status make_one(void *ctx, size_t i, struct sluice_err *err)
{
    struct synth *synth = ctx;
    const bool is_val = i >= synth->num_train;
    struct sluice_buf *file = NULL;
    const char *suffix;
    sluice_status status = sluice_synth_image(&synth->options, i, &file, &suffix, err);
    if (status != SLUICE_OK)
        return status;

    char folder[2048], path[2304];
    folder_of(synth, is_val ? "val" : "train", sluice_synth_label(&synth->options, i), folder,
              sizeof(folder));
    snprintf(path, sizeof(path), "%s/%08zu.%s", folder, i, suffix);
    FILE *out = fopen(path, "we");
    if (!out || fwrite(file->data, 1, file->len, out) != file->len)
        status = sluice_fail(err, SLUICE_E_IO, "%s: %s", path, strerror(errno));
    if (out && fclose(out) != 0)
        status = sluice_fail(err, SLUICE_E_IO, "%s: %s", path, strerror(errno));
    atomic_fetch_add(&synth->bytes, file->len);
    atomic_fetch_add(&synth->num_large, file->len > LARGE_BYTES);
    sluice_buf_unref(file);
    return status;
}

/* Refuses a folder with files in it: those of an earlier, larger set would mix with the new ones.
 */
static sluice_status check_empty(const char *root, struct sluice_err *err)
{
    if (sluice_folder_has_files(root))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%s is not empty: give a new folder, or --force to write into it", root);
    return SLUICE_OK;
}

static sluice_status make_set(struct synth *synth, bool is_forced, struct sluice_err *err)
{
    sluice_status status = is_forced ? SLUICE_OK : check_empty(synth->root, err);
    for (int subset = 0; subset < 2; subset++) {
        if (subset == 1 && synth->num_val == 0)
            break;
        for (uint32_t label = 0; status == SLUICE_OK && label < synth->options.num_classes;
             label++) {
            char path[2048];
            folder_of(synth, subset ? "val" : "train", label, path, sizeof(path));
            status = sluice_mkdirs(path, err);
        }
    }
    if (status != SLUICE_OK)
        return status;
    return sluice_parallel_for(synth->num_train + synth->num_val, (unsigned)synth->num_threads,
                               "making", make_one, synth, err);
}

static struct {
    uint64_t num_train, num_val, num_classes, seed, num_threads;
    bool is_forced;
} given;

enum { DATA, OUTPUT, WORK };
static const char *const groups[] = {[DATA] = "data", [OUTPUT] = "output", [WORK] = "work", NULL};

static const struct sluice_option options[] = {
    {.name = "num",
     .short_name = 'n',
     .group = DATA,
     SLUICE_VALUE_UINT(given.num_train, "N"),
     SLUICE_RANGE(1, 1e9),
     .help = "Images to make under DIR/train."},
    {.name = "num-val",
     .group = DATA,
     SLUICE_VALUE_UINT(given.num_val, "N"),
     SLUICE_RANGE(0, 1e9),
     .help = "Images to make under DIR/val."},
    {.name = "classes",
     .group = DATA,
     SLUICE_VALUE_UINT(given.num_classes, "N"),
     SLUICE_RANGE(1, 100000),
     .help = "Number of classes."},
    {.name = "seed",
     .group = DATA,
     SLUICE_VALUE_UINT(given.seed, "N"),
     .help = "Seed of the pictures; the same seed makes the same bytes."},
    SLUICE_DATASET_WORKERS_OPTION(WORK, &given.num_threads),
    {.name = "force",
     .group = OUTPUT,
     SLUICE_VALUE_FLAG(given.is_forced),
     .help = "Write into a folder that is not empty."},
};

int sluice_dataset_cmd_synth(int argc, char **argv)
{
    given.num_train = 1000;
    given.num_val = 200;
    given.num_classes = 10;
    const struct sluice_cli cli = {
        .program = argv[0],
        .summary = "Make a labelled, learnable set of photo-like JPEGs and PNGs.",
        .positional = "DIR",
        .options = options,
        .num_options = SLUICE_ARRAY_LEN(options),
        .groups = groups,
    };
    const struct sluice_cli_result parsed = sluice_cli_parse(&cli, argc, argv);
    if (parsed.should_exit)
        return parsed.exit_code;
    struct synth synth = {
        .root = parsed.positional[0],
        .num_train = given.num_train,
        .num_val = given.num_val,
        .num_threads = given.num_threads,
        .options = {.seed = given.seed, .num_classes = (uint32_t)given.num_classes}};
    if (strlen(synth.root) > 1024)
        return sluice_cli_usage_error(&cli, "DIR is too long a path");

    struct sluice_err err = {0};
    const sluice_status status = make_set(&synth, given.is_forced, &err);
    if (status != SLUICE_OK)
        return sluice_cli_exit_code(status, &err);
    const uint64_t num = synth.num_train + synth.num_val;
    const double mean = (double)synth.bytes / (double)num;
    const double large = (double)synth.num_large / (double)num;
    if (parsed.is_json) {
        json_t *json =
            json_pack("{s:s, s:I, s:I, s:I, s:I, s:f, s:f}", "root", synth.root, "train",
                      (json_int_t)synth.num_train, "val", (json_int_t)synth.num_val, "classes",
                      (json_int_t)given.num_classes, "bytes", (json_int_t)synth.bytes, "mean_bytes",
                      mean, "share_above_150kB", large);
        json_dumpf(json, stdout, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(6));
        printf("\n");
        json_decref(json);
    } else {
        char bytes[SLUICE_SHOW_BYTES], mean_bytes[SLUICE_SHOW_BYTES], share[SLUICE_SHOW_BYTES];
        printf("%s: %llu train and %llu val images of %llu class%s, %s; mean %s, %s "
               "above 150 kB\n",
               synth.root, (unsigned long long)synth.num_train, (unsigned long long)synth.num_val,
               (unsigned long long)given.num_classes, given.num_classes == 1 ? "" : "es",
               sluice_show_bytes((double)synth.bytes, bytes), sluice_show_bytes(mean, mean_bytes),
               sluice_show_share(large, share));
    }
    return 0;
}
