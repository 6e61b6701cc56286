#ifndef SLUICE_STORAGE_SERVER_INTRODUCTION_H
#define SLUICE_STORAGE_SERVER_INTRODUCTION_H

#include <stdbool.h>
#include <stdint.h>

/* What the server says at its start: what it serves, from which list, with what, and to whom.
 *
 * Threads: any. */

struct sluice_sample_list;

struct sluice_introduction {
    const char *root, *listen;
    const char *manifest; /* --manifest; NULL: the root's own, or a scan */
    const struct sluice_sample_list *list;
    double prep_cores; /* that preprocessing may use */
    unsigned prep_workers, io_workers;
    uint64_t memory_limit;
};

/* Three lines of the log. */
void sluice_introduce(const struct sluice_introduction *facts);

/* Whether a server that listens there can be reached from this machine alone. */
bool sluice_is_loopback(const char *listen);

#endif
