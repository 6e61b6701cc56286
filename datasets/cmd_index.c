#include "datasets/commands.h"

#include "base/buf.h"
#include "base/cli.h"
#include "base/file.h"
#include "base/log.h"
#include "base/show.h"
#include "datasets/class_list.h"
#include "datasets/index_known.h"
#include "datasets/jpeg_index_file.h"
#include "datasets/jpeg_indexer.h"
#include "datasets/manifest.h"
#include "datasets/manifest_binary.h"
#include "datasets/manifest_of_store.h"
#include "datasets/parallel.h"
#include "datasets/shard.h"
#include "image/codec.h"
#include "image/coding.h"
#include "store/open.h"

#include <jansson.h>

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_FILE_BYTES ((size_t)1 << 31)
#define MAX_NAMED 20 /* files of a kind that `index` names */

struct index {
    const char *root;
    struct sluice_manifest *manifest;
    struct sluice_buf_pool *pool;
    struct sluice_jpeg_indexer *indexer;    /* index only; or NULL */
    struct sluice_index_known *known;       /* index only */
    struct sluice_jpeg_index_file *indexes; /* verify only; or NULL */
    struct sluice_jpeg_indexer_summary jpegs;
    struct sluice_manifest_summary shards;
    bool should_decode;              /* verify only */
    bool has_no_hashes;              /* index only: files are not read */
    _Atomic uint64_t num_bad;        /* sums only, like the next */
    _Atomic uint64_t num_unreadable; /* index only, like the next */
    _Atomic uint64_t num_kept;       /* rows that were known */
};

/* Reads a sample's file; *st is its state, or its shard's, as it was opened. */
static sluice_status read_sample(const struct index *index, size_t i, struct stat *st,
                                 struct sluice_buf **file, struct sluice_err *err)
{
    const struct sluice_manifest_entry entry = sluice_manifest_at(index->manifest, i);
    const sluice_status status =
        sluice_shard_read(index->root, entry.path, entry.offset, entry.bytes, MAX_FILE_BYTES,
                          index->pool, file, st, err);
    if (status == SLUICE_OK)
        st->st_size = (off_t)(*file)->len; /* of a member, its own length */
    return status;
}

/* --- index --- */

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
    struct sluice_manifest_entry *entry = &index->manifest->rows[i];
    bool is_kept;
    const sluice_status kept_status = keep_row(index, entry, &is_kept, err);
    if (is_kept || kept_status != SLUICE_OK || index->has_no_hashes)
        return kept_status;
    struct sluice_buf *file = NULL;
    struct stat st;
    struct sluice_err why = {0};
    sluice_status status = read_sample(index, i, &st, &file, &why);
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
        snprintf(text, sizeof(text), "%s/%s: %s", index->root, entry->path, why.text);
        note_file(&index->num_bad, text);
    }
    sluice_index_known_add(index->known, entry);
    if (index->indexer)
        status = sluice_jpeg_indexer_add(index->indexer, entry->path, &st, file, err);
    sluice_buf_unref(file);
    return status;
}

static uint64_t total_bytes(const struct sluice_manifest *manifest)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < manifest->num_entries; i++)
        bytes += sluice_manifest_at(manifest, i).bytes;
    return bytes;
}

static json_t *summary_json(const struct sluice_jpeg_indexer_summary *jpegs)
{
    return json_pack("{s:I, s:I, s:I, s:I}", "made", (json_int_t)jpegs->made, "kept",
                     (json_int_t)jpegs->kept, "without", (json_int_t)jpegs->without, "bytes",
                     (json_int_t)jpegs->bytes);
}

