#ifndef SLUICE_STORAGE_SERVER_WORK_SUSPECTS_H
#define SLUICE_STORAGE_SERVER_WORK_SUSPECTS_H

#include <stdint.h>

/* Samples at which decoders ended (decoders.h), by a hash of their path.  One death may be chance,
 * as when the system is short of memory; a sample that does it again and again is to blame.
 *
 * The table is small: the oldest entry makes room.  An entry is forgotten after a while, so that a
 * file that was replaced has another chance.
 *
 * Threads: the caller's lock.  Times are of one clock that does not go back. */

#define SLUICE_SUSPECTS 64

struct sluice_suspects {
    struct {
        uint64_t hash, at_ns;
        unsigned deaths; /* 0: free */
    } rows[SLUICE_SUSPECTS];
};

/* A decoder ended at the sample.  Returns how many did. */
unsigned sluice_suspects_add(struct sluice_suspects *suspects, const char *path, uint64_t now_ns);

/* How many did of late.  From SUSPECTS_DEATHS on no other should try. */
unsigned sluice_suspects_deaths(const struct sluice_suspects *suspects, const char *path,
                                uint64_t now_ns);

#endif
