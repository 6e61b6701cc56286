#ifndef SLUICE_STORE_STORE_ROOTS_H
#define SLUICE_STORE_STORE_ROOTS_H

#include "base/roots.h"
#include "store/store.h"

/* Several stores as one: the first part of a path names the store.
 *
 *     a/cat/1.jpg   cat/1.jpg of the store called a
 *
 * Stores are independent: a failing store affects only its own paths.  Paths are relative; an
 * unknown first part is SLUICE_E_NOT_FOUND.  look() goes to the store that `known->path` names:
 * "a/." is a's root.  The limits hold for every store; one remote store makes all of it remote.
 *
 * Threads: as store.h says. */

/* Takes the stores, also on failure.  stores[i] has names[i]; names are sorted by
 * sluice_root_compare(). */
SLUICE_MUST_USE sluice_status sluice_store_roots_create(const char *const *names,
                                                        struct sluice_store *const *stores,
                                                        size_t num_stores,
                                                        struct sluice_store **store,
                                                        struct sluice_err *err);

/* The store of that name; borrowed.  NULL: `store` is not of this kind, or the name is unknown. */
struct sluice_store *sluice_store_roots_member(struct sluice_store *store, const char *name);

#endif
