#ifndef SLUICE_BASE_FIT_H
#define SLUICE_BASE_FIT_H

#include "base/compiler.h"

#include <stddef.h>

/* Fits the parts of a line to a width: first shortens parts, then leaves parts out, the least
 * important first.
 *
 * Threads: pure functions. */

#define SLUICE_FIT_FORMS 3

struct sluice_fit_part {
    /* From the longest to the shortest; an empty one ends the list.  A part without forms is left
     * out. */
    char form[SLUICE_FIT_FORMS][96];
    unsigned importance;  /* the most important part is never left out */
    const char *before;   /* the separator from the part before; omitted at the line's beginning */
    unsigned extra_bytes; /* bytes of its forms in excess of their columns */
};

/* Writes a form of a part, cut to the room. */
void sluice_fit_put(struct sluice_fit_part *part, unsigned form, const char *fmt, ...)
    SLUICE_PRINTF(3, 4);

/* Writes the parts that fit `columns` to out, in order, and cuts the line if it is still too long.
 * Returns the columns used. */
unsigned sluice_fit_line(const struct sluice_fit_part *parts, size_t num_parts, unsigned columns,
                         char *out, size_t size);

#endif
