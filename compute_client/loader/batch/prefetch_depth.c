#include "compute_client/loader/batch/prefetch_depth.h"

#include "compute_client/loader/tuning.h"

#include <math.h>

void sluice_prefetch_depth_see(struct sluice_prefetch_depth *depth, size_t num_items,
                               uint64_t now_ns)
{
    const double memory_s = sluice_tuning_default()->prefetch_memory_s;
    if (depth->last_ns > 0)
        depth->per_s *= exp(-(double)(now_ns - depth->last_ns) * 1e-9 / memory_s);
    depth->per_s += (double)num_items / memory_s;
    depth->last_ns = now_ns;
}

size_t sluice_prefetch_depth_items(const struct sluice_prefetch_depth *depth)
{
    const double items = ceil(depth->per_s * sluice_tuning_default()->prefetch_s);
    if (items <= (double)depth->least)
        return depth->least;
    return items < (double)depth->most ? (size_t)items : depth->most;
}
