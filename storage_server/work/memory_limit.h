#ifndef SLUICE_STORAGE_SERVER_WORK_MEMORY_LIMIT_H
#define SLUICE_STORAGE_SERVER_WORK_MEMORY_LIMIT_H

#include "base/error.h"

#include <stdint.h>

/* The memory that the server may use in addition to its memory at the start, and its parts.
 *
 * Threads: at start, on the main thread; the resident bytes from any. */

/* Half of the memory of the machine or of the control group, whichever is less.  If RLIMIT_AS or
 * RLIMIT_DATA is set, at most half of what it leaves after the stacks of num_threads threads,
 * because gRPC ends the process when it gets no memory.  `root` as in host/cgroup.h.
 * SLUICE_E_NO_MEMORY: too little is left to start a server. */
SLUICE_MUST_USE sluice_status sluice_memory_limit_default(const char *root, unsigned num_threads,
                                                          uint64_t *bytes, struct sluice_err *err);

/* Tunes malloc to return freed memory to the system, as `limit` needs, and to reserve no more
 * address space than RLIMIT_AS allows.  Call it before the first thread starts. */
void sluice_memory_limit_apply(uint64_t limit);

/* The parts of a limit. */
struct sluice_memory_parts {
    uint64_t budget; /* held for clients (memory_budget.h) */
    uint64_t live;   /* the budget plus the buffers of running work */
    uint64_t cached; /* unused buffers */
    uint64_t grpc;   /* connections and calls */
};
struct sluice_memory_parts sluice_memory_limit_part(uint64_t limit);

uint64_t sluice_memory_resident(void); /* resident bytes of this process; 0: unknown */

#endif
