#ifndef SLUICE_LEND_SWITCH_ASIDE_H
#define SLUICE_LEND_SWITCH_ASIDE_H

#include "base/error.h"

/* Puts another process that uses CUDA aside: CUDA's process checkpoint copies its memory on GPUs to the
 * host's and frees it, and the process waits at its next CUDA call until it is back.  It must be this
 * user's, and the host's memory must have room.  The driver is loaded at the first call.
 *
 * Threads: one at a time for each process. */

/* Does so with the owner that lends at `path`.  Waits up to 10 s for what it has put on its streams: it must
 * not wait there for this process.  After a failure it runs, if it can.
 * SLUICE_E_NOT_FOUND: nobody listens, or nobody that this PID namespace shows; SLUICE_E_UNSUPPORTED: no
 * driver, or one before 570; SLUICE_E_INVALID: the path is too long, or the process does not use CUDA or
 * is aside. */
SLUICE_MUST_USE sluice_status switch_aside_put(const char *path, struct sluice_err *err);
/* Brings it back, from wherever a put() of this or another process left it.  Needs as much of the GPU's
 * memory as it had.  OK if it runs. */
SLUICE_MUST_USE sluice_status switch_aside_return(const char *path, struct sluice_err *err);

#endif
