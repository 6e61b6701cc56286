#ifndef SLUICE_BASE_PAGES_H
#define SLUICE_BASE_PAGES_H

#include <stddef.h>

/* Brings all pages of this memory in, so that who writes to it first is not held up; its bytes stay
 * as they are.  A first write costs a page fault and the clearing of the page: on a virtual machine
 * whose host takes freed memory back, 2 ns for each byte and more.  Nobody else may write to it
 * meanwhile. There is no failure: pages that are not there yet come with their first use. */
void sluice_pages_touch(void *memory, size_t bytes);

#endif
