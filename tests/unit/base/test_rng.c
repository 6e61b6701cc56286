#include "base/rng.h"

#include "support/test.h"

/* The known-answer vectors that come with the authors' Random123 library. */
TEST(philox_gives_the_published_vectors)
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } vectors[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        uint32_t out[4];
        sluice_philox4x32_10(vectors[i].key, vectors[i].counter, out);
        for (int k = 0; k < 4; k++)
            CU_ASSERT_EQUAL(out[k], vectors[i].out[k]);
    }
}

TEST(equal_names_give_equal_draws_and_others_do_not)
{
    struct sluice_rng a = sluice_rng_init(7, 3, 1ull << 40, 2);
    struct sluice_rng b = sluice_rng_init(7, 3, 1ull << 40, 2);
    struct sluice_rng others[] = {
        sluice_rng_init(8, 3, 1ull << 40, 2),
        sluice_rng_init(7, 4, 1ull << 40, 2),
        sluice_rng_init(7, 3, (1ull << 40) + 1, 2),
        sluice_rng_init(7, 3, 1ull << 40, 1),
    };
    const uint64_t first = sluice_rng_u32(&a);
    CU_ASSERT_EQUAL(first, sluice_rng_u32(&b));
    for (size_t i = 0; i < 4; i++)
        CU_ASSERT_NOT_EQUAL(first, sluice_rng_u32(&others[i]));
    for (int i = 0; i < 1000; i++)
        CU_ASSERT_EQUAL(sluice_rng_u32(&a), sluice_rng_u32(&b));
}

TEST(doubles_are_uniform_in_the_unit_interval)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    double sum = 0, sum_squares = 0;
    const int n = 100000;
    for (int i = 0; i < n; i++) {
        const double x = sluice_rng_double(&rng);
        CU_ASSERT(x >= 0 && x < 1);
        sum += x;
        sum_squares += x * x;
    }
    CU_ASSERT_DOUBLE_EQUAL(sum / n, 0.5, 0.01);
    CU_ASSERT_DOUBLE_EQUAL(sum_squares / n, 1.0 / 3, 0.01);
}

TEST(below_stays_below_and_reaches_all)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 1, 0);
    unsigned counts[7] = {0};
    for (int i = 0; i < 70000; i++)
        counts[sluice_rng_below(&rng, 7)]++;
    for (int i = 0; i < 7; i++)
        CU_ASSERT(counts[i] > 9500 && counts[i] < 10500);
    CU_ASSERT_EQUAL(sluice_rng_below(&rng, 1), 0);
}
