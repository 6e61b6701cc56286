#include "train/points.h"

#include "base/rng.h"

#include "support/test.h"

#include <math.h>

enum { MAX_ITEMS = 700 };

/* Asserts what the header says of a choice. */
static void check(const double *seconds, unsigned num_items, unsigned wanted)
{
    static bool is_point[MAX_ITEMS];
    const unsigned num_points = sluice_points_choose(seconds, num_items, wanted, is_point);
    double step = 0, longest = 0, gap = 0, longest_gap = 0;
    unsigned counted = 0, num_positive = 0;
    for (unsigned i = 0; i < num_items; i++) {
        step += seconds[i];
        longest = fmax(longest, seconds[i]);
        num_positive += seconds[i] > 0;
        gap = is_point[i] ? seconds[i] : gap + seconds[i];
        longest_gap = fmax(longest_gap, gap);
        counted += is_point[i];
    }
    CU_ASSERT(is_point[0]);
    CU_ASSERT_EQUAL(num_points, counted);
    CU_ASSERT(num_points <= wanted + 1);
    if (num_positive > wanted)
        CU_ASSERT(num_points >= wanted / 2);
    CU_ASSERT(longest_gap <= (step / wanted + longest) * (1 + 1e-9));
}

TEST(no_gap_is_longer_than_a_share_and_the_longest_item)
{
    static double seconds[MAX_ITEMS];
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    for (int round = 0; round < 3000; round++) {
        const unsigned num_items = 1 + sluice_rng_below(&rng, MAX_ITEMS);
        const unsigned wanted = 1 + sluice_rng_below(&rng, 80);
        const unsigned kind = sluice_rng_below(&rng, 4);
        for (unsigned i = 0; i < num_items; i++) {
            const double random = sluice_rng_double(&rng);
            seconds[i] = kind == 0   ? random                              /* even */
                         : kind == 1 ? pow(random, 8)                      /* few are long */
                         : kind == 2 ? 1 + sluice_rng_below(&rng, 3)       /* many are equal */
                                     : (random < 0.3 ? random : 0) * 1e-6; /* many take no time */
        }
        check(seconds, num_items, wanted);
    }
}

TEST(short_items_share_a_point_and_long_ones_have_their_own)
{
    /* A step of 8, of which a quarter is 2. */
    static const double seconds[] = {0.5, 0.5, 0.5, 0.5, 4, 1, 0.5, 0.5};
    static const bool wanted[] = {true, false, false, false, true, true, false, false};
    bool is_point[SLUICE_ARRAY_LEN(seconds)];
    const unsigned count = SLUICE_ARRAY_LEN(seconds);
    CU_ASSERT_EQUAL(sluice_points_choose(seconds, count, 3, is_point), 3);
    for (unsigned i = 0; i < count; i++)
        CU_ASSERT_EQUAL(is_point[i], wanted[i]);
}

TEST(as_few_items_as_points_have_one_each)
{
    static const double seconds[] = {1, 1e-6, 5, 0.25};
    bool is_point[SLUICE_ARRAY_LEN(seconds)];
    CU_ASSERT_EQUAL(sluice_points_choose(seconds, 4, 40, is_point), 4);
    CU_ASSERT_EQUAL(sluice_points_choose(seconds, 4, 4, is_point), 4);
}

TEST(a_step_without_times_has_one_point)
{
    static const double seconds[MAX_ITEMS];
    bool is_point[MAX_ITEMS];
    CU_ASSERT_EQUAL(sluice_points_choose(seconds, MAX_ITEMS, 40, is_point), 1);
    CU_ASSERT(is_point[0]);
}
