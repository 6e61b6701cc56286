#ifndef SLUICE_BASE_ARRAY_H
#define SLUICE_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

/* Arrays in malloc()'s memory that grow by doubling, so that appending n items copies O(n).
 *
 * Threads: pure functions. */

/* Makes room for `wanted` items of item_bytes each; `array` points to the pointer to the first item
 * (NULL: none yet), which moves.  False, and nothing changes: no memory. */
bool sluice_array_reserve(void *array, size_t *capacity, size_t wanted, size_t item_bytes);

#endif
