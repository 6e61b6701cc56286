#ifndef SLUICE_BASE_PROCESS_H
#define SLUICE_BASE_PROCESS_H

#include "base/error.h"

#include <sys/types.h>

/* State that the objects of the library share with their process.
 *
 * Threads: any. */

/* Before an object is made.  SLUICE_E_INVALID in a process that was forked from one which had
 * objects: gRPC's threads are not there. */
SLUICE_MUST_USE sluice_status sluice_process_begin(struct sluice_err *err);

/* SLUICE_E_INVALID if `owner`, the process that made an object, is not this one.  `what`: "server".
 */
SLUICE_MUST_USE sluice_status sluice_process_check(pid_t owner, const char *what,
                                                   struct sluice_err *err);

#endif
