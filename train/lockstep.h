#ifndef SLUICE_TRAIN_LOCKSTEP_H
#define SLUICE_TRAIN_LOCKSTEP_H

#include "base/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A stop after the same step in every rank of a host.  A step whose gradients are averaged ends
 * only if all ranks take it, so a rank that stops one step before the others leaves them waiting.
 *
 * The ranks share one word of memory: the steps that the rank furthest ahead has begun, and
 * whether a stop was asked for.  To begin a step raises the number by compare and swap, unless that
 * would go beyond it after a stop; so the number is final once a stop was asked for, and the ranks
 * that are behind go on up to it.
 *
 * Threads: stop() and is_over() any; the rest is one thread's. */
struct sluice_lockstep {
    _Atomic uint64_t *word; /* 2 x steps + whether a stop was asked for; NULL: one rank, or none */
    _Atomic uint64_t steps; /* begun by this rank */
};

/* Meets the other ranks: see rendezvous.h for the arguments and errors.  SLUICE_E_IO: also, the
 * memory cannot be shared. */
SLUICE_MUST_USE sluice_status sluice_lockstep_init(struct sluice_lockstep *lockstep,
                                                   const char *key, unsigned rank,
                                                   unsigned world_size, uint64_t until_ns,
                                                   struct sluice_err *err);
void sluice_lockstep_clear(struct sluice_lockstep *lockstep); /* zeroed is allowed */

/* Before each step.  False: a stop was asked for, and no rank takes this step. */
bool sluice_lockstep_begin(struct sluice_lockstep *lockstep);

/* Asks all ranks to stop. */
void sluice_lockstep_stop(struct sluice_lockstep *lockstep);

/* Whether begin() would be false; it stays so. */
bool sluice_lockstep_is_over(const struct sluice_lockstep *lockstep);

#endif
