#include "datasets/manifest/layout.h"

#include "base/array.h"
#include "base/log.h"
#include "base/text.h"
#include "datasets/list/split_name.h"
#include "datasets/shards/shard.h"
#include "image/codecs/coding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAMES 5 /* of classes, in one line of the log */

struct class
{
    const char *name; /* as the file system has it; borrowed */
    bool is_in[SLUICE_NUM_SPLITS];
    bool holds_image;
    size_t num_samples;
};

struct layout {
    const struct sluice_layout_source *source;
    struct sluice_manifest_builder *builder;
    bool has_splits;  /* else everything is train */
    bool leaves_test; /* of the splits, test is left out */
    bool is_flat;     /* one class without a name, no class folders */
    struct class *classes;
    size_t num_classes;
};

/* The coding that a file's name implies; unknown for a JPEG. */
static const struct {
    const char *suffix;
    enum sluice_coding coding;
} read_suffixes[] = {
    {".jpg", SLUICE_CODING_UNKNOWN}, {".jpeg", SLUICE_CODING_UNKNOWN},
    {".png", SLUICE_CODING_PNG},     {".webp", SLUICE_CODING_WEBP},
    {".tif", SLUICE_CODING_TIFF},    {".tiff", SLUICE_CODING_TIFF},
    {".bmp", SLUICE_CODING_BMP},     {".gif", SLUICE_CODING_GIF},
    {".ppm", SLUICE_CODING_PNM},     {".pgm", SLUICE_CODING_PNM},
};

sluice_status sluice_layout_folders_add(struct sluice_layout_folders *folders, const char *path,
                                        size_t len, struct sluice_err *err)
{
    if (!sluice_array_reserve(&folders->all, &folders->capacity, folders->num + 1,
                              sizeof(*folders->all)))
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu folders", folders->num + 1);
    char *copy = strndup(path, len);
    if (!copy)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a folder's name");
    folders->all[folders->num++] = (struct sluice_layout_folder){.path = copy};
    return SLUICE_OK;
}

void sluice_layout_folders_clear(struct sluice_layout_folders *folders)
{
    for (size_t i = 0; i < folders->num; i++)
        free(folders->all[i].path);
    free(folders->all);
    *folders = (struct sluice_layout_folders){0};
}

bool sluice_layout_is_read(const char *name)
{
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(read_suffixes); i++) {
        if (sluice_has_suffix(name, read_suffixes[i].suffix))
            return true;
    }
    return false;
}

uint8_t sluice_layout_coding(const char *name)
{
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(read_suffixes); i++) {
        if (sluice_has_suffix(name, read_suffixes[i].suffix))
            return (uint8_t)read_suffixes[i].coding;
    }
    return SLUICE_CODING_UNKNOWN;
}

bool sluice_layout_is_image(const char *name)
{
    return sluice_layout_is_read(name); /* more than ImageFolder's: .gif */
}

bool sluice_layout_is_hidden(const char *name)
{
    return name[0] == '.';
}

/* The next character of a name as Python reads it: an invalid byte of UTF-8 becomes the code point
 * U+DC00 plus that byte (PEP 383, "surrogateescape"). */
static uint32_t next_code_point(const char **at)
{
    const uint8_t *s = (const uint8_t *)*at;
    const size_t len = sluice_utf8_len(*at);
    *at += len ? len : 1;
    switch (len) {
    case 0:
        return 0xDC00u + s[0];
    case 1:
        return s[0];
    case 2:
        return (s[0] & 0x1Fu) << 6 | (s[1] & 0x3Fu);
    case 3:
        return (s[0] & 0x0Fu) << 12 | (s[1] & 0x3Fu) << 6 | (s[2] & 0x3Fu);
    default:
        return (s[0] & 0x07u) << 18 | (s[1] & 0x3Fu) << 12 | (s[2] & 0x3Fu) << 6 | (s[3] & 0x3Fu);
    }
}

int sluice_layout_compare_names(const char *a, const char *b)
{
    while (*a && *b) {
        const uint32_t x = next_code_point(&a), y = next_code_point(&b);
        if (x != y)
            return x < y ? -1 : 1;
    }
    return (*a != '\0') - (*b != '\0');
}

static int compare_classes(const void *a, const void *b)
{
    const struct class *x = a, *y = b;
    return sluice_layout_compare_names(x->name, y->name);
}

/* --- which folders are classes --- */

/* Folders with names of splits are splits if no other folder next to them holds an image.  Otherwise
 * they are classes with such names.  That is an error if one of them has class folders in it, or, if
 * labels do not come from folders, if there are two of them. */
