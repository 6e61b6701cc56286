#include "profiler/transport_cost.h"

#include <math.h>

/* On the machine of the defaults. */
#define PROBED_S_PER_BYTE 0.15e-9

/* bench/reproduce at 10 Gbit/s, a core each, on 200 photographs of ImageNet: the CPU time of
 * offload_server and offload_train for one sample, less what `offload_profile run` measures of its
 * ops (which are slower where they run between other work).
 *
 *                  bytes   storage us   compute us
 *   raw@0        110,042     65 to 75   120 to 170
 *   jpeg_crop@0   47,380   105 to 130   130 to 160
 *   u8@3         150,528   210 to 230   130 to 150
 *   u8_packed@3   63,874   200 to 210          150
 *   f32@5        602,112   320 to 500   220 to 260
 *
 * With the lines below, totals where that CPU is the limit are within a twentieth of these. */
struct sluice_transport_cost sluice_transport_cost_default(void)
{
    return (struct sluice_transport_cost){
        .storage_s_per_sample = 35e-6,
        .storage_s_per_job = 95e-6,
        .storage_s_per_byte = 0.35e-9,
        .compute_s_per_sample = 115e-6,
        .compute_s_per_byte = 0.2e-9,
        .receive_s_per_sample = 20e-6,
        .receive_s_per_byte = 0.2e-9,
    };
}

void sluice_transport_cost_set_receive(struct sluice_transport_cost *transport,
                                       double probed_s_per_byte)
{
    const struct sluice_transport_cost usual = sluice_transport_cost_default();
    const double factor = fmin(fmax(probed_s_per_byte / PROBED_S_PER_BYTE, 0.25), 4);
    transport->receive_s_per_sample = factor * usual.receive_s_per_sample;
    transport->receive_s_per_byte = factor * usual.receive_s_per_byte;
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
    cost[SLUICE_LOAD_RECEIVE] +=
        transport->receive_s_per_sample + transport->receive_s_per_byte * bytes;
}
