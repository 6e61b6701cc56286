#ifndef SLUICE_STORAGE_SERVER_DATA_ROOT_WATCH_H
#define SLUICE_STORAGE_SERVER_DATA_ROOT_WATCH_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Looks every ROOT_LOOK_NS whether each of the server's roots is where it was, on a thread of its
 * own for each: the look itself may hang (a network file system), which counts as a root that is
 * gone.  The others are served meanwhile.
 *
 * Threads: any. */

struct sluice_root_watch;
struct sluice_roots;
struct sluice_sample_lists;
struct sluice_store;

/* Borrows all.  A root's first sample in the list of now tells whether another folder is the
 * dataset's (store->look). */
SLUICE_MUST_USE sluice_status sluice_root_watch_open(struct sluice_store *store,
                                                     const struct sluice_roots *roots,
                                                     struct sluice_sample_lists *lists,
                                                     struct sluice_root_watch **watch,
                                                     struct sluice_err *err);
/* Waits for a look under way.  NULL is allowed. */
void sluice_root_watch_close(struct sluice_root_watch *watch);

/* Whether all are, as the last looks found them.  A change is logged.  One thread at a time. */
bool sluice_root_watch_is_here(struct sluice_root_watch *watch, uint64_t now_ns);

#endif
