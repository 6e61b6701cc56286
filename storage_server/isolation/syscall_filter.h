#ifndef SLUICE_STORAGE_SERVER_ISOLATION_SYSCALL_FILTER_H
#define SLUICE_STORAGE_SERVER_ISOLATION_SYSCALL_FILTER_H

#include "base/error.h"

#include <stdbool.h>

/* Restricts offload_server to the system calls that it needs, by seccomp (libseccomp).
 *
 * Any other call fails with EPERM and changes nothing: the process cannot start programs or
 * processes (execve, fork), inspect others (ptrace), mount anything, load anything into the kernel,
 * or make memory executable.  A forbidden call does not kill the process: a new version of a
 * library may try a call that it can do without, which must not end a server of many clients, and
 * an attacker gains nothing by trying.  clone3() fails with ENOSYS, because a filter cannot see its
 * flags; the C library then falls back to clone().
 *
 * Threads: any; the filter holds for all threads of the process, also later ones. */

struct sluice_syscall_filter {
    bool may_use_udp;           /* to look up names */
    bool may_make_memory_files; /* memfd_create, for lists of remote roots and roots with names */
    bool may_rename;            /* files of a cache, where Landlock allows it */
    bool may_use_unix_sockets;  /* for --listen unix:PATH, and for name services */
    bool may_set_priorities;    /* of other processes: the decoders */
};

/* Whether this kernel, and the container around the process, allow seccomp filters. */
bool sluice_syscall_filter_is_possible(void);

/* The process must have set PR_SET_NO_NEW_PRIVS.  SLUICE_E_IO: nothing has changed. */
SLUICE_MUST_USE sluice_status
sluice_syscall_filter_install(const struct sluice_syscall_filter *filter, struct sluice_err *err);

/* The filter of a decoder (decoder_process.h): it may read and write `socket`, manage its memory,
 * and exit.  Any other call kills it with SIGSYS; in a build with a sanitizer, whose runtime makes
 * more calls, it fails with EPERM.  The calling process must have one thread. */
SLUICE_MUST_USE sluice_status sluice_syscall_filter_install_decoder(int socket,
                                                                    struct sluice_err *err);

#endif
