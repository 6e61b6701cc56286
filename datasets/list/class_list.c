#include "datasets/list/class_list.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/text.h"
#include "datasets/manifest/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE_BYTES ((size_t)256 << 20)
#define MAX_NAME_BYTES 4096

struct named {
    const char *name;
    size_t label;
};

static int compare_named(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    return strcmp(x->name, y->name);
}

void sluice_class_list_clear(struct sluice_class_list *list)
{
    for (size_t i = 0; i < list->num; i++)
        free(list->names[i]);
    free(list->names);
    *list = (struct sluice_class_list){0};
}

/* The names by name, for searching.  NULL: no memory. */
static struct named *sort_names(const struct sluice_class_list *list)
{
    struct named *sorted = calloc(list->num + 1, sizeof(*sorted));
    for (size_t i = 0; sorted && i < list->num; i++)
        sorted[i] = (struct named){list->names[i], i};
    if (sorted)
        qsort(sorted, list->num, sizeof(*sorted), compare_named);
    return sorted;
}

static sluice_status no_memory(struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the names of classes");
}

static sluice_status check_once(const struct sluice_class_list *list, const char *path,
                                struct sluice_err *err)
{
    struct named *sorted = sort_names(list);
    if (!sorted)
        return no_memory(err);
    sluice_status status = SLUICE_OK;
    for (size_t i = 1; i < list->num && status == SLUICE_OK; i++) {
        if (strcmp(sorted[i - 1].name, sorted[i].name) == 0) {
            const size_t a = sorted[i - 1].label + 1, b = sorted[i].label + 1;
            status = sluice_fail(err, SLUICE_E_INVALID, "%s:%zu: the class '%.100s' is in line %zu",
                                 path, a > b ? a : b, sorted[i].name, a > b ? b : a);
        }
    }
    free(sorted);
    return status;
}

static sluice_status add_name(struct sluice_class_list *list, const char *path, char *line,
                              size_t len, struct sluice_err *err)
{
    const size_t number = list->num + 1;
    if (number > SLUICE_MAX_CLASSES)
        return sluice_fail(err, SLUICE_E_INVALID, "%s:%zu: more than %d classes", path, number,
                           SLUICE_MAX_CLASSES);
    if (strlen(line) != len || len > MAX_NAME_BYTES || !sluice_is_utf8(line) ||
        !sluice_manifest_unescape(line))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%s:%zu: not a class's name in UTF-8, with \\t, \\n and \\\\ for tab, "
                           "newline and backslash",
                           path, number);
    if ((list->num & (list->num - 1)) == 0) { /* room for twice as many */
        char **moved = realloc(list->names, 2 * number * sizeof(*moved));
        if (!moved)
            return no_memory(err);
        list->names = moved;
    }
    list->names[list->num] = strdup(line);
    if (!list->names[list->num])
        return no_memory(err);
    list->num++;
    return SLUICE_OK;
}

static sluice_status take_lines(struct sluice_class_list *list, const char *path, char *text,
                                size_t len, struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    for (char *at = text, *end = text + len; at < end && status == SLUICE_OK;) {
        char *newline = memchr(at, '\n', (size_t)(end - at));
        char *stop = newline ? newline : end;
        char *next = newline ? newline + 1 : end;
        if (stop > at && stop[-1] == '\r')
            stop--;
        *stop = '\0';
        if (stop == at && (list->num > 0 || next < end))
            return sluice_fail(err, SLUICE_E_INVALID, "%s:%zu: a class without a name", path,
                               list->num + 1);
        status = add_name(list, path, at, (size_t)(stop - at), err);
        at = next;
    }
    if (status == SLUICE_OK && list->num == 0)
        status = sluice_fail(err, SLUICE_E_INVALID, "%s: no class", path);
    return status;
}

sluice_status sluice_class_list_read(const char *path, struct sluice_class_list *out,
                                     struct sluice_err *err)
{
    struct sluice_buf *file = NULL;
    struct sluice_class_list list = {0};
    sluice_status status = sluice_file_read(path, MAX_FILE_BYTES, NULL, &file, err);
    if (status != SLUICE_OK)
        return status;
    char *text = malloc(file->len + 1);
    if (text) {
        memcpy(text, file->data, file->len);
        const size_t mark = sluice_byte_order_mark(text, file->len);
        status = take_lines(&list, path, text + mark, file->len - mark, err);
    } else {
        status = no_memory(err);
    }
    if (status == SLUICE_OK)
        status = check_once(&list, path, err);
    free(text);
    sluice_buf_unref(file);
    if (status != SLUICE_OK)
        sluice_class_list_clear(&list);
    else
        *out = list;
    return status;
}

