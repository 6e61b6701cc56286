#include "base/file.h"

#include "base/text.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

sluice_status sluice_path_in(const char *folder, const char *name, char path[SLUICE_MAX_PATH_BYTES],
                             struct sluice_err *err)
{
    if (!sluice_print(path, SLUICE_MAX_PATH_BYTES, "%s/%s", folder, name))
        return sluice_fail(err, SLUICE_E_INVALID, "%.100s/%.100s: a path too long", folder, name);
    return SLUICE_OK;
}

static sluice_status fail_errno(struct sluice_err *err, const char *path, const char *what)
{
    const bool is_absent = errno == ENOENT || errno == ENOTDIR;
    return sluice_fail(err, is_absent ? SLUICE_E_NOT_FOUND : SLUICE_E_IO, "%s: %s: %s", path, what,
                       strerror(errno));
}

/* Fills buf from fd, which must hold exactly `size` bytes. */
static sluice_status read_all(int fd, const char *path, size_t size, struct sluice_buf *buf,
                              struct sluice_err *err)
{
    /* Ask for one byte too many: if it comes, the file has grown. */
    while (buf->len <= size) {
        const ssize_t got = read(fd, buf->data + buf->len, size + 1 - buf->len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno(err, path, "read");
        if (got == 0)
            break;
        buf->len += (size_t)got;
    }
    if (buf->len != size)
        return sluice_fail(err, SLUICE_E_IO, "%s: changed while it was read", path);
    return SLUICE_OK;
}

ssize_t sluice_pread_fully(int fd, void *to, size_t len, uint64_t offset)
{
    size_t done = 0;
    while (done < len) {
        const ssize_t got = pread(fd, (char *)to + done, len - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

bool sluice_write_fully(int fd, const void *data, size_t len)
{
    const uint8_t *at = data;
    while (len > 0) {
        const ssize_t put = write(fd, at, len);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return false;
        at += put;
        len -= (size_t)put;
    }
    return true;
}

int64_t sluice_file_mtime_ns(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

sluice_status sluice_file_read(const char *path, size_t max_bytes, struct sluice_buf_pool *pool,
                               struct sluice_buf **out, struct sluice_err *err)
{
    return sluice_file_read_stat(path, max_bytes, pool, out, NULL, err);
}

static sluice_status open_regular(const char *path, int *fd, struct stat *st,
                                  struct sluice_err *err)
{
    /* Not blocking, or opening a FIFO would wait for its writer. */
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*fd < 0)
        return fail_errno(err, path, "open");
    sluice_status status = SLUICE_OK;
    if (fstat(*fd, st) != 0)
        status = fail_errno(err, path, "stat");
    else if (!S_ISREG(st->st_mode))
        status = sluice_fail(err, SLUICE_E_INVALID, "%s: not a regular file", path);
    if (status != SLUICE_OK)
        close(*fd);
    return status;
}

sluice_status sluice_file_read_stat(const char *path, size_t max_bytes,
                                    struct sluice_buf_pool *pool, struct sluice_buf **out,
                                    struct stat *seen, struct sluice_err *err)
{
    struct sluice_buf *buf = NULL;
    struct stat st;
    int fd;
    sluice_status status = open_regular(path, &fd, &st, err);
    if (status != SLUICE_OK)
        return status;
    if ((uintmax_t)st.st_size > max_bytes || (uintmax_t)st.st_size >= SIZE_MAX) {
        status =
            sluice_fail(err, SLUICE_E_UNSUPPORTED, "%s: %lld bytes are more than the limit %zu",
                        path, (long long)st.st_size, max_bytes);
        goto fail;
    }
    status = sluice_buf_create(pool, (size_t)st.st_size + 1, &buf, err);
    if (status != SLUICE_OK)
        goto fail;
    status = read_all(fd, path, (size_t)st.st_size, buf, err);
    if (status != SLUICE_OK)
        goto fail;
    close(fd);
    *out = buf;
    if (seen)
        *seen = st;
    return SLUICE_OK;

fail:
    sluice_buf_unref(buf);
    close(fd);
    return status;
}

sluice_status sluice_file_read_parts(int fd, uint64_t base_offset, size_t len,
                                     const struct sluice_file_part *parts, size_t num_parts,
                                     const struct sluice_file_turns *turns,
                                     struct sluice_buf_pool *pool, struct sluice_buf **out,
                                     struct sluice_err *err)
{
    assert(base_offset <= INT64_MAX - (uint64_t)len);
    for (size_t i = 0; i < num_parts; i++) {
        if (parts[i].from > parts[i].to || parts[i].to > len)
            return sluice_fail(err, SLUICE_E_INVALID, "bytes %zu to %zu of %zu", parts[i].from,
                               parts[i].to, len);
    }
    struct sluice_buf *buf;
    const sluice_status status = sluice_buf_create(pool, len, &buf, err);
    if (status != SLUICE_OK)
        return status;
    for (size_t i = 0; i < num_parts; i++) {
        for (size_t at = parts[i].from; at < parts[i].to;) {
            const size_t most = turns ? turns->take(turns->ctx) : SIZE_MAX;
            const size_t left = parts[i].to - at;
            const ssize_t got =
                pread(fd, buf->data + at, left < most ? left : most, (off_t)(base_offset + at));
            const int error = errno;
            if (turns)
                turns->give(turns->ctx);
            if (got < 0 && error == EINTR)
                continue;
            if (got <= 0) {
                sluice_buf_unref(buf);
                return sluice_fail(err, SLUICE_E_IO, "cannot read: %s",
                                   got < 0 ? strerror(error) : "it shrank meanwhile");
            }
            at += (size_t)got;
        }
    }
    buf->len = len;
    *out = buf;
    return SLUICE_OK;
}

sluice_status sluice_file_read_range(const char *path, uint64_t offset, uint64_t len,
                                     size_t max_bytes, struct sluice_buf_pool *pool,
                                     struct sluice_buf **out, struct stat *seen,
                                     struct sluice_err *err)
{
    struct sluice_err why = {0};
    struct sluice_buf *buf = NULL;
    struct stat st, after;
    int fd;
    if (len > max_bytes)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "%s: %llu bytes are more than the limit %zu",
                           path, (unsigned long long)len, max_bytes);
    sluice_status status = open_regular(path, &fd, &st, err);
    if (status != SLUICE_OK)
        return status;
    if (offset > (uint64_t)st.st_size || len > (uint64_t)st.st_size - offset) {
        status =
            sluice_fail(err, SLUICE_E_STALE, "%s: ends before byte %llu, where %llu are listed",
                        path, (unsigned long long)offset, (unsigned long long)len);
    } else {
        const struct sluice_file_part whole = {0, (size_t)len};
        status = sluice_file_read_parts(fd, offset, (size_t)len, &whole, 1, NULL, pool, &buf, &why);
        if (status != SLUICE_OK)
            sluice_fail(err, status, "%s: %s", path, why.text);
    }
    if (status == SLUICE_OK && (fstat(fd, &after) != 0 || after.st_size != st.st_size ||
                                sluice_file_mtime_ns(&after) != sluice_file_mtime_ns(&st))) {
        sluice_buf_unref(buf);
        status = sluice_fail(err, SLUICE_E_IO, "%s: changed while it was read", path);
    }
    close(fd);
    if (status != SLUICE_OK)
        return status;
    *out = buf;
    if (seen)
        *seen = st;
    return SLUICE_OK;
}

static void folder_of(const char *path, char folder[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        snprintf(folder, PATH_MAX, ".");
    else
        snprintf(folder, PATH_MAX, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

/* The rename itself is safe only once the folder is on disk too.  A file system
 * that cannot sync a folder says EINVAL; there is nothing more to do then. */
static bool sync_folder_of(const char *path)
{
    char folder[PATH_MAX];
    folder_of(path, folder);
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == EACCES; /* may write into it, may not list it */
    const bool is_synced = fsync(fd) == 0 || errno == EINVAL;
    const int saved = errno;
    close(fd);
    errno = saved;
    return is_synced;
}

/* Nothing takes the place of a device or a pipe: for root it would be gone for everybody. */
static bool is_device(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

/* Writes all of a file's content; false: errno says why not. */
typedef bool fill_fn(int fd, const void *ctx);

static sluice_status write_to_device(const char *path, fill_fn *fill, const void *ctx,
                                     struct sluice_err *err)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(err, path, "open");
    const sluice_status status = fill(fd, ctx) ? SLUICE_OK : fail_errno(err, path, "write");
    close(fd);
    return status;
}

static sluice_status replace(const char *path, fill_fn *fill, const void *ctx,
                             struct sluice_err *err)
{
    if (is_device(path))
        return write_to_device(path, fill, ctx, err);
    /* Process and count make the name ours alone; O_EXCL makes sure. */
    static atomic_uint count;
    char beside[PATH_MAX];
    const int bytes = snprintf(beside, sizeof(beside), "%s.tmp-%ld-%u", path, (long)getpid(),
                               atomic_fetch_add(&count, 1));
    if (bytes < 0 || (size_t)bytes >= sizeof(beside))
        return sluice_fail(err, SLUICE_E_INVALID, "%.64s...: path too long", path);

    const int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return fail_errno(err, path, "create a file beside it");
    bool is_written = fill(fd, ctx) && fsync(fd) == 0;
    int saved = errno;
    if (close(fd) != 0 && is_written) {
        is_written = false;
        saved = errno;
    }
    errno = saved;
    if (!is_written || rename(beside, path) != 0) {
        const sluice_status status = fail_errno(err, path, is_written ? "rename" : "write");
        unlink(beside);
        return status;
    }
    if (!sync_folder_of(path))
        return fail_errno(err, path, "sync its folder");
    return SLUICE_OK;
}

struct content {
    const void *data;
    size_t len;
};

static bool fill_with(int fd, const void *ctx)
{
    const struct content *content = ctx;
    return sluice_write_fully(fd, content->data, content->len);
}

sluice_status sluice_file_write_atomic(const char *path, const void *data, size_t len,
                                       struct sluice_err *err)
{
    return replace(path, fill_with, &(struct content){data, len}, err);
}

struct printing {
    void (*print)(FILE *out, const void *ctx);
    const void *ctx;
};

static bool fill_by_printing(int fd, const void *ctx)
{
    const struct printing *printing = ctx;
    const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    FILE *out = own < 0 ? NULL : fdopen(own, "w");
    if (!out) {
        const int saved = errno;
        if (own >= 0)
            close(own);
        errno = saved;
        return false;
    }
    errno = 0;
    printing->print(out, printing->ctx);
    const bool is_whole = fflush(out) == 0 && !ferror(out);
    const int saved = errno;
    const bool is_closed = fclose(out) == 0;
    if (!is_whole)
        errno = saved ? saved : EIO;
    return is_whole && is_closed;
}

sluice_status sluice_file_print_atomic(const char *path, void (*print)(FILE *out, const void *ctx),
                                       const void *ctx, struct sluice_err *err)
{
    return replace(path, fill_by_printing, &(struct printing){print, ctx}, err);
}

/* Whether `name` is BASE.tmp-PID-NUMBER, of a process that lives no more. */
static bool is_left_behind(const char *name, const char *base)
{
    const size_t len = strlen(base);
    long pid;
    unsigned number;
    char more;
    return strncmp(name, base, len) == 0 &&
           sscanf(name + len, ".tmp-%ld-%u%c", &pid, &number, &more) == 2 && pid > 0 &&
           kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

sluice_status sluice_file_try_atomic(const char *path, struct sluice_err *err)
{
    char folder[PATH_MAX], beside[PATH_MAX];
    struct stat st;
    if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
        return sluice_fail(err, SLUICE_E_INVALID, "%s: not a regular file", path);
    if (!sluice_print(beside, sizeof(beside), "%s.tmp-%ld-try", path, (long)getpid()))
        return sluice_fail(err, SLUICE_E_INVALID, "%.64s...: path too long", path);
    const int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return fail_errno(err, path, "create a file beside it");
    close(fd);
    unlink(beside);

    folder_of(path, folder);
    const char *slash = strrchr(path, '/');
    DIR *dir = opendir(folder);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        if (is_left_behind(entry->d_name, slash ? slash + 1 : path))
            unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir)
        closedir(dir);
    return SLUICE_OK;
}

bool sluice_folder_has_files(const char *path)
{
    DIR *folder = opendir(path);
    if (!folder)
        return false;
    const struct dirent *entry;
    while ((errno = 0, entry = readdir(folder)) && entry->d_name[0] == '.')
        ;
    const bool has_files = entry || errno;
    closedir(folder);
    return has_files;
}

sluice_status sluice_mkdirs(const char *path, struct sluice_err *err)
{
    char part[PATH_MAX];
    const size_t len = strlen(path);
    if (len == 0 || len >= sizeof(part))
        return sluice_fail(err, SLUICE_E_INVALID, "'%.64s': not a path", path);

    for (size_t end = 1; end <= len; end++) {
        if (path[end] != '/' && path[end] != 0)
            continue;
        memcpy(part, path, end);
        part[end] = 0;
        if (mkdir(part, 0777) == 0)
            continue;
        /* EEXIST: it is there.  EACCES, EROFS: the folder above cannot be written, but this one
         * may exist all the same.  Only that counts. */
        const int saved = errno;
        struct stat st;
        if (stat(part, &st) == 0 && S_ISDIR(st.st_mode))
            continue;
        errno = saved == EEXIST ? ENOTDIR : saved;
        return sluice_fail(err, SLUICE_E_IO, "%s: cannot make the folder %s: %s", path, part,
                           strerror(errno));
    }
    return SLUICE_OK;
}

void sluice_open_standard_descriptors(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDWR); /* the lowest that is free */
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
}
