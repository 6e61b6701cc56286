#ifndef SLUICE_STORE_OPEN_H
#define SLUICE_STORE_OPEN_H

#include "base/roots.h"
#include "store/root.h"

/* The store that a root names:
 *
 *     /a/folder                     files
 *     s3://BUCKET[/PREFIX]          objects of a bucket
 *     http://HOST/a/LIST            objects in a/ of a web server, from the list file LIST
 *     https://HOST/a/LIST           (web_list.h)
 *
 * Threads: one. */

/* Whether the root is accessed over a network. */
bool sluice_store_is_remote(const char *root);

/* The number of concurrent reads that such a root serves well (limits). */
unsigned sluice_store_parallel_reads(const char *root);

/* Checks the options: SLUICE_E_INVALID.  Accesses neither disk nor network. */
SLUICE_MUST_USE sluice_status sluice_store_check(const struct sluice_store_options *options,
                                                 struct sluice_err *err);

/* Opens a store.  A folder must exist; a remote root gets no request. */
SLUICE_MUST_USE sluice_status sluice_store_open(const struct sluice_store_options *options,
                                                struct sluice_store **store,
                                                struct sluice_err *err);

/* Opens a store over all roots, each with `options` except for its root and, for folders, its
 * `turns` (by index in `roots`; NULL: no turns).  A single root without a name gives its own store,
 * several give that of store_roots.h. */
SLUICE_MUST_USE sluice_status sluice_store_open_roots(const struct sluice_store_options *options,
                                                      const struct sluice_roots *roots,
                                                      const struct sluice_file_turns *turns,
                                                      struct sluice_store **store,
                                                      struct sluice_err *err);

/* Files and connections of this machine that a remote root needs, for a sandbox. */
#define SLUICE_STORE_MAX_NEEDS 8
struct sluice_store_needs {
    uint16_t ports[2]; /* to connect to */
    size_t num_ports;
    bool has_names;                           /* needs DNS lookups */
    char files[SLUICE_STORE_MAX_NEEDS][1024]; /* and folders, to read */
    size_t num_files;
};
/* Empty for a folder.  Reads the environment and profiles. */
SLUICE_MUST_USE sluice_status sluice_store_needs_of(const struct sluice_store_options *options,
                                                    struct sluice_store_needs *needs,
                                                    struct sluice_err *err);

#endif
