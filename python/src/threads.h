#ifndef SLUICE_PYTHON_THREADS_H
#define SLUICE_PYTHON_THREADS_H

#include <stddef.h>

/* The work of one call on several threads, which end with the call.
 *
 * Threads: any, without locks, so also in the child of a fork. */

enum { MAX_PARTS = 16 };

/* Calls run() for each of the parts, which follow one another in memory, at most MAX_PARTS: the
 * first here, the others on threads without signals, or here if a thread does not start. */
void run_parts(void *parts, size_t part_bytes, size_t num_parts, void (*run)(void *part));

#endif
