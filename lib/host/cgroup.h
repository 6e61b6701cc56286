#ifndef SLUICE_HOST_CGROUP_H
#define SLUICE_HOST_CGROUP_H

#include "base/error.h"

#include <stdint.h>
#include <sys/types.h>

/* Linux control groups: which one a thread is in, and how many CPUs and how much memory it leaves
 * the thread.
 *
 * Version 1 has one hierarchy of folders for each controller (or for a few together), version 2 one
 * for all controllers.  A machine has version 1, version 2 or both (hybrid); each controller is in
 * one hierarchy.  A container may see only a part of a hierarchy.
 *
 * `root` is put in front of every path that is opened; "": the machine's own files.  Tests have
 * a tree of their own.  `tid` is a thread of this process; 0: the calling thread.
 *
 * Threads: any. */

#define SLUICE_CGROUP_PATH 1024

struct sluice_cgroup {
    int version;                     /* 1 or 2 */
    char controllers[256];           /* of its hierarchy, between commas: ",cpu,cpuacct," */
    char mount[SLUICE_CGROUP_PATH];  /* where the hierarchy is mounted; with `root` */
    char folder[SLUICE_CGROUP_PATH]; /* the group: the mount, or a folder beneath it */
};

/* The thread's group in the hierarchy of the controller ("cpu").  SLUICE_E_NOT_FOUND: no mounted
 * hierarchy has the controller; SLUICE_E_IO: /proc cannot be read. */
SLUICE_MUST_USE sluice_status sluice_cgroup_find(const char *root, const char *controller,
                                                 pid_t tid, struct sluice_cgroup *group,
                                                 struct sluice_err *err);

/* The thread's group in the hierarchy that `path` (without `root`) lies in; the folder itself need
 * not exist.  SLUICE_E_NOT_FOUND: `path` lies in no hierarchy. */
SLUICE_MUST_USE sluice_status sluice_cgroup_find_at(const char *root, const char *path, pid_t tid,
                                                    struct sluice_cgroup *group,
                                                    struct sluice_err *err);

/* The CPU quota of the thread's group: the least of its own and of the groups above it that can be
 * seen (cpu.max of version 2, cpu.cfs_quota_us of version 1), in CPUs; INFINITY: no limit known. */
double sluice_cgroup_quota(const char *root, pid_t tid);

/* The memory that the thread's group may use: the least of its own limit and those of the groups
 * above it that can be seen (memory.max of version 2, memory.limit_in_bytes of version 1), in
 * bytes; UINT64_MAX: no limit known. */
uint64_t sluice_cgroup_memory(const char *root, pid_t tid);

/* The number of cores that the calling thread may use: the CPUs in its affinity mask, or its quota
 * if that is less.  Above 0; may be a fraction. */
double sluice_cgroup_cores(void);

/* Writes the reason for the thread's number of cores, for a message: "the machine has 2 CPUs", "the
 * process may run on 2 of 64 CPUs", "a control group's quota is 1.5 CPUs". */
void sluice_cgroup_why_cores(const char *root, pid_t tid, char *text, size_t room);

#endif
