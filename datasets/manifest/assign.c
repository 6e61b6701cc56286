#include "datasets/manifest/assign.h"

#include "base/text.h"
#include "datasets/list/class_list.h"
#include "datasets/list/split_lists.h"
#include "datasets/list/split_name.h"
#include "datasets/manifest/side_fields.h"
#include "datasets/shards/shard.h"
#include "datasets/shards/shard_list.h"

#include <stdlib.h>
#include <string.h>

#define CLASS_DEPTHS 2 /* class, train/class */

/* Folders at the place of a class that lie in shards: sorted, so that one comes once in a row. */
static sluice_status add_folders_in_shards(const struct sluice_manifest_parts *parts,
                                           struct sluice_err *err)
{
    const struct sluice_manifest *manifest = parts->builder->manifest;
    char last[CLASS_DEPTHS][SLUICE_MAX_PATH_BYTES] = {"", ""};
    char room[SLUICE_MAX_PATH_BYTES];
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; i < manifest->num_entries && status == SLUICE_OK; i++) {
        const struct sluice_manifest_entry *entry = &manifest->rows[i];
        if (!entry->offset)
            continue;
        const char *path = sluice_shard_unpacked(entry->path, entry->offset, room);
        const char *slash = strchr(path, '/');
        for (unsigned depth = 0; depth < CLASS_DEPTHS && slash && status == SLUICE_OK; depth++) {
            if (depth == 1 && sluice_split_of_path(path, NULL) < 0)
                break;
            const size_t len = (size_t)(slash - path);
            slash = strchr(slash + 1, '/');
            if (strncmp(last[depth], path, len) == 0 && !last[depth][len])
                continue;
            memcpy(last[depth], path, len);
            last[depth][len] = '\0';
            status = sluice_layout_folders_add(parts->folders, path, len, err);
            if (status == SLUICE_OK)
                parts->folders->all[parts->folders->num - 1].holds_image = true;
        }
    }
    return status;
}

/* All samples have a .cls, or none has. */
static sluice_status check_all_labelled(const struct sluice_manifest *manifest, const char *root,
                                        struct sluice_err *err)
{
    size_t num_without = 0, first = 0;
    for (size_t i = 0; i < manifest->num_entries; i++) {
        if (manifest->rows[i].label == SLUICE_NO_LABEL && num_without++ == 0)
            first = i;
    }
    if (num_without)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%s: %zu of %zu images have no label, as others have by .cls, .json or "
                           "column (%.200s%s)",
                           root, num_without, manifest->num_entries, manifest->rows[first].path,
                           num_without > 1 ? ", ..." : "");
    return SLUICE_OK;
}

/* *are_numbers: the manifest has no classes yet, and labels are integers. */
static sluice_status assign_labels(const struct sluice_manifest_parts *parts,
                                   struct sluice_labels *labels, bool *are_numbers,
                                   struct sluice_err *err)
{
    struct sluice_manifest_builder *builder = parts->builder;
    const struct sluice_layout_source source = {
        .root = parts->root,
        .folders = parts->folders->all,
        .num_folders = parts->folders->num,
        .classes_are_folders = parts->options->classes_are_folders,
        .has_lists = parts->options->train_list || parts->options->val_list,
    };
    const bool has_labels = labels && sluice_labels_have_labels(labels);
    const bool has_splits = source.has_lists || (labels && sluice_labels_have_splits(labels));
    sluice_status status = SLUICE_OK;
    *are_numbers = !has_labels && parts->num_labelled && !parts->are_names;
    if (has_labels)
        builder->manifest->num_classes = 0; /* the table's count */
    if (!has_labels && !parts->num_labelled)
        status = sluice_layout_assign(builder, &source, parts->passed, err);
    else if (!has_splits)
        status = sluice_layout_assign_subsets(builder, &source, err);
    if (status == SLUICE_OK && !has_labels && !source.has_lists)
        status = sluice_layout_leave_out_test(builder->manifest, parts->root, err);
    if (status == SLUICE_OK && !has_labels && parts->num_labelled)
        status = check_all_labelled(builder->manifest, parts->root, err);
    if (status != SLUICE_OK || !labels)
        return status;
    bool are_names = false;
    status = sluice_labels_assign(labels, builder, &are_names, err);
    *are_numbers = has_labels ? !are_names : *are_numbers;
    return status;
}

/* The list of classes that was named or lies in the root, if there is one; *has_list. */
static sluice_status read_class_list(const char *root, const char *path,
                                     struct sluice_class_list *list, bool *has_list,
                                     struct sluice_err *err)
{
    char in_root[SLUICE_MAX_PATH_BYTES];
    struct sluice_err why = {0};
    sluice_status status = SLUICE_OK;
    const bool is_named = path != NULL;
    if (!is_named && !root)
        return SLUICE_OK;
    if (!is_named) {
        status = sluice_path_in(root, SLUICE_CLASS_LIST_FILE, in_root, err);
        path = in_root;
    }
    if (status != SLUICE_OK)
        return status;
    status = sluice_class_list_read(path, list, &why);
    *has_list = status == SLUICE_OK;
    if (status == SLUICE_OK || (status == SLUICE_E_NOT_FOUND && !is_named))
        return SLUICE_OK;
    return sluice_fail(err, status, "%s", why.text);
}

