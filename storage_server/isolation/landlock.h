#ifndef SLUICE_STORAGE_SERVER_ISOLATION_LANDLOCK_H
#define SLUICE_STORAGE_SERVER_ISOLATION_LANDLOCK_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Landlock: the thread gives up, for itself and all threads it starts from then on, every file and
 * TCP port but those that are named (https://docs.kernel.org/userspace-api/landlock.html).  Threads
 * that exist already are not covered: call it before there are any.
 *
 * A path means the file or folder that it names at that moment, and all beneath it.  What a name
 * means later, after another folder was put in its place, is not allowed.
 *
 * Threads: any, for itself. */

/* Rights to a path; a sum of these. */
#define SLUICE_LANDLOCK_READ 1u    /* files and folders */
#define SLUICE_LANDLOCK_WRITE 2u   /* files that exist */
#define SLUICE_LANDLOCK_SOCKET 4u  /* make Unix sockets in this folder, and remove files */
#define SLUICE_LANDLOCK_REMOVE 8u  /* folders in this one */
#define SLUICE_LANDLOCK_CREATE 16u /* files in this folder */
#define SLUICE_LANDLOCK_UNLINK 32u /* remove files of this folder; with CREATE: rename them */

struct sluice_landlock_path {
    const char *path; /* NULL, or nothing of this name: left out */
    unsigned may;
};

struct sluice_landlock_rules {
    const struct sluice_landlock_path *paths;
    size_t num_paths;
    /* Ports, if the kernel has rules for them; 0 in `bind` is one of the kernel's choice. */
    const uint16_t *bind;
    size_t num_bind;
    const uint16_t *connect;
    size_t num_connect;
    bool may_connect; /* anywhere: `connect` does not count */
};

/* The version of the kernel's Landlock; 0: it has none.  From 4 on it has rules for ports. */
unsigned sluice_landlock_abi(void);
#define SLUICE_LANDLOCK_TCP_ABI 4u

/* As much as the version `abi` (of this kernel, or an earlier one) can do.  The process has
 * PR_SET_NO_NEW_PRIVS already.  SLUICE_E_IO: nothing has changed. */
SLUICE_MUST_USE sluice_status sluice_landlock_restrict(const struct sluice_landlock_rules *rules,
                                                       unsigned abi, struct sluice_err *err);

#endif
