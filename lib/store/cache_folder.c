#include "store/cache_folder.h"

#include "base/file.h"
#include "base/text.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define LOCK_NAME "sluice-cache.lock"
#define NUM_FOLDERS 256
#define BLOCK_BYTES 4096 /* of most file systems */

/* "3f/new-1a", of a process that holds the lock */
#define NEW_PREFIX "new-"

struct sluice_cache_folder {
    int fd, lock;
    char path[SLUICE_MAX_PATH_BYTES];
};

static void folder_name(unsigned number, char out[3])
{
    snprintf(out, 3, "%02x", number & 0xff);
}

static void new_name(const struct sluice_cache_piece *piece, uint64_t number,
                     char out[SLUICE_CACHE_NAME_BYTES])
{
    snprintf(out, SLUICE_CACHE_NAME_BYTES, "%02x/" NEW_PREFIX "%" PRIx64,
             (unsigned)(piece->id >> 56), number);
}

/* --- making it --- */

/* Refuses a folder that another user can change: nothing in a piece proves its origin.  Returns
 * why not, or NULL. */
static const char *flaw_of(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return strerror(errno);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return "belongs to another user";
    return st.st_mode & (S_IWGRP | S_IWOTH) ? "may be written by other users (chmod go-w)" : NULL;
}

/* With its parents; the folder itself, where it is made here, is nobody else's. */
static sluice_status make_folder(const char *path, struct sluice_err *err)
{
    if (mkdir(path, 0700) == 0)
        return SLUICE_OK;
    const bool is_new = errno == ENOENT;
    const sluice_status status = sluice_mkdirs(path, err);
    if (status == SLUICE_OK && is_new && chmod(path, 0700) != 0)
        return sluice_fail(err, SLUICE_E_IO, "%s: %s", path, strerror(errno));
    return status;
}

sluice_status sluice_cache_folder_prepare(const char *path, struct sluice_err *err)
{
    char lock[SLUICE_MAX_PATH_BYTES], sub[3];
    sluice_status status = sluice_path_in(path, LOCK_NAME, lock, err);
    if (status == SLUICE_OK)
        status = make_folder(path, err);
    if (status != SLUICE_OK)
        return status;
    if (access(lock, F_OK) != 0 && sluice_folder_has_files(path))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%s: the folder has files and is no cache: name an empty one", path);
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const char *flaw = folder >= 0 ? flaw_of(folder) : NULL;
    if (flaw) {
        close(folder);
        return sluice_fail(err, SLUICE_E_INVALID, "%s: the cache's folder %s", path, flaw);
    }
    const int fd = open(lock, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool is_made = fd >= 0 && folder >= 0;
    for (unsigned i = 0; i < NUM_FOLDERS && is_made; i++) {
        folder_name(i, sub);
        is_made = mkdirat(folder, sub, 0700) == 0 || errno == EEXIST;
    }
    const int error = errno;
    if (fd >= 0)
        close(fd);
    if (folder >= 0)
        close(folder);
    return is_made ? SLUICE_OK
                   : sluice_fail(err, SLUICE_E_IO, "%s: cannot make a cache: %s", path,
                                 strerror(error));
}

sluice_status sluice_cache_folder_open(const char *path, struct sluice_cache_folder **out,
                                       struct sluice_err *err)
{
    struct sluice_cache_folder *folder = malloc(sizeof(*folder));
    if (!folder)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a cache");
    folder->lock = -1;
    folder->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->fd >= 0)
        folder->lock = openat(folder->fd, LOCK_NAME, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    const char *flaw = folder->fd >= 0 ? flaw_of(folder->fd) : NULL;
    sluice_status status = SLUICE_OK;
    if (flaw)
        status = sluice_fail(err, SLUICE_E_INVALID, "%s: the cache's folder %s", path, flaw);
    else if (!sluice_print(folder->path, sizeof(folder->path), "%s", path) || folder->lock < 0)
        status = sluice_fail(err, SLUICE_E_IO, "%s: no cache: %s", path, strerror(errno));
    else if (flock(folder->lock, LOCK_EX | LOCK_NB) != 0)
        status =
            errno == EWOULDBLOCK
                ? sluice_fail(err, SLUICE_E_IO,
                              "%s: another server uses this cache: each needs one of its own", path)
                : sluice_fail(err, SLUICE_E_IO, "%s: cannot lock the cache: %s", path,
                              strerror(errno));
    if (status != SLUICE_OK) {
        sluice_cache_folder_close(folder);
        return status;
    }
    *out = folder;
    return SLUICE_OK;
}

void sluice_cache_folder_close(struct sluice_cache_folder *folder)
{
    if (!folder)
        return;
    if (folder->fd >= 0)
        close(folder->fd);
    if (folder->lock >= 0)
        close(folder->lock);
    free(folder);
}

/* --- what is there --- */

static bool is_piece(int fd, const char *sub, const char *name, struct sluice_cache_piece *piece)
{
    struct stat st;
    return sluice_cache_name_parse(sub, name, piece) &&
           fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
           (uint64_t)st.st_size == SLUICE_CACHE_HEADER_BYTES + (uint64_t)piece->bytes;
}

static bool scan_sub(struct sluice_cache_folder *folder, const char *sub,
                     bool (*keep)(void *ctx, const struct sluice_cache_piece *), void *ctx,
                     const char **flaw)
{
    struct sluice_cache_piece piece;
    const int fd = openat(folder->fd, sub, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        const int error = errno;
        if (fd >= 0)
            close(fd);
        errno = error;
        return false;
    }
    if ((*flaw = flaw_of(fd))) {
        closedir(dir);
        return false;
    }
    errno = 0;
    for (struct dirent *entry; (entry = readdir(dir)); errno = 0) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (!is_piece(fd, sub, entry->d_name, &piece) || !keep(ctx, &piece))
            (void)unlinkat(fd, entry->d_name, 0);
    }
    const int error = errno;
    closedir(dir);
    errno = error;
    return error == 0;
}

