#ifndef SLUICE_COMPUTE_CLIENT_LOADER_ORDER_ORDER_H
#define SLUICE_COMPUTE_CLIENT_LOADER_ORDER_ORDER_H

#include "base/error.h"
#include "compute_client/loader/order/sampler.h"

#include <stdint.h>

/* The part of an epoch that one rank of a data-parallel training gets.
 *
 * The epoch has one global order of items (sampler.h).  Global batch g is items [g * G, (g + 1) *
 * G) of it, G = world size * batch size; rank r has rows [r * B, (r + 1) * B) of each, B = batch
 * size:
 *
 *     global order   | 0 1 2 3 4 5 | 6 7 8 9 10 11 | 12 13        W = 3, B = 2, G = 6
 *     rank             0 0 1 1 2 2   0 0 1 1  2  2   0  1  2
 *                                                          `---- pad: item 0 again
 *
 * So global batches do not depend on the number of ranks, as long as G is the same.  All ranks have
 * the same number of batches, and of rows in each.
 *
 * The last global batch is partial if G does not divide the epoch.  With SLUICE_TAIL_PAD it is
 * padded to a multiple of the world size with items from the beginning of the global order, again
 * and again if the epoch is shorter than that, as torch's DistributedSampler does; each rank has a
 * contiguous part of it.  For one rank that is a short batch without repeats.  With
 * SLUICE_TAIL_DROP it is left out.
 *
 * A cursor counts the items of the global order that all ranks together have received: a multiple
 * of G, or `total`, the end.  `total` is the number of items of the epoch, at most UINT32_MAX.
 *
 * Threads: pure functions, except that sluice_rank_from_env() reads the environment. */

enum sluice_tail { SLUICE_TAIL_PAD, SLUICE_TAIL_DROP };

struct sluice_rank {
    uint32_t rank, world_size; /* rank < world_size */
};

struct sluice_order_options {
    uint32_t batch_size;       /* rows of a batch of one rank, >= 1 */
    uint32_t rank, world_size; /* rank < world_size */
    enum sluice_tail tail;
};

/* SLUICE_E_INVALID, which names the flag, if a number is out of range or a global batch does not
 * fit 32 bits.  The other functions need options that passed this check. */
SLUICE_MUST_USE sluice_status sluice_order_check(const struct sluice_order_options *options,
                                                 struct sluice_err *err);

/* SLUICE_E_INVALID if an epoch of `total` items does not have this cursor.  The other functions
 * need a cursor that passed this check. */
SLUICE_MUST_USE sluice_status sluice_order_check_cursor(const struct sluice_order_options *options,
                                                        uint64_t total, uint64_t cursor,
                                                        struct sluice_err *err);

/* The number of batches after the cursor; the same for every rank. */
uint64_t sluice_order_num_batches(const struct sluice_order_options *options, uint64_t total,
                                  uint64_t cursor);

/* The number of rows of these batches; the same for every rank.  Each batch except the last has
 * batch_size rows. */
uint64_t sluice_order_num_items(const struct sluice_order_options *options, uint64_t total,
                                uint64_t cursor);

/* The number of rows at the end of this rank's last batch that repeat items from the epoch's
 * beginning; 0 if no batch is left. */
uint32_t sluice_order_num_padded(const struct sluice_order_options *options, uint64_t total,
                                 uint64_t cursor);

/* Fills out[0 .. sluice_order_num_items()) with this rank's rows from the cursor on, batch after
 * batch.  `items` is the whole global order, from its beginning; `out` does not overlap it. */
void sluice_order_fill(const struct sluice_order_options *options,
                       const struct sluice_sampler_item *items, uint64_t total, uint64_t cursor,
                       struct sluice_sampler_item *out);

/* The cursor after a number of batches of this rank, at most sluice_order_num_batches().  With
 * SLUICE_TAIL_DROP it stops at the last multiple of G. */
uint64_t sluice_order_cursor(const struct sluice_order_options *options, uint64_t total,
                             uint64_t cursor, uint64_t batches_taken);

/* As getenv(). */
typedef char *sluice_getenv_fn(const char *name);

/* This process's rank, from the first pair of variables that its launcher has set: RANK and
 * WORLD_SIZE (torchrun), SLURM_PROCID and SLURM_NTASKS (Slurm's srun), OMPI_COMM_WORLD_RANK and
 * OMPI_COMM_WORLD_SIZE (Open MPI's mpirun).  Without any: rank 0 of 1.  An empty variable counts as
 * unset.
 *
 * SLUICE_E_INVALID, which names the variables, if only one of a pair is set, a value is not a
 * number, or the rank is not less than the world size. */
SLUICE_MUST_USE sluice_status sluice_rank_from_env(sluice_getenv_fn *get, struct sluice_rank *rank,
                                                   struct sluice_err *err);

#endif
