#include "base/array.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

bool sluice_array_reserve(void *array, size_t *capacity, size_t wanted, size_t item_bytes)
{
    if (wanted <= *capacity)
        return true;
    size_t grown = *capacity > 0 ? *capacity : 8;
    while (grown < wanted && grown <= SIZE_MAX / 2)
        grown *= 2;
    if (grown < wanted || grown > SIZE_MAX / item_bytes)
        return false;
    void *items; /* copied: a cast of the pointer would break strict aliasing */
    memcpy(&items, array, sizeof(items));
    items = realloc(items, grown * item_bytes);
    if (!items)
        return false;
    memcpy(array, &items, sizeof(items));
    *capacity = grown;
    return true;
}
