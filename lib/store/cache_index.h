#ifndef SLUICE_STORE_CACHE_INDEX_H
#define SLUICE_STORE_CACHE_INDEX_H

#include "base/rng.h"
#include "store/cache_file.h"

#include <stddef.h>

/* Private to lib/store: the set of pieces in the cache.  A hash table with chaining, of 24 bytes a
 * piece and 4 a bucket.  Pieces of one object never overlap.
 *
 * Eviction: of 8 random pieces, the least recently found one.  This approximates LRU without its
 * lists, as in Redis (https://redis.io/docs/latest/develop/reference/eviction/).
 *
 * Threads: one at a time. */

struct sluice_cache_index;

#define SLUICE_CACHE_MAX_PIECES 32 /* of one object */

SLUICE_MUST_USE sluice_status sluice_cache_index_create(struct sluice_cache_index **index,
                                                        struct sluice_err *err);
void sluice_cache_index_destroy(struct sluice_cache_index *index); /* NULL is allowed */

/* False: no memory, the piece overlaps another one, or the object has SLUICE_CACHE_MAX_PIECES. */
bool sluice_cache_index_add(struct sluice_cache_index *index,
                            const struct sluice_cache_piece *piece);
/* False: not found. */
bool sluice_cache_index_remove(struct sluice_cache_index *index,
                               const struct sluice_cache_piece *piece);

/* Finds the object's pieces, by rising `from`; returns their number. */
size_t sluice_cache_index_find(struct sluice_cache_index *index, uint64_t id,
                               struct sluice_cache_piece pieces[SLUICE_CACHE_MAX_PIECES]);

/* The piece to evict next, which stays in the index.  False: the index is empty. */
bool sluice_cache_index_victim(struct sluice_cache_index *index, struct sluice_rng *rng,
                               struct sluice_cache_piece *piece);

size_t sluice_cache_index_count(const struct sluice_cache_index *index);

#endif
