#include "store/store.h"

#include "base/buf.h"
#include "store/object_list.h"
#include "store/tuning.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As many as the kernel follows (MAXSYMLINKS). */
#define MAX_LINKS 40

struct store_file {
    struct sluice_store store;
    int root_fd; /* what it names is replaced by dup3() when the root comes back as another folder
                  */
    char *root;  /* as given, without trailing slashes */
    char *given_root; /* as given */
    char *real_root;  /* with links resolved */
    uint64_t max_file_bytes;
    struct sluice_file_turns turns; /* as in the options, like the next */
    bool (*is_cached)(int fd, uint64_t from, uint64_t to);
    /* Set once the system has shown that it lacks openat2; relaxed, a hint. */
    atomic_bool lacks_openat2;
    atomic_uint_fast64_t refused; /* relaxed: a counter */
};

static struct store_file *from_store(struct sluice_store *store)
{
    return SLUICE_CONTAINER_OF(store, struct store_file, store);
}

/* Non-blocking so that a FIFO does not hold the thread; regular files do not care. */
#define OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

/* From linux/openat2.h, which older headers lack: fail where a name is not cached. */
#define SLUICE_RESOLVE_CACHED 0x20u

static int open_beneath(int root_fd, const char *path, uint64_t resolve)
{
    struct open_how how = {
        .flags = OPEN_FLAGS,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve,
    };
    /* EAGAIN: something was renamed while the kernel walked over a "..". */
    for (int tries = 0;; tries++) {
        const int fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
        if (fd >= 0 || errno != EAGAIN || resolve || tries == 8)
            return fd;
    }
}

/* The walk of systems without openat2: one name at a time from a folder that is
 * held open, never over a link and never upwards, so no step can leave the root. */
struct walk {
    char done[PATH_MAX]; /* the folders walked, "a/b" */
    char todo[PATH_MAX];
    int fd; /* of the folder `done` */
    unsigned num_links;
};

static int open_folder(int at, const char *name)
{
    return openat(at, name, O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC);
}

/* Gives up the last folder: `done` is walked again from the root. */
static bool walk_up(struct walk *walk, int root_fd)
{
    if (!walk->done[0]) {
        errno = EXDEV;
        return false;
    }
    char *slash = strrchr(walk->done, '/');
    *(slash ? slash : walk->done) = '\0';

    int fd = open_folder(root_fd, ".");
    char path[PATH_MAX];
    strcpy(path, walk->done);
    char *rest = path;
    for (char *name; fd >= 0 && (name = strsep(&rest, "/")) && *name;) {
        const int next = open_folder(fd, name);
        close(fd);
        fd = next;
    }
    if (fd < 0)
        return false;
    close(walk->fd);
    walk->fd = fd;
    return true;
}

/* Puts a link's target in front of what is left to walk. */
static bool walk_link(struct walk *walk, const char *name, bool is_last, const char *rest)
{
    char target[PATH_MAX];
    const ssize_t len = readlinkat(walk->fd, name, target, sizeof(target));
    if (len < 0)
        return false;
    if (++walk->num_links > MAX_LINKS) {
        errno = ELOOP;
        return false;
    }
    if (len == 0 || target[0] == '/') {
        errno = EXDEV;
        return false;
    }
    const size_t rest_len = strlen(rest);
    if ((size_t)len + 1 + rest_len + 1 > sizeof(walk->todo)) {
        errno = ENAMETOOLONG;
        return false;
    }
    /* A slash only where more follows: behind the last name it would ask for a folder. */
    const size_t slash = is_last ? 0 : 1;
    memmove(walk->todo + (size_t)len + slash, rest, rest_len + 1);
    memcpy(walk->todo, target, (size_t)len);
    if (slash)
        walk->todo[len] = '/';
    return true;
}

static bool walk_down(struct walk *walk, const char *name)
{
    const int fd = open_folder(walk->fd, name);
    if (fd < 0)
        return false;
    close(walk->fd);
    walk->fd = fd;
    const size_t len = strlen(walk->done), name_len = strlen(name);
    if (len + 1 + name_len + 1 > sizeof(walk->done)) {
        errno = ENAMETOOLONG;
        return false;
    }
    if (len)
        walk->done[len] = '/';
    memcpy(walk->done + len + (len ? 1 : 0), name, name_len + 1);
    return true;
}

