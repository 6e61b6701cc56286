#ifndef SLUICE_STORAGE_SERVER_WORK_MEMORY_LIMIT_H
#define SLUICE_STORAGE_SERVER_WORK_MEMORY_LIMIT_H

#include "base/error.h"

#include <stdint.h>

/* How much memory the server may use beside what it has at its start, and for what.
 *
 * Threads: at start, on the main thread; the resident bytes from any. */

/* Half of what the machine or the control group has, whichever is less; where RLIMIT_AS or
 * RLIMIT_DATA is set no more than half of what it leaves when the stacks of num_threads threads are
 * there, as gRPC ends the process where it gets no memory.  `root` as in host/cgroup.h.
 * SLUICE_E_NO_MEMORY: so little is left that no server should start. */
SLUICE_MUST_USE sluice_status sluice_memory_limit_default(const char *root, unsigned num_threads,
                                                          uint64_t *bytes, struct sluice_err *err);

/* Makes malloc return what is freed while `limit` holds, and take no more address space in advance
 * than RLIMIT_AS allows.  Before the first thread. */
void sluice_memory_limit_apply(uint64_t limit);

/* The parts of a limit. */
struct sluice_memory_parts {
    uint64_t budget; /* what clients make the server hold (memory_budget.h) */
    uint64_t live;   /* the budget, and the buffers of running work beside it */
    uint64_t cached; /* unused buffers */
    uint64_t grpc;   /* connections and calls */
};
struct sluice_memory_parts sluice_memory_limit_part(uint64_t limit);

uint64_t sluice_memory_resident(void); /* of this process, in bytes; 0: not known */

#endif
