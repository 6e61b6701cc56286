#ifndef SLUICE_STORAGE_SERVER_DATA_DESCRIPTORS_H
#define SLUICE_STORAGE_SERVER_DATA_DESCRIPTORS_H

#include "storage_server/options.h"

/* How many connections the process has descriptors for.
 *
 * Threads: raise at start, on the main thread; the rest from any. */

/* Raises the soft limit of RLIMIT_NOFILE to the hard one (to no more than 2^20); returns the limit
 * that holds. */
uint64_t sluice_descriptors_raise(void);

/* The soft limit as it is. */
uint64_t sluice_descriptors_limit(void);

/* Sets max_connections and max_connections_per_host where they were not given: what is left of
 * `limit` beside files, workers and metrics, but no more than 8,192; half of it for each host.
 * SLUICE_E_INVALID if a number given is above what is left, or if less than 8 are left. */
SLUICE_MUST_USE sluice_status sluice_descriptors_share(uint64_t limit,
                                                       struct sluice_server_options *options,
                                                       struct sluice_err *err);

#endif
