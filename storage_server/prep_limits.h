#ifndef SLUICE_STORAGE_SERVER_PREP_LIMITS_H
#define SLUICE_STORAGE_SERVER_PREP_LIMITS_H

#include "base/error.h"

#include <stdbool.h>
#include <sys/types.h>

/* What holds the worker threads back, so that other programs of the storage node come first: their
 * nice value and scheduling policy, the class of their reads, a control group, and a quota of CPU
 * time.
 *
 *     open              finds or makes the group, sets its quota, tries it
 *     enter, leave      each worker, first and last
 *     close             takes back what open did
 *
 * Nice value, policy and class are for all workers, as all read the disk.  The group is for those
 * that preprocess: files that are sent as they are, which is what an overloaded server does, must
 * not wait for a quota.  A group of version 1's blkio controller is for all workers again.  The
 * group gets the weight of the nice value, or the policy, too: among other groups it is what
 * counts.
 *
 * A nice value, policy or class that is refused is a warning.  A group or quota that cannot be had
 * is an error that names flag and file; nothing is left behind then.
 *
 * Threads: open and close on one thread, before the first worker and after the last; the rest from
 * any. */

/* How the files of groups are changed; each returns 0 or an errno.  Tests have their own. */
struct sluice_cgroup_files {
    const char *root; /* in front of every path, as in base/cgroup.h */
    int (*make)(const char *folder);
    int (*remove)(const char *folder);
    int (*write)(const char *file, const char *text);
};

struct sluice_prep_limits_options {
    bool has_nice;
    int nice;             /* 0 to 19 */
    const char *policy;   /* "normal", or "idle": SCHED_IDLE, which everything else preempts */
    const char *io_class; /* "normal", "low" (the last of best effort) or "idle"; disk_gate.h
                             does what schedulers without classes do not */

    /* NULL: none, or with cpu_max one for this process.  "a/b": beneath the group that the process
     * is in, where the cpu controller is; with version 1 those of this name that blkio and cpuset
     * have are joined too.  "/sys/fs/cgroup/...": that folder alone.  Made if it is missing
     * (not those above it). */
    const char *cgroup;
    double cpu_max; /* CPUs; 0: the quota is left as it is */

    const struct sluice_cgroup_files *files; /* NULL: the machine's; borrowed */
};

struct sluice_prep_limits;

/* `options` are copied but for their files.  Without any limit there is *limits all the same. */
SLUICE_MUST_USE sluice_status
sluice_prep_limits_open(const struct sluice_prep_limits_options *options,
                        struct sluice_prep_limits **limits, struct sluice_err *err);

/* Removes the group that open made, or gives back the quota and the weight that it found.  Whoever
 * is still in the group keeps it there, which is a warning.  NULL is allowed. */
void sluice_prep_limits_close(struct sluice_prep_limits *limits);

/* From the worker itself.  SLUICE_E_IO: it is in no group.  NULL limits: nothing to do. */
SLUICE_MUST_USE sluice_status sluice_prep_limits_enter(struct sluice_prep_limits *limits,
                                                       bool is_preprocessing,
                                                       struct sluice_err *err);
/* From a worker that entered, before it ends: a group can be removed only when it is empty, and a
 * thread that was joined may be in it for a moment longer.  Nice value, policy
 * and class stay. */
void sluice_prep_limits_leave(struct sluice_prep_limits *limits, bool is_preprocessing);

/* As many cores as threads like `tid` may use together, now: the CPUs it may run on, the quota of
 * its group and of those above, cpu_max.  0: the calling thread, though it may have no limits
 * itself. Above 0; may be a fraction.  NULL limits: as without any. */
double sluice_prep_limits_cores(const struct sluice_prep_limits *limits, pid_t tid);

#endif
