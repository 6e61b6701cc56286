#include "datasets/tools/commands.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/cli.h"
#include "datasets/jpeg_index/jpeg_index_file.h"
#include "datasets/jpeg_index/jpeg_indexer.h"
#include "datasets/manifest/binary.h"
#include "datasets/manifest/index_known.h"
#include "datasets/manifest/manifest.h"
#include "datasets/manifest/of_store.h"
#include "datasets/manifest/parallel.h"
#include "datasets/tools/listing.h"
#include "image/codecs/codec.h"
#include "image/codecs/coding.h"
#include "store/open.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_NAMED 20 /* files of a kind that `index` names */

struct index {
    struct sluice_listing of;
    struct sluice_jpeg_indexer *indexer; /* or NULL */
    struct sluice_index_known *known;
    struct sluice_jpeg_indexer_summary jpegs;
    bool has_no_hashes;       /* files are not read */
    _Atomic uint64_t num_bad; /* sums only, like the next */
    _Atomic uint64_t num_unreadable;
    _Atomic uint64_t num_kept; /* rows that were known */
};

/* Counts a file; the first ones are named. */
static void note_file(_Atomic uint64_t *count, const char *text)
{
    const uint64_t before = atomic_fetch_add(count, 1);
    if (before < MAX_NAMED)
        sluice_log(SLUICE_LOG_WARN, "%s", text);
    else if (before == MAX_NAMED)
        sluice_log(SLUICE_LOG_WARN, "and more such files, which the summary counts");
}

/* Whether the row is known as it is, so that its file need not be read. */
static sluice_status keep_row(struct index *index, struct sluice_manifest_entry *entry,
                              bool *is_kept, struct sluice_err *err)
{
    struct sluice_manifest_entry row = *entry;
    sluice_status status = SLUICE_OK;
    *is_kept = sluice_index_known_find(index->known, &row);
    if (*is_kept && index->indexer) {
        struct stat st = {.st_size = (off_t)row.bytes};
        st.st_mtim.tv_sec = (time_t)(row.mtime_ns / 1000000000);
        st.st_mtim.tv_nsec = (long)(row.mtime_ns % 1000000000);
        status = sluice_jpeg_indexer_keep(index->indexer, row.path, &st, row.coding, is_kept, err);
    }
    if (!*is_kept || status != SLUICE_OK)
        return status;
    *entry = row;
    atomic_fetch_add_explicit(&index->num_kept, 1, memory_order_relaxed);
    return SLUICE_OK;
}

static sluice_status index_one(void *ctx, size_t i, struct sluice_err *err)
{
    struct index *index = ctx;
    struct sluice_manifest_entry *entry = &index->of.manifest->rows[i];
    bool is_kept;
    const sluice_status kept_status = keep_row(index, entry, &is_kept, err);
    if (is_kept || kept_status != SLUICE_OK || index->has_no_hashes)
        return kept_status;
    struct sluice_buf *file = NULL;
    struct stat st;
    struct sluice_err why = {0};
    sluice_status status = sluice_listing_read_sample(&index->of, i, &st, &file, &why);
    if (status == SLUICE_E_NO_MEMORY)
        return sluice_fail(err, status, "%s", why.text);
    if (status != SLUICE_OK) { /* one file's, not the list's: it stays as the walk saw it */
        note_file(&index->num_unreadable, why.text);
        return SLUICE_OK;
    }
    entry->bytes = file->len;
    entry->mtime_ns = sluice_file_mtime_ns(&st);
    entry->hash = sluice_hash128(file->data, file->len);
    entry->has_hash = true;
    struct sluice_image_info info;
    if (sluice_image_probe(file->data, file->len, &info, &why) == SLUICE_OK) {
        entry->width = info.width;
        entry->height = info.height;
        entry->coding = sluice_coding_of(&info);
    } else {
        char text[sizeof(why.text) + 512];
        snprintf(text, sizeof(text), "%s/%s: %s", index->of.root, entry->path, why.text);
        note_file(&index->num_bad, text);
    }
    sluice_index_known_add(index->known, entry);
    if (index->indexer)
        status = sluice_jpeg_indexer_add(index->indexer, entry->path, &st, file, err);
    sluice_buf_unref(file);
    return status;
}

