#include "host/pages.h"

#include "support/test.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define NUM_PAGES 8

static size_t page;
static bool is_old_kernel; /* that knows no MADV_POPULATE_WRITE */

int __real_madvise(void *memory, size_t bytes, int advice);
int __wrap_madvise(void *memory, size_t bytes, int advice);

int __wrap_madvise(void *memory, size_t bytes, int advice)
{
    if (is_old_kernel && advice != MADV_NOHUGEPAGE) {
        errno = EINVAL;
        return -1;
    }
    return __real_madvise(memory, bytes, advice);
}

static size_t num_resident(void *block)
{
    unsigned char is_in[NUM_PAGES];
    CU_ASSERT_EQUAL_FATAL(mincore(block, NUM_PAGES * page, is_in), 0);
    size_t count = 0;
    for (size_t i = 0; i < NUM_PAGES; i++)
        count += is_in[i] & 1;
    return count;
}

static uint8_t *map(void)
{
    page = (size_t)sysconf(_SC_PAGESIZE);
    void *block =
        mmap(NULL, NUM_PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_NOT_EQUAL_FATAL(block, MAP_FAILED);
    CU_ASSERT_EQUAL_FATAL(madvise(block, NUM_PAGES * page, MADV_NOHUGEPAGE), 0);
    return block;
}

TEST(brings_in_every_page_that_it_reaches_into)
{
    uint8_t *block = map();
    CU_ASSERT_EQUAL(num_resident(block), 0);
    sluice_pages_touch(block, 0);
    CU_ASSERT_EQUAL(num_resident(block), 0);
    sluice_pages_touch(block + page - 1,
                       page + 2); /* the end of one, all of one, the begin of one */
    CU_ASSERT_EQUAL(num_resident(block), 3);
    sluice_pages_touch(block, NUM_PAGES * page);
    CU_ASSERT_EQUAL(num_resident(block), NUM_PAGES);
    munmap(block, NUM_PAGES * page);
}

TEST(does_so_by_hand_where_the_kernel_does_not)
{
    is_old_kernel = true;
    brings_in_every_page_that_it_reaches_into();
    is_old_kernel = false;
}

TEST(leaves_the_bytes_as_they_are)
{
    uint8_t *block = map();
    memset(block + page, 0x5a, page);
    for (int round = 0; round < 2; round++) {
        is_old_kernel = round == 1;
        sluice_pages_touch(block, NUM_PAGES * page);
        for (size_t i = 0; i < NUM_PAGES * page; i++)
            CU_ASSERT_EQUAL_FATAL(block[i], i / page == 1 ? 0x5a : 0);
    }
    is_old_kernel = false;
    munmap(block, NUM_PAGES * page);
}
