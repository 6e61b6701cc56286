#ifndef SLUICE_DATASETS_TOOLS_FETCH_NAMES_H
#define SLUICE_DATASETS_TOOLS_FETCH_NAMES_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* Under which names the files of a list are kept, so that no two URLs share one.
 *
 * A URL's file has the name that it asks for, the last part of its path.  Where URLs of the list
 * that differ ask for the same name, each of them gets NAME-HASH.SUFFIX, where HASH is XXH3-64 of
 * the URL; so does a name of more than 200 bytes, which is cut.  So names depend on the list alone,
 * not on the order of its lines nor on what is there already.
 *
 * Threads: one at a time. */

struct sluice_fetch_names;

SLUICE_MUST_USE sluice_status sluice_fetch_names_create(struct sluice_fetch_names **names,
                                                        struct sluice_err *err);
void sluice_fetch_names_destroy(struct sluice_fetch_names *names); /* NULL is allowed */

/* A line of the list, before any is taken: 16 bytes are kept of it.  SLUICE_E_NO_MEMORY. */
SLUICE_MUST_USE sluice_status sluice_fetch_names_add(struct sluice_fetch_names *names,
                                                     const char *name, const char *url,
                                                     struct sluice_err *err);

/* Takes a line that was added.  Writes the name that its file gets; false: the same URL was taken
 * before.  `room`: at least 256. */
bool sluice_fetch_names_take(struct sluice_fetch_names *names, const char *name, const char *url,
                             char *out, size_t room);

#endif