/* The options of `index`. */
struct index_options {
    struct sluice_listing_source source;
    const char *out_path, *s3_endpoint, *s3_style;
    uint64_t jpeg_step;
    bool has_jpeg_index;
    bool is_strict, is_anew, has_no_hashes;
};

/* Files that cannot be read are in the list without a hash, unless that is all there is. */
static sluice_status check_unreadable(const struct index *index, bool is_strict,
                                      struct sluice_err *err)
{
    const uint64_t num = index->num_unreadable;
    if (num == index->of.manifest->num_entries)
        return sluice_fail(err, SLUICE_E_IO, "%s: none of its files can be read", index->of.root);
    if (num && is_strict)
        return sluice_fail(err, SLUICE_E_IO, "--strict: %llu of %zu files of %s cannot be read",
                           (unsigned long long)num, index->of.manifest->num_entries,
                           index->of.root);
    return SLUICE_OK;
}

/* Writes the text manifest, and if it is a file the binary manifest next to it. */
static sluice_status write_manifest(const struct index *index, const char *path,
                                    struct sluice_err *err)
{
    struct stat st;
    const sluice_status status = sluice_manifest_write(index->of.manifest, path, err);
    if (status != SLUICE_OK || stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return status;
    return sluice_manifest_write_binary(index->of.manifest, path, err);
}

static sluice_status check_damaged(const struct index *index, bool is_strict,
                                   struct sluice_err *err)
{
    if (!is_strict || !index->of.shards.num_damaged_shards)
        return SLUICE_OK;
    return sluice_fail(err, SLUICE_E_CORRUPT, "--strict: %zu of %zu shards of %s are damaged",
                       index->of.shards.num_damaged_shards, index->of.shards.num_shards,
                       index->of.root);
}

/* A root that is reached over a network: the list, and of shards what they say of their members.
 * Images are not read, but for the headers that YOLO's boxes need, so there are no hashes. */
static sluice_status make_remote_index(struct index *index, const struct index_options *options,
                                       struct sluice_err *err)
{
    struct sluice_manifest_options listed;
    const struct sluice_store_options where = {
        .root = index->of.root,
        .max_object_bytes = SLUICE_LISTING_MAX_FILE_BYTES,
        .s3_endpoint = options->s3_endpoint,
        .s3_style = options->s3_style,
    };
    struct sluice_store *store = NULL;
    if (!options->out_path || options->has_jpeg_index)
        return sluice_fail(err, SLUICE_E_INVALID, "%s: of what is not a folder here %s",
                           index->of.root,
                           options->out_path ? "there is no --jpeg-index"
                                             : "the list needs a file: give --out FILE");
    sluice_status status = sluice_listing_options(&options->source, &listed, err);
    if (status == SLUICE_OK)
        status = sluice_store_check(&where, err);
    if (status == SLUICE_OK)
        status = sluice_store_open(&where, &store, err);
    if (status == SLUICE_OK)
        status = sluice_manifest_list_store(store, index->of.root, &listed, &index->of.manifest,
                                            &index->of.shards, err);
    if (status == SLUICE_OK)
        status = sluice_listing_scale_boxes(&index->of, index->of.manifest, store, err);
    if (status == SLUICE_OK)
        status = check_damaged(index, options->is_strict, err);
    if (status == SLUICE_OK)
        status = sluice_manifest_check_passed_over(index->of.manifest, index->of.root,
                                                   options->is_strict, NULL, err);
    if (status == SLUICE_OK)
        status = write_manifest(index, options->out_path, err);
    if (store)
        store->destroy(store);
    return status;
}

static sluice_status make_index(struct index *index, const struct index_options *options,
                                struct sluice_err *err)
{
    char jpegs_path[SLUICE_MAX_PATH_BYTES];
    sluice_status status = SLUICE_OK;
    index->has_no_hashes = options->has_no_hashes;
    if (options->has_no_hashes && options->has_jpeg_index)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--no-hash reads no file, and --jpeg-index has to read all");
    status = sluice_buf_pool_create((size_t)64 << 20, &index->of.pool, err);
    if (status == SLUICE_OK)
        status = sluice_index_known_open(options->out_path, options->is_anew, &index->known, err);
    if (status == SLUICE_OK)
        status = sluice_listing_list(&index->of, &options->source, &index->of.manifest, err);
    if (status == SLUICE_OK)
        status = check_damaged(index, options->is_strict, err);
    if (status == SLUICE_OK)
        status = sluice_manifest_check_passed_over(index->of.manifest, index->of.root,
                                                   options->is_strict, NULL, err);
    if (status == SLUICE_OK && options->has_jpeg_index) {
        status = sluice_listing_jpegs_path(options->out_path, jpegs_path, err);
        if (status == SLUICE_OK)
            status =
                sluice_jpeg_indexer_create(jpegs_path, (uint32_t)options->jpeg_step,
                                           index->of.manifest->num_entries, &index->indexer, err);
    }
    if (status == SLUICE_OK)
        status = sluice_parallel_for(index->of.manifest->num_entries,
                                     (unsigned)options->source.num_threads, "indexing", index_one,
                                     index, err);
    if (status == SLUICE_OK)
        status = sluice_listing_scale_boxes(&index->of, index->of.manifest, NULL, err);
    if (status == SLUICE_OK)
        status = check_unreadable(index, options->is_strict, err);
    if (status == SLUICE_OK)
        status = write_manifest(index, options->out_path, err);
    if (status == SLUICE_OK && index->indexer)
        status = sluice_jpeg_indexer_commit(index->indexer, &index->jpegs, err);
    if (status == SLUICE_OK)
        sluice_index_known_remove(index->known);
    return status;
}

static void print_summary(const struct index *index, bool is_json)
{
    const struct sluice_listing_counts counts = {
        .bad = index->num_bad,
        .is_index = true,
        .unreadable = index->num_unreadable,
        .kept = index->num_kept,
        .jpegs = index->indexer ? &index->jpegs : NULL,
    };
    sluice_listing_print(&index->of, &counts, is_json);
}

static void index_clear(struct index *index)
{
    sluice_jpeg_indexer_destroy(index->indexer);
    sluice_index_known_close(index->known);
    sluice_listing_clear(&index->of);
}

static struct index_options index_given;

static const char *const index_groups[] = {[SLUICE_LISTING_WHAT] = "output",
                                           [SLUICE_LISTING_SAMPLES] = "samples",
                                           [SLUICE_LISTING_LABELS] = "labels",
                                           [SLUICE_LISTING_WORK] = "work",
                                           NULL};

static const char *const s3_styles[] = {"path", "virtual", NULL};

static const struct sluice_option index_table[] = {
    {.name = "out",
     .short_name = 'o',
     .group = SLUICE_LISTING_WHAT,
     SLUICE_VALUE_STRING(index_given.out_path, "FILE"),
     .help = "File to write the manifest to.",
     .default_text = "DIR/" SLUICE_MANIFEST_FILE},
    {.name = "jpeg-index",
     .group = SLUICE_LISTING_WHAT,
     SLUICE_VALUE_FLAG(index_given.has_jpeg_index),
     .help = "Also write " SLUICE_JPEG_INDEX_FILE " beside the manifest: where the rows of each "
             "JPEG begin. Entries of unchanged files are kept."},
    {.name = "jpeg-index-step",
     .group = SLUICE_LISTING_WHAT,
     SLUICE_VALUE_UINT(index_given.jpeg_step, "N"),
     SLUICE_RANGE(0, 8192),
     .help = "Blocks (MCUs) of a row from one entry point of the index to the next; 0: 8, or more "
             "in wide images."},
    {.name = "strict",
     .group = SLUICE_LISTING_WHAT,
     SLUICE_VALUE_FLAG(index_given.is_strict),
     .help = "End with an error if files may be images and are not read, as .avif, or cannot be "
             "read, instead of a warning that counts them."},
    SLUICE_LISTING_SHARDS_OPTION(&index_given.source.shards),
    SLUICE_LISTING_SPLIT_OPTION("train", &index_given.source.train_list),
    SLUICE_LISTING_SPLIT_OPTION("val", &index_given.source.val_list),
    SLUICE_DATASET_FOLDERS_OPTION(SLUICE_LISTING_SAMPLES, &index_given.source.classes_are_folders),
    SLUICE_LISTING_LABELS_OPTION(&index_given.source.labels),
    SLUICE_LISTING_LABEL_KEY_OPTION(&index_given.source.label_key),
    SLUICE_LISTING_CLASSES_OPTION(&index_given.source.classes),
    SLUICE_DATASET_TARGET_OPTION(SLUICE_LISTING_LABELS, &index_given.source.targets),
    SLUICE_DATASET_TARGET_TYPE_OPTION(SLUICE_LISTING_LABELS, &index_given.source.target_type),
    SLUICE_LISTING_ANNOTATIONS_OPTION(&index_given.source.annotations),
    {.name = "s3-endpoint",
     .group = SLUICE_LISTING_WORK,
     SLUICE_VALUE_STRING(index_given.s3_endpoint, "URL"),
     .help = "Where the bucket of s3://... is, as https://HOST:PORT.",
     .default_text = "AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, or AWS itself"},
    {.name = "s3-style",
     .group = SLUICE_LISTING_WORK,
     SLUICE_VALUE_CHOICE(index_given.s3_style, "STYLE"),
     .choices = s3_styles,
     .help = "How a URL names the bucket. path: https://HOST/BUCKET; virtual: https://BUCKET.HOST.",
     .default_text = "path with an endpoint, virtual at AWS"},
    {.name = "anew",
     .group = SLUICE_LISTING_WORK,
     SLUICE_VALUE_FLAG(index_given.is_anew),
     .help = "Read every file, also those that have the length and time of the manifest before, or "
             "that a run read that was ended."},
    {.name = "no-hash",
     .group = SLUICE_LISTING_WORK,
     SLUICE_VALUE_FLAG(index_given.has_no_hashes),
     .help = "Read no file: list paths, lengths, times and labels alone. What is known from before "
             "is kept."},
    SLUICE_DATASET_WORKERS_OPTION(SLUICE_LISTING_WORK, &index_given.source.num_threads),
};

int sluice_dataset_cmd_index(int argc, char **argv)
{
    index_given = (struct index_options){0};
    const struct sluice_cli cli = {
        .program = argv[0],
        .summary = "Write a manifest of a folder of images, or of shards of images: order, labels, "
                   "sizes, content hashes. DIR may be s3://BUCKET/PREFIX, or a list of a web "
                   "server, as for offload_server: without hashes, then.",
        .positional = "DIR",
        .options = index_table,
        .num_options = SLUICE_ARRAY_LEN(index_table),
        .groups = index_groups,
    };
    const struct sluice_cli_result parsed = sluice_cli_parse(&cli, argc, argv);
    if (parsed.should_exit)
        return parsed.exit_code;
    struct index index = {.of.root = parsed.positional[0]};
    struct sluice_err err = {0};
    char in_root[SLUICE_MAX_PATH_BYTES];
    const bool is_remote = sluice_store_is_remote(index.of.root);
    sluice_status status = is_remote ? SLUICE_OK
                                     : sluice_listing_manifest_path(&index_given.out_path,
                                                                    index.of.root, in_root, &err);
    if (status == SLUICE_OK)
        status = is_remote ? make_remote_index(&index, &index_given, &err)
                           : make_index(&index, &index_given, &err);
    if (status == SLUICE_OK)
        print_summary(&index, parsed.is_json);
    index_clear(&index);
    return sluice_cli_exit_code(status, &err);
}
