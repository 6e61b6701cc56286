#include "datasets/manifest/of_store.h"

#include "base/buf.h"
#include "base/text.h"
#include "datasets/list/split_name.h"
#include "datasets/manifest/assign.h"
#include "datasets/manifest/side_fields.h"
#include "datasets/shards/shard.h"
#include "datasets/shards/shard_set.h"
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLASS_DEPTHS 2 /* class, train/class */

/* A manifest of a store's list, whose only folders are the prefixes of its keys. */
struct listing {
    struct sluice_store *store;
    const char *root; /* in words */
    const struct sluice_manifest_options *options;
    struct sluice_manifest_builder builder;
    struct sluice_layout_folders folders;
    size_t
        at_hand[CLASS_DEPTHS]; /* 1 + the folder of this depth that the last key lies in; 0: none */

    struct sluice_shard_set shards;
    struct sluice_shard_set objects; /* that may be shards, by key; and those called index.json */
    size_t num_mds;
};

static bool is_our_own(const char *path)
{
    return sluice_starts_with(path, "sluice-manifest.") ||
           sluice_starts_with(path, "sluice-jpeg-index") || sluice_has_suffix(path, ".part");
}

/* The folder path[0 .. len), at the place of a class. */
static sluice_status enter(struct listing *listing, unsigned depth, const char *path, size_t len,
                           struct sluice_err *err)
{
    const size_t last = listing->at_hand[depth];
    if (last && strncmp(listing->folders.all[last - 1].path, path, len) == 0 &&
        listing->folders.all[last - 1].path[len] == '\0')
        return SLUICE_OK;
    const sluice_status status = sluice_layout_folders_add(&listing->folders, path, len, err);
    if (status == SLUICE_OK)
        listing->at_hand[depth] = listing->folders.num;
    return status;
}

/* Classifies a key as a walk over a folder would. */
struct key_parts {
    const char *name;     /* the last part */
    unsigned depth;       /* folders that it lies in */
    bool in_hidden_class; /* a folder at the place of a class */
    bool is_hidden;       /* a folder elsewhere: passed over */
};

static struct key_parts look_at(const char *key)
{
    const bool is_in_split = sluice_split_of_path(key, NULL) >= 0;
    struct key_parts parts = {.name = key};
    for (const char *slash; (slash = strchr(parts.name, '/')); parts.name = slash + 1) {
        const bool is_class = parts.depth == (is_in_split ? 1 : 0);
        if (sluice_layout_is_hidden(parts.name) && is_class)
            parts.in_hidden_class = true;
        else if (sluice_layout_is_hidden(parts.name))
            parts.is_hidden = true;
        parts.depth++;
    }
    return parts;
}

static sluice_status note_folders(struct listing *listing, const char *key, bool is_image,
                                  struct sluice_err *err)
{
    const char *first = strchr(key, '/');
    const char *second =
        sluice_split_of_path(key, NULL) >= 0 ? strchr(strchr(key, '/') + 1, '/') : NULL;
    sluice_status status = SLUICE_OK;
    if (first)
        status = enter(listing, 0, key, (size_t)(first - key), err);
    if (second && status == SLUICE_OK)
        status = enter(listing, 1, key, (size_t)(second - key), err);
    if (status != SLUICE_OK || !is_image)
        return status;
    if (first)
        listing->folders.all[listing->at_hand[0] - 1].holds_image = true;
    if (second)
        listing->folders.all[listing->at_hand[1] - 1].holds_image = true;
    return SLUICE_OK;
}

/* *is_shard: it is nothing else, whether it is listed or not. */
static sluice_status note_shard(struct listing *listing, const struct sluice_object *object,
                                const char *name, bool *is_shard, struct sluice_err *err)
{
    char shard[SLUICE_MAX_PATH_BYTES];
    *is_shard = sluice_is_shard_name(name);
    if (!listing->options->with_shards) {
        listing->builder.manifest->passed_over->num_shards += *is_shard;
        return SLUICE_OK;
    }
    const bool is_mds = sluice_has_suffix(name, ".mds");
    const bool is_candidate = *is_shard || sluice_has_suffix(name, ".bin") ||
                              strcmp(name, SLUICE_RECORDS_INDEX_FILE) == 0;
    if (!is_candidate || strlen(object->key) >= sizeof(shard) || !sluice_is_utf8(object->key) ||
        sluice_shard_split(object->key, shard))
        return SLUICE_OK;
    memcpy(shard, object->key, strlen(object->key) + 1);
    const struct sluice_shard_file file = {
        .path = shard, .bytes = object->bytes, .mtime_ns = object->version};
    listing->num_mds += is_mds;
    sluice_status status = sluice_shard_set_add(&listing->objects, &file, err);
    if (status == SLUICE_OK && *is_shard && !is_mds && !listing->options->shards)
        status = sluice_shard_set_add(&listing->shards, &file, err);
    return status;
}

