#include "datasets/tools/commands.h"

#include "base/show.h"
#include "cli/cli.h"
#include "datasets/manifest/drift.h"
#include "datasets/manifest/manifest.h"
#include "datasets/tools/pack.h"
#include "datasets/tools/pack_fields.h"

#include <jansson.h>

#include <stdio.h>

static void print_summary(const char *out, const struct sluice_pack_summary *summary,
                          const struct sluice_manifest *manifest, bool is_pack, bool is_json)
{
    if (is_json) {
        json_t *json =
            json_pack("{s:s, s:I, s:I}", "root", out, "samples", (json_int_t)summary->num_samples,
                      "bytes", (json_int_t)summary->bytes);
        if (is_pack)
            json_object_set_new(json, "shards", json_integer((json_int_t)summary->num_shards));
        json_dumpf(json, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
        printf("\n");
        json_decref(json);
        return;
    }
    char bytes[SLUICE_SHOW_BYTES], shards[60] = "";
    if (is_pack)
        snprintf(shards, sizeof(shards), " in %zu tar%s", summary->num_shards,
                 summary->num_shards == 1 ? "" : "s");
    char options[SLUICE_PACKED_OPTIONS];
    sluice_packed_options(&manifest->fields, is_pack, options);
    printf("%s: %zu sample%s%s, %s; next: offload_dataset index %s%s\n", out, summary->num_samples,
           summary->num_samples == 1 ? "" : "s", shards,
           sluice_show_bytes((double)summary->bytes, bytes), out, options);
}

static struct {
    uint64_t shard_bytes, num_threads;
    struct sluice_option_strings targets;
    const char *target_type;
    bool classes_are_folders;
} given;

enum { OUTPUT, LABELS };
static const char *const pack_groups[] = {[OUTPUT] = "output", NULL};

static const struct sluice_option pack_options[] = {
    {.name = "shard-bytes",
     .group = OUTPUT,
     SLUICE_VALUE_BYTES(given.shard_bytes, "BYTES"),
     .min = 1,
     .help = "Size of a tar: a new one begins with the sample behind it."},
};

int sluice_dataset_cmd_pack(int argc, char **argv)
{
    given.shard_bytes = 1000000000;
    const struct sluice_cli cli = {
        .program = argv[0],
        .summary = "Make tars of the images in DIR, in the order and with the labels that it has, "
                   "as WebDataset lays them out: the same folder gives the same bytes.",
        .positional = "DIR OUT",
        .options = pack_options,
        .num_options = SLUICE_ARRAY_LEN(pack_options),
        .groups = pack_groups,
    };
    const struct sluice_cli_result parsed = sluice_cli_parse(&cli, argc, argv);
    if (parsed.should_exit)
        return parsed.exit_code;
    const char *root = parsed.positional[0], *out = parsed.positional[1];
    struct sluice_manifest *manifest = NULL;
    struct sluice_pack_summary summary;
    struct sluice_err err = {0};
    sluice_status status = sluice_manifest_open(root, NULL, &manifest, &err);
    if (status == SLUICE_OK)
        status = sluice_manifest_check_passed_over(manifest, root, false, NULL, &err);
    if (status == SLUICE_OK) {
        sluice_manifest_tell_drift(manifest, root, NULL, "pack again", NULL);
        status = sluice_pack(root, manifest, out, given.shard_bytes, &summary, &err);
    }
    if (status == SLUICE_OK)
        print_summary(out, &summary, manifest, true, parsed.is_json);
    sluice_manifest_destroy(manifest);
    return sluice_cli_exit_code(status, &err);
}

static const char *const unpack_groups[] = {[OUTPUT] = "work", [LABELS] = "labels", NULL};

static const struct sluice_option unpack_options[] = {
    SLUICE_DATASET_WORKERS_OPTION(OUTPUT, &given.num_threads),
    SLUICE_DATASET_FOLDERS_OPTION(LABELS, &given.classes_are_folders),
    SLUICE_DATASET_TARGET_OPTION(LABELS, &given.targets),
    SLUICE_DATASET_TARGET_TYPE_OPTION(LABELS, &given.target_type),
};

int sluice_dataset_cmd_unpack(int argc, char **argv)
{
    given.num_threads = 0;
    given.targets = (struct sluice_option_strings){.num_items = 0};
    given.target_type = NULL;
    given.classes_are_folders = false;
    const struct sluice_cli cli = {
        .program = argv[0],
        .summary = "Write the images in the shards of DIR to a folder, with their labels in "
                   "OUT/labels.csv.",
        .positional = "DIR OUT",
        .options = unpack_options,
        .num_options = SLUICE_ARRAY_LEN(unpack_options),
        .groups = unpack_groups,
    };
    const struct sluice_cli_result parsed = sluice_cli_parse(&cli, argc, argv);
    if (parsed.should_exit)
        return parsed.exit_code;
    const char *root = parsed.positional[0], *out = parsed.positional[1];
    struct sluice_manifest_options options = {
        .with_shards = true,
        .num_threads = (unsigned)given.num_threads,
        .classes_are_folders = given.classes_are_folders,
    };
    struct sluice_manifest *manifest = NULL;
    struct sluice_manifest_summary shards = {0};
    struct sluice_pack_summary summary;
    struct sluice_err err = {0};
    sluice_status status =
        sluice_dataset_fields(&given.targets, given.target_type, &options.fields, &err);
    if (status == SLUICE_OK)
        status = sluice_manifest_list(root, &options, &manifest, &shards, &err);
    if (status == SLUICE_OK)
        status = sluice_manifest_check_passed_over(manifest, root, false, NULL, &err);
    if (status == SLUICE_OK)
        status = sluice_unpack(root, manifest, out, &summary, &err);
    if (status == SLUICE_OK)
        print_summary(out, &summary, manifest, false, parsed.is_json);
    if (status == SLUICE_OK && shards.num_damaged_shards)
        status = sluice_fail(&err, SLUICE_E_CORRUPT,
                             "%zu of %zu shards of %s are damaged: only what "
                             "is before the damage was unpacked",
                             shards.num_damaged_shards, shards.num_shards, root);
    sluice_manifest_destroy(manifest);
    return sluice_cli_exit_code(status, &err);
}
