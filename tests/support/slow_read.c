/* To preload: every read() and pread() of a regular file takes SLOW_READ_US longer, asleep, as
 * on a disk that is slow.  Reads at the same time wait side by side. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

/* What unistd.h declares; it may define them, too, as checks of their arguments. */
ssize_t read(int fd, void *to, size_t size);
ssize_t pread(int fd, void *to, size_t size, off_t at);

typedef ssize_t (*read_fn)(int fd, void *to, size_t size);
typedef ssize_t (*pread_fn)(int fd, void *to, size_t size, off_t at);

/* POSIX has dlsym() return functions as objects. */
static void find(const char *name, void *function)
{
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(function, &found, sizeof(found));
}

static void wait_for_disk(int fd)
{
    struct stat file;
    const char *us = getenv("SLOW_READ_US");
    if (!us || fstat(fd, &file) != 0 || !S_ISREG(file.st_mode))
        return;
    const long ns = strtol(us, NULL, 10) * 1000;
    const struct timespec left = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    (void)nanosleep(&left, NULL);
}

ssize_t read(int fd, void *to, size_t size)
{
    read_fn next;
    find("read", &next);
    wait_for_disk(fd);
    return next(fd, to, size);
}

ssize_t pread(int fd, void *to, size_t size, off_t at)
{
    pread_fn next;
    find("pread", &next);
    wait_for_disk(fd);
    return next(fd, to, size, at);
}
