#include "compute_client/load/prefetch_depth.h"

#include <math.h>

#define AHEAD_S 0.25
#define MEMORY_S 0.5

void sluice_prefetch_depth_see(struct sluice_prefetch_depth *depth, size_t num_items,
                               uint64_t now_ns)
{
    if (depth->last_ns > 0)
        depth->per_s *= exp(-(double)(now_ns - depth->last_ns) * 1e-9 / MEMORY_S);
    depth->per_s += (double)num_items / MEMORY_S;
    depth->last_ns = now_ns;
}

size_t sluice_prefetch_depth_items(const struct sluice_prefetch_depth *depth)
{
    const double items = ceil(depth->per_s * AHEAD_S);
    if (items <= (double)depth->least)
        return depth->least;
    return items < (double)depth->most ? (size_t)items : depth->most;
}
