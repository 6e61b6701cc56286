#ifndef SLUICE_PLAN_RESOURCE_H
#define SLUICE_PLAN_RESOURCE_H

#include "sluice/sluice.h"

#include <stdbool.h>
#include <stdint.h>

/* The resources that a sample needs on its way from the file to the model: enum sluice_resource of
 * sluice.h. Costs, capacities, duals and stalls are arrays over these; where only some apply, a
 * mask of 1 << resource says which.
 *
 * Costs are seconds (disk, CPUs of one core, receive, GPU) or bytes (network: storage to compute;
 * PCIe: host to device; disk: bytes of files, where a comment says so).
 *
 * Threads: pure functions. */

/* The loads of a plan: its cost on every resource, and then the seconds of storage CPU, receiving
 * and compute CPU together, for the cores that both nodes share if they are one machine. */
#define SLUICE_SHARED_CPU SLUICE_NUM_RESOURCES
#define SLUICE_NUM_LOADS (SLUICE_NUM_RESOURCES + 1)

/* "disk", "storage CPU", ...; for SLUICE_SHARED_CPU "the CPU of both sides". */
const char *sluice_resource_words(enum sluice_resource resource);

static inline bool sluice_resource_is_in(unsigned mask, int resource)
{
    return mask >> resource & 1;
}

/* A loop over the resources of a mask, in their order. */
#define SLUICE_EACH_RESOURCE(resource, mask)                                                       \
    for (int resource = 0; resource < SLUICE_NUM_RESOURCES; resource++)                            \
        if (sluice_resource_is_in(mask, resource))

/* As the cause of a wait: the GPU that makes batches, with the copies to it; 0 without one. */
#define SLUICE_STALL_GPU SLUICE_PCIE

/* The resources that a wait is attributed to.  SLUICE_GPU is the trainer itself, on any device. */
#define SLUICE_STALLS                                                                              \
    (1u << SLUICE_DISK | 1u << SLUICE_STORAGE_CPU | 1u << SLUICE_NETWORK |                         \
     1u << SLUICE_COMPUTE_CPU | 1u << SLUICE_STALL_GPU | 1u << SLUICE_GPU)
/* "disk", "storage_cpu", "network", "compute_cpu", "gpu", "trainer". */
const char *sluice_stall_name(enum sluice_resource resource);

/* The same in words: "storage CPU", "GPU decoder". */
const char *sluice_stall_words(enum sluice_resource resource);

/* The resource with the largest ns; the first of several equal ones. */
enum sluice_resource sluice_stall_largest(const uint64_t ns[SLUICE_NUM_RESOURCES]);

/* The rate of each resource.  All > 0; INFINITY: never the limit. */
struct sluice_rates {
    double link_bytes_per_s;
    double storage_cores;
    double compute_cores;
    double gpu_samples_per_s; /* trained on */
    /* 0: never the limit. */
    double pcie_bytes_per_s;
    /* Bytes of files; 0: never the limit.  Cost tables have seconds of the disk instead; then only
     * INFINITY means never the limit. */
    double disk_bytes_per_s;
    /* The cores that both nodes share if they are one machine; 0: two machines. */
    double shared_cores;
};

/* A sample's part of a training step, in seconds of the GPU, which also decodes. */
static inline double sluice_rates_step_s(const struct sluice_rates *rates)
{
    return rates->gpu_samples_per_s > 1e-9 ? 1 / rates->gpu_samples_per_s : 1e9;
}

#endif
