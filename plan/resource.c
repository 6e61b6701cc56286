#include "plan/resource.h"

const char *sluice_resource_name(enum sluice_resource resource)
{
    static const char *const names[SLUICE_NUM_RESOURCES] = {
        "disk", "storage_cpu", "network", "receive", "compute_cpu", "pcie", "gpu"};
    return names[resource];
}
