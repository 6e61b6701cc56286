#ifndef SLUICE_TESTS_FUZZ_FILE_H
#define SLUICE_TESTS_FUZZ_FILE_H

#include "fuzz.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Inputs as files, for parsers that open theirs by name: files in memory, which a folder on disk
 * has links to. */

static char fuzz_folder[64];

static struct {
    const char *name;
    int fd;
    char path[128];
} fuzz_files[4];
static size_t fuzz_num_files;

static void fuzz_remove_files(void)
{
    for (size_t i = 0; i < fuzz_num_files; i++)
        unlink(fuzz_files[i].path);
    rmdir(fuzz_folder);
}

static void fuzz_make_folder(void)
{
    /* In memory, where there is such a place: what is written is synced, each time. */
    snprintf(fuzz_folder, sizeof(fuzz_folder), "/dev/shm/sluice-fuzz-XXXXXX");
    if (!mkdtemp(fuzz_folder)) {
        snprintf(fuzz_folder, sizeof(fuzz_folder), "/tmp/sluice-fuzz-XXXXXX");
        FUZZ_CHECK(mkdtemp(fuzz_folder));
    }
    atexit(fuzz_remove_files);
}

/* Puts the bytes into the file `name` of the folder, which it makes; returns the file's path. 
 * `name`: a constant. */
static const char *fuzz_file_put(const char *name, const void *bytes, size_t size)
{
    size_t i = 0;
    while (i < fuzz_num_files && strcmp(fuzz_files[i].name, name) != 0)
        i++;
    if (i == fuzz_num_files) {
        if (!fuzz_folder[0])
            fuzz_make_folder();
        FUZZ_CHECK(fuzz_num_files++ < sizeof(fuzz_files) / sizeof(fuzz_files[0]));
        fuzz_files[i].name = name;
        fuzz_files[i].fd = memfd_create(name, MFD_CLOEXEC);
        char target[64];
        snprintf(target, sizeof(target), "/proc/self/fd/%d", fuzz_files[i].fd);
        snprintf(fuzz_files[i].path, sizeof(fuzz_files[i].path), "%s/%s", fuzz_folder, name);
        FUZZ_CHECK(symlink(target, fuzz_files[i].path) == 0);
    }
    FUZZ_CHECK(ftruncate(fuzz_files[i].fd, 0) == 0);
    FUZZ_CHECK(pwrite(fuzz_files[i].fd, bytes, size, 0) == (ssize_t)size);
    return fuzz_files[i].path;
}

#endif
