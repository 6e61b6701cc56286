#ifndef SLUICE_BASE_NOTED_ALLOC_H
#define SLUICE_BASE_NOTED_ALLOC_H

/* malloc() that notes its failures: for a library that goes on without what it could not allocate
 * and does not say so (jansson leaves out a member, or a character of a text).
 *
 *     sluice_noted_begin();
 *     ... = json_loads(...);
 *     if (sluice_noted_is_short())
 *         the result lacks something
 *
 * Notes are by thread.  Only a program gives this to json_set_alloc_funcs(), as it holds for the
 * whole process: in libsluice, whose host may use jansson too, nothing is noted. */
#include <stdbool.h>
#include <stddef.h>

void *sluice_noted_malloc(size_t size); /* to be freed with free() */

void sluice_noted_begin(void);
/* Has an allocation of this thread failed since? */
bool sluice_noted_is_short(void);

#endif
