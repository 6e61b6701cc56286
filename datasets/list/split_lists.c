#include "datasets/list/split_lists.h"

#include "base/array.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "datasets/list/class_list.h"
#include "datasets/manifest/layout.h"

#include <stdlib.h>
#include <string.h>

#define MAX_FILE_BYTES ((size_t)8 << 30)
#define MAX_FILES 2 /* --train-list and --val-list */

struct line {
    const char *path; /* in the file's text */
    size_t number;
    uint32_t label;
    uint8_t file;
    bool is_found;
};

struct file {
    char *name, *text;
    enum sluice_subset subset;
};

struct sluice_split_lists {
    struct file files[MAX_FILES];
    size_t num_files;
    struct line *lines; /* by path once they are selected by */
    size_t num_lines, capacity;
    bool have_labels; /* of the first line, and so of all */
};

sluice_status sluice_split_lists_create(struct sluice_split_lists **lists, struct sluice_err *err)
{
    *lists = calloc(1, sizeof(**lists));
    return *lists ? SLUICE_OK : sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for lists");
}

void sluice_split_lists_destroy(struct sluice_split_lists *lists)
{
    for (size_t i = 0; lists && i < lists->num_files; i++) {
        free(lists->files[i].name);
        free(lists->files[i].text);
    }
    if (lists)
        free(lists->lines);
    free(lists);
}

bool sluice_split_lists_have_labels(const struct sluice_split_lists *lists)
{
    return lists->have_labels;
}

/* --- parsing --- */

static sluice_status wrong(const struct sluice_split_lists *lists, const struct line *line,
                           const char *what, struct sluice_err *err)
{
    char shown[200];
    sluice_escape_line(shown, sizeof(shown), line->path);
    return sluice_fail(err, SLUICE_E_INVALID, "%s:%zu: '%s' %s", lists->files[line->file].name,
                       line->number, shown, what);
}

/* Cuts the label off the path, if there is one.  False: it is too large. */
static bool take_label(char *path, bool *has_label, uint32_t *label)
{
    *has_label = false;
    if (sluice_layout_is_read(path))
        return true;
    char *last = path + strlen(path);
    while (last > path && last[-1] >= '0' && last[-1] <= '9')
        last--;
    char *end = last;
    while (end > path && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    if (!*last || end == last)
        return true;
    if (strlen(last) > 9)
        return false;
    *label = (uint32_t)strtoul(last, NULL, 10);
    *has_label = true;
    *end = '\0';
    return *label < SLUICE_MAX_CLASSES;
}

static sluice_status add_line(struct sluice_split_lists *lists, struct line line, char *path,
                              struct sluice_err *err)
{
    bool has_label;
    line.path = path;
    if (!sluice_is_utf8(path))
        return wrong(lists, &line, "is not UTF-8", err);
    if (!take_label(path, &has_label, &line.label))
        return wrong(lists, &line, "does not end with " SLUICE_LABEL_RANGE, err);
    while (path[0] == '.' && path[1] == '/')
        path += 2;
    line.path = path;
    if (!sluice_layout_is_read(path))
        return wrong(lists, &line,
                     "does not end as an image that is read (" SLUICE_LAYOUT_READ
                     ", maybe with a label behind it)",
                     err);
    if (lists->num_lines == 0)
        lists->have_labels = has_label;
    else if (lists->have_labels != has_label)
        return wrong(lists, &line,
                     has_label ? "has a label, unlike the lines before it"
                               : "has no label, unlike the lines before it",
                     err);
    if (!sluice_array_reserve(&lists->lines, &lists->capacity, lists->num_lines + 1,
                              sizeof(*lists->lines)))
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu lines",
                           lists->num_lines + 1);
    lists->lines[lists->num_lines++] = line;
    return SLUICE_OK;
}

sluice_status sluice_split_lists_parse(struct sluice_split_lists *lists, const char *name,
                                       const char *text, size_t len, enum sluice_subset subset,
                                       struct sluice_err *err)
{
    struct file *file = &lists->files[lists->num_files];
    if (lists->num_files == MAX_FILES)
        return sluice_fail(err, SLUICE_E_INVALID, "more than %d lists", MAX_FILES);
    *file = (struct file){.name = strdup(name), .text = malloc(len + 1), .subset = subset};
    struct line line = {.file = (uint8_t)lists->num_files++};
    if (!file->name || !file->text)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %s", name);
    memcpy(file->text, text, len);
    file->text[len] = '\0';
    if (memchr(text, '\0', len))
        return sluice_fail(err, SLUICE_E_INVALID, "%s: a NUL byte", name);
    const size_t before = lists->num_lines;
    for (char *at = file->text + sluice_byte_order_mark(text, len); at;) {
        char *newline = strchr(at, '\n');
        char *end = newline ? newline : at + strlen(at);
        while (end > at && strchr(" \t\r", end[-1]))
            end--;
        *end = '\0';
        line.number++;
        const sluice_status status = *at ? add_line(lists, line, at, err) : SLUICE_OK;
        if (status != SLUICE_OK)
            return status;
        at = newline ? newline + 1 : NULL;
    }
    return lists->num_lines > before
               ? SLUICE_OK
               : sluice_fail(err, SLUICE_E_INVALID, "%s: no line names an image", name);
}

