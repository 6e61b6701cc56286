#include "storage_server/data/disk_watch.h"

#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define SECTOR 512 /* of the kernel's counters, whatever the disk has */
#define MAX_LAYERS 8

/* As linux/mman.h has it, which older headers lack. */
#define SYS_CACHESTAT 451
struct cachestat_range {
    uint64_t off, len;
};
struct cachestat {
    uint64_t nr_cache, nr_dirty, nr_writeback, nr_evicted, nr_recently_evicted;
};

struct sluice_disk_watch {
    int stat, in_flight, ours; /* files, read anew at each poll */
    int64_t others;            /* bytes, at the last exact poll */
};

/* Up to `count` numbers of a file's beginning; their number. */
static int read_numbers(int fd, unsigned long long *numbers, int count)
{
    char text[512];
    const ssize_t len = pread(fd, text, sizeof(text) - 1, 0);
    text[len > 0 ? len : 0] = '\0';
    char *at = text;
    for (int i = 0; i < count; i++) {
        char *end;
        numbers[i] = strtoull(at, &end, 10);
        if (end == at)
            return i;
        at = end;
    }
    return count;
}

/* False: not to be had. */
static bool read_disk(const struct sluice_disk_watch *watch, int64_t *bytes, unsigned *in_flight)
{
    unsigned long long stat[3], flight[1];
    if (read_numbers(watch->stat, stat, 3) != 3 || read_numbers(watch->in_flight, flight, 1) != 1)
        return false;
    *bytes = (int64_t)(stat[2] * SECTOR);
    *in_flight = (unsigned)flight[0];
    return true;
}

static bool read_ours(const struct sluice_disk_watch *watch, int64_t *bytes)
{
    char text[512];
    const ssize_t len = pread(watch->ours, text, sizeof(text) - 1, 0);
    text[len > 0 ? len : 0] = '\0';
    const char *at = strstr(text, "\nread_bytes: ");
    unsigned long long value;
    if (!at || sscanf(at, "\nread_bytes: %llu", &value) != 1)
        return false;
    *bytes = (int64_t)value;
    return true;
}

struct sluice_disk_activity sluice_disk_watch_poll(struct sluice_disk_watch *watch, bool is_quiet)
{
    struct sluice_disk_activity activity = {0};
    int64_t before, disk, after;
    /* Our counter is read after the disk's: a read of ours that is done in between would otherwise
     * count as others'. */
    if (!read_ours(watch, &before) || !read_disk(watch, &disk, &activity.in_flight) ||
        !read_ours(watch, &after))
        return (struct sluice_disk_activity){0};
    const int64_t others = disk - after;
    activity.has_others = others > watch->others;
    activity.is_exact = is_quiet && activity.in_flight == 0 && before == after;
    if (activity.is_exact)
        watch->others = others;
    return activity;
}

/* --- finding the disk --- */

typedef char path_text[PATH_MAX];

static bool is_there(const char *folder, const char *name)
{
    path_text path;
    return sluice_print(path, sizeof(path_text), "%s/%s", folder, name) && access(path, F_OK) == 0;
}

/* The only name in folder/slaves, or "". */
static void find_only_slave(const char *folder, char *name, size_t room)
{
    path_text path;
    name[0] = '\0';
    DIR *dir = sluice_print(path, sizeof(path_text), "%s/slaves", folder) ? opendir(path) : NULL;
    int count = 0;
    errno = 0; /* a folder that is not read to its end may hold more names */
    for (const struct dirent *entry; dir && (entry = readdir(dir)); errno = 0) {
        if (entry->d_name[0] != '.' && count++ == 0)
            snprintf(name, room, "%s", entry->d_name);
    }
    const bool is_whole = errno == 0;
    if (dir)
        closedir(dir);
    if (count != 1 || !is_whole)
        name[0] = '\0';
}

/* From a volume to the disk below it, and from a partition to its whole disk, since reads of other
 * partitions share the disk with ours. */
static bool find_disk(path_text folder)
{
    path_text next;
    for (int layer = 0; layer < MAX_LAYERS; layer++) {
        char slave[NAME_MAX + 1];
        find_only_slave(folder, slave, sizeof(slave));
        if (slave[0] ? !sluice_print(next, sizeof(path_text), "%s/slaves/%s", folder, slave)
                     : !sluice_print(next, sizeof(path_text), "%s/..", folder))
            return false;
        if (!slave[0] && !is_there(folder, "partition"))
            return true;
        memcpy(folder, next, sizeof(path_text));
    }
    return false;
}

static int open_file(const char *folder, const char *name)
{
    path_text path;
    return sluice_print(path, sizeof(path_text), "%s/%s", folder, name)
               ? open(path, O_RDONLY | O_CLOEXEC)
               : -1;
}

sluice_status sluice_disk_watch_open(const char *root, const char *folder,
                                     struct sluice_disk_watch **out, struct sluice_err *err)
{
    struct stat st;
    path_text disk, proc;
    if (stat(folder, &st) != 0)
        return sluice_fail(err, SLUICE_E_IO, "%s: %s", folder, strerror(errno));
    if (!sluice_print(disk, sizeof(path_text), "%s/sys/dev/block/%u:%u", root, major(st.st_dev),
                      minor(st.st_dev)) ||
        !sluice_print(proc, sizeof(path_text), "%s/proc/self", root) || !is_there(disk, "stat") ||
        !find_disk(disk))
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "%s lies on no disk of this machine (%u:%u)",
                           folder, major(st.st_dev), minor(st.st_dev));
    struct sluice_disk_watch *watch = calloc(1, sizeof(*watch));
    if (!watch)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to watch a disk");
    watch->stat = open_file(disk, "stat");
    watch->in_flight = open_file(disk, "inflight");
    watch->ours = open_file(proc, "io");
    const int iostats = open_file(disk, "queue/iostats");
    unsigned long long counts = 1;
    const bool is_off = read_numbers(iostats, &counts, 1) == 1 && counts == 0;
    if (iostats >= 0)
        close(iostats);
    int64_t bytes = 0, disk_bytes = 0;
    unsigned in_flight;
    sluice_status status = SLUICE_OK;
    if (is_off)
        status = sluice_fail(err, SLUICE_E_UNSUPPORTED, "%s/queue/iostats is 0", disk);
    else if (!read_disk(watch, &disk_bytes, &in_flight))
        status = sluice_fail(err, SLUICE_E_UNSUPPORTED, "%s does not count its reads", disk);
    else if (!read_ours(watch, &bytes))
        status = sluice_fail(err, SLUICE_E_UNSUPPORTED, "%s/io has no read_bytes", proc);
    if (status != SLUICE_OK) {
        sluice_disk_watch_close(watch);
        return status;
    }
    watch->others = disk_bytes - bytes;
    *out = watch;
    return SLUICE_OK;
}

void sluice_disk_watch_close(struct sluice_disk_watch *watch)
{
    if (!watch)
        return;
    const int files[] = {watch->stat, watch->in_flight, watch->ours};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(files); i++) {
        if (files[i] >= 0)
            close(files[i]);
    }
    free(watch);
}

bool sluice_disk_is_cached(int fd, uint64_t from, uint64_t to)
{
    if (from == to)
        return true;
    const struct cachestat_range range = {from, to - from};
    struct cachestat stat;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return syscall(SYS_CACHESTAT, fd, &range, &stat, 0) == 0 &&
           stat.nr_cache >= (to - 1) / page - from / page + 1;
}
