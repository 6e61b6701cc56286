#ifndef SLUICE_PLAN_RESOURCE_H
#define SLUICE_PLAN_RESOURCE_H

#include <stdbool.h>

/* What a sample needs on its way from the file to the model.  Costs, capacities, duals and stalls
 * are arrays over these; where only some apply, a mask of 1 << resource says which.
 *
 * Threads: pure functions. */

enum sluice_resource {
    SLUICE_DISK,        /* seconds, or bytes of files */
    SLUICE_STORAGE_CPU, /* seconds of one core */
    SLUICE_NETWORK,     /* bytes, storage to compute */
    SLUICE_RECEIVE,     /* seconds of the thread that receives on the compute node */
    SLUICE_COMPUTE_CPU, /* seconds of one core */
    SLUICE_PCIE,        /* bytes, host to device */
    SLUICE_GPU,         /* seconds, or samples */
    SLUICE_NUM_RESOURCES,
};

const char *sluice_resource_name(enum sluice_resource resource);  /* "disk", "storage_cpu", ... */
const char *sluice_resource_words(enum sluice_resource resource); /* "disk", "storage CPU", ... */

static inline bool sluice_resource_is_in(unsigned mask, int resource)
{
    return mask >> resource & 1;
}

/* A loop over the resources of a mask, in their order. */
#define SLUICE_EACH_RESOURCE(resource, mask)                                                       \
    for (int resource = 0; resource < SLUICE_NUM_RESOURCES; resource++)                            \
        if (sluice_resource_is_in(mask, resource))

/* What each resource can do.  All > 0; INFINITY: never the limit. */
struct sluice_rates {
    double link_bytes_per_s;
    double storage_cores;
    double compute_cores;
    double gpu_samples_per_s;
    /* 0: never the limit. */
    double pcie_bytes_per_s;
    /* Of files; 0: never the limit.  Cost tables have the disk's seconds instead. */
    double disk_bytes_per_s;
};

#endif