/* is_verify: all that differs is bad. */
static void print_summary(const char *root, const struct index *index, bool is_verify, bool is_json)
{
    char id[33];
    sluice_hash128_hex(sluice_manifest_id(index->manifest), id);
    char words[SLUICE_TARGET_WORDS];
    const char *targets = sluice_target_type_words(index->manifest->target_type, words);
    const uint64_t num_bad = index->num_bad, num_unreadable = index->num_unreadable;
    if (is_json) {
        json_t *json = json_pack("{s:s, s:I, s:I, s:I, s:I, s:s}", "root", root, "samples",
                                 (json_int_t)index->manifest->num_entries, "classes",
                                 (json_int_t)index->manifest->num_classes, "bytes",
                                 (json_int_t)total_bytes(index->manifest), "bad",
                                 (json_int_t)num_bad, "dataset_id", id);
        if (index->manifest->target_type.kind)
            json_object_set_new(json, "targets", json_string(targets));
        if (!is_verify)
            json_object_set_new(json, "unreadable", json_integer((json_int_t)num_unreadable));
        if (!is_verify)
            json_object_set_new(json, "kept", json_integer((json_int_t)index->num_kept));
        if (index->indexer)
            json_object_set_new(json, "jpeg_index", summary_json(&index->jpegs));
        if (index->shards.num_shards) {
            json_object_set_new(json, "shards", json_integer((json_int_t)index->shards.num_shards));
            json_object_set_new(json, "damaged_shards",
                                json_integer((json_int_t)index->shards.num_damaged_shards));
        }
        json_dumpf(json, stdout, JSON_COMPACT);
        printf("\n");
        json_decref(json);
        return;
    }
    char unreadable[40] = "";
    if (!is_verify)
        snprintf(unreadable, sizeof(unreadable), ", %llu unreadable",
                 (unsigned long long)num_unreadable);
    char bytes[SLUICE_SHOW_BYTES];
    const size_t samples = index->manifest->num_entries, classes = index->manifest->num_classes;
    printf("%s: %zu sample%s, %zu class%s, %s, %llu bad%s, dataset %s\n", root, samples,
           samples == 1 ? "" : "s", classes, classes == 1 ? "" : "es",
           sluice_show_bytes((double)total_bytes(index->manifest), bytes),
           (unsigned long long)num_bad, unreadable, id);
    if (index->num_kept)
        printf("kept %llu of them, whose length and time are as before\n",
               (unsigned long long)index->num_kept);
    if (index->shards.num_shards)
        printf("%zu shard%s, %zu damaged\n", index->shards.num_shards,
               index->shards.num_shards == 1 ? "" : "s", index->shards.num_damaged_shards);
    if (index->manifest->target_type.kind)
        printf("targets: %s\n", targets);
    const struct sluice_jpeg_indexer_summary *jpegs = &index->jpegs;
    if (index->indexer)
        printf("index of JPEGs: %llu made, %llu kept, %llu %s without, %s\n",
               (unsigned long long)jpegs->made, (unsigned long long)jpegs->kept,
               (unsigned long long)jpegs->without, jpegs->without == 1 ? "file" : "files",
               sluice_show_bytes((double)jpegs->bytes, bytes));
}

/* The index of JPEGs stands beside the manifest. */
static sluice_status index_path(const char *manifest_path, char path[SLUICE_MAX_PATH_BYTES],
                                struct sluice_err *err)
{
    const char *slash = strrchr(manifest_path, '/');
    const int folder_len = slash ? (int)(slash - manifest_path) + 1 : 0;
    const int len = snprintf(path, SLUICE_MAX_PATH_BYTES, "%.*s%s", folder_len, manifest_path,
                             SLUICE_JPEG_INDEX_FILE);
    if (len < 0 || len >= SLUICE_MAX_PATH_BYTES)
        return sluice_fail(err, SLUICE_E_INVALID, "%.100s...: a path too long", manifest_path);
    return SLUICE_OK;
}

const char *const sluice_dataset_target_types[] = {"vector", "bytes", NULL};

struct sluice_target_column sluice_dataset_target(const char *name, const char *type)
{
    const enum sluice_target_kind kind = !type                        ? SLUICE_TARGETS_NONE
                                         : strcmp(type, "bytes") == 0 ? SLUICE_TARGETS_BYTES
                                                                      : SLUICE_TARGETS_VECTOR;
    return (struct sluice_target_column){name, kind};
}

sluice_status sluice_dataset_check_target(const char *name, const char *type,
                                          struct sluice_err *err)
{
    return type && !name ? sluice_fail(err, SLUICE_E_INVALID, "--target-type without --target")
                         : SLUICE_OK;
}

