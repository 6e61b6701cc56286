#ifndef SLUICE_STORAGE_SERVER_DISK_GATE_H
#define SLUICE_STORAGE_SERVER_DISK_GATE_H

#include "base/error.h"

#include <stddef.h>

/* Lets other programs' reads of the disk come first, whatever its scheduler, or none, knows of
 * priorities: a disk serves many reads at once and in its own order, so what counts is how
 * many of ours it has before the others' come.
 *
 *     nobody else reads   every read goes at once
 *     others read         one of ours at a time, in pieces, each only when the disk has none of
 *                         theirs to answer; but after some time even so, that nobody starves
 *
 * Others are seen by the disk's own counters (disk_watch.h).  These are exact only while we read
 * nothing, so some times a second, the fewer the longer a read takes, new reads wait until those
 * under way are done.
 *
 * Threads: open and close on one, before the first and after the last read; the rest from any. */

struct sluice_disk_gate;

/* Of the disk that `folder` lies on; `root` as in disk_watch.h, whose statuses these are. */
SLUICE_MUST_USE sluice_status sluice_disk_gate_open(const char *root, const char *folder,
                                                    struct sluice_disk_gate **gate,
                                                    struct sluice_err *err);
void sluice_disk_gate_close(struct sluice_disk_gate *gate); /* NULL is allowed */

/* Blocks until the caller may read: so many bytes at most (SIZE_MAX: all it wants).  It then gives
 * the turn back. */
size_t sluice_disk_gate_take(struct sluice_disk_gate *gate);
void sluice_disk_gate_give(struct sluice_disk_gate *gate);

#endif
