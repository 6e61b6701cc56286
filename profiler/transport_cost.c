#include "profiler/transport_cost.h"

#include <math.h>

/* On the machine of the defaults. */
#define PROBED_S_PER_BYTE 0.2e-9
#define USUAL_READ_S 35e-6
#define PASS_SHARE 0.86 /* of what an epoch's samples take; see sluice_transport_cost_fit() */

/* CPU time of the threads of offload_server and offload_train for one sample, a core each on one
 * AMD EPYC, 200 photographs of ImageNet, less what the rows say of the work on them (and reading):
 *
 *                  bytes   storage us   compute us   what was the limit
 *   raw@0        110,042           27           80   compute CPU
 *   jpeg_crop@0   50,518           55           70   compute CPU
 *   u8@3         150,528          127          115   storage CPU
 *   u8_packed@3   64,060          117          111   storage CPU
 *   f32@5        602,112          185            -   storage CPU
 *
 * Replies that wait in a row cost less than those that come one by one, as they do where the
 * storage CPU is the limit, and where both are; there the lines below hold. */
struct sluice_transport_cost sluice_transport_cost_default(void)
{
    return (struct sluice_transport_cost){
        .storage_s_per_sample = 45e-6,
        .storage_s_per_job = 95e-6,
        .storage_s_per_byte = 0.15e-9,
        .compute_s_per_sample = 62e-6,
        .compute_s_per_job = 30e-6,
        .compute_s_per_byte = 0.17e-9,
        .receive_s_per_sample = 15e-6,
        .receive_s_per_byte = 0.13e-9,
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

void sluice_transport_cost_fit(struct sluice_transport_cost *transport, double read_s,
                               double expected_s, double spent_s)
{
    transport->storage_s_per_sample += read_s - USUAL_READ_S;
    if (transport->storage_s_per_sample < read_s)
        transport->storage_s_per_sample = read_s;
    if (!(expected_s > 0))
        return;
    const double factor = fmin(fmax(spent_s / (PASS_SHARE * expected_s), 0.5), 2);
    transport->compute_s_per_sample *= factor;
    transport->compute_s_per_job *= factor;
    transport->compute_s_per_byte *= factor;
}

void sluice_transport_cost_add(const struct sluice_transport_cost *transport, unsigned choice,
                               double cost[SLUICE_NUM_LOADS])
{
    const double bytes = cost[SLUICE_LOAD_NET_DOWN];
    cost[SLUICE_LOAD_STORAGE_CPU] += transport->storage_s_per_sample +
                                     (choice ? transport->storage_s_per_job : 0) +
                                     transport->storage_s_per_byte * bytes;
    cost[SLUICE_LOAD_COMPUTE_CPU] += transport->compute_s_per_sample +
                                     (choice ? transport->compute_s_per_job : 0) +
                                     transport->compute_s_per_byte * bytes;
    cost[SLUICE_LOAD_RECEIVE] +=
        transport->receive_s_per_sample + transport->receive_s_per_byte * bytes;
}
