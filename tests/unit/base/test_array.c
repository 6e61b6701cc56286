#include "base/array.h"

#include "support/test.h"

TEST(grows_from_nothing_and_keeps_its_items)
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

TEST(makes_room_for_many_at_once)
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

TEST(what_is_too_large_changes_nothing)
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

TEST(finds_what_a_scan_finds)
{
    static const int keys[] = {1, 3, 3, 3, 4, 8, 8, 9};
    for (size_t begin = 0; begin <= 8; begin++) {
        for (size_t end = begin; end <= 8; end++) {
            for (int key = 0; key <= 10; key++) {
                size_t expected = begin, first = begin;
                while (expected < end && keys[expected] < key)
                    expected++;
                SLUICE_FIND_FIRST(first, end, i, keys[i] < key);
                CU_ASSERT_EQUAL(first, expected);
            }
        }
    }
}

TEST(asks_for_few_and_for_none_outside)
{
    size_t num_asked = 0, first = 1000;
    SLUICE_FIND_FIRST(first, 2000, i, (num_asked += i >= 1000 && i < 2000 ? 1 : 1000, i < 1777));
    CU_ASSERT_EQUAL(first, 1777);
    CU_ASSERT(num_asked <= 10); /* log2 1000 */
}
