#ifndef SLUICE_TRAIN_ARENA_H
#define SLUICE_TRAIN_ARENA_H

#include <stddef.h>

/* Places for buffers that do not all live at once, in one block of memory (an arena).
 *
 * Threads: pure. */

/* A buffer that is in use from step `first` to step `last`, both included. */
struct sluice_arena_item {
    size_t bytes;
    unsigned first, last;
    size_t offset; /* the plan's result; 0 if bytes is 0 */
    size_t next;   /* the plan's own */
};

/* Sets every offset, a multiple of `alignment` (a power of two), and returns the arena's bytes: items
 * whose [first, last] overlap share no byte.  It is at most the sum of all bytes, each rounded up to
 * the alignment, which must fit a size_t.  Equal items get equal offsets.
 *
 * Greedy by size with best fit (Pisarchyk and Lee, 2020, https://arxiv.org/abs/2001.03288): an
 * optimal plan is NP-hard to find.  O(n^2). */
size_t sluice_arena_plan(struct sluice_arena_item *items, size_t n, size_t alignment);

#endif
