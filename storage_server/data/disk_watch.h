#ifndef SLUICE_STORAGE_SERVER_DATA_DISK_WATCH_H
#define SLUICE_STORAGE_SERVER_DATA_DISK_WATCH_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Whether other processes read a disk: the bytes that the disk has read (/sys/dev/block), less
 * those that this process has asked for (/proc/self/io).
 *
 * The disk counts a read when it is done, the process when it is asked for.  So the difference is
 * what others have read, less what we wait for: exact while we read nothing, too small otherwise.
 * Our reads of other disks make it too small as well.  So others are never seen where there are
 * none.
 *
 * Threads: poll, one at a time; is_cached, any. */

struct sluice_disk_watch;

/* Of the whole disk that the folder lies on, also where that is a partition or a volume on a single
 * disk.  `root` stands in front of the paths in /sys and /proc; "": this machine's.
 * SLUICE_E_UNSUPPORTED: the folder is on no disk with counters (a network, overlay or memory file
 * system). */
SLUICE_MUST_USE sluice_status sluice_disk_watch_open(const char *root, const char *folder,
                                                     struct sluice_disk_watch **watch,
                                                     struct sluice_err *err);
void sluice_disk_watch_close(struct sluice_disk_watch *watch); /* NULL is allowed */

struct sluice_disk_activity {
    unsigned in_flight; /* reads that the disk has not answered, anybody's */
    /* Others have read since the last exact poll: certain if true. */
    bool has_others;
    bool is_exact;
};

/* `is_quiet`: this process reads nothing, as far as the caller knows; the poll is exact if the disk
 * says the same.  A counter that can no longer be read shows no reads. */
struct sluice_disk_activity sluice_disk_watch_poll(struct sluice_disk_watch *watch, bool is_quiet);

/* The bytes [from, to) of a file are in the page cache (cachestat).  False where the kernel does
 * not say: before Linux 6.5, or for files of other users. */
bool sluice_disk_is_cached(int fd, uint64_t from, uint64_t to);

#endif