/* What is listed, and where labels and targets come from: options of both commands. */
struct source_options {
    const char *shards, *train_list, *val_list, *labels, *label_key, *classes, *target,
        *target_type;
    uint64_t num_threads;
};

/* The options of `index`. */
struct index_options {
    struct source_options source;
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
    if (num == index->manifest->num_entries)
        return sluice_fail(err, SLUICE_E_IO, "%s: none of its files can be read", index->root);
    if (num && is_strict)
        return sluice_fail(err, SLUICE_E_IO, "--strict: %llu of %zu files of %s cannot be read",
                           (unsigned long long)num, index->manifest->num_entries, index->root);
    return SLUICE_OK;
}

static struct sluice_manifest_options list_options(const struct source_options *source)
{
    return (struct sluice_manifest_options){
        .with_shards = true,
        .shards = source->shards,
        .num_threads = (unsigned)source->num_threads,
        .labels = source->labels,
        .label_key = source->label_key,
        .train_list = source->train_list,
        .val_list = source->val_list,
        .classes = source->classes,
        .target = sluice_dataset_target(source->target, source->target_type),
    };
}

/* What the root holds now, its shards included. */
static sluice_status list_samples(struct index *index, const struct source_options *source,
                                  struct sluice_manifest **manifest, struct sluice_err *err)
{
    const struct sluice_manifest_options options = list_options(source);
    const sluice_status status =
        sluice_dataset_check_target(source->target, source->target_type, err);
    if (status != SLUICE_OK)
        return status;
    return sluice_manifest_list(index->root, &options, manifest, &index->shards, err);
}

