#include "host/unix_listener.h"

#include "base/clock.h"
#include "base/process.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static sluice_status fail_errno(const char *path, struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_IO, "%s: %s", path, strerror(errno));
}

sluice_status sluice_unix_address(const char *path, struct sockaddr_un *address,
                                  struct sluice_err *err)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (!path[0] || !sluice_print(address->sun_path, sizeof(address->sun_path), "%s", path))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%s: the path of a unix socket has 1 to %zu characters", path,
                           sizeof(address->sun_path) - 1);
    return SLUICE_OK;
}

/* Removes what a dead process left. */
static sluice_status remove_stale(const struct sockaddr_un *address, struct sluice_err *err)
{
    const char *path = address->sun_path;
    struct stat file;
    if (lstat(path, &file) != 0)
        return SLUICE_OK; /* or bind() says why not */
    if (!S_ISSOCK(file.st_mode))
        return sluice_fail(err, SLUICE_E_INVALID, "%s is there already, and no socket", path);
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return fail_errno(path, err);
    const bool is_stale = connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0 &&
                          errno == ECONNREFUSED;
    close(fd);
    if (!is_stale)
        return sluice_fail(err, SLUICE_E_INVALID, "%s: somebody listens there already", path);
    return unlink(path) == 0 ? SLUICE_OK : fail_errno(path, err);
}

/* The folder of the path, locked, so that of two processes that come at once one finds the other's
 * socket.  -1: it cannot be locked, and bind() says why if that matters. */
static int lock_folder(const char *path)
{
    char folder[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
    const char *slash = strrchr(path, '/');
    sluice_print(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) + 1 : 1,
                 slash ? path : ".");
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* Whoever may read the folder could hold its lock for ever. */
    for (int i = 0; i < 100 && fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0; i++)
        sluice_clock_sleep_until(sluice_clock_ns() + 10000000u);
    return fd;
}

sluice_status sluice_unix_listen(const char *path, mode_t mode, int backlog,
                                 struct sluice_unix_listener *listener, struct sluice_err *err)
{
    struct sockaddr_un address;
    sluice_status status = sluice_unix_address(path, &address, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_unix_listener made = {
        .fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
        .path = strdup(path)};
    sluice_process_own_socket(made.fd);
    const int folder = lock_folder(path);
    struct stat file = {0};
    if (made.fd < 0 || !made.path)
        status = fail_errno(path, err);
    if (status == SLUICE_OK)
        status = remove_stale(&address, err);
    if (status == SLUICE_OK &&
        bind(made.fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
        status = fail_errno(path, err);
    /* Nobody can connect before listen(). */
    if (status == SLUICE_OK &&
        (chmod(path, mode) != 0 || lstat(path, &file) != 0 || listen(made.fd, backlog))) {
        status = fail_errno(path, err);
        unlink(path);
    }
    if (folder >= 0)
        close(folder);
    made.device = file.st_dev;
    made.inode = file.st_ino;
    if (status == SLUICE_OK)
        *listener = made;
    else
        sluice_unix_close(&made);
    return status;
}

void sluice_unix_unlink(const struct sluice_unix_listener *listener)
{
    struct stat file;
    if (lstat(listener->path, &file) == 0 && file.st_dev == listener->device &&
        file.st_ino == listener->inode)
        unlink(listener->path);
}

void sluice_unix_close(struct sluice_unix_listener *listener)
{
    sluice_process_end_socket(listener->fd);
    free(listener->path);
    *listener = (struct sluice_unix_listener){.fd = -1};
}

int sluice_unix_accept(const struct sluice_unix_listener *listener)
{
    const int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    sluice_process_own_socket(fd);
    return fd;
}