static int walk_beneath(int root_fd, const char *path)
{
    struct walk walk = {.fd = -1};
    int fd = -1;
    if (path[0] == '/' || path[0] == '\0') {
        errno = path[0] ? EXDEV : ENOENT;
        return -1;
    }
    if (strlen(path) >= sizeof(walk.todo)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(walk.todo, path);
    walk.fd = open_folder(root_fd, ".");
    while (walk.fd >= 0) {
        char name[NAME_MAX + 1];
        const char *at = walk.todo + strspn(walk.todo, "/");
        const size_t len = strcspn(at, "/");
        if (len > NAME_MAX) {
            errno = ENAMETOOLONG;
            break;
        }
        memcpy(name, at, len);
        name[len] = '\0';
        const bool is_last = at[len] == '\0';
        const char *rest = at + len + strspn(at + len, "/");

        struct stat st;
        if (len == 0 || strcmp(name, ".") == 0) {
            if (is_last) { /* the path names a folder */
                fd = openat(walk.fd, ".", OPEN_FLAGS);
                break;
            }
        } else if (strcmp(name, "..") == 0) {
            if (!walk_up(&walk, root_fd))
                break;
        } else if (fstatat(walk.fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
            break;
        } else if (S_ISLNK(st.st_mode)) {
            if (!walk_link(&walk, name, is_last, rest))
                break;
            continue;
        } else if (is_last) {
            fd = openat(walk.fd, name, OPEN_FLAGS | O_NOFOLLOW);
            break;
        } else if (!walk_down(&walk, name)) {
            break;
        }
        memmove(walk.todo, rest, strlen(rest) + 1);
    }
    const int saved = errno;
    if (walk.fd >= 0)
        close(walk.fd);
    errno = saved;
    return fd;
}

/* Whether the root's path leads to the folder that is held open.  False: *why says where it
 * leads. */
static bool is_root_here(const struct store_file *s, const char **why)
{
    struct stat held, now;
    if (fstat(s->root_fd, &held) != 0 || stat(s->given_root, &now) != 0) {
        *why = strerror(errno);
        return false;
    }
    *why = held.st_nlink == 0 ? "the folder was deleted" : "another folder is there now";
    return held.st_nlink > 0 && held.st_dev == now.st_dev && held.st_ino == now.st_ino;
}

static sluice_status open_failed(struct store_file *s, int error, struct sluice_err *err)
{
    const char *why;
    switch (error) {
    case ENOENT:
    case ENOTDIR:
        /* Where all files are gone, a missing one is not a property of the data. */
        if (!is_root_here(s, &why))
            return sluice_fail(err, SLUICE_E_IO, "the server's root is gone (%s)", why);
        return sluice_fail(err, SLUICE_E_NOT_FOUND, "no such file");
    case ENAMETOOLONG:
        return sluice_fail(err, SLUICE_E_NOT_FOUND, "no such file");
    case EXDEV: /* what openat2 says when the path would leave the root */
    case ELOOP: /* a circle of links, or one of /proc's magic ones */
        atomic_fetch_add_explicit(&s->refused, 1, memory_order_relaxed);
        return sluice_fail(err, SLUICE_E_INVALID, "refused: leads out of the root");
    case ENXIO: /* a socket, or a device without a driver */
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "not a regular file");
    default:
        return sluice_fail(err, SLUICE_E_IO, "cannot open: %s", strerror(error));
    }
}

/* The turns that reading these parts needs, or NULL if they are cached. */
static const struct sluice_file_turns *turns_for(const struct store_file *s, int fd, uint64_t base,
                                                 const struct sluice_file_part *parts,
                                                 unsigned num_parts)
{
    for (unsigned i = 0; s->turns.take && i < num_parts; i++) {
        if (!s->is_cached || !s->is_cached(fd, base + parts[i].from, base + parts[i].to))
            return &s->turns;
    }
    return NULL;
}

static sluice_status read_file(const struct store_file *s, int fd,
                               const struct sluice_store_read *request, struct sluice_buf **file,
                               struct sluice_err *err)
{
    const uint64_t max_bytes = s->max_file_bytes;
    struct stat st, after;
    if (fstat(fd, &st) != 0)
        return sluice_fail(err, SLUICE_E_IO, "cannot stat: %s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "not a regular file%s",
                           S_ISDIR(st.st_mode) ? " but a folder" : "");
    const uint64_t base = request->offset, file_size = (uint64_t)st.st_size;
    const uint64_t size = base || request->is_range ? request->bytes : file_size;
    if (base > file_size || size > file_size - base)
        return sluice_fail(err, SLUICE_E_STALE, "the shard ends before this member does");
    struct sluice_file_part parts[SLUICE_STORE_MAX_PARTS] = {{0, size}};
    unsigned num_parts = 1;
    sluice_status status = SLUICE_OK;
    if (request->choose)
        status =
            request->choose(request->ctx, size, sluice_file_mtime_ns(&st), parts, &num_parts, err);
    if (status != SLUICE_OK)
        return status;
    if (size > max_bytes)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "%llu bytes, more than the limit of %llu",
                           (unsigned long long)size, (unsigned long long)max_bytes);
    if (size == 0)
        return sluice_fail(err, SLUICE_E_CORRUPT, "the file is empty");
    const struct sluice_file_turns *turns = turns_for(s, fd, base, parts, num_parts);
    /* The kernel's read-ahead would read what nobody wants, or before its turn. */
    if (turns || num_parts != 1 || parts[0].to - parts[0].from < file_size)
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    struct sluice_buf *buf;
    status = sluice_file_read_parts(fd, base, (size_t)size, parts, num_parts, turns, request->pool,
                                    &buf, err);
    if (status != SLUICE_OK)
        return status;
    if (fstat(fd, &after) != 0 || after.st_size != st.st_size ||
        sluice_file_mtime_ns(&after) != sluice_file_mtime_ns(&st)) {
        sluice_buf_unref(buf);
        return sluice_fail(err, SLUICE_E_STALE, "the file changed while it was read");
    }
    *file = buf;
    return SLUICE_OK;
}

