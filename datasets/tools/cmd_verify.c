#include "datasets/tools/commands.h"

#include "base/buf.h"
#include "base/log.h"
#include "cli/cli.h"
#include "datasets/jpeg_index/jpeg_index_file.h"
#include "datasets/jpeg_index/jpeg_indexer.h"
#include "datasets/manifest/manifest.h"
#include "datasets/manifest/parallel.h"
#include "datasets/tools/listing.h"
#include "image/codecs/codec.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

struct verification {
    struct sluice_listing of;
    struct sluice_jpeg_index_file *indexes; /* or NULL */
    bool should_decode;
    _Atomic uint64_t num_bad; /* a sum only */
};

static sluice_status check_one(struct verification *verified, size_t i, struct sluice_err *err)
{
    const struct sluice_manifest_entry entry = sluice_manifest_at(verified->of.manifest, i);
    struct sluice_buf *file = NULL;
    struct stat st;
    sluice_status status = sluice_listing_read_sample(&verified->of, i, &st, &file, err);
    if (status != SLUICE_OK)
        return status;
    const struct sluice_hash128 hash = sluice_hash128(file->data, file->len);
    if (file->len != entry.bytes)
        status = sluice_fail(err, SLUICE_E_CORRUPT, "%s: %zu bytes, but the manifest says %llu",
                             entry.path, file->len, (unsigned long long)entry.bytes);
    else if (entry.has_hash && (hash.high != entry.hash.high || hash.low != entry.hash.low))
        status = sluice_fail(err, SLUICE_E_CORRUPT, "%s: the content is not what was indexed",
                             entry.path);
    if (status == SLUICE_OK && verified->indexes)
        status = sluice_jpeg_indexer_check(verified->indexes, entry.path, &st, file, err);
    if (status == SLUICE_OK && verified->should_decode) {
        struct sluice_codec *codec = NULL;
        struct sluice_rgb rgb = {0};
        struct sluice_err why = {0};
        status = sluice_codec_create(&codec, &why);
        if (status == SLUICE_OK)
            status =
                sluice_codec_decode(codec, file->data, file->len, 0, verified->of.pool, &rgb, &why);
        if (status != SLUICE_OK)
            status = sluice_fail(err, status, "%s: %s", entry.path, why.text);
        else
            sluice_buf_unref(rgb.pixels);
        sluice_codec_destroy(codec);
    }
    sluice_buf_unref(file);
    return status;
}

/* A bad file is logged and counted; it does not end the run. */
static sluice_status verify_one(void *ctx, size_t i, struct sluice_err *err)
{
    (void)err;
    struct verification *verified = ctx;
    struct sluice_err why = {0};
    if (check_one(verified, i, &why) != SLUICE_OK) {
        sluice_log(SLUICE_LOG_ERROR, "%s", why.text);
        atomic_fetch_add(&verified->num_bad, 1);
    }
    return SLUICE_OK;
}

/* The options of `verify`. */
struct verify_options {
    struct sluice_listing_source source;
    const char *manifest;
    bool should_decode, has_jpeg_index;
};

/* Compares two lists whose fields were both asked for. */
static bool is_same_target(const struct verification *verified, size_t listed,
                           const struct sluice_manifest *found, size_t i)
{
    const struct sluice_manifest_entry a = sluice_manifest_at(verified->of.manifest, listed),
                                       b = sluice_manifest_at(found, i);
    return sluice_fields_are_alike(&verified->of.manifest->fields, &found->fields) &&
           sluice_field_is_same(a.values, a.values_bytes, b.values, b.values_bytes);
}

/* Counts files that were added after the manifest was written, and those of another label, or
 * target, now. */
static sluice_status count_unlisted(struct verification *verified,
                                    const struct verify_options *options, struct sluice_err *err)
{
    struct sluice_manifest *found = NULL;
    sluice_status status = sluice_listing_list(&verified->of, &options->source, &found, err);
    if (status == SLUICE_OK)
        status = sluice_listing_scale_boxes(&verified->of, found, NULL, err);
    if (status != SLUICE_OK) {
        sluice_manifest_destroy(found);
        return status;
    }
    const bool asks_for_fields =
        options->source.targets.num_items + options->source.annotations.num_items > 0;
    size_t listed = 0;
    for (size_t i = 0; i < found->num_entries; i++) {
        const char *path = sluice_manifest_at(found, i).path;
        while (listed < verified->of.manifest->num_entries &&
               strcmp(sluice_manifest_at(verified->of.manifest, listed).path, path) < 0)
            listed++;
        if (listed == verified->of.manifest->num_entries ||
            strcmp(sluice_manifest_at(verified->of.manifest, listed).path, path) != 0) {
            sluice_log(SLUICE_LOG_ERROR, "%s: not in the manifest", path);
            atomic_fetch_add(&verified->num_bad, 1);
        } else if (sluice_manifest_at(verified->of.manifest, listed).label !=
                   sluice_manifest_at(found, i).label) {
            sluice_log(SLUICE_LOG_ERROR, "%s: label %u, but the manifest says %u", path,
                       sluice_manifest_at(found, i).label,
                       sluice_manifest_at(verified->of.manifest, listed).label);
            atomic_fetch_add(&verified->num_bad, 1);
        } else if (asks_for_fields && !is_same_target(verified, listed, found, i)) {
            sluice_log(SLUICE_LOG_ERROR, "%s: another target than the manifest says", path);
            atomic_fetch_add(&verified->num_bad, 1);
        }
    }
    sluice_manifest_destroy(found);
    return SLUICE_OK;
}

