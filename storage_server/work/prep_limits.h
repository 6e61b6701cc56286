#ifndef SLUICE_STORAGE_SERVER_WORK_PREP_LIMITS_H
#define SLUICE_STORAGE_SERVER_WORK_PREP_LIMITS_H

#include "base/error.h"

#include <stdbool.h>
#include <sys/types.h>

/* Limits of the worker threads, so that other programs of the storage node come first: nice value,
 * scheduling policy, I/O priority class, a control group (cgroup), and a quota of CPU time.
 *
 *     open              finds or makes the group, sets its quota, tests that threads may join it
 *     enter, leave      the first and the last call of each worker
 *     close             undoes what open did
 *
 * Nice value, policy and I/O class hold for all workers, because all of them read the disk.  Only
 * workers that preprocess join the group: an overloaded server sends files as they are, and these
 * must not wait for a quota.  All workers join a group of the blkio controller (cgroup version 1).
 * The group also gets the weight of the nice value or policy, because the kernel compares groups by
 * their weights.
 *
 * If the system refuses a nice value, policy or class, a warning is logged.  If it refuses a group
 * or quota, open fails with an error that names flag and file, and leaves nothing behind.
 *
 * Threads: open and close on one thread, before the first worker and after the last; the rest from
 * any. */

/* Functions that change the files of groups; each returns 0 or an errno.  Tests replace them. */
struct sluice_cgroup_files {
    const char *root; /* in front of every path, as in host/cgroup.h */
    int (*make)(const char *folder);
    int (*remove)(const char *folder);
    int (*write)(const char *file, const char *text);
};

struct sluice_prep_limits_options {
    bool has_nice;
    int nice;           /* 0 to 19 */
    const char *policy; /* "normal", or "idle": SCHED_IDLE, which everything else preempts */
    /* "normal", "low" (the last level of best effort) or "idle".  disk_gate.h is for I/O
     * schedulers without classes. */
    const char *io_class;

    /* NULL: none, or with cpu_max a group made for this process.  "a/b": beneath the group of the
     * process, in the hierarchy of the cpu controller; with version 1 the workers also join groups
     * of this name in those of blkio and cpuset.  "/sys/fs/cgroup/...": that folder alone.  Made if
     * it is missing (not the folders above it). */
    const char *cgroup;
    double cpu_max; /* CPUs; 0: leaves the quota as it is */

    const struct sluice_cgroup_files *files; /* NULL: the machine's; borrowed */
};

struct sluice_prep_limits;

/* Copies `options` except for their files.  Returns new *limits also if no limit is set. */
SLUICE_MUST_USE sluice_status
sluice_prep_limits_open(const struct sluice_prep_limits_options *options,
                        struct sluice_prep_limits **limits, struct sluice_err *err);

/* Removes the group that open made, or restores the quota and the weight that it found.  Leaves a
 * group that has threads, with a warning.  NULL is allowed. */
void sluice_prep_limits_close(struct sluice_prep_limits *limits);

/* The worker itself calls it.  SLUICE_E_IO: it could not join a group.  NULL limits: does nothing.
 */
SLUICE_MUST_USE sluice_status sluice_prep_limits_enter(struct sluice_prep_limits *limits,
                                                       bool is_preprocessing,
                                                       struct sluice_err *err);
/* The same for another process of one thread, a worker's decoder, from its parent's groups.  It
 * leaves the groups by ending. */
SLUICE_MUST_USE sluice_status sluice_prep_limits_enter_decoder(struct sluice_prep_limits *limits,
                                                               pid_t pid, struct sluice_err *err);
/* Called by a worker that entered, before it ends: only an empty group can be removed, and a thread
 * may stay in it for a moment after it was joined.  Nice value, policy and class stay. */
void sluice_prep_limits_leave(struct sluice_prep_limits *limits, bool is_preprocessing);

/* Calls `visit` for each folder in which enter, leave and close write files: the groups, the groups
 * that threads come from, and (is_above) the folders from which groups are removed.  NULL limits:
 * does nothing. */
void sluice_prep_limits_folders(const struct sluice_prep_limits *limits,
                                void (*visit)(void *ctx, const char *folder, bool is_above),
                                void *ctx);

/* The number of cores that threads like `tid` may use together at the moment: the minimum of the
 * CPUs that it may run on, the quotas of its group and of the groups above, and cpu_max.  Above 0;
 * may be a fraction.  tid 0: the calling thread.  NULL limits: no cpu_max and no group.  Reads
 * files of /proc and of groups. */
double sluice_prep_limits_cores(const struct sluice_prep_limits *limits, pid_t tid);

/* Writes which limit sets that number, for a message (host/cgroup.h); cpu_max by its flag. */
void sluice_prep_limits_why_cores(const struct sluice_prep_limits *limits, pid_t tid, char *text,
                                  size_t room);

#endif