static int open_now(struct store_file *s, const char *path)
{
    if (!atomic_load_explicit(&s->lacks_openat2, memory_order_relaxed)) {
        const int fd = open_beneath(s->root_fd, path, 0);
        /* Some sandboxes answer EPERM to calls they do not know. */
        if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
            return fd;
        atomic_store_explicit(&s->lacks_openat2, true, memory_order_relaxed);
    }
    return walk_beneath(s->root_fd, path);
}

/* A name that is not cached takes a read of the disk, and so a turn. */
static int open_in_turn(struct store_file *s, const char *path)
{
    if (!s->turns.take)
        return open_now(s, path);
    int fd = -1;
    if (!atomic_load_explicit(&s->lacks_openat2, memory_order_relaxed))
        fd = open_beneath(s->root_fd, path, SLUICE_RESOLVE_CACHED);
    if (fd >= 0)
        return fd;
    (void)s->turns.take(s->turns.ctx);
    fd = open_now(s, path);
    const int error = errno;
    s->turns.give(s->turns.ctx);
    errno = error;
    return fd;
}

static sluice_status store_file_read(struct sluice_store *store,
                                     const struct sluice_store_read *read, struct sluice_buf **file,
                                     struct sluice_err *err)
{
    struct store_file *s = from_store(store);
    const int fd = open_in_turn(s, read->key);
    if (fd < 0)
        return open_failed(s, errno, err);
    const sluice_status status = read_file(s, fd, read, file, err);
    close(fd);
    return status;
}

static sluice_status store_file_describe(struct sluice_store *store, const char *key,
                                         struct sluice_object *object, struct sluice_err *err)
{
    struct store_file *s = from_store(store);
    struct stat st;
    const int fd = open_in_turn(s, key);
    if (fd < 0)
        return open_failed(s, errno, err);
    sluice_status status = SLUICE_OK;
    if (fstat(fd, &st) != 0)
        status = sluice_fail(err, SLUICE_E_IO, "cannot stat: %s", strerror(errno));
    else if (!S_ISREG(st.st_mode))
        status = sluice_fail(err, SLUICE_E_UNSUPPORTED, "not a regular file");
    else
        *object = (struct sluice_object){key, (uint64_t)st.st_size, sluice_file_mtime_ns(&st)};
    close(fd);
    return status;
}

