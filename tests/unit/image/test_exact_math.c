#include "image/exact_math.h"

#include "base/rng.h"
#include "support/test.h"

#include <math.h>

/* The distance from the true value (long double libm) in units of the last place. */
static double ulps(double got, long double want)
{
    const double near = fabs((double)want);
    const double ulp = nextafter(near, INFINITY) - near;
    return (double)(fabsl((long double)got - want) / ulp);
}

TEST(exp_is_within_one_ulp_of_libm)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    double worst = 0;
    for (int i = 0; i < 100000; i++) {
        /* The range of crop ratios densely, then all of it. */
        const double x = (sluice_rng_double(&rng) - 0.5) * (i % 2 ? 1 : 1400);
        worst = fmax(worst, ulps(sluice_exact_exp(x), expl((long double)x)));
    }
    printf("exp: worst %.3f ulp\n", worst);
    CU_ASSERT(worst < 1);
    CU_ASSERT_EQUAL(sluice_exact_exp(0), 1);
}

TEST(log_is_within_one_ulp_of_libm)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 1, 0);
    double worst = 0;
    for (int i = 0; i < 100000; i++) {
        const double u = sluice_rng_double(&rng);
        const double x = i % 3 == 0   ? 0.7 + u
                         : i % 3 == 1 ? 1e-4 + u * 1e4
                                      : ldexp(1 + u, i % 2001 - 1000);
        worst = fmax(worst, ulps(sluice_exact_log(x), logl((long double)x)));
    }
    printf("log: worst %.3f ulp\n", worst);
    CU_ASSERT(worst < 1);
    CU_ASSERT_EQUAL(sluice_exact_log(1), 0);
    CU_ASSERT_EQUAL(sluice_exact_log(2), log(2));
}

TEST(sine_and_cosine_are_the_true_value_rounded)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 2, 0);
    double worst = 0;
    for (int i = 0; i < 100000; i++) {
        const double x = (sluice_rng_double(&rng) - 0.5) * (i % 2 ? 13 : 1900);
        worst = fmax(worst, ulps(sluice_exact_sin(x), sinl((long double)x)));
        worst = fmax(worst, ulps(sluice_exact_cos(x), cosl((long double)x)));
    }
    printf("sin, cos: worst %.4f ulp\n", worst);
    CU_ASSERT(worst < 0.501); /* a long double has 11 bits more */
    CU_ASSERT_EQUAL(sluice_exact_sin(0), 0);
    CU_ASSERT_EQUAL(sluice_exact_cos(0), 1);
}

TEST(the_tangent_is_the_true_value_rounded)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 3, 0);
    double worst = 0;
    for (int i = 0; i < 100000; i++) {
        const double x = (sluice_rng_double(&rng) - 0.5) * 3.1;
        worst = fmax(worst, ulps(sluice_exact_tan(x), tanl((long double)x)));
    }
    printf("tan: worst %.4f ulp\n", worst);
    CU_ASSERT(worst < 0.501);
}

TEST(exp_undoes_log)
{
    CU_ASSERT_DOUBLE_EQUAL(sluice_exact_exp(sluice_exact_log(3.0 / 4)), 3.0 / 4, 1e-15);
    CU_ASSERT_DOUBLE_EQUAL(sluice_exact_exp(sluice_exact_log(4.0 / 3)), 4.0 / 3, 1e-15);
}

/* Fixed bits, not only near libm: another compiler or machine must give these. */
TEST(bits_never_change)
{
    CU_ASSERT_EQUAL(sluice_exact_log(3.0 / 4), -0x1.269621134db92p-2);
    CU_ASSERT_EQUAL(sluice_exact_exp(0.25), 0x1.48b5e3c3e8186p+0);
    CU_ASSERT_EQUAL(sluice_exact_exp(-0.125), 0x1.c3d6a24ed8222p-1);
    uint64_t sum = 0;
    for (int i = 0; i < 20000; i++) {
        union {
            double value;
            uint64_t bits;
        } x = {.value = sluice_exact_exp((i - 10000) * 0x1p-14)},
          y = {.value = sluice_exact_log(0.5 + i * 0x1p-13)};
        sum = sum * 31 + x.bits + y.bits;
    }
    CU_ASSERT_EQUAL(sum, 0x3804c4cb38425737);
}

TEST(rounds_halves_to_even)
{
    CU_ASSERT_EQUAL(sluice_round_half_even(0.5), 0);
    CU_ASSERT_EQUAL(sluice_round_half_even(1.5), 2);
    CU_ASSERT_EQUAL(sluice_round_half_even(2.5), 2);
    CU_ASSERT_EQUAL(sluice_round_half_even(-0.5), 0);
    CU_ASSERT_EQUAL(sluice_round_half_even(-1.5), -2);
    CU_ASSERT_EQUAL(sluice_round_half_even(-2.5), -2);
    CU_ASSERT_EQUAL(sluice_round_half_even(0x1.fffffffffffffp-2), 0);
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 2, 0);
    for (int i = 0; i < 10000; i++) {
        const double x = (sluice_rng_double(&rng) - 0.5) * 1e6;
        CU_ASSERT_EQUAL(sluice_round_half_even(x), llrint(x));
    }
}
