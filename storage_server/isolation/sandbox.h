#ifndef SLUICE_STORAGE_SERVER_ISOLATION_SANDBOX_H
#define SLUICE_STORAGE_SERVER_ISOLATION_SANDBOX_H

#include "base/error.h"
#include "storage_server/options.h"

/* The sandbox: offload_server drops rights before it serves, so that an attacker who takes it over
 * by an image or a message gets little access to the machine.  Only the program calls this; a
 * server inside another process does not change that process.
 *
 *     files         may read: the roots, or the files that a remote root needs (store/open.h),
 *                   the folders of files that options name, and the files of /etc, /proc and
 *                   /sys that the C library and gRPC read (landlock.h); may write: the cache's
 *                   folder
 *     ports         may listen on those of the options; may connect to its own, for the
 *                   self-check, and to those of a remote root
 *     system calls  only those that it needs (syscall_filter.h)
 *
 * options->sandbox:
 *
 *     "auto"  applies as much of this as the kernel supports, and logs what.  The root's parent
 *             folder may be read as well, with everything in it: rules hold for folders, not for
 *             names, and a root may come back as another folder, from a backup or a mount
 *     "on"    allows only the root itself; anything that the kernel lacks is an error
 *     "off"   applies nothing
 *
 * Threads: the main thread, before there are others, which would not be covered. */

struct sluice_prep_limits;

/* Call it first.  From here on the process cannot gain privileges. */
SLUICE_MUST_USE sluice_status sluice_sandbox_begin(struct sluice_err *err);

/* Call it once everything that `options` name exists (sluice_serving_limit()), and before any of it
 * is read.  `limits` are the workers'; may be NULL. */
SLUICE_MUST_USE sluice_status sluice_sandbox_enter(const struct sluice_server_options *options,
                                                   const struct sluice_prep_limits *limits,
                                                   struct sluice_err *err);

/* Call it once the server serves.  Logs the rules that hold.  If root runs the program, outside of
 * a container, also logs which user should run it instead. */
void sluice_sandbox_introduce(void);

#endif
