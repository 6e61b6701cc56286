#ifndef SLUICE_PLAN_TRANSPORT_COST_H
#define SLUICE_PLAN_TRANSPORT_COST_H

#include "plan/menu.h"

#include <stdbool.h>
#include <stddef.h>

/* CPU time that a sample takes on either node in addition to its ops: reading the file, handing it
 * from thread to thread, sending and receiving, the digest.  Where a node's CPU is the limit, these
 * threads share the cores with those that run the ops, so a plan has to add them.
 *
 * One thread of a compute node receives from servers, and more cores do not make it faster: it is a
 * load of its own.
 *
 * Threads: pure functions; a plain value. */

struct sluice_transport_cost {
    /* Reading is in it; a file takes no more than this and its bytes. */
    double storage_s_per_sample;
    /* More for what a prep worker has worked on. */
    double storage_s_per_job;
    /* Per byte of payload, like the others. */
    double storage_s_per_byte;
    double compute_s_per_sample;
    /* More for what a prep worker sent: it comes one by one. */
    double compute_s_per_job;
    double compute_s_per_byte;
    /* Of these, the receiving thread's while there is always more. */
    double receive_s_per_sample, receive_s_per_byte;
    /* More of the compute node's for what its GPU decodes: to put a cut file, whose bytes count
     * here, into a batch. */
    double batch_s_per_sample, batch_s_per_byte;
};

/* Of one core of an AMD EPYC (Zen 4); the .c says how it was measured. */
struct sluice_transport_cost sluice_transport_cost_default(void);

/* Brings the receiving thread to the speed at which it takes the bytes of a probe, which nobody
 * works on: `probed_s_per_byte` of its CPU time.  What is far from the usual counts as a quarter or
 * four times of it. */
void sluice_transport_cost_set_receive(struct sluice_transport_cost *transport,
                                       double probed_s_per_byte);

/* The same where what is received is encrypted: what the probe took beside the usual is the
 * cipher's and goes with the bytes alone.  No more than four times the usual is believed. */
void sluice_transport_cost_set_receive_tls(struct sluice_transport_cost *transport,
                                           double probed_s_per_byte);

/* Adds the cipher's part of such a probe to what a byte costs either node: a cipher of TLS takes as
 * long to encrypt as to decrypt.  Not for costs that were fitted to what was seen over TLS. */
void sluice_transport_cost_add_tls(struct sluice_transport_cost *transport,
                                   double probed_s_per_byte);

/* What the processes of both nodes took beside the work on a number of samples, and how busy these
 * kept their CPUs meanwhile. */
struct sluice_transport_seen {
    size_t num_samples, num_jobs; /* a job: for a prep worker */
    size_t num_decoded;           /* by the compute node's GPU */
    double bytes;                 /* of payload */
    double storage_s, compute_s;  /* CPU time, that of reading files included; NAN: not known */
    /* Of the node's cores that its process kept busy: 0 to 1. */
    double storage_share, compute_share;
};

/* Brings it to machines, and a link between them, that a profile has seen; reading a file takes the
 * storage node read_s, and a sample no less.
 *
 * Non-negative least squares (nnls.h) of what a sample takes, each phase weighted by the square of
 * how busy the node was: messages that come one by one cost more than those that wait in a row, and
 * what matters is what they cost where that node's CPU is the limit.  The usual costs, brought to
 * these by one factor (a quarter to four), decide where little was seen.  Making a GPU's batches is
 * what a phase of cut files that it decodes takes the compute node beyond that, as a factor again.
 */
void sluice_transport_cost_fit(struct sluice_transport_cost *transport, double read_s,
                               const struct sluice_transport_seen *seen, size_t num_seen);

/* Adds to the cost of a choice, whose payload is cost[SLUICE_NETWORK]; is_job: a prep worker has
 * it, as in every choice but the whole file.  What has a cost[SLUICE_GPU] is put into a batch of
 * cost[SLUICE_PCIE] bytes. */
void sluice_transport_cost_add(const struct sluice_transport_cost *transport, bool is_job,
                               double cost[SLUICE_NUM_RESOURCES]);

#endif
