#ifndef SLUICE_TRAIN_RENDEZVOUS_H
#define SLUICE_TRAIN_RENDEZVOUS_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* How the ranks of a run on one host find each other: rank 0 hands the same bytes, or the same file
 * descriptor, to each of the others.  It listens at the abstract Unix socket
 * "\0sluice-rendezvous-UID-KEY", which the kernel removes with its process, so a crash leaves
 * nothing.  Both sides check that the other's user is theirs (SO_PEERCRED).
 *
 * A key serves one hand-over after the other: the ranks call the same functions in the same order.
 *
 * Threads: any; a call blocks until all ranks met, or until `until_ns` of sluice_clock_ns(). */

/* ns that the ranks of a run have from the first to the last: each opens the data set before.  Half:
 * a cold list of a large one is late; twice: a rank that is missing is reported in ten minutes. */
#define SLUICE_RENDEZVOUS_NS 300000000000u

#define SLUICE_RENDEZVOUS_MAX_KEY 64     /* bytes, without the 0 at the end */
#define SLUICE_RENDEZVOUS_MAX_BYTES 4096 /* of a hand-over */

/* Rank 0's `len` bytes come to the others' `bytes`.  World size 1: returns at once.
 * SLUICE_E_INVALID: the key is empty or too long, or the ranks differ in world size or len;
 * SLUICE_E_IO: the deadline has passed (rank 0 names the ranks that did not come), or another user
 * has the key's socket. */
SLUICE_MUST_USE sluice_status sluice_rendezvous(const char *key, unsigned rank, unsigned world_size,
                                                void *bytes, size_t len, uint64_t until_ns,
                                                struct sluice_err *err);

/* The same with a descriptor: rank 0 keeps *fd, each of the others gets one of its own in *fd, to
 * close. */
SLUICE_MUST_USE sluice_status sluice_rendezvous_fd(const char *key, unsigned rank,
                                                   unsigned world_size, int *fd, uint64_t until_ns,
                                                   struct sluice_err *err);

#endif
