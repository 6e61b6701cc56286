#ifndef SLUICE_BASE_CGROUP_H
#define SLUICE_BASE_CGROUP_H

#include "base/error.h"

#include <sys/types.h>

/* Linux control groups: where a thread's own one is, and how many CPUs that leaves it.
 *
 * Version 1 has a hierarchy of folders for each controller (or for a few together), version 2 one
 * for all.  A machine has the one, the other, or both (hybrid), and each controller is in one of
 * them alone.  A container may see a part of the hierarchy only.
 *
 * `root` stands in front of every path that is opened; "": the machine's own files.  (Tests have
 * a tree of their own.)  `tid` 0 is the calling thread, others are of this process.
 *
 * Threads: any. */

#define SLUICE_CGROUP_PATH 1024

struct sluice_cgroup {
    int version;                     /* 1 or 2 */
    char controllers[256];           /* of its hierarchy, between commas: ",cpu,cpuacct," */
    char mount[SLUICE_CGROUP_PATH];  /* where the hierarchy is mounted; with `root` */
    char folder[SLUICE_CGROUP_PATH]; /* the group: the mount, or a folder beneath it */
};

/* The thread's group in the hierarchy that has the controller ("cpu").  SLUICE_E_NOT_FOUND: none
 * that is mounted has it; SLUICE_E_IO: /proc cannot be read. */
SLUICE_MUST_USE sluice_status sluice_cgroup_find(const char *root, const char *controller,
                                                 pid_t tid, struct sluice_cgroup *group,
                                                 struct sluice_err *err);

/* The thread's group in the hierarchy that the folder `path` (without `root`) lies in, there or
 * not. SLUICE_E_NOT_FOUND: it lies in none. */
SLUICE_MUST_USE sluice_status sluice_cgroup_find_at(const char *root, const char *path, pid_t tid,
                                                    struct sluice_cgroup *group,
                                                    struct sluice_err *err);

/* As many CPUs' time as the thread's group and those above it may take, as far as they can be seen
 * (cpu.max of version 2, cpu.cfs_quota_us of version 1); INFINITY: no limit is known. */
double sluice_cgroup_quota(const char *root, pid_t tid);

/* As many cores as the calling thread may use: the CPUs of its affinity, as far as its groups'
 * quota goes.  Above 0; may be a fraction. */
double sluice_cgroup_cores(void);

#endif
