#ifndef SLUICE_STORE_STORE_CACHE_H
#define SLUICE_STORE_STORE_CACHE_H

#include "store/store.h"

/* A cache on a local disk before a store that is reached over a network.
 *
 * It keeps what reads asked for, no less and no more, in pieces of objects of one version
 * (cache_file.h): so nothing is fetched that would not be fetched without it, and a read of other
 * parts of an object takes from the cache what overlaps.  Objects without a version are not kept.
 *
 * The promises: an object of another version is never taken from the cache, nor is a damaged file,
 * which its hash shows.  The files take no more than the limit, in blocks of 4 KiB.  A cache that
 * cannot be read or written costs a warning, the first time, and no sample.
 *
 * When it is full one miss in 16 replaces something (cache_index.h says what): epochs over a
 * dataset larger than the cache read each object once, in another order each time, and so a cache
 * that took every miss would have thrown out what is read next.
 *
 * Several that read the same object at once are one fetch (single flight).
 *
 * Threads: as store.h says. */

/* Makes the folder, and the folders in it.  SLUICE_E_INVALID: it has other files, and is no
 * cache.  SLUICE_E_IO. */
SLUICE_MUST_USE sluice_status sluice_store_cache_prepare(const char *folder,
                                                         struct sluice_err *err);

struct sluice_store_cache_options {
    const char *folder; /* prepared */
    uint64_t max_bytes;
};

/* A new store over `under`, which it takes, whatever it returns.  Reads the names and lengths of
 * the files of a cache that was there before, removes what is none of them or too much, and starts
 * with the rest.  SLUICE_E_IO, also if another process has this folder; err names the folder. */
SLUICE_MUST_USE sluice_status sluice_store_cache_open(
    const struct sluice_store_cache_options *options, struct sluice_store *under,
    struct sluice_store **store, struct sluice_err *err);

struct sluice_store_cache_counts {
    uint64_t hits, misses;  /* reads that took all from the cache; that did not */
    uint64_t hit_bytes;     /* that came from the cache */
    uint64_t miss_bytes;    /* that the store was asked for */
    uint64_t evictions;     /* pieces that made room */
    uint64_t errors;        /* pieces that could not be read or written, or were damaged */
    uint64_t bytes, pieces; /* that the files take now; how many there are */
    uint64_t max_bytes;
};

/* `store` is one of sluice_store_cache_open(). */
struct sluice_store_cache_counts sluice_store_cache_count(struct sluice_store *store);

#endif
