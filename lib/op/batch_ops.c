#include "op/batch_ops.h"

#include "base/error.h"
#include "image/exact_math.h"

#include <math.h>

#define MAX_ALPHA 1000 /* Beta(alpha, alpha) is 0.5 within 1 % by then */

struct sluice_batch_ops sluice_batch_ops_none(void)
{
    return (struct sluice_batch_ops){
        .mix = {.p = 1, .cutmix_p = 0.5},
        .erasing = {.min_scale = 0.02,
                    .max_scale = 1.0 / 3,
                    .min_ratio = 0.3,
                    .max_ratio = 1 / 0.3},
    };
}

bool sluice_has_batch_ops(const struct sluice_batch_ops *ops)
{
    return ops->mix.mixup_alpha > 0 || ops->mix.cutmix_alpha > 0 || ops->label_smoothing > 0 ||
           ops->erasing.p > 0;
}

static bool is_share(double value)
{
    return value >= 0 && value <= 1;
}

static bool is_alpha(double value)
{
    return value >= 0 && value <= MAX_ALPHA;
}

sluice_status sluice_mix_params_check(const struct sluice_mix_params *params,
                                      struct sluice_err *err)
{
    if (is_alpha(params->mixup_alpha) && is_alpha(params->cutmix_alpha) && is_share(params->p) &&
        is_share(params->cutmix_p))
        return SLUICE_OK;
    return sluice_fail(err, SLUICE_E_INVALID,
                       "mixup and cutmix: alphas are from 0 to 1000, p from 0 to 1");
}

sluice_status sluice_erasing_params_check(const struct sluice_erasing_params *params,
                                          struct sluice_err *err)
{
    if (is_share(params->p) && params->min_scale > 0 && params->max_scale <= 1 &&
        params->min_scale <= params->max_scale && params->min_ratio >= 1e-3 &&
        params->max_ratio <= 1e3 && params->min_ratio <= params->max_ratio)
        return SLUICE_OK;
    return sluice_fail(err, SLUICE_E_INVALID,
                       "erasing: p and scale are from 0 to 1, ratio from 0.001 to 1000");
}

sluice_status sluice_batch_ops_check(const struct sluice_batch_ops *ops, struct sluice_err *err)
{
    sluice_status status = sluice_mix_params_check(&ops->mix, err);
    if (status == SLUICE_OK)
        status = sluice_erasing_params_check(&ops->erasing, err);
    if (status == SLUICE_OK && !(ops->label_smoothing >= 0 && ops->label_smoothing < 1))
        return sluice_fail(err, SLUICE_E_INVALID, "label_smoothing is from 0 to below 1");
    return status;
}

/* c[0] * r^7 + ... + c[7]. */
static double polynomial(const double c[8], double r)
{
    double sum = c[0];
    for (int i = 1; i < 8; i++)
        sum = sum * r + c[i];
    return sum;
}

/* AS241's PPND16 for p in [2^-18, 0.5), without its branch for smaller ones. */
static double quantile(double p)
{
    static const double middle[2][8] = {
        {2.5090809287301226727e+3, 3.3430575583588128105e+4, 6.7265770927008700853e+4,
         4.5921953931549871457e+4, 1.3731693765509461125e+4, 1.9715909503065514427e+3,
         1.3314166789178437745e+2, 3.3871328727963666080e+0},
        {5.2264952788528545610e+3, 2.8729085735721942674e+4, 3.9307895800092710610e+4,
         2.1213794301586595867e+4, 5.3941960214247511077e+3, 6.8718700749205790830e+2,
         4.2313330701600911252e+1, 1.0},
    };
    static const double tail[2][8] = {
        {7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
         1.27045825245236838258e+0, 3.64784832476320460504e+0, 5.76949722146069140550e+0,
         4.63033784615654529590e+0, 1.42343711074968357734e+0},
        {1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
         1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e+0,
         2.05319162663775882187e+0, 1.0},
    };
    const double q = p - 0.5;
    if (q >= -0.425) {
        const double r = 0.180625 - q * q;
        return polynomial(middle[0], r) * q / polynomial(middle[1], r);
    }
    const double r = sqrt(-sluice_exact_log(p)) - 1.6;
    return -(polynomial(tail[0], r) / polynomial(tail[1], r));
}

void sluice_normal_quantiles(float table[SLUICE_NUM_QUANTILES])
{
    for (int i = 0; i < SLUICE_NUM_QUANTILES / 2; i++) {
        const double value = quantile((i + 0.5) / SLUICE_NUM_QUANTILES);
        /* Rounded, so that nobody's last bit of a logarithm shows. */
        table[i] = (float)((double)sluice_round_half_even(value * 0x1p20) * 0x1p-20);
        table[SLUICE_NUM_QUANTILES - 1 - i] = -table[i];
    }
}
