#ifndef SLUICE_STORE_STORE_ROOTS_H
#define SLUICE_STORE_STORE_ROOTS_H

#include "base/roots.h"
#include "store/store.h"

/* Several stores as one: the first part of a path names the store that the rest lies in.
 *
 *     a/cat/1.jpg   cat/1.jpg of the store called a
 *
 * Each store is as by itself: one that fails does so for its own paths alone.  Paths are relative;
 * a first part that names no store is SLUICE_E_NOT_FOUND.  look() goes to the store that
 * `known->path` names: "a/." is a's root.  The limits are such that they hold for each store; one
 * that is remote makes all of it so.
 *
 * Threads: as store.h says. */

/* Takes stores[i] of names[i], the names by sluice_root_compare(), whatever it returns. */
SLUICE_MUST_USE sluice_status sluice_store_roots_create(const char *const *names,
                                                        struct sluice_store *const *stores,
                                                        size_t num_stores,
                                                        struct sluice_store **store,
                                                        struct sluice_err *err);

/* The store of that name; borrowed.  NULL: `store` is not of this kind, or has no such store. */
struct sluice_store *sluice_store_roots_member(struct sluice_store *store, const char *name);

#endif
