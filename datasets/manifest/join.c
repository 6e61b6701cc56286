#include "datasets/manifest/join.h"

#include "base/file.h"
#include "base/roots.h"
#include "base/text.h"
#include "datasets/list/split_name.h"
#include "datasets/manifest/binary.h"
#include "datasets/manifest/builder.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* --- layouts --- */

/* The meaning of the folders in a root (manifest.h).  A path may leave it open. */
enum layout { OPEN, NO_CLASSES, CLASSES, SUBSETS };

static const char *const layout_words[] = {
    [OPEN] = "",
    [NO_CLASSES] = "images without folders",
    [CLASSES] = "folders that are classes",
    [SUBSETS] = "splits (train, val) with classes in them",
};

/* Whether the part of the path from *at on is `name` and a '/'; *at is behind it then. */
static bool pass_folder(const char **at, const char *name, size_t len)
{
    if (strncmp(*at, name, len) != 0 || (*at)[len] != '/')
        return false;
    *at += len + 1;
    return true;
}

static enum layout layout_of_row(const struct sluice_manifest *manifest, size_t row)
{
    const struct sluice_manifest_entry entry = sluice_manifest_at(manifest, row);
    const char *name = manifest->classes[entry.label];
    const size_t len = strlen(name);
    if (len == 0)
        return NO_CLASSES;
    const char *as_class = entry.path, *as_subset = entry.path;
    const bool is_class = pass_folder(&as_class, name, len);
    const bool is_subset =
        sluice_split_of_path(entry.path, &as_subset) >= 0 && pass_folder(&as_subset, name, len);
    return is_class == is_subset ? OPEN : is_class ? CLASSES : SUBSETS;
}

static enum layout layout_of(const struct sluice_manifest *manifest)
{
    for (size_t i = 0; i < manifest->num_entries; i++) {
        const enum layout layout = layout_of_row(manifest, i);
        if (layout != OPEN)
            return layout;
    }
    return OPEN;
}

/* One server over all files would read them in one layout, so all shards must have it.  Roots with
 * names are read one by one. */
static sluice_status check_layouts(const struct sluice_manifest_part *parts, size_t num_parts,
                                   struct sluice_err *err)
{
    enum layout first = OPEN;
    size_t first_at = 0;
    for (size_t i = 0; i < num_parts; i++) {
        const enum layout layout = parts[i].root[0] ? OPEN : layout_of(parts[i].manifest);
        if (layout == OPEN || layout == first)
            continue;
        if (first != OPEN)
            return sluice_fail(err, SLUICE_E_INVALID,
                               "shards of one dataset have one layout: %s has %s, and %s has %s",
                               parts[first_at].name, layout_words[first], parts[i].name,
                               layout_words[layout]);
        first = layout;
        first_at = i;
    }
    return SLUICE_OK;
}

/* All parts have the same fields, or none has any. */
static sluice_status check_fields(const struct sluice_manifest_part *parts, size_t num_parts,
                                  struct sluice_err *err)
{
    const struct sluice_fields *first = &parts[0].manifest->fields;
    for (size_t i = 1; i < num_parts; i++) {
        const struct sluice_fields *fields = &parts[i].manifest->fields;
        char words[2][SLUICE_FIELDS_WORDS];
        if (!sluice_fields_are_alike(first, fields))
            return sluice_fail(err, SLUICE_E_INVALID,
                               "parts of one dataset have targets of one kind: %s has %s, and %s "
                               "has %s; index them with the same --target options",
                               parts[0].name, sluice_fields_words(first, words[0]), parts[i].name,
                               sluice_fields_words(fields, words[1]));
    }
    return SLUICE_OK;
}

/* --- classes --- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

struct joining {
    const struct sluice_manifest_part *parts;
    size_t num_parts, num_rows, num_classes;
    const char **classes;                  /* of all parts, each once, by name */
    struct sluice_manifest_writer *writer; /* of the whole */
    struct sluice_manifest_place *places;  /* NULL: they are not wanted */
    size_t *next;                          /* by part: its first row that is not joined */
    uint32_t **labels;                     /* by part and its label: the label of the whole */
};

