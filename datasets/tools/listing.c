#include "datasets/tools/listing.h"

#include "base/c_locale.h"
#include "base/show.h"
#include "datasets/jpeg_index/jpeg_index_file.h"
#include "datasets/manifest/annotations.h"
#include "datasets/manifest/image_sizes.h"
#include "datasets/shards/shard.h"
#include "datasets/tools/commands.h"

#include <jansson.h>

#include <stdio.h>
#include <string.h>

sluice_status sluice_listing_read_sample(const struct sluice_listing *listing, size_t i,
                                         struct stat *st, struct sluice_buf **file,
                                         struct sluice_err *err)
{
    const struct sluice_manifest_entry entry = sluice_manifest_at(listing->manifest, i);
    const sluice_status status =
        sluice_shard_read(listing->root, entry.path, entry.offset, entry.bytes,
                          SLUICE_LISTING_MAX_FILE_BYTES, listing->pool, file, st, err);
    if (status == SLUICE_OK)
        st->st_size = (off_t)(*file)->len; /* of a member, its own length */
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

void sluice_listing_print(const struct sluice_listing *listing,
                          const struct sluice_listing_counts *counts, bool is_json)
{
    const struct sluice_jpeg_indexer_summary *jpegs = counts->jpegs;
    char id[33];
    sluice_hash128_hex(sluice_manifest_id(listing->manifest), id);
    char words[SLUICE_FIELDS_WORDS];
    const struct sluice_fields *fields = &listing->manifest->fields;
    const char *targets = sluice_fields_words(fields, words);
    if (is_json) {
        json_t *json = json_pack("{s:s, s:I, s:I, s:I, s:I, s:s}", "root", listing->root, "samples",
                                 (json_int_t)listing->manifest->num_entries, "classes",
                                 (json_int_t)listing->manifest->num_classes, "bytes",
                                 (json_int_t)total_bytes(listing->manifest), "bad",
                                 (json_int_t)counts->bad, "dataset_id", id);
        if (fields->num)
            json_object_set_new(json, "targets", json_string(targets));
        if (counts->is_index)
            json_object_set_new(json, "unreadable", json_integer((json_int_t)counts->unreadable));
        if (counts->is_index)
            json_object_set_new(json, "kept", json_integer((json_int_t)counts->kept));
        if (jpegs)
            json_object_set_new(json, "jpeg_index", summary_json(jpegs));
        if (listing->shards.num_shards) {
            json_object_set_new(json, "shards",
                                json_integer((json_int_t)listing->shards.num_shards));
            json_object_set_new(json, "damaged_shards",
                                json_integer((json_int_t)listing->shards.num_damaged_shards));
        }
        SLUICE_IN_C_LOCALE(json_dumpf(json, stdout, JSON_COMPACT | JSON_ENSURE_ASCII));
        printf("\n");
        json_decref(json);
        return;
    }
    char unreadable[40] = "";
    if (counts->is_index)
        snprintf(unreadable, sizeof(unreadable), ", %llu unreadable",
                 (unsigned long long)counts->unreadable);
    char bytes[SLUICE_SHOW_BYTES];
    const size_t samples = listing->manifest->num_entries, classes = listing->manifest->num_classes;
    printf("%s: %zu sample%s, %zu class%s, %s, %llu bad%s, dataset %s\n", listing->root, samples,
           samples == 1 ? "" : "s", classes, classes == 1 ? "" : "es",
           sluice_show_bytes((double)total_bytes(listing->manifest), bytes),
           (unsigned long long)counts->bad, unreadable, id);
    if (counts->kept)
        printf("kept %llu of them, whose length and time are as before\n",
               (unsigned long long)counts->kept);
    if (listing->shards.num_shards)
        printf("%zu shard%s, %zu damaged\n", listing->shards.num_shards,
               listing->shards.num_shards == 1 ? "" : "s", listing->shards.num_damaged_shards);
    if (fields->num)
        printf("targets: %s\n", targets);
    if (jpegs)
        printf("index of JPEGs: %llu made, %llu kept, %llu %s without, %s\n",
               (unsigned long long)jpegs->made, (unsigned long long)jpegs->kept,
               (unsigned long long)jpegs->without, jpegs->without == 1 ? "file" : "files",
               sluice_show_bytes((double)jpegs->bytes, bytes));
}

sluice_status sluice_listing_jpegs_path(const char *manifest_path, char path[SLUICE_MAX_PATH_BYTES],
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

sluice_status sluice_dataset_fields(const struct sluice_option_strings *targets, const char *type,
                                    struct sluice_field_sources *sources, struct sluice_err *err)
{
    struct sluice_field_sources parsed = {.num = 0};
    if (type && targets->num_items == 0)
        return sluice_fail(err, SLUICE_E_INVALID, "--target-type without --target");
    if (targets->num_items > SLUICE_MAX_FIELDS)
        return sluice_fail(err, SLUICE_E_INVALID, "more than %d --target", SLUICE_MAX_FIELDS);
    for (size_t i = 0; i < targets->num_items; i++) {
        struct sluice_field_source *source = &parsed.of[parsed.num++];
        const sluice_status status = sluice_field_source_parse(targets->items[i], source, err);
        if (status != SLUICE_OK)
            return status;
        if (type && !source->kind)
            source->kind = sluice_field_kind_parse(type, strlen(type));
    }
    *sources = parsed;
    return SLUICE_OK;
}

sluice_status sluice_listing_options(const struct sluice_listing_source *source,
                                     struct sluice_manifest_options *options,
                                     struct sluice_err *err)
{
    *options = (struct sluice_manifest_options){
        .with_shards = true,
        .shards = source->shards,
        .num_threads = (unsigned)source->num_threads,
        .labels = source->labels,
        .label_key = source->label_key,
        .train_list = source->train_list,
        .val_list = source->val_list,
        .classes = source->classes,
        .classes_are_folders = source->classes_are_folders,
        .annotations = source->annotations.items,
        .num_annotations = source->annotations.num_items,
    };
    return sluice_dataset_fields(&source->targets, source->target_type, &options->fields, err);
}

sluice_status sluice_listing_list(struct sluice_listing *listing,
                                  const struct sluice_listing_source *source,
                                  struct sluice_manifest **manifest, struct sluice_err *err)
{
    struct sluice_manifest_options options;
    const sluice_status status = sluice_listing_options(source, &options, err);
    if (status != SLUICE_OK)
        return status;
    return sluice_manifest_list(listing->root, &options, manifest, &listing->shards, err);
}

/* Returns the number of images with a size. */
static size_t take_sizes(struct sluice_manifest *manifest, const struct sluice_image_sizes *sizes)
{
    size_t num = 0;
    for (size_t i = 0; i < manifest->num_entries; i++) {
        struct sluice_manifest_entry *row = &manifest->rows[i];
        struct sluice_image_size size;
        (void)sluice_image_sizes_get(sizes, i, &size);
        num += size.width > 0;
        if (row->width == 0) {
            row->width = size.width;
            row->height = size.height;
        }
    }
    return num;
}

sluice_status sluice_listing_scale_boxes(const struct sluice_listing *listing,
                                         struct sluice_manifest *manifest,
                                         struct sluice_store *store, struct sluice_err *err)
{
    struct sluice_image_sizes *sizes = NULL;
    const struct sluice_roots roots = sluice_roots_one(listing->root);
    const struct sluice_image_sizes_source source = {.manifest = manifest, .store = store};
    if (!listing->shards.has_relative_boxes)
        return SLUICE_OK;
    sluice_status status = sluice_image_sizes_create(manifest->num_entries, true, &sizes, err);
    if (status == SLUICE_OK)
        status = store ? sluice_image_sizes_read(sizes, &source, err)
                       : sluice_image_sizes_read_folders(sizes, manifest, &roots, NULL, err);
    if (status == SLUICE_OK && take_sizes(manifest, sizes) == 0)
        status = sluice_fail(err, SLUICE_E_INVALID,
                             "--annotations: YOLO's boxes need the sizes of the images, and none "
                             "can be read");
    if (status == SLUICE_OK)
        sluice_annotations_scale(manifest, listing->shards.boxes_field, sizes);
    sluice_image_sizes_destroy(sizes);
    return status;
}

sluice_status sluice_listing_manifest_path(const char **chosen, const char *root,
                                           char room[SLUICE_MAX_PATH_BYTES], struct sluice_err *err)
{
    if (*chosen)
        return SLUICE_OK;
    *chosen = room;
    return sluice_path_in(root, SLUICE_MANIFEST_FILE, room, err);
}

void sluice_listing_clear(struct sluice_listing *listing)
{
    sluice_manifest_destroy(listing->manifest);
    sluice_buf_pool_destroy(listing->pool);
}
