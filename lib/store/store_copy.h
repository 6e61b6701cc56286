#ifndef SLUICE_STORE_STORE_COPY_H
#define SLUICE_STORE_STORE_COPY_H

#include "store/store.h"

/* Copies an object of any length to a file open at its beginning, by ranges within the store's
 * limit, all of one version.  Statuses of store->read; SLUICE_E_IO also if the file cannot be
 * written.  *bytes: the object's length.
 *
 * Threads: any. */
SLUICE_MUST_USE sluice_status sluice_store_copy(struct sluice_store *store, const char *key, int fd,
                                                uint64_t *bytes, struct sluice_err *err);

#endif
