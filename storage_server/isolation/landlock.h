#ifndef SLUICE_STORAGE_SERVER_ISOLATION_LANDLOCK_H
#define SLUICE_STORAGE_SERVER_ISOLATION_LANDLOCK_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Landlock: the calling thread, and all threads that it starts later, lose access to all files and
 * TCP ports except those that are named (https://docs.kernel.org/userspace-api/landlock.html).
 * Other threads are not covered: call it before there are any.
 *
 * A path means the file or folder that it names at the time of the call, and everything beneath it.
 * If another folder takes its place later, that folder is not allowed.
 *
 * Threads: any, for itself. */

/* Rights to a path, as bits. */
#define SLUICE_LANDLOCK_READ 1u    /* read files and folders */
#define SLUICE_LANDLOCK_WRITE 2u   /* write existing files */
#define SLUICE_LANDLOCK_SOCKET 4u  /* make Unix sockets in this folder, and remove files */
#define SLUICE_LANDLOCK_REMOVE 8u  /* remove folders in this one */
#define SLUICE_LANDLOCK_CREATE 16u /* make files in this folder */
#define SLUICE_LANDLOCK_UNLINK 32u /* remove files of this folder; with CREATE: rename them */

struct sluice_landlock_path {
    const char *path; /* skipped if it is NULL or does not exist */
    unsigned may;
};

struct sluice_landlock_rules {
    const struct sluice_landlock_path *paths;
    size_t num_paths;
    /* Ports, if the kernel has rules for them; 0 in `bind` is a port of the kernel's choice. */
    const uint16_t *bind;
    size_t num_bind;
    const uint16_t *connect;
    size_t num_connect;
    bool may_connect; /* to any port; `connect` is not used */
};

/* The version of the kernel's Landlock; 0: not available.  From 4 on it has rules for ports. */
unsigned sluice_landlock_abi(void);
#define SLUICE_LANDLOCK_TCP_ABI 4u

/* Applies the rules as far as version `abi` supports them (this kernel's, or an earlier one).  The
 * process must have set PR_SET_NO_NEW_PRIVS.  SLUICE_E_IO: nothing has changed. */
SLUICE_MUST_USE sluice_status sluice_landlock_restrict(const struct sluice_landlock_rules *rules,
                                                       unsigned abi, struct sluice_err *err);

#endif
