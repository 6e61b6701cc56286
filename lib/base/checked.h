#ifndef SLUICE_BASE_CHECKED_H
#define SLUICE_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>

/* Checked arithmetic on sizes from outside.  False: overflow; *out is untouched. */

static inline bool sluice_mul_size(size_t a, size_t b, size_t *out)
{
    size_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *out = product;
    return true;
}

static inline bool sluice_add_size(size_t a, size_t b, size_t *out)
{
    size_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *out = sum;
    return true;
}

#endif
