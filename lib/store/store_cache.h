#ifndef SLUICE_STORE_STORE_CACHE_H
#define SLUICE_STORE_STORE_CACHE_H

#include "store/store.h"

/* A cache on a local disk in front of a remote store.
 *
 * It stores exactly the bytes that reads requested, as pieces of one version of an object
 * (cache_file.h).  So it fetches nothing that would not be fetched without it, and a read of other
 * parts of an object uses the cached bytes that overlap.  Objects without a version are not cached.
 *
 * The promises: a read never gets another version or a damaged file, which its hash shows.  The
 * files take at most the limit, in blocks of 4 KiB.  If the cache cannot be read or written, it
 * warns once, and no sample is lost.
 *
 * When the cache is full, one miss in 16 replaces a piece (chosen by cache_index.h).  Epochs over a
 * dataset larger than the cache read each object once, in a new order each time, so a cache that
 * admitted every miss would evict the objects that are read next.
 *
 * Concurrent reads of the same object share one fetch (single flight).
 *
 * Threads: as store.h says. */

/* Creates the folder and its subfolders.  SLUICE_E_INVALID: it contains other files, so it is not a
 * cache.  SLUICE_E_IO. */
SLUICE_MUST_USE sluice_status sluice_store_cache_prepare(const char *folder,
                                                         struct sluice_err *err);

struct sluice_store_cache_options {
    const char *folder; /* prepared */
    uint64_t max_bytes;
};

/* Creates a store over `under`, which it takes, also on failure.  Reads names and lengths of the
 * existing cache files, removes other files and pieces beyond the limit, and starts with the rest.
 * SLUICE_E_IO: also if another process uses the folder; err names it. */
SLUICE_MUST_USE sluice_status sluice_store_cache_open(
    const struct sluice_store_cache_options *options, struct sluice_store *under,
    struct sluice_store **store, struct sluice_err *err);

struct sluice_store_cache_counts {
    uint64_t hits, misses;  /* reads served from the cache alone; other reads */
    uint64_t hit_bytes;     /* read from the cache */
    uint64_t miss_bytes;    /* requested from the store */
    uint64_t evictions;     /* pieces evicted */
    uint64_t errors;        /* pieces that could not be read or written, or were damaged */
    uint64_t bytes, pieces; /* of the files now; their number */
    uint64_t max_bytes;
};

/* `store` comes from sluice_store_cache_open(). */
struct sluice_store_cache_counts sluice_store_cache_count(struct sluice_store *store);

#endif