sluice_status sluice_split_lists_read(struct sluice_split_lists *lists, const char *path,
                                      enum sluice_subset subset, struct sluice_err *err)
{
    struct sluice_buf *file = NULL;
    sluice_status status = sluice_file_read(path, MAX_FILE_BYTES, NULL, &file, err);
    if (status != SLUICE_OK)
        return status;
    status =
        sluice_split_lists_parse(lists, path, (const char *)file->data, file->len, subset, err);
    sluice_buf_unref(file);
    return status;
}

/* --- selecting --- */

static int compare_lines(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    const int order = strcmp(x->path, y->path);
    if (order || x->file != y->file)
        return order ? order : x->file - y->file;
    return (x->number > y->number) - (x->number < y->number);
}

static sluice_status sort_lines(struct sluice_split_lists *lists, struct sluice_err *err)
{
    if (lists->num_lines > 1)
        qsort(lists->lines, lists->num_lines, sizeof(*lists->lines), compare_lines);
    for (size_t i = 1; i < lists->num_lines; i++) {
        const struct line *line = &lists->lines[i];
        if (strcmp(line[-1].path, line->path) == 0)
            return sluice_fail(err, SLUICE_E_INVALID, "%s:%zu: '%.200s' is in %s:%zu, too",
                               lists->files[line->file].name, line->number, line->path,
                               lists->files[line[-1].file].name, line[-1].number);
    }
    return SLUICE_OK;
}

static struct line *find_line(const struct sluice_split_lists *lists, const char *path)
{
    size_t at = 0;
    SLUICE_FIND_FIRST(at, lists->num_lines, i, strcmp(lists->lines[i].path, path) < 0);
    return at < lists->num_lines && strcmp(lists->lines[at].path, path) == 0 ? &lists->lines[at]
                                                                             : NULL;
}

/* The first line whose image is not there is an error. */
static sluice_status check_all_found(const struct sluice_split_lists *lists, const char *root,
                                     struct sluice_err *err)
{
    const struct line *first = NULL;
    size_t num = 0;
    for (size_t i = 0; i < lists->num_lines; i++) {
        const struct line *line = &lists->lines[i];
        if (line->is_found)
            continue;
        num++;
        if (!first || line->file < first->file ||
            (line->file == first->file && line->number < first->number))
            first = line;
    }
    if (!first)
        return SLUICE_OK;
    return sluice_fail(err, SLUICE_E_INVALID, "%s:%zu: '%.200s' is no sample of %s%s",
                       lists->files[first->file].name, first->number, first->path, root,
                       num > 1 ? ", nor are others" : "");
}

sluice_status sluice_split_lists_select(struct sluice_split_lists *lists,
                                        struct sluice_manifest *manifest, const char *root,
                                        struct sluice_err *err)
{
    size_t num_kept = 0;
    sluice_status status = sort_lines(lists, err);
    if (status != SLUICE_OK)
        return status;
    for (size_t i = 0; i < manifest->num_entries; i++) {
        struct line *line = find_line(lists, manifest->rows[i].path);
        if (!line)
            continue;
        line->is_found = true;
        if (lists->have_labels)
            manifest->rows[i].label = line->label;
        manifest->rows[num_kept++] = manifest->rows[i];
    }
    if (num_kept < manifest->num_entries)
        sluice_log(SLUICE_LOG_INFO, "%s: %zu of %zu images are in no list, and are no samples",
                   root, manifest->num_entries - num_kept, manifest->num_entries);
    manifest->num_entries = num_kept;
    return check_all_found(lists, root, err);
}

void sluice_split_lists_assign(const struct sluice_split_lists *lists,
                               struct sluice_manifest *manifest)
{
    for (size_t i = 0; i < manifest->num_entries; i++) {
        const struct line *line = find_line(lists, manifest->rows[i].path);
        if (line)
            manifest->rows[i].subset = lists->files[line->file].subset;
    }
}