static sluice_status find_splits(struct layout *layout, bool are_labels_of_folders,
                                 struct sluice_err *err)
{
    const struct sluice_layout_source *source = layout->source;
    const char *splits[SLUICE_NUM_SPLITS] = {NULL}; /* a folder of each */
    const char *other = NULL, *first = NULL, *second = NULL;
    bool has_class_folders = false;
    for (size_t i = 0; i < source->num_folders && !source->classes_are_folders; i++) {
        const char *path = source->folders[i].path;
        if (!source->folders[i].holds_image || sluice_layout_is_hidden(path))
            continue;
        const int split = sluice_split_of_name(path, strlen(path));
        if (strchr(path, '/')) /* of folders in folders, those in splits are listed alone */
            has_class_folders = true;
        else if (split >= 0)
            splits[split] = path;
        else
            other = path;
    }
    for (int split = 0; split < SLUICE_NUM_SPLITS; split++) {
        second = first && !second ? splits[split] : second;
        first = first ? first : splits[split];
    }
    layout->has_splits = first && !other;
    if (!first || !other)
        return SLUICE_OK;
    if (has_class_folders || (second && !are_labels_of_folders))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%s: %.60s/ is a split (train, val, test), and %.60s/ beside it, which "
                           "holds images too, is none: move %.60s/ away, or list all folders as "
                           "classes: offload_dataset index --classes-are-folders",
                           source->root, first, other, other);
    if (second)
        sluice_log(SLUICE_LOG_WARN,
                   "%s: %s and %s are taken for classes, as %s, which holds images too, stands "
                   "beside them",
                   source->root, first, second, other);
    else if (!are_labels_of_folders)
        sluice_log(SLUICE_LOG_WARN,
                   "%s: the folder %s is not taken for a split, as %s, which holds images too, "
                   "stands beside it",
                   source->root, first, other);
    return SLUICE_OK;
}

/* The split of an entry in this layout; *path becomes the path in its folder. */
static int split_of(const struct layout *layout, const char **path)
{
    return layout->has_splits ? sluice_split_of_path(*path, path) : -1;
}

static const char *unpacked_path(const struct sluice_manifest_entry *entry,
                                 char room[SLUICE_MAX_PATH_BYTES])
{
    return sluice_shard_unpacked(entry->path, entry->offset, room);
}

/* With lists, samples of split test may be among those that they name, and its folders are classes
 * then. */
static bool has_test_samples(const struct sluice_manifest *manifest)
{
    char room[SLUICE_MAX_PATH_BYTES];
    for (size_t i = 0; i < manifest->num_entries; i++) {
        if (sluice_split_of_path(unpacked_path(&manifest->rows[i], room), NULL) ==
            SLUICE_SPLIT_TEST)
            return true;
    }
    return false;
}

/* Fills layout->classes with the folders at the place of classes, each name once. */
static sluice_status find_classes(struct layout *layout, struct sluice_err *err)
{
    const struct sluice_layout_folder *folders = layout->source->folders;
    const size_t num_folders = layout->source->num_folders;
    layout->classes = calloc(num_folders ? num_folders : 1, sizeof(*layout->classes));
    if (!layout->classes)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu classes", num_folders);
    struct class *classes = layout->classes;
    size_t num = 0;
    for (size_t i = 0; i < num_folders; i++) {
        const char *name = folders[i].path;
        const int split = split_of(layout, &name);
        if (split < 0 ? layout->has_splits || strchr(name, '/')
                      : split == SLUICE_SPLIT_TEST && layout->leaves_test)
            continue;
        struct class *class = &classes[num++];
        class->name = name;
        class->holds_image = folders[i].holds_image;
        class->is_in[split < 0 ? SLUICE_SUBSET_TRAIN : split] = true;
    }
    qsort(classes, num, sizeof(*classes), compare_classes);
    size_t num_kept = 0;
    for (size_t i = 0; i < num; i++) {
        struct class *last = num_kept ? &classes[num_kept - 1] : NULL;
        if (last && strcmp(last->name, classes[i].name) == 0) {
            last->holds_image |= classes[i].holds_image;
            for (int split = 0; split < SLUICE_NUM_SPLITS; split++)
                last->is_in[split] |= classes[i].is_in[split];
        } else {
            classes[num_kept++] = classes[i];
        }
    }
    bool has_images = false;
    num = num_kept;
    num_kept = 0;
    for (size_t i = 0; i < num; i++) {
        has_images |= classes[i].holds_image;
        if (!sluice_layout_is_hidden(classes[i].name) || classes[i].holds_image)
            classes[num_kept++] = classes[i];
    }
    layout->num_classes = num_kept;
    layout->is_flat = !has_images;
    return SLUICE_OK;
}

