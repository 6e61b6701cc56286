#include "base/noted_alloc.h"

#include <stdlib.h>

static _Thread_local bool is_short;

void *sluice_noted_malloc(size_t size)
{
    void *memory = malloc(size);
    is_short = is_short || !memory;
    return memory;
}

void sluice_noted_begin(void)
{
    is_short = false;
}

bool sluice_noted_is_short(void)
{
    return is_short;
}
