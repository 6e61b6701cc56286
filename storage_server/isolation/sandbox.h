#ifndef SLUICE_STORAGE_SERVER_ISOLATION_SANDBOX_H
#define SLUICE_STORAGE_SERVER_ISOLATION_SANDBOX_H

#include "base/error.h"
#include "storage_server/options.h"

/* What offload_server gives up before it serves, so that whoever takes it over by a picture or a
 * message has little of the machine.  Only the program calls this: a server within another process
 * leaves that process as it is.
 *
 *     files         to read: the roots, or what a remote one needs (store/open.h), the folders
 *                   of the files that options name, and what the C library and gRPC read of
 *                   /etc, /proc and /sys (landlock.h); to write: the cache's folder
 *     ports         listens at those of the options; connects to its own, to see that it
 *                   answers, and to those of a remote root
 *     system calls  those that it needs (syscall_filter.h)
 *
 * With options->sandbox "auto" as much of it as the kernel has, and the log says what.  A root that
 * comes back as another folder, from a backup or a mount, is to be read again, and rules hold for
 * folders, not for names: so the folder that the root lies in may be read, too, with all in it.
 * With "on" the root alone, and whatever the kernel lacks is an error.  With "off" nothing.
 *
 * Threads: the main thread, before there are others: those would not be covered. */

struct sluice_prep_limits;

/* First of all: from here on the process can gain no privileges. */
SLUICE_MUST_USE sluice_status sluice_sandbox_begin(struct sluice_err *err);

/* After all that `options` name exists (serving.h: limit), before anything of it is read.  `limits`
 * are those of the workers; NULL: none. */
SLUICE_MUST_USE sluice_status sluice_sandbox_enter(const struct sluice_server_options *options,
                                                   const struct sluice_prep_limits *limits,
                                                   struct sluice_err *err);

/* Once it serves: says in the log what holds, and to root, unless it is that of a container, who
 * should run the program instead. */
void sluice_sandbox_introduce(void);

#endif
