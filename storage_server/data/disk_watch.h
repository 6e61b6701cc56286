#ifndef SLUICE_STORAGE_SERVER_DATA_DISK_WATCH_H
#define SLUICE_STORAGE_SERVER_DATA_DISK_WATCH_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Detects other processes' reads of a disk: the bytes that the disk has read (/sys/dev/block) minus
 * the bytes that this process has asked for (/proc/self/io).
 *
 * The disk counts a read at its end, the process at its start.  So the difference is the others'
 * bytes minus the bytes that we wait for: exact while we read nothing, too small otherwise.  Our
 * reads of other disks make it too small as well.  So it never reports others that do not exist.
 *
 * Threads: poll, one at a time; is_cached, any. */

struct sluice_disk_watch;

/* Watches the whole disk that holds the folder, also if that is on a partition or on a volume of a
 * single disk.  `root` is a prefix of the paths in /sys and /proc; "": this machine's.
 * SLUICE_E_UNSUPPORTED: the folder is not on a disk with counters (but on a network, overlay or
 * memory file system). */
SLUICE_MUST_USE sluice_status sluice_disk_watch_open(const char *root, const char *folder,
                                                     struct sluice_disk_watch **watch,
                                                     struct sluice_err *err);
void sluice_disk_watch_close(struct sluice_disk_watch *watch); /* NULL is allowed */

struct sluice_disk_activity {
    unsigned in_flight; /* all reads that the disk has not answered, ours included */
    /* Others have read since the last exact poll; true is certain. */
    bool has_others;
    bool is_exact;
};

/* `is_quiet`: as far as the caller knows, this process reads nothing; the poll is exact if the
 * disk's counters agree.  A counter that cannot be read any more shows no reads. */
struct sluice_disk_activity sluice_disk_watch_poll(struct sluice_disk_watch *watch, bool is_quiet);

/* Whether the bytes [from, to) of a file are in the page cache (cachestat).  False if the kernel
 * does not tell: before Linux 6.5, or for files of other users. */
bool sluice_disk_is_cached(int fd, uint64_t from, uint64_t to);

#endif