/* --- entries --- */

/* The class of a path in its split, or NULL if it lies in no class folder. */
static struct class *class_of(const struct layout *layout, const char *path)
{
    if (layout->is_flat)
        return &layout->classes[0];
    char name[SLUICE_MAX_PATH_BYTES];
    const size_t len = strcspn(path, "/");
    if (!path[len] || len >= sizeof(name))
        return NULL;
    memcpy(name, path, len);
    name[len] = '\0';
    const struct class key = {.name = name};
    return bsearch(&key, layout->classes, layout->num_classes, sizeof(key), compare_classes);
}

static void assign_entries(const struct layout *layout, struct sluice_passed_over *passed)
{
    struct sluice_manifest *manifest = layout->builder->manifest;
    size_t num_kept = 0, num_strays = 0;
    char first[200] = "";
    for (size_t i = 0; i < manifest->num_entries; i++) {
        struct sluice_manifest_entry *entry = &manifest->rows[i];
        char room[SLUICE_MAX_PATH_BYTES];
        const char *path = unpacked_path(entry, room);
        const int split = split_of(layout, &path);
        if (split == SLUICE_SPLIT_TEST && layout->leaves_test) {
            entry->subset = SLUICE_SPLIT_TEST;
            manifest->rows[num_kept++] = *entry;
            continue;
        }
        struct class *class = layout->has_splits && split < 0 ? NULL : class_of(layout, path);
        if (!class) {
            if (num_strays++ == 0)
                snprintf(first, sizeof(first), "%s", entry->path);
            sluice_passed_over_add_image(passed, entry->path);
            continue;
        }
        class->num_samples++;
        entry->label = (uint32_t)(class - layout->classes);
        if (split >= 0)
            entry->subset = (enum sluice_subset)split;
        manifest->rows[num_kept++] = *entry;
    }
    manifest->num_entries = num_kept;
    if (num_strays)
        sluice_log(SLUICE_LOG_WARN,
                   "%s: passed over: %zu %s beside the class folders, as torchvision's ImageFolder "
                   "does (%s%s)",
                   layout->source->root, num_strays, num_strays == 1 ? "image" : "images", first,
                   num_strays > 1 ? ", ..." : "");
}

/* --- what to say of the classes --- */

static bool is_empty(const struct class *class)
{
    return class->num_samples == 0;
}

static bool is_hidden(const struct class *class)
{
    return sluice_layout_is_hidden(class->name);
}

static bool is_in_train_alone(const struct class *class)
{
    return class->is_in[SLUICE_SUBSET_TRAIN] && !class->is_in[SLUICE_SUBSET_VAL];
}

static bool is_in_val_alone(const struct class *class)
{
    return class->is_in[SLUICE_SUBSET_VAL] && !class->is_in[SLUICE_SUBSET_TRAIN];
}

/* Counts the classes that match and writes the first of their names, "a, b, ...". */
static size_t list_classes(const struct layout *layout, bool (*match)(const struct class *class),
                           char *names, size_t room)
{
    size_t num = 0, len = 0;
    names[0] = '\0';
    for (size_t i = 0; i < layout->num_classes; i++) {
        if (!match(&layout->classes[i]) || ++num > MAX_NAMES + 1)
            continue;
        len += (size_t)snprintf(names + len, room - len, "%s%.60s", num > 1 ? ", " : "",
                                num > MAX_NAMES ? "..." : layout->classes[i].name);
    }
    return num;
}

/* An ImageFolder of train and one of val give the labels of ours only if both have all classes.
 */
static void describe_subsets(const struct layout *layout)
{
    char names[(MAX_NAMES + 1) * 64];
    size_t num = list_classes(layout, is_in_val_alone, names, sizeof(names));
    const bool is_val = num > 0;
    if (!is_val)
        num = list_classes(layout, is_in_train_alone, names, sizeof(names));
    if (num == 0 || num == layout->num_classes) /* or but one of the two has class folders */
        return;
    sluice_log(SLUICE_LOG_WARN,
               "%s: %zu of %zu class folders %s in %s alone (%s); labels count the classes of "
               "train and val together, unlike an ImageFolder of each",
               layout->source->root, num, layout->num_classes, num == 1 ? "is" : "are",
               is_val ? "val" : "train", names);
}

