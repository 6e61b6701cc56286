#include "compute_client/fetch/shard_merge.h"

#include "base/compiler.h"
#include "datasets/manifest_binary.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* --- layouts --- */

/* What the folders in a root are (manifest.h).  A path may leave it open. */
enum layout { OPEN, NO_CLASSES, CLASSES, SUBSETS };

static const char *const layout_words[] = {
    [OPEN] = "",
    [NO_CLASSES] = "images without folders",
    [CLASSES] = "folders that are classes",
    [SUBSETS] = "train/ and val/ with classes in them",
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
        (pass_folder(&as_subset, "train", 5) || pass_folder(&as_subset, "val", 3)) &&
        pass_folder(&as_subset, name, len);
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

/* One server over all files would read them in one layout, so all shards must have it. */
static sluice_status check_layouts(const struct sluice_shard_list *lists, size_t num_lists,
                                   struct sluice_err *err)
{
    enum layout first = OPEN;
    size_t first_at = 0;
    for (size_t i = 0; i < num_lists; i++) {
        const enum layout layout = layout_of(lists[i].manifest);
        if (layout == OPEN || layout == first)
            continue;
        if (first != OPEN)
            return sluice_fail(err, SLUICE_E_INVALID,
                               "shards of one dataset have one layout: %s has %s, and %s has %s",
                               lists[first_at].name, layout_words[first], lists[i].name,
                               layout_words[layout]);
        first = layout;
        first_at = i;
    }
    return SLUICE_OK;
}

/* --- classes --- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

struct merging {
    const struct sluice_shard_list *lists;
    size_t num_lists, num_rows, num_classes;
    const char **classes;                  /* of all lists, each once, by name */
    struct sluice_manifest_writer *writer; /* of the whole */
    struct sluice_shard_place *places;
    size_t *next;      /* by list: its first row that is not merged */
    uint32_t **labels; /* by list and its label: the label of the whole */
};

static void merge_classes(struct merging *m)
{
    size_t count = 0;
    for (size_t i = 0; i < m->num_lists; i++) {
        const struct sluice_manifest *manifest = m->lists[i].manifest;
        for (size_t k = 0; k < manifest->num_classes; k++)
            m->classes[count++] = manifest->classes[k];
    }
    if (count > 0)
        qsort(m->classes, count, sizeof(*m->classes), compare_names);
    for (size_t i = 0; i < count; i++) {
        if (m->num_classes == 0 || strcmp(m->classes[m->num_classes - 1], m->classes[i]) != 0)
            m->classes[m->num_classes++] = m->classes[i];
    }
    for (size_t i = 0; i < m->num_lists; i++) {
        const struct sluice_manifest *manifest = m->lists[i].manifest;
        for (size_t k = 0; k < manifest->num_classes; k++) {
            const char **found = bsearch(&manifest->classes[k], m->classes, m->num_classes,
                                         sizeof(*m->classes), compare_names);
            m->labels[i][k] = (uint32_t)(found - m->classes);
        }
    }
}

/* --- rows --- */

/* The list whose next row comes first, or num_lists.  There are a few lists: a heap would not pay.
 */
static size_t find_first(const struct merging *m)
{
    size_t first = m->num_lists;
    const char *path = NULL;
    for (size_t i = 0; i < m->num_lists; i++) {
        const struct sluice_manifest *manifest = m->lists[i].manifest;
        if (m->next[i] == manifest->num_entries)
            continue;
        const char *candidate = sluice_manifest_at(manifest, m->next[i]).path;
        if (!path || strcmp(candidate, path) < 0) {
            first = i;
            path = candidate;
        }
    }
    return first;
}

static sluice_status merge_rows(struct merging *m, struct sluice_err *err)
{
    const char *before = NULL; /* path */
    sluice_status status = SLUICE_OK;
    for (size_t row = 0; status == SLUICE_OK && row < m->num_rows; row++) {
        const size_t from = find_first(m);
        const size_t listed = m->next[from]++;
        struct sluice_manifest_entry entry = sluice_manifest_at(m->lists[from].manifest, listed);
        entry.label = m->labels[from][entry.label];
        m->places[row] =
            (struct sluice_shard_place){.shard = (uint32_t)from, .listed_id = (uint32_t)listed};
        if (before && strcmp(before, entry.path) == 0)
            return sluice_fail(err, SLUICE_E_INVALID,
                               "both %s and %s have '%.200s', but shards share no file; servers "
                               "that have the same files are replicas: --host A,B",
                               m->lists[m->places[row - 1].shard].name, m->lists[from].name,
                               entry.path);
        before = entry.path;
        status = sluice_manifest_writer_add(m->writer, &entry, err);
    }
    return status;
}

static bool allocate(struct merging *m)
{
    size_t num_classes = 0;
    for (size_t i = 0; i < m->num_lists; i++) {
        m->num_rows += m->lists[i].manifest->num_entries;
        num_classes += m->lists[i].manifest->num_classes;
    }
    m->classes = calloc(num_classes + 1, sizeof(*m->classes));
    m->places = calloc(m->num_rows + 1, sizeof(*m->places));
    m->next = calloc(m->num_lists, sizeof(*m->next));
    m->labels = calloc(m->num_lists, sizeof(*m->labels));
    bool has_all = m->classes && m->places && m->next && m->labels;
    for (size_t i = 0; has_all && i < m->num_lists; i++) {
        m->labels[i] = calloc(m->lists[i].manifest->num_classes + 1, sizeof(**m->labels));
        has_all = m->labels[i] != NULL;
    }
    return has_all;
}

sluice_status sluice_shard_merge(const struct sluice_shard_list *lists, size_t num_lists,
                                 struct sluice_manifest **manifest,
                                 struct sluice_shard_place **places, struct sluice_err *err)
{
    struct merging m = {.lists = lists, .num_lists = num_lists};
    sluice_status status = check_layouts(lists, num_lists, err);
    if (status != SLUICE_OK)
        return status;
    if (!allocate(&m))
        status =
            sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a list of %zu samples", m.num_rows);
    else if (m.num_rows > UINT32_MAX)
        status = sluice_fail(err, SLUICE_E_UNSUPPORTED, "a dataset of %zu samples", m.num_rows);
    if (status == SLUICE_OK) {
        merge_classes(&m);
        struct sluice_manifest_writer_options options = {.num_entries = m.num_rows,
                                                         .num_classes = m.num_classes};
        for (size_t i = 0; i < num_lists; i++)
            sluice_manifest_writer_want(&options, lists[i].manifest);
        status = sluice_manifest_writer_create(&options, &m.writer, err);
    }
    if (status == SLUICE_OK)
        status = merge_rows(&m, err);
    const struct sluice_manifest_ending ending = {.classes = m.classes};
    if (status == SLUICE_OK)
        status = sluice_manifest_writer_commit(m.writer, &ending, manifest, err);
    if (status == SLUICE_OK) {
        *places = m.places;
        m.places = NULL;
    }
    for (size_t i = 0; m.labels && i < num_lists; i++)
        free(m.labels[i]);
    free(m.labels);
    free(m.next);
    free(m.places);
    sluice_manifest_writer_destroy(m.writer);
    free(m.classes);
    return status;
}
