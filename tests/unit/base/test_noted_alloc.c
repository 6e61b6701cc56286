#include "base/noted_alloc.h"

#include "support/test.h"

#include <pthread.h>

static bool fails;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    return fails ? NULL : __real_malloc(size);
}

static void *alloc_failing(void *unused)
{
    (void)unused;
    fails = true;
    CU_ASSERT_PTR_NULL(sluice_noted_malloc(8));
    CU_ASSERT_TRUE(sluice_noted_is_short());
    return NULL;
}

TEST(a_failure_is_noted_until_the_next_beginning)
{
    sluice_noted_begin();
    fails = true;
    CU_ASSERT_PTR_NULL(sluice_noted_malloc(8));
    fails = false;
    void *memory = sluice_noted_malloc(8);
    CU_ASSERT_PTR_NOT_NULL(memory);
    free(memory);
    CU_ASSERT_TRUE(sluice_noted_is_short());
    sluice_noted_begin();
    CU_ASSERT_FALSE(sluice_noted_is_short());
}

TEST(other_threads_failures_are_theirs)
{
    pthread_t thread;
    sluice_noted_begin();
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, alloc_failing, NULL), 0);
    pthread_join(thread, NULL);
    fails = false;
    CU_ASSERT_FALSE(sluice_noted_is_short());
}
