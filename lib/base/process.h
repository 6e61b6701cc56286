#ifndef SLUICE_BASE_PROCESS_H
#define SLUICE_BASE_PROCESS_H

#include "base/error.h"

#include <stdint.h>
#include <sys/types.h>

/* Detects use of the library's objects after a fork, and waits for children.
 *
 * Threads: any. */

/* Call it before creating an object.  SLUICE_E_INVALID: the process was forked from one that had
 * objects, so gRPC's threads are missing. */
SLUICE_MUST_USE sluice_status sluice_process_begin(struct sluice_err *err);

/* SLUICE_E_INVALID if `owner`, the process that created an object, is not this one.  `what`:
 * "server". */
SLUICE_MUST_USE sluice_status sluice_process_check(pid_t owner, const char *what,
                                                   struct sluice_err *err);

/* A socket that children from fork() close, so that the peer sees it hang up when this process ends
 * though a child lives.  Takes `fd`; does nothing for -1. */
void sluice_process_own_socket(int fd);
/* Ends such a socket; in a child, where it is closed already, does nothing. */
void sluice_process_end_socket(int fd);

/* Waits for the child to end until `until_ns` of sluice_clock_ns(), then kills it and waits `killed_ns`
 * more, because SIGKILL does not end a process that hangs in a driver.  *status is waitpid()'s if it has
 * ended, else as it was; NULL is allowed. */
void sluice_process_end_child(pid_t pid, uint64_t until_ns, uint64_t killed_ns, int *status);

#endif