/* The text, and beside a file of it the same in binary. */
static sluice_status write_manifest(const struct index *index, const char *path,
                                    struct sluice_err *err)
{
    struct stat st;
    const sluice_status status = sluice_manifest_write(index->manifest, path, err);
    if (status != SLUICE_OK || stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return status;
    return sluice_manifest_write_binary(index->manifest, path, err);
}

static sluice_status check_damaged(const struct index *index, bool is_strict,
                                   struct sluice_err *err)
{
    if (!is_strict || !index->shards.num_damaged_shards)
        return SLUICE_OK;
    return sluice_fail(err, SLUICE_E_CORRUPT, "--strict: %zu of %zu shards of %s are damaged",
                       index->shards.num_damaged_shards, index->shards.num_shards, index->root);
}

/* A root that is reached over a network: the list, and of shards what they say of their members.
 * Images are not read, so there are no hashes. */
static sluice_status make_remote_index(struct index *index, const struct index_options *options,
                                       struct sluice_err *err)
{
    const struct sluice_manifest_options listed = list_options(&options->source);
    const struct sluice_store_options where = {
        .root = index->root,
        .max_object_bytes = MAX_FILE_BYTES,
        .s3_endpoint = options->s3_endpoint,
        .s3_style = options->s3_style,
    };
    struct sluice_store *store = NULL;
    if (!options->out_path || options->has_jpeg_index)
        return sluice_fail(err, SLUICE_E_INVALID, "%s: of what is not a folder here %s",
                           index->root,
                           options->out_path ? "there is no --jpeg-index"
                                             : "the list needs a file: give --out FILE");
    sluice_status status =
        sluice_dataset_check_target(options->source.target, options->source.target_type, err);
    if (status == SLUICE_OK)
        status = sluice_store_check(&where, err);
    if (status == SLUICE_OK)
        status = sluice_store_open(&where, &store, err);
    if (status == SLUICE_OK)
        status = sluice_manifest_list_store(store, index->root, &listed, &index->manifest,
                                            &index->shards, err);
    if (status == SLUICE_OK)
        status = check_damaged(index, options->is_strict, err);
    if (status == SLUICE_OK)
        status = sluice_manifest_check_passed_over(index->manifest, index->root, options->is_strict,
                                                   NULL, err);
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
    status = sluice_buf_pool_create((size_t)64 << 20, &index->pool, err);
    if (status == SLUICE_OK)
        status = sluice_index_known_open(options->out_path, options->is_anew, &index->known, err);
    if (status == SLUICE_OK)
        status = list_samples(index, &options->source, &index->manifest, err);
    if (status == SLUICE_OK)
        status = check_damaged(index, options->is_strict, err);
    if (status == SLUICE_OK)
        status = sluice_manifest_check_passed_over(index->manifest, index->root, options->is_strict,
                                                   NULL, err);
    if (status == SLUICE_OK && options->has_jpeg_index) {
        status = index_path(options->out_path, jpegs_path, err);
        if (status == SLUICE_OK)
            status = sluice_jpeg_indexer_create(jpegs_path, (uint32_t)options->jpeg_step,
                                                index->manifest->num_entries, &index->indexer, err);
    }
    if (status == SLUICE_OK)
        status =
            sluice_parallel_for(index->manifest->num_entries, (unsigned)options->source.num_threads,
                                "indexing", index_one, index, err);
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

static void index_clear(struct index *index)
{
    sluice_jpeg_indexer_destroy(index->indexer);
    sluice_index_known_close(index->known);
    sluice_jpeg_index_file_close(index->indexes);
    sluice_manifest_destroy(index->manifest);
    sluice_buf_pool_destroy(index->pool);
}

/* If *chosen is NULL, it becomes the default path in `root`, which is written to `room`. */
static sluice_status choose_manifest(const char **chosen, const char *root,
                                     char room[SLUICE_MAX_PATH_BYTES], struct sluice_err *err)
{
    if (*chosen)
        return SLUICE_OK;
    *chosen = room;
    return sluice_path_in(root, SLUICE_MANIFEST_FILE, room, err);
}

static struct index_options index_given;

enum { WHAT, SAMPLES, LABELS, WORK };
static const char *const index_groups[] = {
    [WHAT] = "output", [SAMPLES] = "samples", [LABELS] = "labels", [WORK] = "work", NULL};

/* The options that say what is a sample. */
#define SHARDS_OPTION(target)                                                                      \
    {                                                                                              \
        .name = "shards", .group = SAMPLES, .type = SLUICE_OPTION_STRING, .value = (target),       \
        .arg = "LIST",                                                                             \
        .help = "List these shards of DIR alone, .tar or .mds, in bash's braces as WebDataset "    \
                "has them: 'train-{000000..001023}.tar', with :: between lists.",                  \
        .default_text = "all images and shards in DIR"                                             \
    }
#define SPLIT_OPTION(split, target)                                                                \
    {                                                                                              \
        .name = split "-list", .group = SAMPLES, .type = SLUICE_OPTION_STRING, .value = (target),  \
        .arg = "FILE",                                                                             \
        .help = "File with a line for each image of " split ": its path relative to DIR, and "     \
                "maybe a label behind it. Images in neither list are no samples.",                 \
        .default_text = "column split of the table, else the folders train/ and val/"              \
    }

/* The options that say where labels come from. */
#define LABELS_OPTION(target)                                                                      \
    {                                                                                              \
        .name = "labels", .group = LABELS, .type = SLUICE_OPTION_STRING, .value = (target),        \
        .arg = "FILE",                                                                             \
        .help = "Table of labels, .csv or .jsonl, with columns file_name (relative to DIR) and "   \
                "label (integers, or names of classes), and maybe split (train, val, test).",      \
        .default_text = "DIR/metadata.jsonl, metadata.csv or labels.csv if it has these columns, " \
                        "in DIR or in its train/ and val/; else .cls in tars and the label of "    \
                        "MDS shards and LitData's chunks, else the folders"                        \
    }
#define LABEL_KEY_OPTION(target)                                                                   \
    {                                                                                              \
        .name = "label-key", .group = LABELS, .type = SLUICE_OPTION_STRING, .value = (target),     \
        .arg = "NAME",                                                                             \
        .help = "Where the label is: in tars the key in the .json beside an image, in MDS shards " \
                "and LitData's chunks the column; an integer.",                                    \
        .default_text = "in tars .cls; else the column label, cls or class, or the first of "      \
                        "integers"                                                                 \
    }
#define CLASSES_OPTION(target)                                                                     \
    {                                                                                              \
        .name = "classes", .group = LABELS, .type = SLUICE_OPTION_STRING, .value = (target),       \
        .arg = "FILE", .help = "List of classes, one name a line: the first is label 0.",          \
        .default_text = "DIR/" SLUICE_CLASS_LIST_FILE " if it is there"                            \
    }

static const char *const s3_styles[] = {"path", "virtual", NULL};

static const struct sluice_option index_table[] = {
    {.name = "out",
     .short_name = 'o',
     .group = WHAT,
     .type = SLUICE_OPTION_STRING,
     .value = &index_given.out_path,
     .arg = "FILE",
     .help = "File to write the manifest to.",
     .default_text = "DIR/" SLUICE_MANIFEST_FILE},
    {.name = "jpeg-index",
     .group = WHAT,
     .type = SLUICE_OPTION_FLAG,
     .value = &index_given.has_jpeg_index,
     .help = "Also write " SLUICE_JPEG_INDEX_FILE " beside the manifest: where the rows of each "
             "JPEG begin. Entries of unchanged files are kept."},
    {.name = "jpeg-index-step",
     .group = WHAT,
     .type = SLUICE_OPTION_UINT,
     .value = &index_given.jpeg_step,
     .arg = "N",
     .min = 0,
     .max = 8192,
     .help = "Blocks (MCUs) of a row from one entry point of the index to the next; 0: 8, or more "
             "in wide images."},
    {.name = "strict",
     .group = WHAT,
     .type = SLUICE_OPTION_FLAG,
     .value = &index_given.is_strict,
     .help = "End with an error if files may be images and are not read, as .webp, or cannot be "
             "read, instead of a warning that counts them."},
    SHARDS_OPTION(&index_given.source.shards),
    SPLIT_OPTION("train", &index_given.source.train_list),
    SPLIT_OPTION("val", &index_given.source.val_list),
    LABELS_OPTION(&index_given.source.labels),
    LABEL_KEY_OPTION(&index_given.source.label_key),
    CLASSES_OPTION(&index_given.source.classes),
    SLUICE_DATASET_TARGET_OPTION(LABELS, &index_given.source.target),
    SLUICE_DATASET_TARGET_TYPE_OPTION(LABELS, &index_given.source.target_type),
    {.name = "s3-endpoint",
     .group = WORK,
     .type = SLUICE_OPTION_STRING,
     .value = &index_given.s3_endpoint,
     .arg = "URL",
     .help = "Where the bucket of s3://... is, as https://HOST:PORT.",
     .default_text = "AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, or AWS itself"},
    {.name = "s3-style",
     .group = WORK,
     .type = SLUICE_OPTION_CHOICE,
     .value = &index_given.s3_style,
     .arg = "STYLE",
     .choices = s3_styles,
     .help = "How a URL names the bucket. path: https://HOST/BUCKET; virtual: https://BUCKET.HOST.",
     .default_text = "path with an endpoint, virtual at AWS"},
    {.name = "anew",
     .group = WORK,
     .type = SLUICE_OPTION_FLAG,
     .value = &index_given.is_anew,
     .help = "Read every file, also those that have the length and time of the manifest before, or "
             "that a run read that was ended."},
    {.name = "no-hash",
     .group = WORK,
     .type = SLUICE_OPTION_FLAG,
     .value = &index_given.has_no_hashes,
     .help = "Read no file: list paths, lengths, times and labels alone. What is known from before "
             "is kept."},
    SLUICE_DATASET_WORKERS_OPTION(WORK, &index_given.source.num_threads),
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
    struct index index = {.root = parsed.positional[0]};
    struct sluice_err err = {0};
    char in_root[SLUICE_MAX_PATH_BYTES];
    const bool is_remote = sluice_store_is_remote(index.root);
    sluice_status status =
        is_remote ? SLUICE_OK : choose_manifest(&index_given.out_path, index.root, in_root, &err);
    if (status == SLUICE_OK)
        status = is_remote ? make_remote_index(&index, &index_given, &err)
                           : make_index(&index, &index_given, &err);
    if (status == SLUICE_OK)
        print_summary(index.root, &index, false, parsed.is_json);
    index_clear(&index);
    return sluice_cli_exit_code(status, &err);
}

/* --- verify --- */

static sluice_status check_one(struct index *index, size_t i, struct sluice_err *err)
{
    const struct sluice_manifest_entry entry = sluice_manifest_at(index->manifest, i);
    struct sluice_buf *file = NULL;
    struct stat st;
    sluice_status status = read_sample(index, i, &st, &file, err);
    if (status != SLUICE_OK)
        return status;
    const struct sluice_hash128 hash = sluice_hash128(file->data, file->len);
    if (file->len != entry.bytes)
        status = sluice_fail(err, SLUICE_E_CORRUPT, "%s: %zu bytes, but the manifest says %llu",
                             entry.path, file->len, (unsigned long long)entry.bytes);
    else if (entry.has_hash && (hash.high != entry.hash.high || hash.low != entry.hash.low))
        status = sluice_fail(err, SLUICE_E_CORRUPT, "%s: the content is not what was indexed",
                             entry.path);
    if (status == SLUICE_OK && index->indexes)
        status = sluice_jpeg_indexer_check(index->indexes, entry.path, &st, file, err);
    if (status == SLUICE_OK && index->should_decode) {
        struct sluice_codec *codec = NULL;
        struct sluice_rgb rgb = {0};
        struct sluice_err why = {0};
        status = sluice_codec_create(&codec, &why);
        if (status == SLUICE_OK)
            status = sluice_codec_decode(codec, file->data, file->len, 0, index->pool, &rgb, &why);
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
    struct index *index = ctx;
    struct sluice_err why = {0};
    if (check_one(index, i, &why) != SLUICE_OK) {
        sluice_log(SLUICE_LOG_ERROR, "%s", why.text);
        atomic_fetch_add(&index->num_bad, 1);
    }
    return SLUICE_OK;
}

/* What `verify` may be told. */
struct verify_options {
    struct source_options source;
    const char *manifest;
    bool should_decode, has_jpeg_index;
};

/* Counts files that were added after the manifest was written, and those of another label now. */
/* Of two lists whose targets were both asked for. */
static bool is_same_target(const struct index *index, size_t listed,
                           const struct sluice_manifest *found, size_t i)
{
    const struct sluice_target_type x = index->manifest->target_type, y = found->target_type;
    const struct sluice_manifest_entry a = sluice_manifest_at(index->manifest, listed),
                                       b = sluice_manifest_at(found, i);
    return x.kind == y.kind && x.dim == y.dim &&
           sluice_target_is_same(a.target, a.target_bytes, b.target, b.target_bytes);
}

static sluice_status count_unlisted(struct index *index, const struct verify_options *options,
                                    struct sluice_err *err)
{
    struct sluice_manifest *found = NULL;
    const sluice_status status = list_samples(index, &options->source, &found, err);
    if (status != SLUICE_OK)
        return status;
    size_t listed = 0;
    for (size_t i = 0; i < found->num_entries; i++) {
        const char *path = sluice_manifest_at(found, i).path;
        while (listed < index->manifest->num_entries &&
               strcmp(sluice_manifest_at(index->manifest, listed).path, path) < 0)
            listed++;
        if (listed == index->manifest->num_entries ||
            strcmp(sluice_manifest_at(index->manifest, listed).path, path) != 0) {
            sluice_log(SLUICE_LOG_ERROR, "%s: not in the manifest", path);
            atomic_fetch_add(&index->num_bad, 1);
        } else if (sluice_manifest_at(index->manifest, listed).label !=
                   sluice_manifest_at(found, i).label) {
            sluice_log(SLUICE_LOG_ERROR, "%s: label %u, but the manifest says %u", path,
                       sluice_manifest_at(found, i).label,
                       sluice_manifest_at(index->manifest, listed).label);
            atomic_fetch_add(&index->num_bad, 1);
        } else if (options->source.target && !is_same_target(index, listed, found, i)) {
            sluice_log(SLUICE_LOG_ERROR, "%s: another target than the manifest says", path);
            atomic_fetch_add(&index->num_bad, 1);
        }
    }
    sluice_manifest_destroy(found);
    return SLUICE_OK;
}

/* Of a file that `index` could not read, the manifest knows the length alone. */
static void note_without_hash(const struct index *index)
{
    size_t num = 0;
    for (size_t i = 0; i < index->manifest->num_entries; i++)
        num += !sluice_manifest_at(index->manifest, i).has_hash;
    if (num)
        sluice_log(SLUICE_LOG_WARN,
                   "the manifest has no hash of %zu %s: only the length was compared", num,
                   num == 1 ? "file" : "files");
}

static sluice_status verify(struct index *index, const struct verify_options *options,
                            struct sluice_err *err)
{
    char jpegs_path[SLUICE_MAX_PATH_BYTES];
    sluice_status status = sluice_buf_pool_create((size_t)64 << 20, &index->pool, err);
    if (status == SLUICE_OK)
        status = sluice_manifest_read(options->manifest, &index->manifest, err);
    if (status == SLUICE_OK && options->has_jpeg_index) {
        status = index_path(options->manifest, jpegs_path, err);
        if (status == SLUICE_OK)
            status = sluice_jpeg_index_file_open(jpegs_path, &index->indexes, err);
    }
    if (status == SLUICE_OK)
        status =
            sluice_parallel_for(index->manifest->num_entries, (unsigned)options->source.num_threads,
                                "verifying", verify_one, index, err);
    if (status == SLUICE_OK)
        status = count_unlisted(index, options, err);
    if (status == SLUICE_OK)
        index->num_bad += index->shards.num_damaged_shards;
    if (status == SLUICE_OK)
        note_without_hash(index);
    return status;
}

static struct verify_options verify_given;

static const char *const verify_groups[] = {
    [WHAT] = "what is compared", [SAMPLES] = "samples", [LABELS] = "labels", [WORK] = "work", NULL};

static const struct sluice_option verify_table[] = {
    {.name = "manifest",
     .group = WHAT,
     .type = SLUICE_OPTION_STRING,
     .value = &verify_given.manifest,
     .arg = "FILE",
     .help = "Manifest to compare with.",
     .default_text = "DIR/" SLUICE_MANIFEST_FILE},
    {.name = "decode",
     .group = WHAT,
     .type = SLUICE_OPTION_FLAG,
     .value = &verify_given.should_decode,
     .help = "Also decode every image."},
    {.name = "jpeg-index",
     .group = WHAT,
     .type = SLUICE_OPTION_FLAG,
     .value = &verify_given.has_jpeg_index,
     .help = "Also compare every entry of the JPEG index with its file."},
    SHARDS_OPTION(&verify_given.source.shards),
    SPLIT_OPTION("train", &verify_given.source.train_list),
    SPLIT_OPTION("val", &verify_given.source.val_list),
    LABELS_OPTION(&verify_given.source.labels),
    LABEL_KEY_OPTION(&verify_given.source.label_key),
    CLASSES_OPTION(&verify_given.source.classes),
    SLUICE_DATASET_TARGET_OPTION(LABELS, &verify_given.source.target),
    SLUICE_DATASET_TARGET_TYPE_OPTION(LABELS, &verify_given.source.target_type),
    SLUICE_DATASET_WORKERS_OPTION(WORK, &verify_given.source.num_threads),
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
    struct index index = {.root = parsed.positional[0],
                          .should_decode = verify_given.should_decode};
    struct sluice_err err = {0};
    char in_root[SLUICE_MAX_PATH_BYTES];
    sluice_status status = choose_manifest(&verify_given.manifest, index.root, in_root, &err);
    if (status == SLUICE_OK)
        status = verify(&index, &verify_given, &err);
    if (status == SLUICE_OK)
        print_summary(index.root, &index, true, parsed.is_json);
    index_clear(&index);
    const int code = sluice_cli_exit_code(status, &err);
    return index.num_bad > 0 ? 1 : code;
}
