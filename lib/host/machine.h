#ifndef SLUICE_HOST_MACHINE_H
#define SLUICE_HOST_MACHINE_H

#include <stddef.h>
#include <stdint.h>

/* The machine of a process and the CPUs that it may use there, to find out whether two processes
 * share cores.
 *
 * Threads: any. */

#define SLUICE_MACHINE_CPU_BYTES 128 /* CPUs 0 to 1,023 */

struct sluice_machine {
    uint64_t boot;  /* hash of the kernel's boot id; 0: unknown, and equal to no other */
    uint64_t group; /* hash of the boot id and the control group; 0: it has no CPU quota */
    double quota;   /* of the group, in CPUs; INFINITY: none */
    size_t num_cpu_bytes;
    uint8_t cpus[SLUICE_MACHINE_CPU_BYTES]; /* CPU c is bit c % 8 of byte c / 8 */
};

/* Describes the calling thread.  root: as in host/cgroup.h. */
void sluice_machine_here(const char *root, struct sluice_machine *machine);

/* The cores that two processes have together if they share any: the union of their CPUs, or the
 * quota of their common group if that is less.  0: they are on two machines, or share no CPU and no
 * quota. */
double sluice_machine_shared_cores(const struct sluice_machine *a, const struct sluice_machine *b);

/* Merges *other into *sum: the union of their CPUs on one machine.  For two machines, *sum becomes
 * unknown (boot is 0). */
void sluice_machine_merge(struct sluice_machine *sum, const struct sluice_machine *other);

/* The CPU time, in seconds since the machine or the group began, that all processes used on the
 * cores of sluice_machine_shared_cores().  < 0: unknown, because neither /proc/stat nor the group's
 * cpu.stat can be read. */
double sluice_machine_busy_s(const char *root, const struct sluice_machine *a,
                             const struct sluice_machine *b);

#endif
