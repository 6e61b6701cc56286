#include "train/arena.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#define UNPLACED SIZE_MAX
#define NONE SIZE_MAX

static size_t round_up(size_t bytes, size_t alignment)
{
    return (bytes + alignment - 1) & ~(alignment - 1);
}

static bool overlap(const struct sluice_arena_item *a, const struct sluice_arena_item *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The largest item without a place, the first of equals; NONE: all have one. */
static size_t find_largest(const struct sluice_arena_item *items, size_t n)
{
    size_t largest = NONE;
    for (size_t i = 0; i < n; i++) {
        if (items[i].offset == UNPLACED &&
            (largest == NONE || items[i].bytes > items[largest].bytes))
            largest = i;
    }
    return largest;
}

/* The smallest gap that holds the item, between those placed items (a list by offset) that live at
 * the same time as it; behind the last of them if no gap does. */
static size_t find_place(const struct sluice_arena_item *items, size_t head,
                         const struct sluice_arena_item *item, size_t alignment)
{
    const size_t bytes = round_up(item->bytes, alignment);
    size_t end = 0, best = UNPLACED, best_gap = SIZE_MAX;
    for (size_t i = head; i != NONE; i = items[i].next) {
        if (!overlap(&items[i], item))
            continue;
        const size_t gap = items[i].offset > end ? items[i].offset - end : 0;
        if (gap >= bytes && gap < best_gap) {
            best = end;
            best_gap = gap;
        }
        const size_t item_end = items[i].offset + round_up(items[i].bytes, alignment);
        end = item_end > end ? item_end : end;
    }
    return best != UNPLACED ? best : end;
}

size_t sluice_arena_plan(struct sluice_arena_item *items, size_t n, size_t alignment)
{
    assert(alignment > 0 && (alignment & (alignment - 1)) == 0);
    for (size_t i = 0; i < n; i++) {
        assert(items[i].first <= items[i].last);
        items[i].offset = items[i].bytes ? UNPLACED : 0;
    }
    size_t head = NONE, total = 0;
    for (size_t i; (i = find_largest(items, n)) != NONE;) {
        struct sluice_arena_item *item = &items[i];
        const size_t offset = find_place(items, head, item, alignment);
        size_t *link = &head;
        while (*link != NONE && items[*link].offset <= offset)
            link = &items[*link].next;
        item->offset = offset;
        item->next = *link;
        *link = i;
        const size_t end = offset + round_up(item->bytes, alignment);
        total = end > total ? end : total;
    }
    return total;
}
