#include "host/pages.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define HUGE_PAGE_BYTES ((size_t)2 << 20)

void sluice_pages_touch(void *memory, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (bytes == 0)
        return;
    volatile uint8_t *const first = memory;
    const uintptr_t start = (uintptr_t)memory & ~(page - 1);
    const uintptr_t end = (uintptr_t)memory + bytes;
    if (madvise((void *)start, end - start, MADV_POPULATE_WRITE) == 0)
        return;
    for (size_t i = 0; i < bytes; i += page)
        first[i] = first[i];
    first[bytes - 1] = first[bytes - 1];
}

sluice_status sluice_pages_alloc(size_t bytes, void **memory, struct sluice_err *err)
{
    void *block;
    const bool is_large = bytes >= HUGE_PAGE_BYTES;
    if (posix_memalign(&block, is_large ? HUGE_PAGE_BYTES : 64, bytes ? bytes : 1) != 0)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a batch of %zu bytes", bytes);
    /* Without huge pages the faults of small ones make the first rows of an epoch take half as
     * long again.  The kernel may refuse; that costs only this time. */
    if (is_large)
        (void)madvise(block, bytes - bytes % HUGE_PAGE_BYTES, MADV_HUGEPAGE);
    *memory = block;
    return SLUICE_OK;
}
