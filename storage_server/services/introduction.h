#ifndef SLUICE_STORAGE_SERVER_SERVICES_INTRODUCTION_H
#define SLUICE_STORAGE_SERVER_SERVICES_INTRODUCTION_H

#include "store/store_cache.h"

#include <stdbool.h>
#include <stdint.h>

/* The log lines at the server's start: the dataset, its list, the resources, and who may connect.
 *
 * Threads: any. */

struct sluice_roots;
struct sluice_sample_list;

struct sluice_introduction {
    const struct sluice_roots *roots;
    const char *listen;
    const char *manifest; /* --manifest; NULL: the root's own, or a scan */
    const char *cache;    /* --cache; NULL: no cache, and its counts are not used: */
    struct sluice_store_cache_counts cache_counts;
    const struct sluice_sample_list *list;
    double prep_cores; /* that preprocessing may use */
    unsigned prep_workers, io_workers;
    bool has_decoders; /* --isolate-decoders */
    uint64_t memory_limit;
    struct {
        bool has_tls, has_client_ca, has_tokens;
    } access;
};

/* Logs three lines, and one more if there is a cache. */
void sluice_introduce(const struct sluice_introduction *facts);

#endif
