#include "image/exact_math.h"

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

/* --- sine and cosine: a sum of two doubles holds 106 bits (Dekker, "A floating-point technique for
 * extending the available precision", 1971) --- */

struct dd {
    double high, low;
};

static struct dd sum_of(double a, double b)
{
    const double s = a + b, bb = s - a;
    return (struct dd){s, (a - (s - bb)) + (b - bb)};
}

static struct dd product_of(double a, double b)
{
    const double split = 134217729.0; /* 2^27 + 1 */
    const double p = a * b, as = a * split, bs = b * split;
    const double ah = as - (as - a), al = a - ah, bh = bs - (bs - b), bl = b - bh;
    return (struct dd){p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
}

static struct dd dd_add(struct dd a, struct dd b)
{
    const struct dd s = sum_of(a.high, b.high);
    return sum_of(s.high, s.low + a.low + b.low);
}

static struct dd dd_multiply(struct dd a, struct dd b)
{
    const struct dd p = product_of(a.high, b.high);
    return sum_of(p.high, p.low + (a.high * b.low + a.low * b.high));
}

static struct dd dd_divide(struct dd a, struct dd b)
{
    const double q = a.high / b.high;
    const struct dd back = dd_multiply(b, (struct dd){q, 0});
    const struct dd rest = dd_add(a, (struct dd){-back.high, -back.low});
    return sum_of(q, (rest.high + rest.low) / b.high);
}

struct angle {
    struct dd sin, cos;
};

/* Taylor's series of what is left of x after whole quarters of a circle. */
static struct angle angle_of(double x)
{
    const double parts[3] = {-1.5707963267948966, -6.123233995736766e-17, 1.4973849048591833e-33};
    const double quarters = (double)sluice_round_half_even(x * 0.6366197723675814);
    struct dd r = {x, 0};
    for (int i = 0; i < 3; i++)
        r = dd_add(r, product_of(quarters, parts[i]));
    const struct dd square = dd_multiply(r, r);
    struct dd term = {1, 0}, cosine = term, sine = r, sine_term = r;
    for (int n = 1; n <= 15; n++) {
        term = dd_divide(dd_multiply(term, square), (struct dd){-(2.0 * n - 1) * (2.0 * n), 0});
        cosine = dd_add(cosine, term);
        sine_term =
            dd_divide(dd_multiply(sine_term, square), (struct dd){-(2.0 * n) * (2.0 * n + 1), 0});
        sine = dd_add(sine, sine_term);
    }
    const struct dd minus_sine = {-sine.high, -sine.low},
                    minus_cosine = {-cosine.high, -cosine.low};
    switch ((unsigned)((int64_t)quarters & 3)) {
    case 0:
        return (struct angle){sine, cosine};
    case 1:
        return (struct angle){cosine, minus_sine};
    case 2:
        return (struct angle){minus_sine, minus_cosine};
    default:
        return (struct angle){minus_cosine, sine};
    }
}

double sluice_exact_sin(double x)
{
    return angle_of(x).sin.high;
}

double sluice_exact_cos(double x)
{
    return angle_of(x).cos.high;
}

double sluice_exact_tan(double x)
{
    const struct angle angle = angle_of(x);
    return dd_divide(angle.sin, angle.cos).high;
}
