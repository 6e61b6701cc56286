#ifndef SLUICE_STORAGE_SERVER_DATA_DISK_GATE_H
#define SLUICE_STORAGE_SERVER_DATA_DISK_GATE_H

#include "base/error.h"

#include <stddef.h>

/* Lets other programs' reads of the disk go first, also with an I/O scheduler without priorities.
 * A disk serves many reads at once, in its own order, so other programs are delayed by the number
 * of our reads that it already has.
 *
 *     nobody else reads   every read goes at once
 *     others read         one of ours at a time, in pieces, each when the disk has no read of
 *                         theirs in flight, or after PATIENCE_NS, so that ours do not starve
 *
 * The disk's counters show the others' reads (disk_watch.h), exactly only while we read nothing.
 * So a few times a second, less often if reads take long, new reads wait until the reads in flight
 * are done.
 *
 * Threads: open and close on one, before the first and after the last read; the rest from any. */

struct sluice_disk_gate;

/* Opens the gate of the disk that holds `folder`.  `root` and the statuses are as in disk_watch.h.
 */
SLUICE_MUST_USE sluice_status sluice_disk_gate_open(const char *root, const char *folder,
                                                    struct sluice_disk_gate **gate,
                                                    struct sluice_err *err);
void sluice_disk_gate_close(struct sluice_disk_gate *gate); /* NULL is allowed */

/* Blocks until the caller may read.  Returns the number of bytes that it may read before it gives
 * the turn back (SIZE_MAX: no limit). */
size_t sluice_disk_gate_take(struct sluice_disk_gate *gate);
void sluice_disk_gate_give(struct sluice_disk_gate *gate);

#endif
