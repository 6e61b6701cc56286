#ifndef SLUICE_STORAGE_SERVER_DATA_DESCRIPTORS_H
#define SLUICE_STORAGE_SERVER_DATA_DESCRIPTORS_H

#include "storage_server/options.h"

/* Limits on connections, from the file descriptors that the process may open.
 *
 * Threads: raise at start, on the main thread; the rest from any. */

/* Raises the soft limit of RLIMIT_NOFILE to the hard one, at most to 2^20.  Returns the limit that
 * then holds. */
uint64_t sluice_descriptors_raise(void);

/* The present soft limit. */
uint64_t sluice_descriptors_limit(void);

/* Sets max_connections and max_connections_per_host unless they were given: the descriptors of
 * `limit` that files, workers and metrics leave, at most 8,192; half of them for each host.
 * SLUICE_E_INVALID if a given number is above that, or if fewer than 8 are left. */
SLUICE_MUST_USE sluice_status sluice_descriptors_share(uint64_t limit,
                                                       struct sluice_server_options *options,
                                                       struct sluice_err *err);

#endif