/* Disks are read by some threads at a time; a read is not cut into parts that lie close, as the
 * page cache has them already. */
static void store_file_limits(struct sluice_store *store, struct sluice_store_limits *limits)
{
    *limits = (struct sluice_store_limits){
        .max_object_bytes = from_store(store)->max_file_bytes,
        .parallel_reads = STORE_PARALLEL_READS_OF_DISKS,
    };
}

static void store_file_cancel(struct sluice_store *store, const void *owner)
{
    (void)store, (void)owner;
}

/* --- the list --- */

#define MAX_FOLDERS_DEEP 64

static sluice_status list_folder(int folder_fd, char path[SLUICE_MAX_PATH_BYTES], size_t len,
                                 unsigned depth, struct sluice_object_list *list,
                                 struct sluice_err *err);

static sluice_status list_failed(const char *path, const char *what, struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_IO, "%s: %s: %s; the list would not be whole",
                       path[0] ? path : ".", what, strerror(errno));
}

static sluice_status list_entry(int folder_fd, const char *name, char path[SLUICE_MAX_PATH_BYTES],
                                size_t len, unsigned depth, struct sluice_object_list *list,
                                struct sluice_err *err)
{
    struct stat st;
    const size_t name_len = strlen(name);
    if (len + name_len + 2 > SLUICE_MAX_PATH_BYTES)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "%s: a path in it is too long", path);
    memcpy(path + len, name, name_len + 1);
    if (fstatat(folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? SLUICE_OK : list_failed(path, "stat", err);
    if (S_ISREG(st.st_mode)) {
        const struct sluice_object object = {path, (uint64_t)st.st_size, sluice_file_mtime_ns(&st)};
        return sluice_object_list_add(list, &object, err);
    }
    if (!S_ISDIR(st.st_mode))
        return SLUICE_OK;
    if (depth == MAX_FOLDERS_DEEP)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "%s: nested too deep", path);
    const int fd = openat(folder_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? SLUICE_OK : list_failed(path, "open", err);
    path[len + name_len] = '/';
    path[len + name_len + 1] = '\0';
    return list_folder(fd, path, len + name_len + 1, depth + 1, list, err);
}

/* Takes the descriptor. */
static sluice_status list_folder(int folder_fd, char path[SLUICE_MAX_PATH_BYTES], size_t len,
                                 unsigned depth, struct sluice_object_list *list,
                                 struct sluice_err *err)
{
    DIR *folder = fdopendir(folder_fd);
    if (!folder) {
        const sluice_status status = list_failed(path, "open", err);
        close(folder_fd);
        return status;
    }
    sluice_status status = SLUICE_OK;
    errno = 0;
    for (const struct dirent *entry; status == SLUICE_OK && (entry = readdir(folder)); errno = 0) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = list_entry(folder_fd, entry->d_name, path, len, depth, list, err);
        path[len] = '\0';
    }
    if (status == SLUICE_OK && errno != 0)
        status = list_failed(path, "read the folder", err);
    closedir(folder);
    return status;
}