sluice_status sluice_cache_folder_scan(struct sluice_cache_folder *folder,
                                       bool (*keep)(void *ctx, const struct sluice_cache_piece *),
                                       void *ctx, struct sluice_err *err)
{
    char sub[3];
    for (unsigned i = 0; i < NUM_FOLDERS; i++) {
        const char *flaw = NULL;
        folder_name(i, sub);
        if (!scan_sub(folder, sub, keep, ctx, &flaw))
            return flaw ? sluice_fail(err, SLUICE_E_INVALID, "%s/%s: the cache's folder %s",
                                      folder->path, sub, flaw)
                        : sluice_fail(err, SLUICE_E_IO, "%s/%s: cannot list the cache: %s",
                                      folder->path, sub, strerror(errno));
    }
    return SLUICE_OK;
}

uint64_t sluice_cache_folder_footprint(const struct sluice_cache_piece *piece)
{
    const uint64_t bytes = SLUICE_CACHE_HEADER_BYTES + (uint64_t)piece->bytes;
    return (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
}

/* --- files --- */

/* The header and the data; false: errno says why, or the file is too short (0). */
static bool read_both(int fd, uint8_t *header, void *data, size_t bytes)
{
    uint8_t *to = data;
    struct iovec parts[] = {{header, SLUICE_CACHE_HEADER_BYTES}, {data, bytes}};
    ssize_t got;
    do
        got = preadv(fd, parts, 2, 0);
    while (got < 0 && errno == EINTR);
    if (got >= 0 && got < SLUICE_CACHE_HEADER_BYTES)
        errno = 0;
    if (got < SLUICE_CACHE_HEADER_BYTES)
        return false;
    for (size_t at = (size_t)got - SLUICE_CACHE_HEADER_BYTES; at < bytes; at += (size_t)got) {
        do
            got = pread(fd, to + at, bytes - at, (off_t)(SLUICE_CACHE_HEADER_BYTES + at));
        while (got < 0 && errno == EINTR);
        if (got == 0)
            errno = 0;
        if (got <= 0)
            return false;
    }
    return true;
}

sluice_status sluice_cache_folder_read(struct sluice_cache_folder *folder,
                                       struct sluice_hash128 identity,
                                       const struct sluice_cache_piece *piece, void *data,
                                       struct sluice_err *err)
{
    char name[SLUICE_CACHE_NAME_BYTES];
    uint8_t header[SLUICE_CACHE_HEADER_BYTES];
    uint64_t hash = 0;
    sluice_cache_name(piece, name);
    struct stat st;
    /* A FIFO's open() would wait for a writer. */
    const int fd = openat(folder->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
        close(fd);
        return sluice_fail(err, SLUICE_E_CORRUPT, "%s/%s: not a regular file", folder->path, name);
    }
    if (fd < 0)
        return sluice_fail(err, errno == ENOENT ? SLUICE_E_NOT_FOUND : SLUICE_E_IO, "%s/%s: %s",
                           folder->path, name, strerror(errno));
    const bool is_read = read_both(fd, header, data, piece->bytes);
    const int error = errno;
    close(fd);
    if (!is_read)
        return sluice_fail(err, error ? SLUICE_E_IO : SLUICE_E_CORRUPT, "%s/%s: %s", folder->path,
                           name, error ? strerror(error) : "the file is too short");
    struct sluice_err why = {0};
    const sluice_status status = sluice_cache_header_check(header, identity, piece, &hash, &why);
    if (status != SLUICE_OK)
        return sluice_fail(err, status, "%s/%s: %s", folder->path, name, why.text);
    if (sluice_hash64(data, piece->bytes) != hash)
        return sluice_fail(err, SLUICE_E_CORRUPT, "%s/%s: the content is damaged", folder->path,
                           name);
    return SLUICE_OK;
}

static bool write_both(int fd, uint8_t *header, const void *data, size_t bytes)
{
    size_t head = 0, at = 0;
    while (head < SLUICE_CACHE_HEADER_BYTES || at < bytes) {
        const struct iovec parts[] = {{header + head, SLUICE_CACHE_HEADER_BYTES - head},
                                      {(uint8_t *)(uintptr_t)data + at, bytes - at}};
        const ssize_t put = writev(fd, parts, 2);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        const size_t of_head = SLUICE_CACHE_HEADER_BYTES - head;
        const size_t in_head = (size_t)put < of_head ? (size_t)put : of_head;
        head += in_head;
        at += (size_t)put - in_head;
    }
    return true;
}

sluice_status sluice_cache_folder_write(struct sluice_cache_folder *folder,
                                        struct sluice_hash128 identity,
                                        const struct sluice_cache_piece *piece, const void *data,
                                        uint64_t number, struct sluice_err *err)
{
    char name[SLUICE_CACHE_NAME_BYTES];
    uint8_t header[SLUICE_CACHE_HEADER_BYTES];
    sluice_cache_header_put(identity, piece, data, header);
    new_name(piece, number, name);
    const int fd =
        openat(folder->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return sluice_fail(err, SLUICE_E_IO, "%s/%s: %s", folder->path, name, strerror(errno));
    bool is_written = write_both(fd, header, data, piece->bytes);
    int error = errno;
    if (close(fd) != 0 && is_written) {
        is_written = false;
        error = errno;
    }
    if (is_written)
        return SLUICE_OK;
    sluice_cache_folder_abandon(folder, piece, number);
    return sluice_fail(err, SLUICE_E_IO, "%s/%s: %s", folder->path, name, strerror(error));
}

sluice_status sluice_cache_folder_commit(struct sluice_cache_folder *folder,
                                         const struct sluice_cache_piece *piece, uint64_t number,
                                         struct sluice_err *err)
{
    char from[SLUICE_CACHE_NAME_BYTES], to[SLUICE_CACHE_NAME_BYTES];
    new_name(piece, number, from);
    sluice_cache_name(piece, to);
    if (renameat(folder->fd, from, folder->fd, to) == 0)
        return SLUICE_OK;
    return sluice_fail(err, SLUICE_E_IO, "%s/%s: %s", folder->path, to, strerror(errno));
}

void sluice_cache_folder_abandon(struct sluice_cache_folder *folder,
                                 const struct sluice_cache_piece *piece, uint64_t number)
{
    char name[SLUICE_CACHE_NAME_BYTES];
    new_name(piece, number, name);
    (void)unlinkat(folder->fd, name, 0);
}

void sluice_cache_folder_remove(struct sluice_cache_folder *folder,
                                const struct sluice_cache_piece *piece)
{
    char name[SLUICE_CACHE_NAME_BYTES];
    sluice_cache_name(piece, name);
    (void)unlinkat(folder->fd, name, 0);
}
