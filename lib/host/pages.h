#ifndef SLUICE_HOST_PAGES_H
#define SLUICE_HOST_PAGES_H

#include "base/error.h"

#include <stddef.h>

/* Pre-faults memory: maps all its pages in, so that later writes are not delayed by page faults.
 * Its bytes do not change.  A first write to a page costs a page fault and the clearing of the
 * page: at least 2 ns a byte on a virtual machine whose host takes freed memory back.  Nobody else
 * may write to the memory meanwhile.  Cannot fail: pages not mapped here are mapped at their first
 * use.
 */
void sluice_pages_touch(void *memory, size_t bytes);

/* Memory for a batch: 64-byte aligned, in huge pages if it is large.  free() it. */
SLUICE_MUST_USE sluice_status sluice_pages_alloc(size_t bytes, void **memory,
                                                 struct sluice_err *err);

#endif
