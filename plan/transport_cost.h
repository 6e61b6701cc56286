#ifndef SLUICE_PLAN_TRANSPORT_COST_H
#define SLUICE_PLAN_TRANSPORT_COST_H

#include "plan/menu.h"

#include <stdbool.h>
#include <stddef.h>

/* CPU time of a sample on either node in addition to its ops: reading the file, handing it from
 * thread to thread, sending and receiving, the digest.  If a node's CPU is the bottleneck, these
 * threads share its cores with those that run the ops, so a plan must add their time.
 *
 * One thread of a compute node receives from servers, and more cores do not make it faster, so it
 * is a separate load.
 *
 * Threads: pure functions; a plain value. */

struct sluice_transport_cost {
    /* Includes reading; a whole file takes only this and the cost of its bytes. */
    double storage_s_per_sample;
    /* Added for a sample that a PREP worker preprocessed. */
    double storage_s_per_job;
    /* For each byte of payload, like the other _per_byte. */
    double storage_s_per_byte;
    double compute_s_per_sample;
    /* Added for a sample from a PREP worker, because such samples arrive one by one. */
    double compute_s_per_job;
    double compute_s_per_byte;
    /* The receiving thread's part of the compute node's time, while messages are queued. */
    double receive_s_per_sample, receive_s_per_byte;
    /* Added on the compute node for a sample that its GPU decodes: putting the JPEG crop into a
     * batch; the bytes are those of the crop. */
    double batch_s_per_sample, batch_s_per_byte;
};

/* Measured on one core of an AMD EPYC (Zen 4); the .c says how. */
struct sluice_transport_cost sluice_transport_cost_default(void);

/* Scales the receiving thread's cost to the CPU time for each byte of a probe, whose bytes are only
 * received.  The factor is bounded to between a quarter and four times the default. */
void sluice_transport_cost_set_receive(struct sluice_transport_cost *transport,
                                       double probed_s_per_byte);

/* The same for an encrypted connection: the probe's time above the default is the cipher's, and
 * depends on the bytes alone.  Bounded to four times the default. */
void sluice_transport_cost_set_receive_tls(struct sluice_transport_cost *transport,
                                           double probed_s_per_byte);

/* Adds the cipher's part of such a probe to the cost of a byte on both nodes, because TLS ciphers
 * encrypt as fast as they decrypt.  Not for costs that were fitted to measurements over TLS. */
void sluice_transport_cost_add_tls(struct sluice_transport_cost *transport,
                                   double probed_s_per_byte);

/* Measurement of a phase: the CPU time of both nodes' processes for a number of samples, without
 * the ops, and how busy they kept the CPUs. */
struct sluice_transport_seen {
    size_t num_samples, num_jobs; /* a job: for a prep worker */
    size_t num_decoded;           /* by the compute node's GPU */
    double bytes;                 /* of payload */
    double storage_s, compute_s;  /* CPU time, reading files included; NAN: unknown */
    /* Share of the node's cores that its process kept busy: 0 to 1. */
    double storage_share, compute_share;
};

/* Fits the costs to the machines and the link of a profile.  Reading a file takes the storage node
 * read_s, which is the least cost of a sample there.
 *
 * Non-negative least squares (nnls.h) of the CPU time of a sample.  Each phase is weighted by the
 * square of the node's share of busy cores: messages that arrive one by one cost more than queued
 * ones, and the cost that matters is that of a node whose CPU is the bottleneck.  The prior is the
 * default costs, scaled by one factor (a quarter to four).  The cost of making a GPU's batches is
 * the additional time of a phase of JPEG crops that the GPU decodes, also as a factor. */
void sluice_transport_cost_fit(struct sluice_transport_cost *transport, double read_s,
                               const struct sluice_transport_seen *seen, size_t num_seen);

/* Adds the transport to the cost of a choice, whose payload is cost[SLUICE_NETWORK].  is_job: a
 * PREP worker preprocesses it, which holds for every choice except the whole file.  A choice with a
 * cost[SLUICE_GPU] is put into a batch, with cost[SLUICE_PCIE] bytes. */
void sluice_transport_cost_add(const struct sluice_transport_cost *transport, bool is_job,
                               double cost[SLUICE_NUM_RESOURCES]);

#endif
