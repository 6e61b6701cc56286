#include "base/array.h"

#include "support/test.h"

#include <stdint.h>
#include <stdlib.h>

static void grows_from_nothing_and_keeps_its_items(void)
{
    int *items = NULL;
    size_t capacity = 0, num_moves = 0;
    for (size_t i = 0; i < 5000; i++) {
        const size_t before = capacity;
        CU_ASSERT_FATAL(sluice_array_reserve(&items, &capacity, i + 1, sizeof(*items)));
        CU_ASSERT(capacity > i);
        num_moves += capacity != before;
        items[i] = (int)i;
    }
    for (size_t i = 0; i < 5000; i++)
        CU_ASSERT_EQUAL(items[i], (int)i);
    CU_ASSERT(num_moves < 15); /* log2 5000 */
    free(items);
}

static void makes_room_for_many_at_once(void)
{
    char *text = NULL;
    size_t capacity = 0;
    CU_ASSERT(sluice_array_reserve(&text, &capacity, 1000, 1));
    CU_ASSERT(capacity >= 1000);
    const size_t before = capacity;
    CU_ASSERT(sluice_array_reserve(&text, &capacity, 10, 1));
    CU_ASSERT_EQUAL(capacity, before);
    free(text);
}

static void what_is_too_large_changes_nothing(void)
{
    uint64_t *items = NULL;
    size_t capacity = 0;
    CU_ASSERT(sluice_array_reserve(&items, &capacity, 1, sizeof(*items)));
    uint64_t *const before = items;
    const size_t had = capacity;
    CU_ASSERT_FALSE(sluice_array_reserve(&items, &capacity, SIZE_MAX / 4, sizeof(*items)));
    CU_ASSERT_FALSE(sluice_array_reserve(&items, &capacity, SIZE_MAX, sizeof(*items)));
    CU_ASSERT_PTR_EQUAL(items, before);
    CU_ASSERT_EQUAL(capacity, had);
    free(items);
}

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(grows_from_nothing_and_keeps_its_items),
        SLUICE_TEST(makes_room_for_many_at_once),
        SLUICE_TEST(what_is_too_large_changes_nothing),
    };
    return sluice_test_run("array", tests, SLUICE_TEST_COUNT(tests));
}
