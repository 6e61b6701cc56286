#include "datasets/manifest_builder.h"

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "image/coding.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Walking a root: which files it has, in which order, of which classes. */

#define MAX_DEPTH 32

static bool is_png(const char *name)
{
    return sluice_has_suffix(name, ".png");
}

static bool has_image_suffix(const char *name)
{
    return is_png(name) || sluice_has_suffix(name, ".jpg") || sluice_has_suffix(name, ".jpeg");
}

/* Files that our own programs write beside the images. */
static bool is_our_own(const char *path)
{
    return sluice_starts_with(path, SLUICE_MANIFEST_FILE) ||
           sluice_starts_with(path, "sluice-jpeg-index") || sluice_has_suffix(path, ".part");
}

/* Stats the target of a symbolic link, if it lies beneath the root; else errno says why not. */
static bool stat_link_beneath(int root_fd, const char *path, struct stat *st)
{
    struct open_how how = {
        .flags = O_PATH | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
    };
    long fd;
    int tries = 0; /* EAGAIN: something was renamed while the kernel walked over a ".." */
    do
        fd = syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
    while (fd < 0 && errno == EAGAIN && ++tries < 8);
    if (fd < 0)
        return false;
    const bool is_found = fstat((int)fd, st) == 0;
    const int saved = errno;
    close((int)fd);
    errno = saved;
    return is_found;
}

struct walk {
    struct sluice_manifest_builder *builder;
    struct sluice_passed_over *passed;
    const char *root;
    int root_fd;
    char path[SLUICE_MAX_PATH_BYTES]; /* of the folder or file at hand, relative to the root */
};

static void pass_over(const struct walk *walk, const char *why)
{
    if (has_image_suffix(walk->path))
        sluice_passed_over_add_image(walk->passed, walk->path);
    sluice_log(SLUICE_LOG_WARN, "%s/%s: %s; passed over", walk->root, walk->path, why);
}

/* What cannot be read may hold samples: a list without them would be a smaller dataset. */
static sluice_status fail_here(const struct walk *walk, const char *what, int error,
                               struct sluice_err *err)
{
    const enum sluice_status status = error == ENOMEM ? SLUICE_E_NO_MEMORY : SLUICE_E_IO;
    return sluice_fail(err, status, "%s%s%s: %s: %s; the list of samples would not be whole",
                       walk->root, walk->path[0] ? "/" : "", walk->path, what, strerror(error));
}

/* Of an error about a link: it is the link that is no sample, not the disk that failed. */
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

static sluice_status walk_folder(struct walk *walk, int parent_fd, const char *name, size_t len,
                                 unsigned depth, struct sluice_err *err);

static sluice_status walk_entry(struct walk *walk, int folder_fd, const char *name, size_t len,
                                unsigned depth, struct sluice_err *err)
{
    struct stat st;
    if (fstatat(folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno != ENOENT) /* deleted since the folder was read */
            return fail_here(walk, "stat", errno, err);
        return SLUICE_OK;
    }
    const bool is_image = has_image_suffix(name);
    if (S_ISDIR(st.st_mode)) {
        if (is_image) {
            pass_over(walk, "a folder with the name of an image");
            return SLUICE_OK;
        }
        return walk_folder(walk, folder_fd, name, len, depth + 1, err);
    }
    if (S_ISLNK(st.st_mode)) {
        if (!stat_link_beneath(walk->root_fd, walk->path, &st)) {
            if (!is_the_links_own(errno))
                return fail_here(walk, "where the link leads", errno, err);
            pass_over(walk, "a link that leaves the root or leads nowhere");
            return SLUICE_OK;
        }
        if (S_ISDIR(st.st_mode)) {
            pass_over(walk, "a link to a folder");
            return SLUICE_OK;
        }
    }
    if (!is_image) {
        if (S_ISREG(st.st_mode) && !is_our_own(walk->path))
            sluice_passed_over_add(walk->passed, walk->path);
        return SLUICE_OK;
    }
    if (!S_ISREG(st.st_mode)) {
        pass_over(walk, "not a regular file");
        return SLUICE_OK;
    }
    if (!sluice_is_utf8(walk->path)) {
        pass_over(walk, "the name is not UTF-8");
        return SLUICE_OK;
    }
    /* The name tells a PNG from a JPEG, whose costs differ; it does not tell how a JPEG is coded.
     */
    const struct sluice_manifest_entry row = {
        .bytes = (uint64_t)st.st_size,
        .mtime_ns = sluice_file_mtime_ns(&st),
        .coding = is_png(name) ? SLUICE_CODING_PNG : SLUICE_CODING_UNKNOWN,
    };
    return sluice_manifest_add_entry(walk->builder, &row, walk->path, len, err);
}

