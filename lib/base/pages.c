#include "base/pages.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

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
