#include "plan/mixture.h"

#include "base/rng.h"
#include "support/test.h"

#include <math.h>

static double planned_s(const struct sluice_cut *cuts, unsigned num_cuts,
                        const struct sluice_mixture *mixture)
{
    double mixed_s[SLUICE_NUM_LOADS] = {0};
    for (unsigned k = 0; k < num_cuts; k++) {
        for (int r = 0; r < SLUICE_NUM_LOADS; r++)
            mixed_s[r] += mixture->part[k] * cuts[k].load_s[r];
    }
    return sluice_slowest_of(mixed_s);
}

/* Weak duality: no mixture is faster than the cheapest plan at any duals, so a mixture that is as
 * fast is optimal. */
TEST(its_duals_prove_that_no_mixture_is_faster)
{
    static struct sluice_cut cuts[SLUICE_MAX_CUTS];
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    for (int round = 0; round < 300; round++) {
        const unsigned num_cuts = 1 + sluice_rng_below(&rng, SLUICE_MAX_CUTS);
        const double size = exp2((int)sluice_rng_below(&rng, 40) - 20);
        for (unsigned k = 0; k < num_cuts; k++) {
            cuts[k] = (struct sluice_cut){.is_estimate = k && sluice_rng_below(&rng, 4) == 0};
            for (int r = 0; r < SLUICE_NUM_LOADS; r++)
                cuts[k].load_s[r] =
                    size * (round % 2 ? sluice_rng_double(&rng) : 1 + sluice_rng_below(&rng, 3));
        }
        for (int with = 0; with < 2; with++) {
            struct sluice_mixture mixture;
            sluice_mixture_solve(cuts, num_cuts, with, &mixture);
            double sum_part = 0, sum_dual = 0, bound_s = INFINITY;
            for (int r = 0; r < SLUICE_NUM_LOADS; r++)
                sum_dual += mixture.dual[r];
            for (unsigned k = 0; k < num_cuts; k++) {
                CU_ASSERT(mixture.part[k] >= 0);
                sum_part += mixture.part[k];
                if (cuts[k].is_estimate && !with) {
                    CU_ASSERT(mixture.part[k] == 0);
                    continue;
                }
                double value_s = 0;
                for (int r = 0; r < SLUICE_NUM_LOADS; r++)
                    value_s += mixture.dual[r] * cuts[k].load_s[r];
                bound_s = fmin(bound_s, value_s);
            }
            CU_ASSERT_DOUBLE_EQUAL(sum_part, 1, 1e-9);
            CU_ASSERT_DOUBLE_EQUAL(sum_dual, 1, 1e-9);
            CU_ASSERT_DOUBLE_EQUAL(mixture.worst_s / planned_s(cuts, num_cuts, &mixture), 1, 1e-9);
            CU_ASSERT_DOUBLE_EQUAL(mixture.worst_s / bound_s, 1, 1e-7);
        }
    }
}

TEST(a_plan_that_costs_nothing_is_the_mixture)
{
    struct sluice_cut cuts[2] = {{.load_s = {1}, .dual = {1}}, {.dual = {0, 1}}};
    struct sluice_mixture mixture;
    sluice_mixture_solve(cuts, 2, true, &mixture);
    CU_ASSERT(mixture.part[0] == 0 && mixture.part[1] == 1);
    CU_ASSERT(mixture.dual[1] == 1 && mixture.worst_s == 0);
}

int main(void)
{
    return sluice_test_main();
}
