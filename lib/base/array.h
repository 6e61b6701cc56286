#ifndef SLUICE_BASE_ARRAY_H
#define SLUICE_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

/* Arrays that grow by doubling, so that appending n items copies O(n), and binary search in them.
 *
 * Threads: pure functions. */

/* Makes room for `wanted` items of item_bytes each; `array` points to the pointer to the first item
 * (NULL: empty), which may move.  False: no memory, and nothing changes. */
bool sluice_array_reserve(void *array, size_t *capacity, size_t wanted, size_t item_bytes);

/* Binary search by any condition; bsearch() only finds equal items.
 *
 * Moves `first`, a variable of type size_t, up to the lowest index of [first, end) for which
 * `is_before`, an expression in `i`, is false, or to `end`.  From that index on it must be false
 * for all: in C++ this is std::partition_point().
 *
 *     size_t row = 0;
 *     SLUICE_FIND_FIRST(row, num_rows, i, rows[i].key < key); */
#define SLUICE_FIND_FIRST(first, end, i, is_before)                                                \
    do {                                                                                           \
        size_t end_ = (end);                                                                       \
        while ((first) < end_) {                                                                   \
            const size_t i = (first) + (end_ - (first)) / 2;                                       \
            if (is_before)                                                                         \
                (first) = i + 1;                                                                   \
            else                                                                                   \
                end_ = i;                                                                          \
        }                                                                                          \
    } while (0)

#endif
