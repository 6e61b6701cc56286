#include "profiler/transport_cost.h"

/* bench/reproduce at 10 Gbit/s, a core each, on 200 photographs of ImageNet: the CPU time of
 * offload_server and offload_train for one sample, less what bench_pipeline measures of its ops.
 *
 *              bytes    storage us    compute us
 *   raw@0      110,042          65      120 to 190
 *   jpeg_crop@0 47,380         105             130
 *   u8@3       150,528         190             150
 *   u8_packed@3 63,874         200             150
 *   f32@5      602,112         255             220
 *
 * The lines below are within 100 us of each, which is a tenth of what such a sample takes in all.
 */
struct sluice_transport_cost sluice_transport_cost_default(void)
{
    return (struct sluice_transport_cost){
        .storage_s_per_sample = 35e-6,
        .storage_s_per_job = 65e-6,
        .storage_s_per_byte = 0.3e-9,
        .compute_s_per_sample = 120e-6,
        .compute_s_per_byte = 0.2e-9,
    };
}

void sluice_transport_cost_add(const struct sluice_transport_cost *transport, unsigned choice,
                               double cost[SLUICE_NUM_LOADS])
{
    const double bytes = cost[SLUICE_LOAD_NET_DOWN];
    cost[SLUICE_LOAD_STORAGE_CPU] += transport->storage_s_per_sample +
                                     (choice ? transport->storage_s_per_job : 0) +
                                     transport->storage_s_per_byte * bytes;
    cost[SLUICE_LOAD_COMPUTE_CPU] +=
        transport->compute_s_per_sample + transport->compute_s_per_byte * bytes;
}