static sluice_status assign(const struct sluice_manifest_parts *parts, struct sluice_labels *labels,
                            const struct sluice_split_lists *splits, struct sluice_err *err)
{
    struct sluice_class_list list = {0};
    bool has_list = false;
    bool are_numbers = splits && sluice_split_lists_have_labels(splits);
    sluice_status status =
        read_class_list(parts->folder, parts->options->classes, &list, &has_list, err);
    if (status == SLUICE_OK && !are_numbers)
        status = assign_labels(parts, labels, &are_numbers, err);
    else if (status == SLUICE_OK && labels && sluice_labels_have_fields(labels))
        status = sluice_labels_assign_fields(labels, parts->builder, err);
    if (status == SLUICE_OK && are_numbers)
        status = sluice_class_list_number(has_list ? &list : NULL, parts->builder, err);
    else if (status == SLUICE_OK && has_list)
        status = sluice_class_list_apply(&list, parts->builder, err);
    sluice_class_list_clear(&list);
    if (status == SLUICE_OK && splits)
        sluice_split_lists_assign(splits, parts->builder->manifest);
    return status;
}

/* All samples have a value of the field, whose type is known then. */
static sluice_status check_field(const struct sluice_manifest_parts *parts, unsigned field,
                                 struct sluice_err *err)
{
    struct sluice_manifest *manifest = parts->builder->manifest;
    const struct sluice_field_source *source = &parts->options->fields.of[field];
    struct sluice_field_type *type = &manifest->fields.of[field].type;
    const bool is_suffix = sluice_field_source_is_suffix(source);
    size_t num_without = 0, first = 0;
    for (size_t i = 0; i < manifest->num_entries; i++) {
        if (!sluice_manifest_field_at(manifest, i, field).at && num_without++ == 0)
            first = i;
    }
    if (!is_suffix && num_without == manifest->num_entries)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--target %s: no table of %s has this column beside file_name, and no "
                           "shard",
                           source->from, parts->root);
    if (num_without)
        return sluice_fail(err, SLUICE_E_INVALID, "%s: %zu of %zu images have no %s%s (%.200s%s)",
                           parts->root, num_without, manifest->num_entries, source->from,
                           !is_suffix                     ? ""
                           : manifest->rows[first].offset ? " of their key in their tar"
                                                          : " of their key next to them",
                           manifest->rows[first].path, num_without > 1 ? ", ..." : "");
    if (!type->kind) /* keypoints of no object */
        *type = (struct sluice_field_type){source->kind, 1};
    return SLUICE_OK;
}

/* The values that lie next to the entries that there are now; those of shards and tables came with
 * them. */
static sluice_status assign_fields(const struct sluice_manifest_parts *parts,
                                   struct sluice_err *err)
{
    const struct sluice_field_sources *sources = &parts->options->fields;
    sluice_status status = SLUICE_OK;
    if (sources->num && parts->folder)
        status = sluice_side_fields_read(parts->folder, sources, parts->builder, err);
    for (unsigned k = 0; k < sources->num && status == SLUICE_OK; k++)
        status = check_field(parts, k, err);
    if (status == SLUICE_OK)
        status = sluice_annotations_assign(parts->annotations, parts->root, sources->num,
                                           parts->builder, err);
    return status == SLUICE_OK ? sluice_manifest_finish_fields(parts->builder, err) : status;
}

sluice_status sluice_manifest_begin_fields(const struct sluice_manifest_options *options,
                                           struct sluice_manifest *manifest,
                                           struct sluice_annotations **annotations,
                                           struct sluice_err *err)
{
    struct sluice_fields fields;
    sluice_status status = sluice_field_sources_name(&options->fields, &fields, err);
    if (status == SLUICE_OK)
        status = sluice_annotations_read(options->annotations, options->num_annotations,
                                         annotations, err);
    if (status == SLUICE_OK)
        status = sluice_annotations_add_fields(*annotations, &fields, err);
    if (status == SLUICE_OK)
        manifest->fields = fields;
    return status;
}

/* The lists of splits that were named; *splits stays NULL if none was. */
static sluice_status read_splits(const struct sluice_manifest_options *options,
                                 struct sluice_split_lists **splits, struct sluice_err *err)
{
    if (!options->train_list && !options->val_list)
        return SLUICE_OK;
    sluice_status status = sluice_split_lists_create(splits, err);
    if (status == SLUICE_OK && options->train_list)
        status = sluice_split_lists_read(*splits, options->train_list, SLUICE_SUBSET_TRAIN, err);
    if (status == SLUICE_OK && options->val_list)
        status = sluice_split_lists_read(*splits, options->val_list, SLUICE_SUBSET_VAL, err);
    return status;
}

static int compare_paths(const void *a, const void *b)
{
    const struct sluice_manifest_entry *x = a, *y = b;
    return strcmp(x->path, y->path);
}

sluice_status sluice_manifest_assign(const struct sluice_manifest_parts *parts,
                                     struct sluice_labels *labels, struct sluice_err *err)
{
    struct sluice_manifest *made = parts->builder->manifest;
    struct sluice_split_lists *splits = NULL;
    sluice_status status = read_splits(parts->options, &splits, err);
    if (status == SLUICE_OK && made->num_entries > 1)
        qsort(made->rows, made->num_entries, sizeof(*made->rows), compare_paths);
    if (status == SLUICE_OK && splits)
        status = sluice_split_lists_select(splits, made, parts->root, err);
    if (status == SLUICE_OK)
        status = add_folders_in_shards(parts, err);
    if (status == SLUICE_OK && made->num_entries > 0)
        status = assign(parts, labels, splits, err);
    if (status == SLUICE_OK && made->num_entries > 0)
        status = assign_fields(parts, err);
    sluice_split_lists_destroy(splits);
    return status;
}