static void unite_classes(struct joining *j)
{
    size_t count = 0;
    for (size_t i = 0; i < j->num_parts; i++) {
        const struct sluice_manifest *manifest = j->parts[i].manifest;
        for (size_t k = 0; k < manifest->num_classes; k++)
            j->classes[count++] = manifest->classes[k];
    }
    if (count > 0)
        qsort(j->classes, count, sizeof(*j->classes), compare_names);
    for (size_t i = 0; i < count; i++) {
        if (j->num_classes == 0 || strcmp(j->classes[j->num_classes - 1], j->classes[i]) != 0)
            j->classes[j->num_classes++] = j->classes[i];
    }
    for (size_t i = 0; i < j->num_parts; i++) {
        const struct sluice_manifest *manifest = j->parts[i].manifest;
        for (size_t k = 0; k < manifest->num_classes; k++) {
            const char **found = bsearch(&manifest->classes[k], j->classes, j->num_classes,
                                         sizeof(*j->classes), compare_names);
            j->labels[i][k] = (uint32_t)(found - j->classes);
        }
    }
}

/* --- rows --- */

static bool is_joined(const struct joining *j, size_t part)
{
    return j->next[part] == j->parts[part].manifest->num_entries;
}

static bool comes_before(const struct joining *j, size_t a, size_t b)
{
    const struct sluice_manifest_part *x = &j->parts[a], *y = &j->parts[b];
    return x->root[0] ? a < b
                      : strcmp(sluice_manifest_at(x->manifest, j->next[a]).path,
                               sluice_manifest_at(y->manifest, j->next[b]).path) < 0;
}

/* The part whose next row comes first.  There are a few parts: a heap would not pay. */
static size_t find_first(const struct joining *j)
{
    size_t first = j->num_parts;
    for (size_t i = 0; i < j->num_parts; i++) {
        if (!is_joined(j, i) && (first == j->num_parts || comes_before(j, i, first)))
            first = i;
    }
    return first;
}

static sluice_status add_row(struct joining *j, const struct sluice_manifest_part *from,
                             const struct sluice_manifest_entry *row, struct sluice_err *err)
{
    char path[SLUICE_MAX_PATH_BYTES];
    if (!from->root[0])
        return sluice_manifest_writer_add(j->writer, row, err);
    if (!sluice_print(path, sizeof(path), "%s/%s", from->root, row->path))
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "%s/%.200s...: the path is too long",
                           from->root, row->path);
    struct sluice_manifest_entry named = *row;
    named.path = path;
    return sluice_manifest_writer_add(j->writer, &named, err);
}

static sluice_status join_rows(struct joining *j, struct sluice_err *err)
{
    const char *before = NULL; /* the path of a part without a root */
    size_t part_before = 0;
    sluice_status status = SLUICE_OK;
    for (size_t at = 0; status == SLUICE_OK && at < j->num_rows; at++) {
        const size_t part = find_first(j);
        const struct sluice_manifest_part *from = &j->parts[part];
        const size_t listed = j->next[part]++;
        struct sluice_manifest_entry row = sluice_manifest_at(from->manifest, listed);
        row.label = j->labels[part][row.label];
        if (j->places)
            j->places[at] =
                (struct sluice_manifest_place){.part = (uint32_t)part, .row = (uint32_t)listed};
        if (!from->root[0] && before && strcmp(before, row.path) == 0)
            return sluice_fail(err, SLUICE_E_INVALID,
                               "both %s and %s have '%.200s', but shards share no file; servers "
                               "that have the same files are replicas: --host A,B",
                               j->parts[part_before].name, from->name, row.path);
        before = row.path;
        part_before = part;
        status = add_row(j, from, &row, err);
    }
    return status;
}

