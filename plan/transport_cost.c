#include "plan/transport_cost.h"

#include "plan/nnls.h"

#include <math.h>

/* On the machine of the defaults. */
#define PROBED_S_PER_BYTE 0.2e-9

/* CPU time of the threads of offload_server and offload_train for one sample, a core each on one
 * AMD EPYC, 200 photographs of ImageNet, less what the rows say of the work on them (and reading):
 *
 *                  bytes   storage us   compute us   what was the limit
 *   raw@0        110,042           92           53   compute CPU
 *   jpeg_crop@0   47,681           50           47   compute CPU
 *   u8@3         150,528          131          110   storage CPU
 *   u8_packed@3   64,060          150          116   storage CPU
 *   f32@5        602,112          351          230   storage CPU
 *
 * A node that is not the limit spends more than it must.  The lines below are between
 * what is fitted to profiles there, through network namespaces there, and on an Intel Xeon; a GPU's
 * batch is of the latter, where bench_gpu_decode takes 18 to 32 us for files of 50 kB. */
struct sluice_transport_cost sluice_transport_cost_default(void)
{
    return (struct sluice_transport_cost){
        .storage_s_per_sample = 37e-6,
        .storage_s_per_job = 40e-6,
        .storage_s_per_byte = 0.42e-9,
        .compute_s_per_sample = 15e-6,
        .compute_s_per_job = 6e-6,
        .compute_s_per_byte = 0.35e-9,
        .receive_s_per_sample = 15e-6,
        .receive_s_per_byte = 0.13e-9,
        .batch_s_per_sample = 15e-6,
        .batch_s_per_byte = 0.25e-9,
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

static double cipher_s_per_byte(double probed_s_per_byte)
{
    return fmin(fmax(probed_s_per_byte, PROBED_S_PER_BYTE), 4 * PROBED_S_PER_BYTE) -
           PROBED_S_PER_BYTE;
}

void sluice_transport_cost_set_receive_tls(struct sluice_transport_cost *transport,
                                           double probed_s_per_byte)
{
    const struct sluice_transport_cost usual = sluice_transport_cost_default();
    transport->receive_s_per_sample = usual.receive_s_per_sample;
    transport->receive_s_per_byte = usual.receive_s_per_byte + cipher_s_per_byte(probed_s_per_byte);
}

void sluice_transport_cost_add_tls(struct sluice_transport_cost *transport,
                                   double probed_s_per_byte)
{
    const double cipher = cipher_s_per_byte(probed_s_per_byte);
    transport->storage_s_per_byte += cipher;
    transport->compute_s_per_byte += cipher;
}

/* --- the fit --- */

enum { PER_SAMPLE, PER_JOB, PER_BYTE, NUM_COSTS };

/* The usual costs weigh as much as a phase that keeps a node's CPU busy for this share. */
#define PRIOR_SHARE 0.3
#define NUM_SWEEPS 500

/* Sums of weighted squares, in units of what is usual. */
struct squares {
    double a[NUM_COSTS][NUM_COSTS], b[NUM_COSTS];
    double seen, expected;
};

static void add_seen(struct squares *squares, const double feature[NUM_COSTS], double seen,
                     double weight)
{
    for (int f = 0; f < NUM_COSTS; f++) {
        for (int g = 0; g < NUM_COSTS; g++)
            squares->a[f][g] += weight * feature[f] * feature[g];
        squares->b[f] += weight * feature[f] * seen;
        squares->expected += weight * feature[f];
    }
    squares->seen += weight * seen;
}

/* w: the costs in units of what is usual, each at least as much as low says. */
static void solve(const struct squares *squares, double prior_weight, const double low[NUM_COSTS],
                  double w[NUM_COSTS])
{
    const double factor = squares->expected > 0 ? squares->seen / squares->expected : 1;
    double prior[NUM_COSTS];
    for (int f = 0; f < NUM_COSTS; f++) {
        prior[f] = fmin(fmax(factor, 0.25), 4);
        w[f] = fmax(prior[f], low[f]);
    }
    const struct sluice_nnls problem = {
        .num = NUM_COSTS,
        .a = &squares->a[0][0],
        .b = squares->b,
        .prior = prior,
        .pull = prior_weight,
        .low = low,
        .max_sweeps = NUM_SWEEPS,
    };
    sluice_nnls_solve(&problem, w);
}

/* One node's costs, from the usual ones on. */
static void fit_side(double *const cost[NUM_COSTS], bool is_storage, double read_s,
                     const struct sluice_transport_seen *seen, size_t num_seen)
{
    struct squares squares = {0};
    double mean_s = 0, sum_weight = 0;
    for (size_t i = 0; i < num_seen; i++) {
        const double n = (double)seen[i].num_samples;
        const double seconds = is_storage ? seen[i].storage_s : seen[i].compute_s;
        const double share = is_storage ? seen[i].storage_share : seen[i].compute_share;
        if (!(n > 0) || !isfinite(seconds) || !(share > 0) ||
            (!is_storage && seen[i].num_decoded > 0))
            continue;
        const double weight = pow(fmin(share, 1), 4);
        const double feature[NUM_COSTS] = {
            [PER_SAMPLE] = *cost[PER_SAMPLE],
            [PER_JOB] = *cost[PER_JOB] * (double)seen[i].num_jobs / n,
            [PER_BYTE] = *cost[PER_BYTE] * seen[i].bytes / n,
        };
        add_seen(&squares, feature, fmax(seconds / n, is_storage ? read_s : 0), weight);
        mean_s += weight * seconds / n;
        sum_weight += weight;
    }
    double w[NUM_COSTS];
    const double low[NUM_COSTS] = {[PER_SAMPLE] = is_storage ? read_s / *cost[PER_SAMPLE] : 0};
    const double prior_s = sum_weight > 0 ? mean_s / sum_weight / NUM_COSTS : *cost[PER_SAMPLE];
    solve(&squares, pow(PRIOR_SHARE, 4) * prior_s * prior_s, low, w);
    for (int f = 0; f < NUM_COSTS; f++)
        *cost[f] *= w[f];
}

/* The bytes that the GPU got are unknown where whole files were cut for it. */
static void fit_batches(struct sluice_transport_cost *transport,
                        const struct sluice_transport_seen *seen, size_t num_seen)
{
    double beside_s = 0, expected_s = 0;
    for (size_t i = 0; i < num_seen; i++) {
        const double n = (double)seen[i].num_samples, jobs = (double)seen[i].num_jobs;
        if (seen[i].num_decoded == 0 || jobs < n || !isfinite(seen[i].compute_s))
            continue;
        const double decoded = (double)seen[i].num_decoded;
        beside_s += seen[i].compute_s - n * transport->compute_s_per_sample -
                    jobs * transport->compute_s_per_job -
                    seen[i].bytes * transport->compute_s_per_byte;
        expected_s += decoded * (transport->batch_s_per_sample +
                                 transport->batch_s_per_byte * seen[i].bytes / n);
    }
    const double factor = expected_s > 0 ? fmin(fmax(beside_s / expected_s, 0.25), 4) : 1;
    transport->batch_s_per_sample *= factor;
    transport->batch_s_per_byte *= factor;
}

void sluice_transport_cost_fit(struct sluice_transport_cost *transport, double read_s,
                               const struct sluice_transport_seen *seen, size_t num_seen)
{
    double *const storage[NUM_COSTS] = {
        [PER_SAMPLE] = &transport->storage_s_per_sample,
        [PER_JOB] = &transport->storage_s_per_job,
        [PER_BYTE] = &transport->storage_s_per_byte,
    };
    double *const compute[NUM_COSTS] = {
        [PER_SAMPLE] = &transport->compute_s_per_sample,
        [PER_JOB] = &transport->compute_s_per_job,
        [PER_BYTE] = &transport->compute_s_per_byte,
    };
    fit_side(storage, true, read_s, seen, num_seen);
    fit_side(compute, false, 0, seen, num_seen);
    fit_batches(transport, seen, num_seen);
}

void sluice_transport_cost_add(const struct sluice_transport_cost *transport, bool is_job,
                               double cost[SLUICE_NUM_RESOURCES])
{
    const double bytes = cost[SLUICE_NETWORK];
    cost[SLUICE_STORAGE_CPU] += transport->storage_s_per_sample +
                                (is_job ? transport->storage_s_per_job : 0) +
                                transport->storage_s_per_byte * bytes;
    cost[SLUICE_COMPUTE_CPU] += transport->compute_s_per_sample +
                                (is_job ? transport->compute_s_per_job : 0) +
                                transport->compute_s_per_byte * bytes;
    if (cost[SLUICE_GPU] > 0)
        cost[SLUICE_COMPUTE_CPU] +=
            transport->batch_s_per_sample + transport->batch_s_per_byte * cost[SLUICE_PCIE];
    cost[SLUICE_RECEIVE] += transport->receive_s_per_sample + transport->receive_s_per_byte * bytes;
}
