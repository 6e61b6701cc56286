#include "datasets/manifest/drift.h"

#include "base/array.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/text.h"
#include "datasets/jpeg_index/jpeg_index_file.h"
#include "datasets/list/split_name.h"
#include "datasets/manifest/layout.h"
#include "datasets/shards/shard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Larger files are not hashed. */
#define MAX_HASHED_BYTES (32u << 20)

/* The precision of times in file systems: FAT rounds to 2 s, tar's plain format to 1 s.  Also
 * covers steps of the clock between writing a manifest and a change of the folder right after
 * it. */
#define TIME_SLACK_NS INT64_C(2000000000)

/* path[0 .. len) of a manifest's entry; the root has length 0. */
struct folder {
    const char *path;
    size_t len;
    bool is_shard; /* a tar, whose members are rows */
    bool is_listed;
};

struct search {
    const struct sluice_manifest *manifest;
    const char *root;
    int root_fd;
    int64_t made_mtime_ns, made_ctime_ns; /* of the manifest's file */
    const atomic_bool *is_cancelled;
    struct folder *folders; /* in the order of their paths */
    size_t num_folders, capacity;
    bool has_splits; /* all samples lie in folders of train and val */
    bool has_masks;  /* a field is one */
    bool has_shards; /* so that a tar that is not listed is new */
    unsigned num_hashed;
    struct sluice_manifest_drift *drift;
};

static bool is_cancelled(const struct search *search)
{
    return search->is_cancelled && atomic_load_explicit(search->is_cancelled, memory_order_relaxed);
}

static void count(uint64_t *number, char example[SLUICE_MAX_PATH_BYTES], const char *path)
{
    if ((*number)++ == 0)
        (void)sluice_print(example, SLUICE_MAX_PATH_BYTES, "%s", path);
}

/* --- the folders of the manifest --- */

static bool add_folder(struct search *search, const char *path, size_t len, bool is_shard)
{
    if (!sluice_array_reserve(&search->folders, &search->capacity, search->num_folders + 1,
                              sizeof(*search->folders)))
        return false;
    search->folders[search->num_folders++] =
        (struct folder){.path = path, .len = len, .is_shard = is_shard};
    return true;
}

static int compare_folders(const void *a, const void *b)
{
    const struct folder *x = a, *y = b;
    const int order = memcmp(x->path, y->path, x->len < y->len ? x->len : y->len);
    return order ? order : (x->len > y->len) - (x->len < y->len);
}

/* Whether path[0 .. len) is the folder `of`, or one that it lies in. */
static bool leads_to(const char *path, size_t len, const struct folder *of)
{
    return len <= of->len && memcmp(path, of->path, len) == 0 &&
           (len == of->len || of->path[len] == '/');
}

static sluice_status find_folders(struct search *search, struct sluice_err *err)
{
    bool is_whole = add_folder(search, "", 0, false);
    struct folder last = {.path = ""};
    search->has_splits = sluice_layout_is_of_splits(search->manifest);
    for (unsigned i = 0; i < search->manifest->fields.num; i++)
        search->has_masks |= search->manifest->fields.of[i].type.kind == SLUICE_FIELD_MASK;
    for (size_t i = 0; i < search->manifest->num_entries && is_whole; i++) {
        const char *path = sluice_manifest_at(search->manifest, i).path;
        char shard[SLUICE_MAX_PATH_BYTES];
        const bool is_member =
            sluice_manifest_at(search->manifest, i).offset && sluice_shard_split(path, shard);
        const size_t file_len = strlen(is_member ? shard : path);
        search->has_shards = search->has_shards || is_member;
        size_t last_len = 0;
        for (const char *slash = strchr(path, '/'); slash && is_whole;
             slash = strchr(slash + 1, '/')) {
            const size_t len = (size_t)(slash - path);
            if (len > file_len) /* folders in the shard */
                break;
            if (!leads_to(path, len, &last))
                is_whole = add_folder(search, path, len, is_member && len == file_len);
            last_len = len;
        }
        last = (struct folder){.path = path, .len = last_len};
    }
    if (!is_whole)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu folders",
                           search->num_folders);
    qsort(search->folders, search->num_folders, sizeof(*search->folders), compare_folders);
    size_t kept = 0;
    for (size_t i = 0; i < search->num_folders; i++) {
        if (kept == 0 || compare_folders(&search->folders[kept - 1], &search->folders[i]) != 0)
            search->folders[kept++] = search->folders[i];
    }
    search->num_folders = kept;
    return SLUICE_OK;
}