static sluice_status store_file_list(struct sluice_store *store, const char *prefix,
                                     sluice_object_fn *fn, void *ctx, struct sluice_err *err)
{
    struct store_file *s = from_store(store);
    struct sluice_object_list list = {.num_objects = 0};
    char path[SLUICE_MAX_PATH_BYTES] = "";
    const int fd = openat(s->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sluice_status status =
        fd < 0 ? list_failed(path, "open", err) : list_folder(fd, path, 0, 0, &list, err);
    if (status == SLUICE_OK)
        status = sluice_object_list_tell(&list, prefix, fn, ctx, err);
    sluice_object_list_clear(&list);
    return status;
}

/* Whether the sample lies beneath a folder, as long as it should be. */
static bool has_known(int folder_fd, const struct sluice_store_known *known)
{
    struct stat st;
    const int fd = openat(folder_fd, known->path, OPEN_FLAGS);
    if (fd < 0)
        return false;
    const bool is_file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    const uint64_t size = is_file ? (uint64_t)st.st_size : 0;
    const bool is_same =
        is_file && (known->offset ? size >= known->offset && size - known->offset >= known->bytes
                                  : size == known->bytes);
    close(fd);
    return is_same;
}

static sluice_status store_file_look(struct sluice_store *store,
                                     const struct sluice_store_known *known, struct sluice_err *err)
{
    struct store_file *s = from_store(store);
    const char *why;
    if (is_root_here(s, &why))
        return SLUICE_OK;
    bool is_replaced = false;
    /* A root that was moved but is whole stays: another folder is another dataset. */
    const int fd =
        has_known(s->root_fd, known) ? -1 : open(s->given_root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        /* Who reads meanwhile has the old folder or the new one, never a closed descriptor. */
        is_replaced = has_known(fd, known) && dup3(fd, s->root_fd, O_CLOEXEC) >= 0;
        close(fd);
    }
    return is_replaced ? SLUICE_OK
                       : sluice_fail(err, SLUICE_E_IO, "root %s: %s", s->given_root, why);
}

/* The rest of `path` after `root`; NULL if it does not begin with it. */
static const char *strip(const char *path, const char *root)
{
    const size_t len = strlen(root);
    if (strncmp(path, root, len) != 0 || (path[len] != '/' && path[len] != '\0'))
        return NULL;
    return path + len + strspn(path + len, "/");
}

static bool has_parent_part(const char *path)
{
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += strspn(part, "/");
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0'))
            return true;
    }
    return false;
}

static const char *store_file_relative(struct sluice_store *store, const char *path)
{
    struct store_file *s = from_store(store);
    const char *rest = path;
    if (path[0] == '/') {
        rest = strip(path, s->root);
        if (!rest || s->root[0] != '/')
            rest = strip(path, s->real_root);
    }
    if (!rest || has_parent_part(rest)) {
        atomic_fetch_add_explicit(&s->refused, 1, memory_order_relaxed);
        return NULL;
    }
    while (rest[0] == '.' && rest[1] == '/')
        rest += 1 + strspn(rest + 1, "/");
    return rest;
}

static uint64_t store_file_refused(struct sluice_store *store)
{
    return atomic_load_explicit(&from_store(store)->refused, memory_order_relaxed);
}

static void store_file_destroy(struct sluice_store *store)
{
    if (!store)
        return;
    struct store_file *s = from_store(store);
    if (s->root_fd >= 0)
        close(s->root_fd);
    free(s->root);
    free(s->given_root);
    free(s->real_root);
    free(s);
}

sluice_status sluice_store_file_open(const struct sluice_store_file_options *options,
                                     struct sluice_store **store, struct sluice_err *err)
{
    struct store_file *s = calloc(1, sizeof(*s));
    if (!s)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a store");
    s->store = (struct sluice_store){
        .list = store_file_list,
        .describe = store_file_describe,
        .read = store_file_read,
        .cancel = store_file_cancel,
        .limits = store_file_limits,
        .look = store_file_look,
        .relative = store_file_relative,
        .refused = store_file_refused,
        .destroy = store_file_destroy,
    };
    s->max_file_bytes = options->max_file_bytes;
    s->turns = options->turns;
    s->is_cached = options->is_cached;
    atomic_init(&s->lacks_openat2, options->avoid_openat2);
    atomic_init(&s->refused, 0);

    sluice_status status;
    s->root_fd = open(options->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (s->root_fd < 0) {
        status = errno == ENOENT || errno == ENOTDIR ? SLUICE_E_NOT_FOUND : SLUICE_E_IO;
        sluice_fail(err, status, "root %s: %s", options->root, strerror(errno));
        goto fail;
    }
    s->real_root = realpath(options->root, NULL);
    s->root = strdup(options->root);
    s->given_root = strdup(options->root);
    if (!s->real_root || !s->root || !s->given_root) {
        status = sluice_fail(err, SLUICE_E_IO, "root %s: %s", options->root, strerror(errno));
        goto fail;
    }
    /* A root of "/" becomes "", which every absolute path begins with. */
    for (char **root = (char *[]){s->root, s->real_root, NULL}; *root; root++) {
        for (size_t len = strlen(*root); len && (*root)[len - 1] == '/'; len--)
            (*root)[len - 1] = '\0';
    }
    *store = &s->store;
    return SLUICE_OK;

fail:
    store_file_destroy(&s->store);
    return status;
}