static bool allocate(struct joining *j, bool has_places)
{
    size_t num_classes = 0;
    for (size_t i = 0; i < j->num_parts; i++) {
        j->num_rows += j->parts[i].manifest->num_entries;
        num_classes += j->parts[i].manifest->num_classes;
    }
    j->classes = calloc(num_classes + 1, sizeof(*j->classes));
    j->places = has_places ? calloc(j->num_rows + 1, sizeof(*j->places)) : NULL;
    j->next = calloc(j->num_parts, sizeof(*j->next));
    j->labels = calloc(j->num_parts, sizeof(*j->labels));
    bool has_all = j->classes && (j->places || !has_places) && j->next && j->labels;
    for (size_t i = 0; has_all && i < j->num_parts; i++) {
        j->labels[i] = calloc(j->parts[i].manifest->num_classes + 1, sizeof(**j->labels));
        has_all = j->labels[i] != NULL;
    }
    return has_all;
}

static void free_all(struct joining *j)
{
    for (size_t i = 0; j->labels && i < j->num_parts; i++)
        free(j->labels[i]);
    free(j->labels);
    free(j->next);
    free(j->places);
    free(j->classes);
    sluice_manifest_writer_destroy(j->writer);
}

sluice_status sluice_manifest_join(const struct sluice_manifest_part *parts, size_t num_parts,
                                   struct sluice_manifest **manifest,
                                   struct sluice_manifest_place **places, struct sluice_err *err)
{
    struct joining j = {.parts = parts, .num_parts = num_parts};
    sluice_status status = check_layouts(parts, num_parts, err);
    if (status == SLUICE_OK)
        status = check_fields(parts, num_parts, err);
    if (status == SLUICE_OK && !allocate(&j, places != NULL))
        status =
            sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a list of %zu samples", j.num_rows);
    if (status == SLUICE_OK && j.num_rows > UINT32_MAX)
        status = sluice_fail(err, SLUICE_E_UNSUPPORTED, "a dataset of %zu samples", j.num_rows);
    if (status == SLUICE_OK) {
        unite_classes(&j);
        struct sluice_manifest_writer_options options = {.num_entries = j.num_rows,
                                                         .num_classes = j.num_classes};
        for (size_t i = 0; i < num_parts; i++)
            sluice_manifest_writer_want(&options, parts[i].manifest);
        status = sluice_manifest_writer_create(&options, &j.writer, err);
    }
    if (status == SLUICE_OK)
        status = join_rows(&j, err);
    const struct sluice_manifest_ending ending = {.classes = j.classes};
    if (status == SLUICE_OK)
        status = sluice_manifest_writer_commit(j.writer, &ending, manifest, err);
    if (status == SLUICE_OK && places) {
        *places = j.places;
        j.places = NULL;
    }
    free_all(&j);
    return status;
}

sluice_status sluice_manifest_of_root(const struct sluice_manifest *whole, const char *root,
                                      struct sluice_manifest **manifest, struct sluice_err *err)
{
    struct sluice_manifest_builder builder;
    sluice_status status = sluice_manifest_builder_init(&builder, err);
    if (status == SLUICE_OK)
        builder.manifest->fields = whole->fields;
    for (size_t i = 0; status == SLUICE_OK && i < whole->num_classes; i++)
        status =
            sluice_manifest_add_class(&builder, whole->classes[i], strlen(whole->classes[i]), err);
    for (size_t i = 0; status == SLUICE_OK && i < whole->num_entries; i++) {
        const struct sluice_manifest_entry row = sluice_manifest_at(whole, i);
        const char *path = sluice_root_rest(root, row.path);
        if (path)
            status = sluice_manifest_add_entry(&builder, &row, path, strlen(path), err);
    }
    if (status == SLUICE_OK)
        *manifest = builder.manifest;
    else
        sluice_manifest_destroy(builder.manifest);
    return status;
}
