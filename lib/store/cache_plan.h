#ifndef SLUICE_STORE_CACHE_PLAN_H
#define SLUICE_STORE_CACHE_PLAN_H

#include "store/cache_index.h"
#include "store/store.h"

/* Private to lib/store: what of a read is taken from the cache, and what is fetched.
 *
 * Fetched is what is missing; but also what is cached between two missing stretches, where that is
 * no longer than merge_gap_bytes, or where there would be more than SLUICE_STORE_MAX_PARTS ranges.
 * Never more than the part that is wanted.
 *
 * Threads: a pure function. */

/* Bytes [from, to) that are wanted, all in one piece of the cache, or all missing. */
struct sluice_cache_stretch {
    size_t from, to;
    unsigned part; /* of the parts that are wanted */
    bool is_cached;
    bool is_fetched;                 /* all that is missing, and some of what is cached */
    struct sluice_cache_piece piece; /* if it is cached */
};

#define SLUICE_CACHE_MAX_STRETCHES (SLUICE_STORE_MAX_PARTS * (2 * SLUICE_CACHE_MAX_PIECES + 1))

struct sluice_cache_plan {
    struct sluice_cache_stretch stretches[SLUICE_CACHE_MAX_STRETCHES];
    size_t num_stretches;
    struct sluice_file_part fetched[SLUICE_STORE_MAX_PARTS];
    unsigned num_fetched;
};

/* Pieces of one object, by rising `from`, that do not overlap. */
void sluice_cache_plan_make(struct sluice_cache_plan *plan, const struct sluice_file_part *parts,
                            unsigned num_parts, const struct sluice_cache_piece *pieces,
                            size_t num_pieces, uint64_t merge_gap_bytes);

#endif
