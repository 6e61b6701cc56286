#ifndef SLUICE_TESTS_FUZZ_FILE_H
#define SLUICE_TESTS_FUZZ_FILE_H

#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

/* Inputs as files, for parsers that open theirs by name: files in memory, which a folder on disk
 * has links to. */

static char fuzz_folder[64];

static void fuzz_remove_links(const char *const *names)
{
    for (; *names; names++) {
        char path[128];
        snprintf(path, sizeof(path), "%s/%s", fuzz_folder, *names);
        unlink(path);
    }
    rmdir(fuzz_folder);
}

/* Makes the folder; returns the file behind `name` in it. */
static int fuzz_file_open(const char *name)
{
    if (!fuzz_folder[0]) {
        /* In memory, where there is such a place: what is written is synced, each time. */
        snprintf(fuzz_folder, sizeof(fuzz_folder), "/dev/shm/sluice-fuzz-XXXXXX");
        if (!mkdtemp(fuzz_folder)) {
            snprintf(fuzz_folder, sizeof(fuzz_folder), "/tmp/sluice-fuzz-XXXXXX");
            FUZZ_CHECK(mkdtemp(fuzz_folder));
        }
    }
    const int fd = memfd_create(name, MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0);
    char target[64], path[128];
    snprintf(target, sizeof(target), "/proc/self/fd/%d", fd);
    snprintf(path, sizeof(path), "%s/%s", fuzz_folder, name);
    FUZZ_CHECK(symlink(target, path) == 0);
    return fd;
}

static void fuzz_file_set(int fd, const void *bytes, size_t size)
{
    FUZZ_CHECK(ftruncate(fd, 0) == 0);
    FUZZ_CHECK(pwrite(fd, bytes, size, 0) == (ssize_t)size);
}

#endif