/* fsck's folder at the top of a file system, which only root may read. */
static bool is_lost_and_found(const char *name, unsigned depth)
{
    return depth == 0 && strcmp(name, "lost+found") == 0;
}

static sluice_status walk_folder(struct walk *walk, int parent_fd, const char *name, size_t len,
                                 unsigned depth, struct sluice_err *err)
{
    if (depth > MAX_DEPTH)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "%s/%s: nested deeper than %d folders",
                           walk->root, walk->path, MAX_DEPTH);
    const int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder) {
        const int error = errno;
        if (fd >= 0)
            close(fd);
        if (error == ENOENT && depth > 0) /* deleted since the folder above was read */
            return SLUICE_OK;
        return fail_here(walk, "open the folder", error, err);
    }
    sluice_status status = SLUICE_OK;
    while (status == SLUICE_OK) {
        errno = 0; /* readdir() says by it alone whether NULL is the end */
        const struct dirent *entry = readdir(folder);
        if (!entry) {
            if (errno)
                status = fail_here(walk, "read the folder", errno, err);
            break;
        }
        if (entry->d_name[0] == '.' || is_lost_and_found(entry->d_name, depth))
            continue;
        const int added = snprintf(walk->path + len, sizeof(walk->path) - len, "%s%s",
                                   len ? "/" : "", entry->d_name);
        if (added < 0 || (size_t)added >= sizeof(walk->path) - len)
            status = sluice_fail(err, SLUICE_E_UNSUPPORTED, "%s/%.200s...: a path too long",
                                 walk->root, walk->path);
        else
            status =
                walk_entry(walk, dirfd(folder), entry->d_name, len + (size_t)added, depth, err);
        walk->path[len] = '\0';
    }
    closedir(folder);
    return status;
}

/* --- order, subsets and classes --- */