static struct folder *find_folder(const struct search *search, const char *path, size_t len)
{
    const struct folder wanted = {.path = path, .len = len};
    return bsearch(&wanted, search->folders, search->num_folders, sizeof(*search->folders),
                   compare_folders);
}

/* --- rows --- */

/* The rows beneath a folder: [first, end). */
struct rows {
    size_t first, end, prefix_len;
};

/* The first row from `low` on that does not come before all paths that begin with `prefix`, or,
 * with `is_behind`, that comes behind them. */
static size_t find_bound(const struct sluice_manifest *manifest, const char *prefix, size_t len,
                         size_t low, bool is_behind)
{
    SLUICE_FIND_FIRST(low, manifest->num_entries, i,
                      strncmp(sluice_manifest_at(manifest, i).path, prefix, len) < is_behind);
    return low;
}

/* `path` has room for a slash behind it. */
static struct rows rows_of(const struct sluice_manifest *manifest, char *path, size_t len)
{
    struct rows rows = {.prefix_len = len ? len + 1 : 0};
    if (len) {
        path[len] = '/';
        path[len + 1] = '\0';
    }
    rows.first = find_bound(manifest, path, rows.prefix_len, 0, false);
    rows.end = find_bound(manifest, path, rows.prefix_len, rows.first, true);
    path[len] = '\0';
    return rows;
}

/* The row of a path among these, or their end. */
static size_t find_row(const struct sluice_manifest *manifest, const struct rows *rows,
                       const char *path)
{
    size_t row = rows->first;
    SLUICE_FIND_FIRST(row, rows->end, i, strcmp(sluice_manifest_at(manifest, i).path, path) < 0);
    return row < rows->end && strcmp(sluice_manifest_at(manifest, row).path, path) == 0 ? row
                                                                                        : rows->end;
}

/* A file of the folder itself, not of one in it. */
static bool is_direct(const struct sluice_manifest *manifest, const struct rows *rows, size_t row)
{
    return !strchr(sluice_manifest_at(manifest, row).path + rows->prefix_len, '/');
}

/* --- listing --- */

