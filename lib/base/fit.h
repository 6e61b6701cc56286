#ifndef SLUICE_BASE_FIT_H
#define SLUICE_BASE_FIT_H

#include "base/compiler.h"

#include <stddef.h>

/* Parts of a line that fit a width: first parts get shorter, then parts are left out, the least
 * important first.
 *
 * Threads: pure functions. */

#define SLUICE_FIT_FORMS 3

struct sluice_fit_part {
    /* From the longest to the shortest; an empty one ends the list.  A part with none is not there.
     */
    char form[SLUICE_FIT_FORMS][96];
    unsigned importance;  /* the most important part is never left out */
    const char *before;   /* what separates it from the part before; not at the line's begin */
    unsigned extra_bytes; /* that its forms have beyond the columns that they take */
};

/* Writes a form of a part; what is longer than there is room for is cut. */
void sluice_fit_put(struct sluice_fit_part *part, unsigned form, const char *fmt, ...)
    SLUICE_PRINTF(3, 4);

/* Writes the parts that fit `columns` to out, in their order, and cuts what still does not.
 * Returns the columns that are taken. */
unsigned sluice_fit_line(const struct sluice_fit_part *parts, size_t num_parts, unsigned columns,
                         char *out, size_t size);

#endif
