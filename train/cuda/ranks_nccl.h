#ifndef SLUICE_TRAIN_CUDA_RANKS_NCCL_H
#define SLUICE_TRAIN_CUDA_RANKS_NCCL_H

#include "base/error.h"

#include <cuda_runtime_api.h>

#include <stddef.h>
#include <stdint.h>

/* Ranks that train one model together, each with a GPU of this host, by NCCL.  libnccl.so.2 is
 * loaded at run time, so that a build and a machine without it train on one GPU.  Sums have an order
 * that depends on the number of ranks alone.
 *
 * Threads: a struct belongs to one thread at a time. */

struct sluice_ranks;

/* Joins the ranks of the key (train/rendezvous.h), on the current device.  SLUICE_E_UNSUPPORTED:
 * NCCL is not on this machine. */
SLUICE_MUST_USE sluice_status sluice_ranks_open(const char *key, unsigned rank, unsigned world_size,
                                                struct sluice_ranks **ranks,
                                                struct sluice_err *err);
void sluice_ranks_close(struct sluice_ranks *ranks); /* NULL is allowed */

/* Values on the device that become the mean of all ranks'. */
struct sluice_ranks_part {
    float *values;
    size_t count;
};

/* Queue on the stream; every rank calls them in the same order with the same counts. */
SLUICE_MUST_USE sluice_status sluice_ranks_average(struct sluice_ranks *ranks, cudaStream_t stream,
                                                   const struct sluice_ranks_part *parts,
                                                   size_t num_parts, struct sluice_err *err);
/* *flag becomes the largest of all ranks'. */
SLUICE_MUST_USE sluice_status sluice_ranks_max(struct sluice_ranks *ranks, cudaStream_t stream,
                                               uint32_t *flag, struct sluice_err *err);

#endif
