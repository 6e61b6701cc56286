#include "datasets/manifest_of_store.h"

#include "base/text.h"
#include "datasets/manifest_layout.h"
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

#define CLASS_DEPTHS 2 /* class, train/class */

/* What is made of a store's list, which has no folders but those of its keys. */
struct listing {
    struct sluice_manifest_builder builder;
    struct sluice_layout_folder *folders;
    size_t num_folders, capacity;
    size_t
        at_hand[CLASS_DEPTHS]; /* 1 + the folder of this depth that the last key lies in; 0: none */
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
    if (last && strncmp(listing->folders[last - 1].path, path, len) == 0 &&
        listing->folders[last - 1].path[len] == '\0')
        return SLUICE_OK;
    if (listing->num_folders == listing->capacity) {
        const size_t capacity = listing->capacity ? 2 * listing->capacity : 64;
        void *moved = realloc(listing->folders, capacity * sizeof(listing->folders[0]));
        if (!moved)
            return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu folders", capacity);
        listing->folders = moved;
        listing->capacity = capacity;
    }
    char *name = strndup(path, len);
    if (!name)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a folder's name");
    listing->folders[listing->num_folders++] = (struct sluice_layout_folder){.path = name};
    listing->at_hand[depth] = listing->num_folders;
    return SLUICE_OK;
}

/* What a walk over a folder would make of a key. */
struct key_parts {
    const char *name;     /* the last part */
    unsigned depth;       /* folders that it lies in */
    bool in_hidden_class; /* a folder at the place of a class */
    bool is_hidden;       /* a folder elsewhere: passed over */
};

static struct key_parts look_at(const char *key)
{
    const bool has_subset = sluice_starts_with(key, "train/") || sluice_starts_with(key, "val/");
    struct key_parts parts = {.name = key};
    for (const char *slash; (slash = strchr(parts.name, '/')); parts.name = slash + 1) {
        const bool is_class = parts.depth == (has_subset ? 1 : 0);
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
    const bool has_subset = sluice_starts_with(key, "train/") || sluice_starts_with(key, "val/");
    const char *second = first && has_subset ? strchr(first + 1, '/') : NULL;
    sluice_status status = SLUICE_OK;
    if (first)
        status = enter(listing, 0, key, (size_t)(first - key), err);
    if (second && status == SLUICE_OK)
        status = enter(listing, 1, key, (size_t)(second - key), err);
    if (status != SLUICE_OK || !is_image)
        return status;
    if (first)
        listing->folders[listing->at_hand[0] - 1].holds_image = true;
    if (second)
        listing->folders[listing->at_hand[1] - 1].holds_image = true;
    return SLUICE_OK;
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
    if (parts.is_hidden || sluice_layout_is_hidden(parts.name) || is_our_own(key))
        return SLUICE_OK;
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
        .coding = sluice_layout_coding(parts.name),
    };
    return sluice_manifest_add_entry(&listing->builder, &row, key, strlen(key), err);
}

static int compare_paths(const void *a, const void *b)
{
    const struct sluice_manifest_entry *left = a, *right = b;
    return strcmp(left->path, right->path);
}

static sluice_status finish(struct listing *listing, const char *root, struct sluice_err *err)
{
    struct sluice_manifest *made = listing->builder.manifest;
    sluice_status status = SLUICE_OK;
    if (made->num_entries > 0) {
        qsort(made->rows, made->num_entries, sizeof(made->rows[0]), compare_paths);
        status = sluice_layout_assign(&listing->builder, root, listing->folders,
                                      listing->num_folders, made->passed_over, err);
    }
    if (status == SLUICE_OK && made->num_entries == 0) {
        char text[256];
        const size_t len = sluice_passed_over_text(made->passed_over, text, sizeof(text));
        status = sluice_fail(err, SLUICE_E_NOT_FOUND,
                             "%s: no image (" SLUICE_LAYOUT_READ ") is listed%s%s", root,
                             len ? "; passed over: " : "", text);
    }
    for (size_t i = 1; i < made->num_entries && status == SLUICE_OK; i++) {
        if (strcmp(made->rows[i - 1].path, made->rows[i].path) == 0)
            status = sluice_fail(err, SLUICE_E_CORRUPT, "%s: %s is listed twice", root,
                                 made->rows[i].path);
    }
    return status;
}

sluice_status sluice_manifest_of_store(struct sluice_store *store, const char *root,
                                       struct sluice_manifest **manifest, struct sluice_err *err)
{
    struct listing listing = {.num_folders = 0};
    sluice_status status = sluice_manifest_builder_init(&listing.builder, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_manifest *made = listing.builder.manifest;
    made->passed_over = calloc(1, sizeof(*made->passed_over));
    if (!made->passed_over)
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a manifest");
    if (status == SLUICE_OK)
        status = store->list(store, "", on_object, &listing, err);
    if (status == SLUICE_OK)
        status = finish(&listing, root, err);
    for (size_t i = 0; i < listing.num_folders; i++)
        free(listing.folders[i].path);
    free(listing.folders);
    if (status != SLUICE_OK)
        sluice_manifest_destroy(made);
    else
        *manifest = made;
    return status;
}
