#include "plan/resource.h"

const char *sluice_resource_name(enum sluice_resource resource)
{
    static const char *const names[SLUICE_NUM_LOADS] = {
        "disk", "storage_cpu", "network", "receive", "compute_cpu", "pcie", "gpu", "shared_cpu"};
    return names[resource];
}

const char *sluice_resource_words(enum sluice_resource resource)
{
    switch (resource) {
    case SLUICE_STORAGE_CPU:
        return "storage CPU";
    case SLUICE_COMPUTE_CPU:
        return "compute CPU";
    case SLUICE_RECEIVE:
        return "receiving";
    case SLUICE_PCIE:
        return "PCIe";
    case SLUICE_GPU:
        return "GPU";
    case SLUICE_SHARED_CPU:
        return "the CPU of both sides";
    default:
        return sluice_resource_name(resource);
    }
}

const char *sluice_stall_name(enum sluice_resource resource)
{
    if (resource == SLUICE_STALL_GPU)
        return "gpu";
    return resource == SLUICE_GPU ? "trainer" : sluice_resource_name(resource);
}

const char *sluice_stall_words(enum sluice_resource resource)
{
    if (resource == SLUICE_STALL_GPU)
        return "GPU decoder";
    return resource == SLUICE_GPU ? "trainer" : sluice_resource_words(resource);
}

enum sluice_resource sluice_stall_largest(const uint64_t ns[SLUICE_NUM_RESOURCES])
{
    int largest = 0;
    for (int i = 1; i < SLUICE_NUM_RESOURCES; i++) {
        if (ns[i] > ns[largest])
            largest = i;
    }
    return (enum sluice_resource)largest;
}