static int compare_paths(const void *a, const void *b)
{
    const struct sluice_manifest_entry *x = a, *y = b;
    return strcmp(x->path, y->path);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The folder that names an entry's class; *len is 0 for a file in no folder. */
static const char *class_of(const struct sluice_manifest_entry *entry, bool has_subsets,
                            size_t *len)
{
    const char *name = entry->path;
    if (has_subsets)
        name = strchr(name, '/') + 1;
    const char *slash = strchr(name, '/');
    *len = slash ? (size_t)(slash - name) : 0;
    return name;
}

/* Sets subset and label of every entry from its path, and the class list. */
static sluice_status assign_classes(struct sluice_manifest_builder *builder, struct sluice_err *err)
{
    struct sluice_manifest *manifest = builder->manifest;

    /* "train" may be the name of a class; it is a subset only where nothing else stands beside
     * train/ and val/. */
    bool has_subsets = true;
    for (size_t i = 0; i < manifest->num_entries && has_subsets; i++)
        has_subsets = sluice_starts_with(manifest->entries[i].path, "train/") ||
                      sluice_starts_with(manifest->entries[i].path, "val/");

    /* In path order one class's files come in a row (twice with subsets), so comparing with the
     * last name keeps this list short before it is sorted. */
    for (size_t i = 0; i < manifest->num_entries; i++) {
        size_t len;
        const char *name = class_of(&manifest->entries[i], has_subsets, &len);
        const char *last =
            manifest->num_classes ? manifest->classes[manifest->num_classes - 1] : NULL;
        if (last && strlen(last) == len && memcmp(last, name, len) == 0)
            continue;
        const sluice_status status = sluice_manifest_add_class(builder, name, len, err);
        if (status != SLUICE_OK)
            return status;
    }
    qsort(manifest->classes, manifest->num_classes, sizeof(*manifest->classes), compare_names);
    size_t kept = 0;
    for (size_t i = 0; i < manifest->num_classes; i++) {
        if (kept == 0 || strcmp(manifest->classes[kept - 1], manifest->classes[i]) != 0)
            manifest->classes[kept++] = manifest->classes[i];
    }
    manifest->num_classes = kept;

    for (size_t i = 0; i < manifest->num_entries; i++) {
        struct sluice_manifest_entry *entry = &manifest->entries[i];
        if (has_subsets && sluice_starts_with(entry->path, "val/"))
            entry->subset = SLUICE_SUBSET_VAL;
        size_t len;
        const char *name = class_of(entry, has_subsets, &len);
        size_t low = 0, high = manifest->num_classes;
        while (high - low > 1) {
            const size_t middle = (low + high) / 2;
            const int order = strncmp(manifest->classes[middle], name, len);
            if (order < 0 || (order == 0 && manifest->classes[middle][len] == '\0'))
                low = middle;
            else
                high = middle;
        }
        entry->label = (uint32_t)low;
    }
    return SLUICE_OK;
}

sluice_status sluice_manifest_scan(const char *root, struct sluice_manifest **manifest,
                                   struct sluice_err *err)
{
    struct sluice_manifest_builder builder;
    sluice_status status = sluice_manifest_builder_init(&builder, err);
    if (status != SLUICE_OK)
        return status;

    struct walk walk = {.builder = &builder, .root = root};
    walk.passed = builder.manifest->passed_over = calloc(1, sizeof(*walk.passed));
    if (!walk.passed) {
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a manifest");
        goto fail;
    }
    walk.root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (walk.root_fd < 0) {
        status = sluice_fail(err, errno == ENOENT ? SLUICE_E_NOT_FOUND : SLUICE_E_IO, "%s: %s",
                             root, strerror(errno));
        goto fail;
    }
    status = walk_folder(&walk, walk.root_fd, ".", 0, 0, err);
    close(walk.root_fd);
    if (status != SLUICE_OK)
        goto fail;
    if (builder.manifest->num_entries == 0) {
        char text[256];
        status = sluice_fail(
            err, SLUICE_E_NOT_FOUND, "%s: no .jpg, .jpeg or .png file in it or below%s%s", root,
            sluice_passed_over_text(walk.passed, text, sizeof(text)) ? "; passed over: " : "",
            text);
        goto fail;
    }
    qsort(builder.manifest->entries, builder.manifest->num_entries,
          sizeof(*builder.manifest->entries), compare_paths);
    status = assign_classes(&builder, err);
    if (status != SLUICE_OK)
        goto fail;
    *manifest = builder.manifest;
    return SLUICE_OK;

fail:
    sluice_manifest_destroy(builder.manifest);
    return status;
}

sluice_status sluice_manifest_check_passed_over(const struct sluice_manifest *manifest,
                                                const char *root, bool is_strict,
                                                struct sluice_err *err)
{
    struct sluice_manifest *walked = NULL;
    if (!manifest->passed_over) {
        if (!is_strict)
            return SLUICE_OK;
        const sluice_status status = sluice_manifest_scan(root, &walked, err);
        if (status != SLUICE_OK)
            return status;
        manifest = walked;
    }
    const struct sluice_passed_over *passed = manifest->passed_over;
    char text[400];
    if (sluice_passed_over_text(passed, text, sizeof(text)))
        sluice_log(passed->num_images ? SLUICE_LOG_WARN : SLUICE_LOG_INFO,
                   "%s: passed over: %s; only .jpg, .jpeg and .png are read", root, text);
    sluice_status status = SLUICE_OK;
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
