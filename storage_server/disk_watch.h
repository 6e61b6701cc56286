#ifndef SLUICE_STORAGE_SERVER_DISK_WATCH_H
#define SLUICE_STORAGE_SERVER_DISK_WATCH_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Who reads a disk beside this process: what the disk has read as a whole (/sys/dev/block), less
 * what we have had it read (/proc/self/io).
 *
 * The one counts a read when it is done, the other when it is asked for.  So the difference is what
 * others have read, less what we wait for: exact while we read nothing, else too little.  Reads of
 * ours from other disks make it too little as well, so others are never seen where there are none.
 *
 * Threads: look, one at a time; is_cached, any. */

struct sluice_disk_watch;

/* Of the disk that the folder lies on: all of it, if that is a partition or a volume upon a single
 * disk.  `root` stands in front of the paths in /sys and /proc; "": this machine's.
 * SLUICE_E_UNSUPPORTED: it lies on none that counts (a network's, a union's, one in memory). */
SLUICE_MUST_USE sluice_status sluice_disk_watch_open(const char *root, const char *folder,
                                                     struct sluice_disk_watch **watch,
                                                     struct sluice_err *err);
void sluice_disk_watch_close(struct sluice_disk_watch *watch); /* NULL is allowed */

struct sluice_disk_sight {
    unsigned in_flight; /* reads that the disk has not answered, anybody's */
    /* Others have read since the last look that was exact: certain if true. */
    bool has_others;
    bool is_exact;
};

/* `is_quiet`: this process reads nothing, as far as the caller knows; the look is exact
 * if the disk agrees.  What cannot be read any longer is nobody's reads. */
struct sluice_disk_sight sluice_disk_watch_look(struct sluice_disk_watch *watch, bool is_quiet);

/* The bytes [from, to) of a file need no disk.  False where the kernel does not say (before Linux
 * 6.5, or files of other users). */
bool sluice_disk_is_cached(int fd, uint64_t from, uint64_t to);

#endif
