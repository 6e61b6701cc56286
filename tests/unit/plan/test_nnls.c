#include "plan/nnls.h"

#include "base/rng.h"
#include "support/test.h"

#include <math.h>

enum { N = 6, ROWS = 40 };

struct random_problem {
    double a[N][N], b[N], prior[N], low[N];
};

static struct random_problem make(struct sluice_rng *rng)
{
    struct random_problem made = {.b = {0}};
    for (int i = 0; i < ROWS; i++) {
        double x[N];
        for (int f = 0; f < N; f++)
            x[f] = sluice_rng_double(rng);
        const double y = 3 * x[0] - 2 * x[1] + x[2] + sluice_rng_double(rng) - 0.5;
        for (int f = 0; f < N; f++) {
            for (int g = 0; g < N; g++)
                made.a[f][g] += x[f] * x[g];
            made.b[f] += x[f] * y;
        }
    }
    for (int f = 0; f < N; f++) {
        made.prior[f] = 2 * sluice_rng_double(rng) - 0.5;
        made.low[f] = f % 2 ? 0.5 * sluice_rng_double(rng) : 0;
    }
    return made;
}

static struct sluice_nnls problem_of(const struct random_problem *made, double pull, bool has_low)
{
    return (struct sluice_nnls){
        .num = N,
        .a = &made->a[0][0],
        .b = made->b,
        .prior = made->prior,
        .pull = pull,
        .low = has_low ? made->low : NULL,
        .max_sweeps = 100000,
        .tolerance = 1e-14,
    };
}

/* Karush, Kuhn and Tucker: no weight is below its bound; one above it has no slope, and of one at
 * the bound the slope is not downhill.  The problem is convex, so that is the minimum. */
TEST(solutions_meet_the_conditions_of_a_minimum)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    unsigned num_bound = 0;
    for (int round = 0; round < 60; round++) {
        const struct random_problem made = make(&rng);
        const double pull = round % 3 == 0 ? 0 : sluice_rng_double(&rng);
        const struct sluice_nnls problem = problem_of(&made, pull, round % 2);
        double w[N] = {0};
        sluice_nnls_solve(&problem, w);
        for (int f = 0; f < N; f++) {
            double slope = pull * (w[f] - made.prior[f]) - made.b[f];
            for (int g = 0; g < N; g++)
                slope += made.a[f][g] * w[g];
            const double low = round % 2 ? made.low[f] : 0;
            CU_ASSERT(w[f] >= low);
            if (w[f] > low)
                CU_ASSERT_DOUBLE_EQUAL(slope, 0, 1e-8)
            else
                CU_ASSERT(slope > -1e-8);
            num_bound += w[f] == low;
        }
    }
    CU_ASSERT(num_bound > 60); /* the bounds are felt */
}

TEST(weights_that_can_be_told_are_found)
{
    /* y = 2 x0 + 5 x1, seen at (1, 0), (0, 1) and (1, 1). */
    const double a[] = {2, 1, 1, 2}, b[] = {9, 12}, prior[] = {100, 100};
    struct sluice_nnls problem = {
        .num = 2, .a = a, .b = b, .prior = prior, .max_sweeps = 1000, .tolerance = 1e-12};
    double w[2] = {0, 0};
    sluice_nnls_solve(&problem, w);
    CU_ASSERT_DOUBLE_EQUAL(w[0], 2, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(w[1], 5, 1e-9);
    problem.pull = 1e9; /* a prior that outweighs all */
    sluice_nnls_solve(&problem, w);
    CU_ASSERT_DOUBLE_EQUAL(w[0], 100, 1e-3);
}
