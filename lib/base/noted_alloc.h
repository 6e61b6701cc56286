#ifndef SLUICE_BASE_NOTED_ALLOC_H
#define SLUICE_BASE_NOTED_ALLOC_H

/* malloc() that records its failures, for a library that silently continues after a failed
 * allocation (jansson drops a member, or a character of a text).
 *
 *     sluice_noted_begin();
 *     ... = json_loads(...);
 *     if (sluice_noted_is_short())
 *         the result lacks something
 *
 * Failures are recorded by thread.  Only programs pass it to json_set_alloc_funcs(), because that
 * affects the whole process: libsluice, whose host may use jansson, records nothing. */
#include <stdbool.h>
#include <stddef.h>

void *sluice_noted_malloc(size_t size); /* to be freed with free() */

void sluice_noted_begin(void);
/* Whether an allocation of this thread has failed since sluice_noted_begin(). */
bool sluice_noted_is_short(void);

#endif