static sluice_status on_object(void *ctx, const struct sluice_object *object,
                               struct sluice_err *err)
{
    struct listing *listing = ctx;
    const char *key = object->key;
    if (sluice_starts_with(key, "lost+found/"))
        return SLUICE_OK;
    const struct key_parts parts = look_at(key);
    if (parts.depth > SLUICE_LAYOUT_MAX_DEPTH)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "%s: nested too deep", key);
    /* A class is hidden unless an image lies anywhere in it. */
    const bool is_image = sluice_layout_is_image(parts.name);
    const sluice_status status =
        note_folders(listing, key, is_image && (!parts.is_hidden || parts.in_hidden_class), err);
    if (status != SLUICE_OK)
        return status;
    if (parts.is_hidden || sluice_layout_is_hidden(parts.name) || is_our_own(key) ||
        sluice_is_side_file(&listing->options->fields, parts.name))
        return SLUICE_OK;
    bool is_shard = false;
    const sluice_status noted = note_shard(listing, object, parts.name, &is_shard, err);
    if (noted != SLUICE_OK || is_shard || listing->options->shards)
        return noted;
    const bool is_read = sluice_layout_is_read(parts.name);
    if (!is_read) {
        sluice_passed_over_add(listing->builder.manifest->passed_over, key);
        return SLUICE_OK;
    }
    if (!sluice_is_utf8(key)) {
        sluice_passed_over_add_image(listing->builder.manifest->passed_over, key);
        return SLUICE_OK;
    }
    const struct sluice_manifest_entry row = {
        .bytes = object->bytes,
        .mtime_ns = object->version,
        .label = SLUICE_NO_LABEL,
        .coding = sluice_layout_coding(parts.name),
    };
    return sluice_manifest_add_entry(&listing->builder, &row, key, strlen(key), err);
}

/* --- shards --- */

static int compare_files(const void *a, const void *b)
{
    const struct sluice_shard_file *x = a, *y = b;
    return strcmp(x->path, y->path);
}

/* Among the objects that were listed: none is asked for. */
static sluice_status find_object(void *ctx, const char *path, uint64_t *bytes, int64_t *version,
                                 struct sluice_err *err)
{
    const struct listing *listing = ctx;
    char room[SLUICE_MAX_PATH_BYTES];
    const struct sluice_shard_file key = {.path = room};
    if (!sluice_print(room, sizeof(room), "%s", path))
        return sluice_fail(err, SLUICE_E_INVALID, "a path too long");
    const struct sluice_shard_file *found =
        listing->objects.num ? bsearch(&key, listing->objects.files, listing->objects.num,
                                       sizeof(*listing->objects.files), compare_files)
                             : NULL;
    if (!found)
        return sluice_fail(err, SLUICE_E_NOT_FOUND, "no such object is listed");
    *bytes = found->bytes;
    *version = found->mtime_ns;
    return SLUICE_OK;
}

static sluice_status read_object(void *ctx, const char *path, size_t max_bytes,
                                 struct sluice_buf **file, struct sluice_err *err)
{
    struct listing *listing = ctx;
    struct sluice_store_read read = {.key = path};
    struct sluice_err why = {0};
    sluice_status status = find_object(listing, path, &read.bytes, &read.version, &why);
    if (status == SLUICE_OK && read.bytes > max_bytes)
        status = sluice_fail(&why, SLUICE_E_UNSUPPORTED, "%llu bytes, but %zu are read at most",
                             (unsigned long long)read.bytes, max_bytes);
    if (status == SLUICE_OK)
        status = listing->store->read(listing->store, &read, file, &why);
    return status == SLUICE_OK
               ? status
               : sluice_fail(err, status, "%s/%.200s: %s", listing->root, path, why.text);
}

static sluice_status find_shards(struct listing *listing, struct sluice_err *err)
{
    const struct sluice_manifest_options *options = listing->options;
    const struct sluice_shard_place place = {listing->root, listing, find_object, read_object};
    sluice_status status = SLUICE_OK;
    (void)sluice_shard_set_sort(&listing->objects);
    if (options->shards)
        return sluice_shard_set_add_patterns(&listing->shards, &place, options->shards, err);
    for (size_t i = 0; i < listing->objects.num && status == SLUICE_OK; i++) {
        const char *path = listing->objects.files[i].path;
        const char *slash = strrchr(path, '/');
        bool is_index = false;
        if (strcmp(slash ? slash + 1 : path, SLUICE_RECORDS_INDEX_FILE) == 0)
            status = sluice_shard_set_add_index(&listing->shards, &place, path, &is_index, err);
        if (is_index)
            sluice_passed_over_take_back(listing->builder.manifest->passed_over, path);
    }
    return status;
}

/* The threads wait for the network, not for a CPU. */
static unsigned num_threads_of(const struct listing *listing)
{
    struct sluice_store_limits limits;
    listing->store->limits(listing->store, &limits);
    return listing->options->num_threads ? listing->options->num_threads : limits.parallel_reads;
}

