#include "base/checked.h"

#include "support/test.h"

__extension__ typedef unsigned __int128 wide;

static const size_t edges[] = {0,
                               1,
                               2,
                               3,
                               (size_t)1 << 31,
                               (size_t)1 << 32,
                               ((size_t)1 << 32) + 1,
                               SIZE_MAX / 3,
                               SIZE_MAX / 2,
                               SIZE_MAX / 2 + 1,
                               SIZE_MAX - 1,
                               SIZE_MAX};

TEST(multiplies_or_says_that_it_does_not_fit)
{
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(edges); i++) {
        for (size_t k = 0; k < SLUICE_ARRAY_LEN(edges); k++) {
            const wide exact = (wide)edges[i] * edges[k];
            size_t out = 77;
            const bool is_ok = sluice_mul_size(edges[i], edges[k], &out);
            CU_ASSERT_EQUAL(is_ok, exact <= SIZE_MAX);
            CU_ASSERT_EQUAL(out, exact <= SIZE_MAX ? (size_t)exact : 77);
        }
    }
}

TEST(adds_or_says_that_it_does_not_fit)
{
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(edges); i++) {
        for (size_t k = 0; k < SLUICE_ARRAY_LEN(edges); k++) {
            const wide exact = (wide)edges[i] + edges[k];
            size_t out = 77;
            const bool is_ok = sluice_add_size(edges[i], edges[k], &out);
            CU_ASSERT_EQUAL(is_ok, exact <= SIZE_MAX);
            CU_ASSERT_EQUAL(out, exact <= SIZE_MAX ? (size_t)exact : 77);
        }
    }
}
