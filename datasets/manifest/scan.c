#include "datasets/manifest/assign.h"

#include "base/cpu.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "datasets/list/beneath.h"
#include "datasets/list/class_list.h"
#include "datasets/list/labels.h"
#include "datasets/list/split_name.h"
#include "datasets/manifest/side_fields.h"
#include "datasets/manifest/stat_pool.h"
#include "datasets/shards/shard.h"
#include "datasets/shards/shard_list.h"
#include "datasets/shards/shard_set.h"
#include "image/codecs/coding.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Walking a root: which files it has, in which order, of which classes. */

#define SHARDS ".tar or .mds"
#define CLASS_DEPTHS 2 /* ROOT/class, ROOT/train/class */
#define NONE SIZE_MAX
#define MAX_TOLD 10 /* lines of the log about single names */

/* Files that our own programs write next to the images. */
static bool is_our_own(const char *path)
{
    return sluice_starts_with(path, "sluice-manifest.") ||
           strcmp(path, SLUICE_CLASS_LIST_FILE) == 0 ||
           sluice_starts_with(path, "sluice-jpeg-index") || sluice_has_suffix(path, ".part");
}

struct walk {
    struct sluice_manifest_builder *builder;
    struct sluice_passed_over *passed;
    const char *root;
    const atomic_bool *is_cancelled; /* or NULL */
    int root_fd;
    char path[SLUICE_MAX_PATH_BYTES]; /* of the folder or file at hand, relative to the root */
    struct {
        dev_t dev;
        ino_t ino;
    } above[SLUICE_LAYOUT_MAX_DEPTH + 1]; /* the folders that it lies in, by depth */
    uint64_t num_told;                    /* by pass_over() */

    struct sluice_layout_folders folders;
    size_t at_hand[CLASS_DEPTHS]; /* of these the one that it lies in, by depth; -1: none */

    const struct sluice_labels *labels;        /* borrowed; may be NULL */
    const struct sluice_field_sources *fields; /* borrowed */
    struct sluice_stat_pool *stats;            /* NULL: files are looked at one after the other */
    bool with_shards;
    struct sluice_shard_set shards;
    size_t num_mds; /* that were met */

    /* The walk only asks whether the folder holds an image, as ImageFolder would see it. */
    bool is_search, has_found;
};

static void pass_over(struct walk *walk, bool may_be_image, const char *why)
{
    if (may_be_image)
        sluice_passed_over_add_image(walk->passed, walk->path);
    if (walk->num_told++ < MAX_TOLD)
        sluice_log(SLUICE_LOG_WARN, "%s/%s: %s; passed over", walk->root, walk->path, why);
}

/* An unreadable folder may hold samples: a list without them would be a smaller dataset. */
static sluice_status fail_here(const struct walk *walk, const char *what, int error,
                               struct sluice_err *err)
{
    if (walk->is_search)
        return SLUICE_OK;
    const enum sluice_status status = error == ENOMEM ? SLUICE_E_NO_MEMORY : SLUICE_E_IO;
    return sluice_fail(err, status, "%s%s%s: %s: %s; the list of samples would not be whole",
                       walk->root, walk->path[0] ? "/" : "", walk->path, what, strerror(error));
}

/* Tells an error of a link, which is then not a sample, from a failed disk. */
static bool is_the_links_own(int error)
{
    switch (error) {
    case EXDEV:   /* leaves the root */
    case ELOOP:   /* a circle, or one of /proc's magic ones */
    case ENOENT:  /* leads nowhere */
    case ENOTDIR: /* the same */
    case ENAMETOOLONG:
    case ENOSYS: /* no openat2 here, so nobody can tell where it leads */
    case EPERM:  /* the same, as some sandboxes say it */
        return true;
    default:
        return false;
    }
}

/* --- folders at the place of a class --- */

static void note_image(struct walk *walk)
{
    walk->has_found = true;
    for (size_t i = 0; i < CLASS_DEPTHS; i++) {
        if (walk->at_hand[i] != NONE)
            walk->folders.all[walk->at_hand[i]].holds_image = true;
    }
}

/* Whether a folder in a folder of this depth is at the place of a class: in the root, or in a
 * folder of the root that is called as a split is. */
static bool is_class_place(const struct walk *walk, unsigned depth)
{
    return depth == 0 || (depth == 1 && sluice_split_of_path(walk->path, NULL) >= 0);
}

