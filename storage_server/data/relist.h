#ifndef SLUICE_STORAGE_SERVER_DATA_RELIST_H
#define SLUICE_STORAGE_SERVER_DATA_RELIST_H

#include "base/error.h"
#include "storage_server/data/sample_list.h"

/* Reads the list of samples again while the server serves.  At the start and after each reading it
 * checks whether the manifest is up to date (datasets/manifest/drift.h).  It has its own thread,
 * because a large list takes seconds and a disk may hang.
 *
 * The promise: the server has a complete list at any time.  If the new list cannot be read, or its
 * manifest is damaged, the server keeps the old one and logs an error.
 *
 * Threads: open and close on one, request from any. */

struct sluice_memory_budget;
struct sluice_relist;

/* Borrows all of it. */
struct sluice_relist_options {
    struct sluice_sample_list_source source;
    struct sluice_sample_lists *lists;
    struct sluice_memory_budget *memory; /* its limit moves with the size of lists; may be NULL */
};

SLUICE_MUST_USE sluice_status sluice_relist_open(const struct sluice_relist_options *options,
                                                 struct sluice_relist **relist,
                                                 struct sluice_err *err);
/* Waits for the reading under way.  NULL is allowed. */
void sluice_relist_close(struct sluice_relist *relist);

/* Returns at once.  Requests during a reading cause one more reading after it. */
void sluice_relist_request(struct sluice_relist *relist);

#endif