/* Reading takes a byte order mark off the file, and a \r off each line: one more of each is written
 * where a name has its own. */
static void write_names(FILE *file, const void *ctx)
{
    const struct sluice_manifest *manifest = ctx;
    for (size_t i = 0; i < manifest->num_classes; i++) {
        const char *name = manifest->classes[i];
        const size_t len = strlen(name);
        if (i == 0)
            fwrite(name, 1, sluice_byte_order_mark(name, len), file);
        sluice_manifest_write_escaped(file, name);
        fputs(len > 0 && name[len - 1] == '\r' ? "\r\n" : "\n", file);
    }
}

sluice_status sluice_class_list_write(const struct sluice_manifest *manifest, const char *path,
                                      struct sluice_err *err)
{
    return sluice_file_print_atomic(path, write_names, manifest, err);
}

static sluice_status replace_classes(const struct sluice_class_list *list,
                                     struct sluice_manifest_builder *builder,
                                     struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    builder->manifest->num_classes = 0;
    for (size_t i = 0; i < list->num && status == SLUICE_OK; i++)
        status = sluice_manifest_add_class(builder, list->names[i], strlen(list->names[i]), err);
    return status;
}

sluice_status sluice_class_list_apply(const struct sluice_class_list *list,
                                      struct sluice_manifest_builder *builder,
                                      struct sluice_err *err)
{
    struct sluice_manifest *manifest = builder->manifest;
    struct named *sorted = sort_names(list);
    size_t *labels = calloc(manifest->num_classes + 1, sizeof(*labels));
    sluice_status status = sorted && labels ? SLUICE_OK : no_memory(err);
    for (size_t i = 0; status == SLUICE_OK && i < manifest->num_classes; i++) {
        const struct named key = {.name = manifest->classes[i]};
        const struct named *found =
            bsearch(&key, sorted, list->num, sizeof(*sorted), compare_named);
        labels[i] = found ? found->label : SIZE_MAX;
    }
    for (size_t i = 0; status == SLUICE_OK && i < manifest->num_entries; i++) {
        struct sluice_manifest_entry *entry = &manifest->rows[i];
        const size_t label = labels[entry->label];
        if (label == SIZE_MAX)
            status = sluice_fail(err, SLUICE_E_INVALID,
                                 "%.200s: its class '%.100s' is not in the list of classes",
                                 entry->path, manifest->classes[entry->label]);
        else
            entry->label = (uint32_t)label;
    }
    free(labels);
    free(sorted);
    return status == SLUICE_OK ? replace_classes(list, builder, err) : status;
}

static int compare_names(const void *a, const void *b)
{
    return sluice_layout_compare_names(*(const char *const *)a, *(const char *const *)b);
}

sluice_status sluice_class_names_add(const char **names, size_t *num,
                                     struct sluice_manifest_builder *builder,
                                     struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    size_t num_kept = 0;
    qsort(names, *num, sizeof(*names), compare_names);
    for (size_t i = 0; i < *num && status == SLUICE_OK; i++) {
        if (num_kept > 0 && strcmp(names[num_kept - 1], names[i]) == 0)
            continue;
        names[num_kept++] = names[i];
        status = sluice_manifest_add_class(builder, names[i], strlen(names[i]), err);
    }
    *num = num_kept;
    return status;
}

uint32_t sluice_class_names_find(const char *const *names, size_t num, const char *name)
{
    const char *const *found = bsearch(&name, names, num, sizeof(*names), compare_names);
    return (uint32_t)(found - names);
}

sluice_status sluice_class_list_number(const struct sluice_class_list *list,
                                       struct sluice_manifest_builder *builder,
                                       struct sluice_err *err)
{
    const struct sluice_manifest *manifest = builder->manifest;
    const size_t limit = list ? list->num : SLUICE_MAX_CLASSES;
    size_t num = 0;
    for (size_t i = 0; i < manifest->num_entries; i++) {
        const struct sluice_manifest_entry *entry = &manifest->rows[i];
        if (entry->label >= limit)
            return list
                       ? sluice_fail(err, SLUICE_E_INVALID,
                                     "%.200s: label %u of %zu in the list of classes", entry->path,
                                     entry->label, limit)
                       : sluice_fail(err, SLUICE_E_INVALID, "%.200s: %u is not " SLUICE_LABEL_RANGE,
                                     entry->path, entry->label);
        if (entry->label >= num)
            num = (size_t)entry->label + 1;
    }
    if (list)
        return replace_classes(list, builder, err);
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; i < num && status == SLUICE_OK; i++) {
        char name[24];
        const int len = snprintf(name, sizeof(name), "%zu", i);
        status = sluice_manifest_add_class(builder, name, (size_t)len, err);
    }
    return status;
}
