#ifndef SLUICE_STORAGE_SERVER_DATA_ROOT_WATCH_H
#define SLUICE_STORAGE_SERVER_DATA_ROOT_WATCH_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Checks every ROOT_LOOK_NS that each of the server's roots is still in its place.  Each root has
 * its own thread, because a check may hang (a network file system); a root whose check hangs counts
 * as gone, and the others are served meanwhile.
 *
 * Threads: any. */

struct sluice_root_watch;
struct sluice_roots;
struct sluice_sample_lists;
struct sluice_store;

/* Borrows all.  If another folder takes the place of a root, the root's first sample in the current
 * list shows whether it is the same dataset (store->look). */
SLUICE_MUST_USE sluice_status sluice_root_watch_open(struct sluice_store *store,
                                                     const struct sluice_roots *roots,
                                                     struct sluice_sample_lists *lists,
                                                     struct sluice_root_watch **watch,
                                                     struct sluice_err *err);
/* Waits for a check in progress.  NULL is allowed. */
void sluice_root_watch_close(struct sluice_root_watch *watch);

/* Whether all roots are in their places, by the last checks.  Logs a change.  One thread at a time.
 */
bool sluice_root_watch_is_here(struct sluice_root_watch *watch, uint64_t now_ns);

#endif