static sluice_status add_folder(struct walk *walk, unsigned depth, struct sluice_err *err)
{
    const sluice_status status =
        sluice_layout_folders_add(&walk->folders, walk->path, strlen(walk->path), err);
    if (status == SLUICE_OK)
        walk->at_hand[depth] = walk->folders.num - 1;
    return status;
}

/* --- the walk --- */

static sluice_status walk_folder(struct walk *walk, int fd, size_t len, unsigned depth,
                                 struct sluice_err *err);

static int open_folder(const struct walk *walk, int folder_fd, const char *name, bool is_link)
{
    return is_link ? sluice_open_beneath(walk->root_fd, walk->path, O_RDONLY | O_DIRECTORY)
                   : openat(folder_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* Whether the folder at hand holds an image, as ImageFolder sees it: hidden names count, and what
 * cannot be read holds none. */
static bool search(struct walk *walk, int fd, size_t len, unsigned depth)
{
    if (fd < 0)
        return false;
    walk->is_search = true;
    walk->has_found = false;
    const sluice_status status = walk_folder(walk, fd, len, depth, NULL);
    walk->is_search = false;
    return status == SLUICE_OK && walk->has_found;
}

static bool is_above(const struct walk *walk, unsigned depth, const struct stat *st)
{
    for (unsigned i = 0; i <= depth; i++) {
        if (walk->above[i].dev == st->st_dev && walk->above[i].ino == st->st_ino)
            return true;
    }
    return false;
}

/* A folder in a folder of this depth, or a link to one; *st is the folder's. */
static sluice_status walk_subfolder(struct walk *walk, int folder_fd, const char *name, size_t len,
                                    unsigned depth, bool is_link, const struct stat *st,
                                    struct sluice_err *err)
{
    const bool is_class = !walk->is_search && is_class_place(walk, depth);
    const bool is_circle = is_link && is_above(walk, depth, st);
    if (is_class && sluice_layout_is_hidden(name) &&
        (is_circle || !search(walk, open_folder(walk, folder_fd, name, is_link), len, depth + 1)))
        return SLUICE_OK;
    sluice_status status = is_class ? add_folder(walk, depth, err) : SLUICE_OK;
    if (status == SLUICE_OK && is_circle && !walk->is_search)
        pass_over(walk, false, "a link to a folder that it lies in");
    if (status == SLUICE_OK && !is_circle) {
        const int fd = open_folder(walk, folder_fd, name, is_link);
        if (fd >= 0)
            status = walk_folder(walk, fd, len, depth + 1, err);
        else if (errno != ENOENT) /* deleted since the folder above was read */
            status = fail_here(walk, "open the folder", errno, err);
    }
    if (is_class)
        walk->at_hand[depth] = NONE;
    return status;
}

/* A link that nobody follows.  At the place of a class it is one, if it leads to a folder: what
 * that holds is not looked at. */
static sluice_status pass_over_link(struct walk *walk, int folder_fd, const char *name,
                                    unsigned depth, struct sluice_err *err)
{
    struct stat st;
    const bool is_folder = fstatat(folder_fd, name, &st, 0) == 0 && S_ISDIR(st.st_mode);
    if (!is_folder && sluice_layout_is_image(name))
        note_image(walk);
    if (walk->is_search || sluice_layout_is_hidden(name))
        return SLUICE_OK;
    pass_over(walk, is_folder || sluice_layout_is_read(name),
              "a link that leaves the root, is absolute or leads nowhere");
    if (!is_folder || !is_class_place(walk, depth))
        return SLUICE_OK;
    const sluice_status status = add_folder(walk, depth, err);
    if (status == SLUICE_OK)
        note_image(walk);
    walk->at_hand[depth] = NONE;
    return status;
}

/* A shard: its members are listed after the walk, or it is counted. */
static sluice_status walk_shard(struct walk *walk, const char *name, const struct stat *st,
                                struct sluice_err *err)
{
    char shard[SLUICE_MAX_PATH_BYTES];
    if (!walk->with_shards) {
        walk->passed->num_shards++;
        return SLUICE_OK;
    }
    if (sluice_has_suffix(name, ".mds")) {
        walk->num_mds++;
        return SLUICE_OK;
    }
    if (!sluice_is_utf8(walk->path) || sluice_shard_split(walk->path, shard)) {
        pass_over(walk, true, "a tar whose path is not UTF-8, or in a folder called .tar");
        return SLUICE_OK;
    }
    const struct sluice_shard_file file = {
        .path = walk->path,
        .bytes = (uint64_t)st->st_size,
        .mtime_ns = sluice_file_mtime_ns(st),
    };
    return sluice_shard_set_add(&walk->shards, &file, err);
}

/* An index.json of shards of records; *is_index: it is one. */
static sluice_status walk_index(struct walk *walk, bool *is_index, struct sluice_err *err)
{
    char shard[SLUICE_MAX_PATH_BYTES];
    *is_index = false;
    if (!walk->with_shards || !sluice_is_utf8(walk->path) || sluice_shard_split(walk->path, shard))
        return SLUICE_OK;
    struct sluice_shard_folder folder = {walk->root, walk->root_fd};
    const struct sluice_shard_place place = sluice_shard_place_of_folder(&folder);
    return sluice_shard_set_add_index(&walk->shards, &place, walk->path, is_index, err);
}

static sluice_status walk_file(struct walk *walk, const char *name, size_t len,
                               const struct stat *st, struct sluice_err *err)
{
    if (sluice_layout_is_image(name))
        note_image(walk);
    if (walk->is_search || sluice_layout_is_hidden(name))
        return SLUICE_OK;
    if (S_ISREG(st->st_mode) && sluice_is_shard_name(name))
        return walk_shard(walk, name, st, err);
    if (S_ISREG(st->st_mode) && strcmp(name, SLUICE_RECORDS_INDEX_FILE) == 0) {
        bool is_index;
        const sluice_status status = walk_index(walk, &is_index, err);
        if (status != SLUICE_OK || is_index)
            return status;
    }
    if (sluice_is_side_file(walk->fields, name))
        return SLUICE_OK;
    if (!sluice_layout_is_read(name)) {
        if (S_ISREG(st->st_mode) && !is_our_own(walk->path) &&
            !sluice_labels_has_file(walk->labels, walk->path))
            sluice_passed_over_add(walk->passed, walk->path);
        return SLUICE_OK;
    }
    if (!S_ISREG(st->st_mode)) {
        pass_over(walk, true, "not a regular file");
        return SLUICE_OK;
    }
    if (!sluice_is_utf8(walk->path)) {
        pass_over(walk, true, "the name is not UTF-8");
        return SLUICE_OK;
    }
    /* The name tells formats, whose costs differ; it does not tell how a JPEG is coded. */
    const struct sluice_manifest_entry row = {
        .bytes = (uint64_t)st->st_size,
        .mtime_ns = sluice_file_mtime_ns(st),
        .label = SLUICE_NO_LABEL,
        .coding = sluice_layout_coding(name),
    };
    return sluice_manifest_add_entry(walk->builder, &row, walk->path, len, err);
}

static sluice_status walk_entry(struct walk *walk, int folder_fd, const struct sluice_stat *file,
                                size_t len, unsigned depth, struct sluice_err *err)
{
    const char *name = file->name;
    struct stat st = file->st;
    if (file->error) {
        if (file->error != ENOENT) /* deleted since the folder was read */
            return fail_here(walk, "stat", file->error, err);
        return SLUICE_OK;
    }
    const bool is_link = S_ISLNK(st.st_mode);
    if (is_link && !sluice_stat_beneath(walk->root_fd, walk->path, &st)) {
        if (!is_the_links_own(errno))
            return fail_here(walk, "where the link leads", errno, err);
        return pass_over_link(walk, folder_fd, name, depth, err);
    }
    if (S_ISDIR(st.st_mode))
        return walk_subfolder(walk, folder_fd, name, len, depth, is_link, &st, err);
    return walk_file(walk, name, len, &st, err);
}

/* Names that are skipped.  Hidden folders in the position of a class are read. */
static bool is_ignored(struct walk *walk, const char *name, unsigned depth)
{
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return true;
    if (depth == 0 && strcmp(name, "lost+found") == 0) /* fsck's, which only root may read */
        return true;
    if (walk->is_search || !sluice_layout_is_hidden(name) || is_class_place(walk, depth))
        return false;
    if (sluice_layout_is_image(name))
        note_image(walk);
    return true;
}

/* Names of a folder, and what they are. */
#define PAGE_NAMES 1024

struct page {
    size_t num;
    struct sluice_stat files[PAGE_NAMES];
    char names[PAGE_NAMES][NAME_MAX + 1];
};

/* The next names that are looked at, none at the end.  A search ends with the first image, and so
 * takes one name after the other. */
static sluice_status read_page(struct walk *walk, DIR *folder, size_t len, unsigned depth,
                               struct page *page, struct sluice_err *err)
{
    const size_t most = walk->is_search ? 1 : PAGE_NAMES;
    page->num = 0;
    while (page->num < most) {
        if (walk->is_cancelled && atomic_load_explicit(walk->is_cancelled, memory_order_relaxed))
            return sluice_fail(err, SLUICE_E_CLOSED, "stopped while %s was listed", walk->root);
        errno = 0; /* readdir() says by it alone whether NULL is the end */
        const struct dirent *entry = readdir(folder);
        if (!entry && errno)
            return fail_here(walk, "read the folder", errno, err);
        if (!entry)
            break;
        (void)snprintf(walk->path + len, sizeof(walk->path) - len, "%s%s", len ? "/" : "",
                       entry->d_name);
        const bool is_out = is_ignored(walk, entry->d_name, depth);
        walk->path[len] = '\0';
        if (is_out)
            continue;
        char *name = page->names[page->num];
        (void)snprintf(name, sizeof(page->names[0]), "%s", entry->d_name);
        page->files[page->num++].name = name;
    }
    sluice_stat_pool_run(walk->stats, dirfd(folder), page->files, page->num);
    return SLUICE_OK;
}

static sluice_status walk_page(struct walk *walk, DIR *folder, size_t len, unsigned depth,
                               const struct page *page, struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; i < page->num && status == SLUICE_OK; i++) {
        const struct sluice_stat *file = &page->files[i];
        const int added = snprintf(walk->path + len, sizeof(walk->path) - len, "%s%s",
                                   len ? "/" : "", file->name);
        if (added < 0 || (size_t)added >= sizeof(walk->path) - len)
            status = sluice_fail(err, SLUICE_E_UNSUPPORTED, "%s/%.200s...: a path too long",
                                 walk->root, walk->path);
        else
            status = walk_entry(walk, dirfd(folder), file, len + (size_t)added, depth, err);
        walk->path[len] = '\0';
    }
    return status;
}

static sluice_status walk_pages(struct walk *walk, DIR *folder, size_t len, unsigned depth,
                                struct sluice_err *err)
{
    struct page *page = malloc(sizeof(*page));
    if (!page)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to list %s", walk->root);
    sluice_status status = SLUICE_OK;
    do {
        status = read_page(walk, folder, len, depth, page, err);
        if (status == SLUICE_OK)
            status = walk_page(walk, folder, len, depth, page, err);
    } while (status == SLUICE_OK && page->num > 0 && !(walk->is_search && walk->has_found));
    free(page);
    return status;
}

/* The folder `fd`, of this depth, whose path is walk->path[0 .. len).  Takes fd. */
static sluice_status walk_folder(struct walk *walk, int fd, size_t len, unsigned depth,
                                 struct sluice_err *err)
{
    struct stat st;
    sluice_status status = SLUICE_OK;
    DIR *folder = NULL;
    if (depth > SLUICE_LAYOUT_MAX_DEPTH)
        status = walk->is_search ? SLUICE_OK
                                 : sluice_fail(err, SLUICE_E_UNSUPPORTED,
                                               "%s/%s: nested deeper than %d folders", walk->root,
                                               walk->path, SLUICE_LAYOUT_MAX_DEPTH);
    else if (fstat(fd, &st) != 0 || !(folder = fdopendir(fd)))
        status = fail_here(walk, "open the folder", errno, err);
    if (!folder) {
        close(fd);
        return status;
    }
    walk->above[depth].dev = st.st_dev;
    walk->above[depth].ino = st.st_ino;
    status = walk_pages(walk, folder, len, depth, err);
    closedir(folder);
    return status;
}

static void walk_clear(struct walk *walk)
{
    sluice_layout_folders_clear(&walk->folders);
    sluice_shard_set_clear(&walk->shards);
}

static sluice_status open_root(struct walk *walk, struct sluice_err *err)
{
    walk->root_fd = open(walk->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (walk->root_fd < 0)
        return sluice_fail(err, errno == ENOENT ? SLUICE_E_NOT_FOUND : SLUICE_E_IO, "%s: %s",
                           walk->root, strerror(errno));
    return SLUICE_OK;
}

static sluice_status walk_root(struct walk *walk, struct sluice_err *err)
{
    for (size_t i = 0; i < CLASS_DEPTHS; i++)
        walk->at_hand[i] = NONE;
    const int fd = fcntl(walk->root_fd, F_DUPFD_CLOEXEC, 0);
    const sluice_status status =
        fd < 0 ? sluice_fail(err, SLUICE_E_IO, "%s: %s", walk->root, strerror(errno))
               : walk_folder(walk, fd, 0, 0, err);
    if (status == SLUICE_OK && walk->num_told > MAX_TOLD)
        sluice_log(SLUICE_LOG_WARN, "%s: passed over: %llu more such links and files", walk->root,
                   (unsigned long long)(walk->num_told - MAX_TOLD));
    return status;
}

/* The files and shards of the root: all, or the shards that `shards` names. */
static sluice_status find_files(struct walk *walk, const char *shards, struct sluice_err *err)
{
    sluice_status status = open_root(walk, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_shard_folder folder = {walk->root, walk->root_fd};
    const struct sluice_shard_place place = sluice_shard_place_of_folder(&folder);
    status = shards ? sluice_shard_set_add_patterns(&walk->shards, &place, shards, err)
                    : walk_root(walk, err);
    close(walk->root_fd);
    return status;
}

/* --- the whole --- */

static sluice_status no_image(const struct walk *walk, struct sluice_err *err)
{
    char text[256], shards[80] = "";
    const struct sluice_passed_over *passed = walk->passed;
    const size_t len = sluice_passed_over_text(passed, text, sizeof(text));
    if (passed->num_shards)
        snprintf(shards, sizeof(shards), "; %llu " SHARDS ": run offload_dataset index",
                 (unsigned long long)passed->num_shards);
    return sluice_fail(err, SLUICE_E_NOT_FOUND,
                       "%s: no image file %s (" SLUICE_LAYOUT_READ ")%s%s%s", walk->root,
                       passed->num_images ? "where one is read" : "in it or below",
                       len ? "; passed over: " : "", text, shards);
}

static sluice_status list(struct walk *walk, const struct sluice_manifest_options *options,
                          struct sluice_manifest_summary *summary, struct sluice_err *err)
{
    struct sluice_manifest *made = walk->builder->manifest;
    struct sluice_labels *labels = NULL;
    struct sluice_shard_summary shards = {0};
    const struct sluice_shard_options how = {
        .root = walk->root,
        .num_threads = options->num_threads,
        .label_key = options->label_key,
        .fields = &options->fields,
        .passed = walk->passed,
        .is_cancelled = options->is_cancelled,
    };
    struct sluice_annotations *annotations = NULL;
    sluice_status status = sluice_manifest_begin_fields(options, made, &annotations, err);
    if (status == SLUICE_OK)
        status = sluice_labels_read(walk->root, options->labels, options->label_key,
                                    &options->fields, &labels, err);
    walk->labels = labels;
    const unsigned num_threads = options->num_threads ? options->num_threads : sluice_cpu_count();
    if (status == SLUICE_OK && options->with_shards && num_threads > 1)
        status = sluice_stat_pool_create(num_threads, &walk->stats, err);
    if (status == SLUICE_OK)
        status = find_files(walk, options->shards, err);
    sluice_stat_pool_destroy(walk->stats);
    walk->stats = NULL;
    if (status == SLUICE_OK)
        status =
            sluice_shard_set_list(&walk->shards, &how, walk->num_mds, walk->builder, &shards, err);
    walk->passed->num_damaged = shards.num_damaged;
    const struct sluice_manifest_parts parts = {
        .builder = walk->builder,
        .root = walk->root,
        .folder = walk->root,
        .options = options,
        .folders = &walk->folders,
        .passed = walk->passed,
        .annotations = annotations,
        .num_labelled = shards.num_labelled,
        .are_names = shards.are_names,
    };
    if (status == SLUICE_OK && made->num_entries > 0)
        status = sluice_manifest_assign(&parts, labels, err);
    sluice_labels_destroy(labels);
    if (status == SLUICE_OK && made->num_entries == 0)
        status = no_image(walk, err);
    if (status == SLUICE_OK && summary)
        *summary = (struct sluice_manifest_summary){
            .num_shards = shards.num_shards,
            .num_damaged_shards = shards.num_damaged,
            .has_relative_boxes = sluice_annotations_are_relative(annotations),
            .boxes_field = options->fields.num};
    sluice_annotations_destroy(annotations);
    return status;
}

sluice_status sluice_manifest_list(const char *root, const struct sluice_manifest_options *options,
                                   struct sluice_manifest **manifest,
                                   struct sluice_manifest_summary *summary, struct sluice_err *err)
{
    struct sluice_manifest_builder builder;
    sluice_status status = sluice_manifest_builder_init(&builder, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_manifest *made = builder.manifest;
    struct walk *walk = calloc(1, sizeof(*walk));
    made->passed_over = calloc(1, sizeof(*made->passed_over));
    if (walk && made->passed_over) {
        walk->builder = &builder;
        walk->passed = made->passed_over;
        walk->root = root;
        walk->with_shards = options->with_shards;
        walk->is_cancelled = options->is_cancelled;
        walk->fields = &options->fields;
        status = list(walk, options, summary, err);
        walk_clear(walk);
    } else {
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a manifest");
    }
    free(walk);
    if (status != SLUICE_OK)
        sluice_manifest_destroy(made);
    else
        *manifest = made;
    return status;
}

sluice_status sluice_manifest_scan(const char *root, const atomic_bool *is_cancelled,
                                   struct sluice_manifest **manifest, struct sluice_err *err)
{
    struct sluice_manifest_options options = {.is_cancelled = is_cancelled};
    struct sluice_err why = {0};
    const sluice_status status = sluice_manifest_list(root, &options, manifest, NULL, &why);
    if (status != SLUICE_E_NOT_FOUND)
        return status == SLUICE_OK ? status : sluice_fail(err, status, "%s", why.text);
    options.with_shards = true;
    return sluice_manifest_list(root, &options, manifest, NULL, err);
}

static void tell_passed_over(const char *root, const char *text, uint64_t num_unread,
                             const char *when)
{
    if (text[0])
        sluice_log(num_unread ? SLUICE_LOG_WARN : SLUICE_LOG_INFO,
                   "%s: passed over%s: %s; only " SLUICE_LAYOUT_READ " are read", root, when, text);
}

sluice_status sluice_manifest_check_passed_over(const struct sluice_manifest *manifest,
                                                const char *root, bool is_strict,
                                                const atomic_bool *is_cancelled,
                                                struct sluice_err *err)
{
    struct sluice_manifest *walked = NULL;
    if (!manifest->passed_over) {
        if (!is_strict) {
            tell_passed_over(root, manifest->passed_text ? manifest->passed_text : "",
                             manifest->passed_unread, " when its list was made");
            return SLUICE_OK;
        }
        const struct sluice_manifest_options options = {
            .with_shards = sluice_manifest_has_members(manifest),
            .classes_are_folders = !sluice_layout_is_of_splits(manifest),
            .is_cancelled = is_cancelled,
        };
        const sluice_status status = sluice_manifest_list(root, &options, &walked, NULL, err);
        if (status != SLUICE_OK)
            return status;
        manifest = walked;
    }
    const struct sluice_passed_over *passed = manifest->passed_over;
    char text[400];
    sluice_passed_over_text(passed, text, sizeof(text));
    tell_passed_over(root, text, sluice_passed_over_num_unread(passed), "");
    if (passed->num_shards)
        sluice_log(SLUICE_LOG_WARN, "%s: %llu " SHARDS ": run offload_dataset index", root,
                   (unsigned long long)passed->num_shards);
    sluice_status status = SLUICE_OK;
    if (is_strict && passed->num_shards)
        status =
            sluice_fail(err, SLUICE_E_UNSUPPORTED,
                        "--strict: %llu " SHARDS " of %s are not read: run offload_dataset index",
                        (unsigned long long)passed->num_shards, root);
    if (is_strict && passed->num_damaged)
        status = sluice_fail(err, SLUICE_E_CORRUPT, "--strict: %s: %llu damaged %s", root,
                             (unsigned long long)passed->num_damaged,
                             passed->num_damaged == 1 ? "shard" : "shards");
    if (is_strict && passed->num_images)
        status = sluice_fail(
            err, SLUICE_E_UNSUPPORTED,
            "--strict: %llu %s of %s may be images and are not read: %.100s%s%.100s%s%.100s%s",
            (unsigned long long)passed->num_images, passed->num_images == 1 ? "file" : "files",
            root, passed->images[0], passed->images[1][0] ? ", " : "", passed->images[1],
            passed->images[2][0] ? ", " : "", passed->images[2],
            passed->num_images > SLUICE_PASSED_NAMES ? ", ..." : "");
    sluice_manifest_destroy(walked);
    return status;
}