static void describe_classes(const struct layout *layout)
{
    char names[(MAX_NAMES + 1) * 64];
    size_t num = list_classes(layout, is_empty, names, sizeof(names));
    if (num)
        sluice_log(SLUICE_LOG_WARN,
                   "%s: %zu of %zu classes %s no samples and %s label, as with ImageFolder's "
                   "allow_empty: %s",
                   layout->source->root, num, layout->num_classes, num == 1 ? "has" : "have",
                   num == 1 ? "keeps its" : "keep their", names);
    num = list_classes(layout, is_hidden, names, sizeof(names));
    if (num)
        sluice_log(SLUICE_LOG_WARN,
                   "%s: hidden folders that hold images are classes, as in ImageFolder: %s",
                   layout->source->root, names);
    if (layout->has_splits)
        describe_subsets(layout);
}

static sluice_status add_classes(const struct layout *layout, struct sluice_err *err)
{
    if (layout->is_flat)
        return sluice_manifest_add_class(layout->builder, "", 0, err);
    for (size_t i = 0; i < layout->num_classes; i++) {
        /* Names travel and are written as UTF-8; a class by another name has no samples. */
        char escaped[4 * SLUICE_MAX_PATH_BYTES];
        const char *name = layout->classes[i].name;
        if (!sluice_is_utf8(name)) {
            sluice_escape_line(escaped, sizeof(escaped), name);
            name = escaped;
        }
        const sluice_status status =
            sluice_manifest_add_class(layout->builder, name, strlen(name), err);
        if (status != SLUICE_OK)
            return status;
    }
    return SLUICE_OK;
}

sluice_status sluice_layout_assign(struct sluice_manifest_builder *builder,
                                   const struct sluice_layout_source *source,
                                   struct sluice_passed_over *passed, struct sluice_err *err)
{
    struct layout layout = {.source = source, .builder = builder};
    sluice_status status = find_splits(&layout, true, err);
    layout.leaves_test = !source->has_lists || !has_test_samples(builder->manifest);
    if (status == SLUICE_OK)
        status = find_classes(&layout, err);
    if (status == SLUICE_OK)
        status = add_classes(&layout, err);
    if (status == SLUICE_OK) {
        assign_entries(&layout, passed);
        if (!layout.is_flat && builder->manifest->num_entries > 0)
            describe_classes(&layout);
    }
    free(layout.classes);
    return status;
}

sluice_status sluice_layout_assign_subsets(struct sluice_manifest_builder *builder,
                                           const struct sluice_layout_source *source,
                                           struct sluice_err *err)
{
    struct layout layout = {.source = source, .builder = builder};
    const sluice_status status = find_splits(&layout, false, err);
    for (size_t i = 0; i < builder->manifest->num_entries && status == SLUICE_OK; i++) {
        struct sluice_manifest_entry *entry = &builder->manifest->rows[i];
        char room[SLUICE_MAX_PATH_BYTES];
        const char *path = unpacked_path(entry, room);
        const int split = split_of(&layout, &path);
        if (split >= 0)
            entry->subset = (enum sluice_subset)split;
    }
    return status;
}

sluice_status sluice_layout_leave_out_test(struct sluice_manifest *manifest, const char *name,
                                           struct sluice_err *err)
{
    const size_t num = manifest->num_entries;
    size_t num_kept = 0;
    for (size_t i = 0; i < num; i++) {
        if (manifest->rows[i].subset != SLUICE_SPLIT_TEST)
            manifest->rows[num_kept++] = manifest->rows[i];
    }
    manifest->num_entries = num_kept;
    if (num_kept == 0 && num > 0)
        return sluice_fail(err, SLUICE_E_NOT_FOUND,
                           "%s: all %zu images are of split test, which is left out; "
                           "offload_dataset index --val-list FILE takes those that FILE names",
                           name, num);
    if (num_kept < num)
        sluice_log(SLUICE_LOG_INFO, "%s: %zu of %zu images are of split test, and are no samples",
                   name, num - num_kept, num);
    return SLUICE_OK;
}

bool sluice_layout_is_of_splits(const struct sluice_manifest *manifest)
{
    for (size_t i = 0; i < manifest->num_entries; i++) {
        const struct sluice_manifest_entry entry = sluice_manifest_at(manifest, i);
        char room[SLUICE_MAX_PATH_BYTES];
        const int split = sluice_split_of_path(unpacked_path(&entry, room), NULL);
        if (split != SLUICE_SUBSET_TRAIN && split != SLUICE_SUBSET_VAL)
            return false;
    }
    return true;
}
