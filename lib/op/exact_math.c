#include "op/exact_math.h"

#include <assert.h>
#include <float.h>
#include <string.h>

_Static_assert(FLT_EVAL_METHOD == 0, "double arithmetic must round to double at every step");

/* ln 2 in two parts; the upper has 32 bits, so that its product with an exponent is exact. */
#define LN2_HIGH 0x1.62e42feep-1
#define LN2_LOW 0x1.a39ef35793c76p-33

int64_t sluice_round_half_even(double x)
{
    int64_t below = (int64_t)x;
    if ((double)below > x)
        below--;
    const double rest = x - (double)below; /* exact: x and below are close */
    if (rest > 0.5 || (rest == 0.5 && (below & 1)))
        below++;
    return below;
}

/* x = n ln 2 + r with |r| <= ln 2 / 2; exp x = 2^n exp r, exp r by its Taylor
 * series to r^13 (the next term is below 2^-57). */
double sluice_exact_exp(double x)
{
    static const double inverse_factorial[] = {
        1.0 / 2,     1.0 / 6,      1.0 / 24,      1.0 / 120,      1.0 / 720,       1.0 / 5040,
        1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800,
    };
    assert(x >= -700 && x <= 700);
    const int64_t n = sluice_round_half_even(x * (1 / 0.69314718055994530942));
    const double high = x - (double)n * LN2_HIGH;
    const double low = (double)n * LN2_LOW;
    const double r = high - low;
    double sum = 0;
    for (int i = (int)(sizeof(inverse_factorial) / sizeof(inverse_factorial[0])) - 1; i >= 0; i--)
        sum = sum * r + inverse_factorial[i];
    /* `high - low` was rounded; adding the parts apart keeps what that lost. */
    const double exp_r = 1 + (high + (r * r * sum - low));

    const uint64_t bits = (uint64_t)(n + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof(power));
    return exp_r * power;
}

/* x = 2^n m with m in [sqrt 1/2, sqrt 2); log m = 2 atanh s with
 * s = (m - 1) / (m + 1), |s| < 0.172, by its series to s^23. */
double sluice_exact_log(double x)
{
    assert(x >= DBL_MIN && x <= DBL_MAX);
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    int64_t n = (int64_t)(bits >> 52) - 1023;
    bits = (bits & 0x000fffffffffffff) | 0x3ff0000000000000;
    double m;
    memcpy(&m, &bits, sizeof(m));
    if (m > 1.41421356237309504880) {
        m *= 0.5;
        n++;
    }
    const double s = (m - 1) / (m + 1);
    const double z = s * s;
    double sum = 0;
    for (int k = 23; k >= 3; k -= 2)
        sum = sum * z + 1.0 / k;
    /* log m = f - (f^2 / 2 - s (f^2 / 2 + R)), f = m - 1 exactly and R = 2 z sum: the
     * largest part is free of rounding, which 2 s would not be. */
    const double f = m - 1;
    const double half_square = 0.5 * f * f;
    const double rest = s * (half_square + 2 * z * sum) + (double)n * LN2_LOW;
    return (double)n * LN2_HIGH - ((half_square - rest) - f);
}