static sluice_status list_shards(struct listing *listing, struct sluice_shard_summary *summary,
                                 struct sluice_err *err)
{
    const struct sluice_shard_options how = {
        .root = listing->root,
        .store = listing->store,
        .num_threads = num_threads_of(listing),
        .label_key = listing->options->label_key,
        .fields = &listing->options->fields,
        .passed = listing->builder.manifest->passed_over,
    };
    const sluice_status status = find_shards(listing, err);
    return status == SLUICE_OK
               ? sluice_shard_set_list(&listing->shards, &how,
                                       listing->options->shards ? 0 : listing->num_mds,
                                       &listing->builder, summary, err)
               : status;
}

/* --- the whole --- */

static sluice_status check_once(const struct sluice_manifest *made, const char *root,
                                struct sluice_err *err)
{
    for (size_t i = 1; i < made->num_entries; i++) {
        if (strcmp(made->rows[i - 1].path, made->rows[i].path) == 0)
            return sluice_fail(err, SLUICE_E_CORRUPT, "%s: %s is listed twice", root,
                               made->rows[i].path);
    }
    return SLUICE_OK;
}

static sluice_status no_image(const struct listing *listing, struct sluice_err *err)
{
    const struct sluice_passed_over *passed = listing->builder.manifest->passed_over;
    char text[256], shards[80] = "";
    const size_t len = sluice_passed_over_text(passed, text, sizeof(text));
    if (passed->num_shards)
        snprintf(shards, sizeof(shards), "; %llu .tar or .mds: run offload_dataset index",
                 (unsigned long long)passed->num_shards);
    return sluice_fail(err, SLUICE_E_NOT_FOUND,
                       "%s: no image (" SLUICE_LAYOUT_READ ") is listed%s%s%s", listing->root,
                       len ? "; passed over: " : "", text, shards);
}

static sluice_status finish(struct listing *listing, const struct sluice_shard_summary *shards,
                            const struct sluice_annotations *annotations, struct sluice_err *err)
{
    struct sluice_manifest *made = listing->builder.manifest;
    const struct sluice_manifest_options *options = listing->options;
    struct sluice_labels *labels = NULL;
    const struct sluice_manifest_parts parts = {
        .builder = &listing->builder,
        .root = listing->root,
        .options = options,
        .folders = &listing->folders,
        .passed = made->passed_over,
        .annotations = annotations,
        .num_labelled = shards->num_labelled,
        .are_names = shards->are_names,
    };
    sluice_status status = SLUICE_OK;
    if (options->labels)
        status = sluice_labels_read(listing->root, options->labels, options->label_key,
                                    &options->fields, &labels, err);
    if (status == SLUICE_OK && made->num_entries > 0)
        status = sluice_manifest_assign(&parts, labels, err);
    sluice_labels_destroy(labels);
    if (status == SLUICE_OK && made->num_entries == 0)
        status = no_image(listing, err);
    return status == SLUICE_OK ? check_once(made, listing->root, err) : status;
}

static sluice_status list(struct listing *listing, struct sluice_manifest_summary *summary,
                          struct sluice_err *err)
{
    struct sluice_store *store = listing->store;
    struct sluice_shard_summary shards = {0};
    const struct sluice_manifest_options *options = listing->options;
    struct sluice_annotations *annotations = NULL;
    sluice_status status =
        sluice_manifest_begin_fields(options, listing->builder.manifest, &annotations, err);
    if (status == SLUICE_OK)
        status = store->list(store, "", on_object, listing, err);
    if (status == SLUICE_OK && listing->options->with_shards)
        status = list_shards(listing, &shards, err);
    if (status == SLUICE_OK)
        status = finish(listing, &shards, annotations, err);
    if (status == SLUICE_OK && summary)
        *summary = (struct sluice_manifest_summary){
            .num_shards = shards.num_shards,
            .num_damaged_shards = shards.num_damaged,
            .has_relative_boxes = sluice_annotations_are_relative(annotations),
            .boxes_field = options->fields.num};
    sluice_annotations_destroy(annotations);
    return status;
}

sluice_status sluice_manifest_list_store(struct sluice_store *store, const char *root,
                                         const struct sluice_manifest_options *options,
                                         struct sluice_manifest **manifest,
                                         struct sluice_manifest_summary *summary,
                                         struct sluice_err *err)
{
    struct listing listing = {.store = store, .root = root, .options = options};
    sluice_status status = sluice_manifest_builder_init(&listing.builder, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_manifest *made = listing.builder.manifest;
    made->passed_over = calloc(1, sizeof(*made->passed_over));
    status = made->passed_over ? list(&listing, summary, err)
                               : sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a manifest");
    sluice_layout_folders_clear(&listing.folders);
    sluice_shard_set_clear(&listing.shards);
    sluice_shard_set_clear(&listing.objects);
    if (status != SLUICE_OK)
        sluice_manifest_destroy(made);
    else
        *manifest = made;
    return status;
}

sluice_status sluice_manifest_of_store(struct sluice_store *store, const char *root,
                                       struct sluice_manifest **manifest, struct sluice_err *err)
{
    return sluice_manifest_list_store(store, root, &(struct sluice_manifest_options){0}, manifest,
                                      NULL, err);
}
