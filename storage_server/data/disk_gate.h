#ifndef SLUICE_STORAGE_SERVER_DATA_DISK_GATE_H
#define SLUICE_STORAGE_SERVER_DATA_DISK_GATE_H

#include "base/error.h"

#include <stddef.h>

/* Lets other programs' reads of the disk go first, also with an I/O scheduler that knows no
 * priorities.  A disk serves many reads at once, in an order of its own, so what delays the others
 * is the number of our reads that it already has.
 *
 *     nobody else reads   every read goes at once
 *     others read         one of ours at a time, in pieces, each when the disk has no read of
 *                         theirs in flight, or after PATIENCE_NS, so that ours do not starve
 *
 * The disk's counters show the others (disk_watch.h).  They are exact only while we read nothing.
 * So some times a second, less often if a read takes long, new reads wait until those in flight are
 * done.
 *
 * Threads: open and close on one, before the first and after the last read; the rest from any. */

struct sluice_disk_gate;

/* Of the disk that `folder` lies on; `root` as in disk_watch.h, whose statuses these are. */
SLUICE_MUST_USE sluice_status sluice_disk_gate_open(const char *root, const char *folder,
                                                    struct sluice_disk_gate **gate,
                                                    struct sluice_err *err);
void sluice_disk_gate_close(struct sluice_disk_gate *gate); /* NULL is allowed */

/* Blocks until the caller may read.  Returns how many bytes it may read at most (SIZE_MAX: all that
 * it wants) before it gives the turn back. */
size_t sluice_disk_gate_take(struct sluice_disk_gate *gate);
void sluice_disk_gate_give(struct sluice_disk_gate *gate);

#endif
