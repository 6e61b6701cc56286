#ifndef SLUICE_STORAGE_SERVER_ISOLATION_SYSCALL_FILTER_H
#define SLUICE_STORAGE_SERVER_ISOLATION_SYSCALL_FILTER_H

#include "base/error.h"

#include <stdbool.h>

/* The system calls that offload_server makes, and no others, by seccomp (libseccomp).
 *
 * Another call fails with EPERM and changes nothing: the process can start no program and no
 * process (execve, fork), look into none (ptrace), mount nothing, load nothing into the kernel, and
 * make no memory executable.  It is not killed: a call that a new version of a library tries first
 * and can do without must not end a server of many clients, and code that got in gains nothing by
 * trying.  clone3(), whose flags a filter cannot see, fails with ENOSYS, on which the C library
 * falls back to clone().
 *
 * Threads: any; it holds for all threads of the process, and those to come. */

struct sluice_syscall_filter {
    bool may_use_udp;           /* names are looked up */
    bool may_make_memory_files; /* memfd_create: a remote root's lists, those of roots with names */
    bool may_rename;            /* files of a cache, as far as Landlock lets */
    bool may_use_unix_sockets; /* --listen unix:PATH; or a name is looked up, by whatever service */
    bool may_set_priorities;   /* of other processes: of decoders */
};

/* Has this kernel, or the container around, seccomp filters? */
bool sluice_syscall_filter_is_possible(void);

/* The process has PR_SET_NO_NEW_PRIVS already.  SLUICE_E_IO: nothing has changed. */
SLUICE_MUST_USE sluice_status
sluice_syscall_filter_install(const struct sluice_syscall_filter *filter, struct sluice_err *err);

/* What a decoder does (decoder_process.h): it reads and writes `socket`, has memory, and ends.
 * Any other call ends it, with SIGSYS; a build with a sanitizer, whose runtime may call more, gets
 * EPERM.  For the calling process, which has no other thread. */
SLUICE_MUST_USE sluice_status sluice_syscall_filter_install_decoder(int socket,
                                                                    struct sluice_err *err);

#endif
