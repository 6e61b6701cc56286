#ifndef SLUICE_STORAGE_SERVER_WORK_SUSPECTS_H
#define SLUICE_STORAGE_SERVER_WORK_SUSPECTS_H

#include <stdint.h>

/* Samples at which decoders died (decoders.h), by a hash of their path.  One death may be chance,
 * for example when the system is short of memory; a sample at which several decoders die is to
 * blame.
 *
 * The table is small: a new entry replaces the oldest.  Entries expire, so that a replaced file has
 * another chance.
 *
 * Threads: the caller's lock.  Times are of one monotonic clock. */

#define SLUICE_SUSPECTS 64

struct sluice_suspects {
    struct {
        uint64_t hash, at_ns;
        unsigned deaths; /* 0: free */
    } rows[SLUICE_SUSPECTS];
};

/* A decoder died at the sample.  Returns the number of deaths at it. */
unsigned sluice_suspects_add(struct sluice_suspects *suspects, const char *path, uint64_t now_ns);

/* The number of recent deaths at the sample.  From SUSPECTS_DEATHS on do not try it again. */
unsigned sluice_suspects_deaths(const struct sluice_suspects *suspects, const char *path,
                                uint64_t now_ns);

#endif
