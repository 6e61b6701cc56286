#include "datasets/list/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

int sluice_open_beneath(int folder_fd, const char *path, uint64_t flags)
{
    struct open_how how = {
        .flags = flags | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
    };
    long fd;
    int tries = 0; /* EAGAIN: something was renamed while the kernel walked over a ".." */
    do
        fd = syscall(SYS_openat2, folder_fd, path, &how, sizeof(how));
    while (fd < 0 && errno == EAGAIN && ++tries < 8);
    return (int)fd;
}

bool sluice_stat_beneath(int folder_fd, const char *path, struct stat *st)
{
    const int fd = sluice_open_beneath(folder_fd, path, O_PATH);
    if (fd < 0)
        return false;
    const bool is_found = fstat(fd, st) == 0;
    const int saved = errno;
    close(fd);
    errno = saved;
    return is_found;
}