/* The manifest has only the length of a file that `index` could not read. */
static void note_without_hash(const struct verification *verified)
{
    size_t num = 0;
    for (size_t i = 0; i < verified->of.manifest->num_entries; i++)
        num += !sluice_manifest_at(verified->of.manifest, i).has_hash;
    if (num)
        sluice_log(SLUICE_LOG_WARN,
                   "the manifest has no hash of %zu %s: only the length was compared", num,
                   num == 1 ? "file" : "files");
}

static sluice_status verify(struct verification *verified, const struct verify_options *options,
                            struct sluice_err *err)
{
    char jpegs_path[SLUICE_MAX_PATH_BYTES];
    sluice_status status = sluice_buf_pool_create((size_t)64 << 20, &verified->of.pool, err);
    if (status == SLUICE_OK)
        status = sluice_manifest_read(options->manifest, &verified->of.manifest, err);
    if (status == SLUICE_OK && options->has_jpeg_index) {
        status = sluice_listing_jpegs_path(options->manifest, jpegs_path, err);
        if (status == SLUICE_OK)
            status = sluice_jpeg_index_file_open(jpegs_path, &verified->indexes, err);
    }
    if (status == SLUICE_OK)
        status = sluice_parallel_for(verified->of.manifest->num_entries,
                                     (unsigned)options->source.num_threads, "verifying", verify_one,
                                     verified, err);
    if (status == SLUICE_OK)
        status = count_unlisted(verified, options, err);
    if (status == SLUICE_OK)
        verified->num_bad += verified->of.shards.num_damaged_shards;
    if (status == SLUICE_OK)
        note_without_hash(verified);
    return status;
}

static struct verify_options verify_given;

static const char *const verify_groups[] = {[SLUICE_LISTING_WHAT] = "what is compared",
                                            [SLUICE_LISTING_SAMPLES] = "samples",
                                            [SLUICE_LISTING_LABELS] = "labels",
                                            [SLUICE_LISTING_WORK] = "work",
                                            NULL};

static const struct sluice_option verify_table[] = {
    {.name = "manifest",
     .group = SLUICE_LISTING_WHAT,
     SLUICE_VALUE_STRING(verify_given.manifest, "FILE"),
     .help = "Manifest to compare with.",
     .default_text = "DIR/" SLUICE_MANIFEST_FILE},
    {.name = "decode",
     .group = SLUICE_LISTING_WHAT,
     SLUICE_VALUE_FLAG(verify_given.should_decode),
     .help = "Also decode every image."},
    {.name = "jpeg-index",
     .group = SLUICE_LISTING_WHAT,
     SLUICE_VALUE_FLAG(verify_given.has_jpeg_index),
     .help = "Also compare every entry of the JPEG index with its file."},
    SLUICE_LISTING_SHARDS_OPTION(&verify_given.source.shards),
    SLUICE_LISTING_SPLIT_OPTION("train", &verify_given.source.train_list),
    SLUICE_LISTING_SPLIT_OPTION("val", &verify_given.source.val_list),
    SLUICE_DATASET_FOLDERS_OPTION(SLUICE_LISTING_SAMPLES, &verify_given.source.classes_are_folders),
    SLUICE_LISTING_LABELS_OPTION(&verify_given.source.labels),
    SLUICE_LISTING_LABEL_KEY_OPTION(&verify_given.source.label_key),
    SLUICE_LISTING_CLASSES_OPTION(&verify_given.source.classes),
    SLUICE_DATASET_TARGET_OPTION(SLUICE_LISTING_LABELS, &verify_given.source.targets),
    SLUICE_DATASET_TARGET_TYPE_OPTION(SLUICE_LISTING_LABELS, &verify_given.source.target_type),
    SLUICE_LISTING_ANNOTATIONS_OPTION(&verify_given.source.annotations),
    SLUICE_DATASET_WORKERS_OPTION(SLUICE_LISTING_WORK, &verify_given.source.num_threads),
};

int sluice_dataset_cmd_verify(int argc, char **argv)
{
    verify_given = (struct verify_options){0};
    const struct sluice_cli cli = {
        .program = argv[0],
        .summary = "Compare a folder of images with its manifest; exit code 1 if a file differs, "
                   "is missing, or is not listed.",
        .positional = "DIR",
        .options = verify_table,
        .num_options = SLUICE_ARRAY_LEN(verify_table),
        .groups = verify_groups,
    };
    const struct sluice_cli_result parsed = sluice_cli_parse(&cli, argc, argv);
    if (parsed.should_exit)
        return parsed.exit_code;
    struct verification verified = {.of.root = parsed.positional[0],
                                    .should_decode = verify_given.should_decode};
    struct sluice_err err = {0};
    char in_root[SLUICE_MAX_PATH_BYTES];
    sluice_status status =
        sluice_listing_manifest_path(&verify_given.manifest, verified.of.root, in_root, &err);
    if (status == SLUICE_OK)
        status = verify(&verified, &verify_given, &err);
    if (status == SLUICE_OK)
        sluice_listing_print(&verified.of, &(struct sluice_listing_counts){.bad = verified.num_bad},
                             parsed.is_json);
    sluice_jpeg_index_file_close(verified.indexes);
    sluice_listing_clear(&verified.of);
    const int code = sluice_cli_exit_code(status, &err);
    return verified.num_bad > 0 ? 1 : code;
}
