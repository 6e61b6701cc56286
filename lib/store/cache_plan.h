#ifndef SLUICE_STORE_CACHE_PLAN_H
#define SLUICE_STORE_CACHE_PLAN_H

#include "store/cache_index.h"
#include "store/store.h"

/* Private to lib/store: decides which bytes of a read come from the cache and which are fetched.
 *
 * Missing bytes are fetched.  Cached bytes between two missing stretches are fetched, too, if they
 * are at most merge_gap_bytes, or if there would be more than SLUICE_STORE_MAX_PARTS ranges
 * otherwise.  Nothing outside the requested parts is fetched.
 *
 * Threads: a pure function. */

/* Requested bytes [from, to), all in one piece of the cache or all missing. */
struct sluice_cache_stretch {
    size_t from, to;
    unsigned part; /* index of the requested part */
    bool is_cached;
    bool is_fetched;                 /* all missing stretches, and some cached ones */
    struct sluice_cache_piece piece; /* if it is cached */
};

#define SLUICE_CACHE_MAX_STRETCHES (SLUICE_STORE_MAX_PARTS * (2 * SLUICE_CACHE_MAX_PIECES + 1))

struct sluice_cache_plan {
    struct sluice_cache_stretch stretches[SLUICE_CACHE_MAX_STRETCHES];
    size_t num_stretches;
    struct sluice_file_part fetched[SLUICE_STORE_MAX_PARTS];
    unsigned num_fetched;
};

/* The pieces are of one object, by rising `from`, and do not overlap. */
void sluice_cache_plan_make(struct sluice_cache_plan *plan, const struct sluice_file_part *parts,
                            unsigned num_parts, const struct sluice_cache_piece *pieces,
                            size_t num_pieces, uint64_t merge_gap_bytes);

#endif