/* DT_DIR, DT_REG, DT_LNK, or something else. */
static unsigned char kind_of(int folder_fd, const struct dirent *entry)
{
    struct stat st;
    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type;
    if (fstatat(folder_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return DT_UNKNOWN;
    return S_ISDIR(st.st_mode)   ? DT_DIR
           : S_ISREG(st.st_mode) ? DT_REG
           : S_ISLNK(st.st_mode) ? DT_LNK
                                 : DT_UNKNOWN;
}

static sluice_status fail_at(const struct search *search, const char *path, struct sluice_err *err)
{
    const int error = errno;
    return sluice_fail(err, error == ENOMEM ? SLUICE_E_NO_MEMORY : SLUICE_E_IO, "%s%s%s: %s",
                       search->root, path[0] ? "/" : "", path, strerror(error));
}

/* The folder, or NULL. */
static DIR *open_folder(const struct search *search, const char *path)
{
    const int fd =
        openat(search->root_fd, path[0] ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder && fd >= 0)
        close(fd);
    return folder;
}

/* Writes "/name" behind path[0 .. len).  False: the path is too long to be a sample's. */
static bool extend(char path[SLUICE_MAX_PATH_BYTES], size_t len, const char *name, size_t *longer)
{
    const int added =
        snprintf(path + len, SLUICE_MAX_PATH_BYTES - 1 - len, "%s%s", len ? "/" : "", name);
    *longer = len + (size_t)added;
    return added > 0 && *longer < SLUICE_MAX_PATH_BYTES - 1;
}

static bool is_passed_over(const char *name, size_t len)
{
    return name[0] == '.' || (len == 0 && strcmp(name, "lost+found") == 0);
}

/* The next entry; NULL at the end, with errno 0, and after a failure. */
static const struct dirent *next_entry(DIR *folder)
{
    errno = 0;
    return readdir(folder);
}

/* A folder that the manifest does not know: all images in it are new.  One that is gone or closed
 * by now holds none. */
static sluice_status count_new(struct search *search, char path[SLUICE_MAX_PATH_BYTES], size_t len,
                               unsigned depth, struct sluice_err *err)
{
    DIR *folder = depth < SLUICE_LAYOUT_MAX_DEPTH ? open_folder(search, path) : NULL;
    if (!folder)
        return SLUICE_OK;
    sluice_status status = SLUICE_OK;
    const struct dirent *entry;
    while (status == SLUICE_OK && !is_cancelled(search) && (entry = next_entry(folder))) {
        size_t longer;
        if (!is_passed_over(entry->d_name, len) && extend(path, len, entry->d_name, &longer)) {
            const unsigned char kind = kind_of(dirfd(folder), entry);
            const bool is_image = sluice_layout_is_read(entry->d_name);
            if (kind == DT_DIR && !is_image)
                status = count_new(search, path, longer, depth + 1, err);
            else if (kind == DT_REG && is_image && sluice_is_utf8(path))
                count(&search->drift->num_added, search->drift->added, path);
        }
        path[len] = '\0';
    }
    if (status == SLUICE_OK && !is_cancelled(search) && errno)
        status = fail_at(search, path, err);
    closedir(folder);
    return status;
}

/* The split that a folder is; -1: none. */
static int split_of_folder(const struct search *search, const char *path)
{
    return search->has_splits ? sluice_split_of_name(path, strlen(path)) : -1;
}

/* Whether images directly in this folder are samples, which they are not next to class folders. */
static bool takes_images(const struct search *search, const char *path, size_t num_direct)
{
    const bool is_beside = path[0] == '\0' || split_of_folder(search, path) >= 0;
    return !is_beside || num_direct > 0;
}

/* Whether a file of the folder may be the mask of a listed image, "a.mask.png" or "a.png" next to
 * "a.jpg". */
static bool is_mask(const struct search *search, const struct rows *rows, const char *path)
{
    const struct sluice_manifest *manifest = search->manifest;
    const char *slash = strrchr(path, '/'), *dot = slash ? slash : path;
    while (search->has_masks && (dot = strchr(dot, '.'))) {
        const size_t stem = (size_t)(++dot - path);
        size_t row = rows->first;
        SLUICE_FIND_FIRST(row, rows->end, i,
                          strncmp(sluice_manifest_at(manifest, i).path, path, stem) < 0);
        for (; row < rows->end; row++) {
            const char *image = sluice_manifest_at(manifest, row).path;
            if (strncmp(image, path, stem) != 0)
                break;
            if (!strpbrk(image + stem, "./"))
                return true;
        }
    }
    return false;
}

static sluice_status list_folder(struct search *search, char path[SLUICE_MAX_PATH_BYTES],
                                 size_t len, struct sluice_err *err)
{
    const struct sluice_manifest *manifest = search->manifest;
    const struct rows rows = rows_of(manifest, path, len);
    size_t num_direct = 0;
    for (size_t row = rows.first; row < rows.end; row++)
        num_direct += is_direct(manifest, &rows, row);
    const bool has_images = takes_images(search, path, num_direct);
    bool *is_seen = calloc(rows.end - rows.first + 1, sizeof(*is_seen));
    DIR *folder = is_seen ? open_folder(search, path) : NULL;
    if (!folder) {
        const sluice_status status = fail_at(search, path, err);
        free(is_seen);
        return status;
    }
    sluice_status status = SLUICE_OK;
    const struct dirent *entry;
    while (status == SLUICE_OK && (entry = next_entry(folder))) {
        size_t longer;
        if (!is_passed_over(entry->d_name, len) && extend(path, len, entry->d_name, &longer)) {
            const unsigned char kind = kind_of(dirfd(folder), entry);
            const bool is_image = sluice_layout_is_read(entry->d_name);
            const size_t row =
                is_image && kind != DT_DIR ? find_row(manifest, &rows, path) : rows.end;
            if (row < rows.end)
                is_seen[row - rows.first] = true;
            else if (kind == DT_DIR && !is_image && !find_folder(search, path, longer) &&
                     split_of_folder(search, path) != SLUICE_SPLIT_TEST)
                status = count_new(search, path, longer, 0, err);
            else if (kind == DT_REG && is_image && has_images && sluice_is_utf8(path) &&
                     !is_mask(search, &rows, path))
                count(&search->drift->num_added, search->drift->added, path);
            else if (kind == DT_REG && search->has_shards && sluice_is_shard_name(entry->d_name) &&
                     !find_folder(search, path, longer))
                count(&search->drift->num_added, search->drift->added, path);
        }
        path[len] = '\0';
    }
    if (status == SLUICE_OK && errno)
        status = fail_at(search, path, err);
    closedir(folder);
    for (size_t row = rows.first; row < rows.end && status == SLUICE_OK; row++) {
        if (!is_seen[row - rows.first] && is_direct(manifest, &rows, row))
            count(&search->drift->num_gone, search->drift->gone,
                  sluice_manifest_at(manifest, row).path);
    }
    free(is_seen);
    return status;
}

static int64_t ctime_ns(const struct stat *st)
{
    return (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec;
}

/* Something may have changed in it after the manifest was written.  The time of the inode as well:
 * who copies a folder's times (rsync) can set the other one back. */
static bool is_newer(const struct search *search, const struct stat *st)
{
    return sluice_file_mtime_ns(st) > search->made_mtime_ns - TIME_SLACK_NS ||
           ctime_ns(st) > search->made_ctime_ns - TIME_SLACK_NS;
}

static sluice_status look_at_folder(struct search *search, size_t i, bool is_of_sample,
                                    struct sluice_err *err)
{
    struct folder *folder = &search->folders[i];
    char path[SLUICE_MAX_PATH_BYTES];
    struct stat st;
    if (folder->len >= sizeof(path) - 2)
        return SLUICE_OK; /* no file was read there either */
    memcpy(path, folder->path, folder->len);
    path[folder->len] = '\0';
    search->drift->num_folders++;
    const bool is_found = fstatat(search->root_fd, path[0] ? path : ".", &st, 0) == 0;
    if (is_found && folder->is_shard && S_ISREG(st.st_mode))
        return SLUICE_OK;
    if (!is_found || folder->is_shard || !S_ISDIR(st.st_mode)) {
        if (!is_found && errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
            return fail_at(search, path, err);
        const struct rows rows = rows_of(search->manifest, path, folder->len);
        for (size_t row = rows.first; row < rows.end; row++) {
            if (folder->is_shard || is_direct(search->manifest, &rows, row))
                count(&search->drift->num_gone, search->drift->gone,
                      sluice_manifest_at(search->manifest, row).path);
        }
        folder->is_listed = true;
        return SLUICE_OK;
    }
    if (i > 0 && !is_of_sample && !is_newer(search, &st))
        return SLUICE_OK;
    folder->is_listed = true;
    search->drift->num_listed++;
    return list_folder(search, path, folder->len, err);
}

static sluice_status look_at_folders(struct search *search, struct sluice_err *err)
{
    const size_t n = search->num_folders;
    sluice_status status = SLUICE_OK;
    for (size_t i = 0, next = 0; i < n && status == SLUICE_OK && !is_cancelled(search); i++) {
        /* Evenly spread: number `next` of DRIFT_FOLDERS. */
        const bool is_of_sample = i * DRIFT_FOLDERS >= next * n;
        if (is_of_sample)
            next++;
        status = look_at_folder(search, i, is_of_sample, err);
    }
    return status;
}

/* --- files --- */

static bool has_other_content(struct search *search, const struct sluice_manifest_entry *entry)
{
    struct sluice_buf *file = NULL;
    if (!entry->has_hash || search->num_hashed == DRIFT_HASHES ||
        sluice_shard_read(search->root, entry->path, entry->offset, entry->bytes, MAX_HASHED_BYTES,
                          NULL, &file, NULL, NULL) != SLUICE_OK)
        return false;
    search->num_hashed++;
    const struct sluice_hash128 hash = sluice_hash128(file->data, file->len);
    sluice_buf_unref(file);
    return hash.high != entry->hash.high || hash.low != entry->hash.low;
}

static void look_at_file(struct search *search, const struct sluice_manifest_entry *entry)
{
    struct sluice_manifest_drift *drift = search->drift;
    struct stat st;
    char shard[SLUICE_MAX_PATH_BYTES];
    const bool is_member = entry->offset && sluice_shard_split(entry->path, shard);
    if (fstatat(search->root_fd, is_member ? shard : entry->path, &st, 0) != 0) {
        const char *slash = strrchr(entry->path, '/');
        const size_t len = is_member ? strlen(shard) : slash ? (size_t)(slash - entry->path) : 0;
        const struct folder *folder = find_folder(search, entry->path, len);
        if ((errno == ENOENT || errno == ENOTDIR) && !(folder && folder->is_listed))
            count(&drift->num_gone, drift->gone, entry->path);
        return;
    }
    drift->num_files++;
    const int64_t off_ns = sluice_file_mtime_ns(&st) - entry->mtime_ns;
    const bool has_other_time =
        entry->mtime_ns && (off_ns >= TIME_SLACK_NS || off_ns <= -TIME_SLACK_NS);
    const uint64_t size = (uint64_t)st.st_size;
    const bool has_other_size = is_member
                                    ? size < entry->offset || size - entry->offset < entry->bytes
                                    : size != entry->bytes;
    if (has_other_size || (has_other_time && has_other_content(search, entry)))
        count(&drift->num_changed, drift->changed, entry->path);
}

static void look_at_files(struct search *search)
{
    const size_t n = search->manifest->num_entries;
    const size_t num_files = n < DRIFT_FILES ? n : DRIFT_FILES;
    for (size_t i = 0; i < num_files && !is_cancelled(search); i++) {
        const struct sluice_manifest_entry entry =
            sluice_manifest_at(search->manifest, i * n / num_files);
        look_at_file(search, &entry);
    }
}

sluice_status sluice_manifest_find_drift(const struct sluice_manifest *manifest, const char *root,
                                         const char *path, const atomic_bool *is_cancelled,
                                         struct sluice_manifest_drift *drift,
                                         struct sluice_err *err)
{
    *drift = (struct sluice_manifest_drift){0};
    struct search search = {
        .manifest = manifest, .root = root, .is_cancelled = is_cancelled, .drift = drift};
    struct stat st;
    if (stat(path, &st) != 0)
        return sluice_fail(err, SLUICE_E_IO, "%s: %s", path, strerror(errno));
    search.made_mtime_ns = sluice_file_mtime_ns(&st);
    search.made_ctime_ns = ctime_ns(&st);
    search.root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (search.root_fd < 0)
        return fail_at(&search, "", err);
    sluice_status status = find_folders(&search, err);
    if (status == SLUICE_OK)
        status = look_at_folders(&search, err);
    if (status == SLUICE_OK)
        look_at_files(&search);
    free(search.folders);
    close(search.root_fd);
    return status;
}

/* --- words --- */

/* "3 files added (cat/new.jpg, ...)" behind what is there. */
static void say(char *text, size_t room, uint64_t number, const char *what, const char *example)
{
    const size_t len = strlen(text);
    if (number)
        snprintf(text + len, room - len, "%s%llu %s (%.100s%s)", len ? ", " : "",
                 (unsigned long long)number, what, example, number > 1 ? ", ..." : "");
}

static void tell(const struct sluice_manifest_drift *drift, bool has_targets, const char *root,
                 const char *path, const char *then)
{
    char text[600] = "", of[48], in_root[SLUICE_MAX_PATH_BYTES] = "";
    snprintf(of, sizeof(of), "of the %llu looked at changed", (unsigned long long)drift->num_files);
    say(text, sizeof(text), drift->num_added, drift->num_added > 1 ? "files added" : "file added",
        drift->added);
    say(text, sizeof(text), drift->num_gone, "gone", drift->gone);
    say(text, sizeof(text), drift->num_changed, of, drift->changed);
    const bool has_index =
        sluice_path_in(root, SLUICE_JPEG_INDEX_FILE, in_root, NULL) == SLUICE_OK &&
        access(in_root, F_OK) == 0;
    const bool is_own = sluice_path_in(root, SLUICE_MANIFEST_FILE, in_root, NULL) == SLUICE_OK &&
                        strcmp(in_root, path) == 0;
    sluice_log(SLUICE_LOG_WARN,
               "%s is not up to date: %s; run 'offload_dataset index %s%s%s%s%s', then %s", path,
               text, root, has_index ? " --jpeg-index" : "", has_targets ? " --target ..." : "",
               is_own ? "" : " --out ", is_own ? "" : path, then);
}

void sluice_manifest_tell_drift(const struct sluice_manifest *manifest, const char *root,
                                const char *path, const char *then, const atomic_bool *is_cancelled)
{
    char in_root[SLUICE_MAX_PATH_BYTES];
    struct sluice_err err = {0};
    if (manifest->passed_over ||
        (!path && sluice_path_in(root, SLUICE_MANIFEST_FILE, in_root, &err) != SLUICE_OK))
        return;
    if (!path)
        path = in_root;
    struct sluice_manifest_drift *drift = malloc(sizeof(*drift));
    const sluice_status status =
        drift ? sluice_manifest_find_drift(manifest, root, path, is_cancelled, drift, &err)
              : sluice_fail(&err, SLUICE_E_NO_MEMORY, "no memory");
    if (status != SLUICE_OK)
        sluice_log(SLUICE_LOG_WARN, "whether %s is up to date cannot be told: %s", path, err.text);
    else if (drift->num_added || drift->num_gone || drift->num_changed)
        tell(drift, manifest->fields.num > 0, root, path, then);
    else
        sluice_log(SLUICE_LOG_DEBUG,
                   "%s is up to date, by %llu folders, %llu of them listed, and %llu files", path,
                   (unsigned long long)drift->num_folders, (unsigned long long)drift->num_listed,
                   (unsigned long long)drift->num_files);
    free(drift);
}
