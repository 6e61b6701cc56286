#include "op/batch_draws.h"

#include "image/exact_math.h"

#include <math.h>
#include <string.h>

/* Numbers of the draw streams.  They differ from those of ops, which are below 16,384, and of the
 * order. */
#define MIX_OP 0xFF00u
#define ERASING_OP 0xFF01u
#define FILL_OP 0xFF02u /* _batch_ops.py has it, too */

#define MAX_ATTEMPTS 10

/* The logarithm of a draw of Gamma(alpha): the draw itself may be too small for a double. */
static double draw_log_gamma(struct sluice_rng *rng, double alpha)
{
    const double boost = alpha < 1 ? sluice_exact_log(1 - sluice_rng_double(rng)) / alpha : 0;
    const double d = (alpha < 1 ? alpha + 1 : alpha) - 1.0 / 3;
    const double c = 1 / sqrt(9 * d);
    for (;;) {
        const double x = sluice_draw_normal(rng);
        const double root = 1 + c * x, v = root * root * root;
        const double u = 1 - sluice_rng_double(rng);
        if (root <= 0)
            continue;
        const double log_v = sluice_exact_log(v);
        if (sluice_exact_log(u) < x * x / 2 + d - d * v + d * log_v)
            return sluice_exact_log(d) + log_v + boost;
    }
}

double sluice_draw_beta(struct sluice_rng *rng, double alpha)
{
    const double log_g = draw_log_gamma(rng, alpha);
    const double more = draw_log_gamma(rng, alpha) - log_g;
    if (more > 700)
        return 0;
    return more < -700 ? 1 : 1 / (1 + sluice_exact_exp(more));
}

void sluice_draw_dirichlet(struct sluice_rng *rng, double alpha, unsigned num, double *weights)
{
    double most = -HUGE_VAL, sum = 0;
    for (unsigned i = 0; i < num; i++) {
        weights[i] = draw_log_gamma(rng, alpha);
        most = weights[i] > most ? weights[i] : most;
    }
    for (unsigned i = 0; i < num; i++) {
        const double below = weights[i] - most;
        weights[i] = below < -700 ? 0 : sluice_exact_exp(below);
        sum += weights[i];
    }
    for (unsigned i = 0; i < num; i++)
        weights[i] /= sum;
}

/* The box of the other row: 1 - lambda of the area, less the part outside the image. */
static struct sluice_box draw_cut(struct sluice_rng *rng, double lambda, struct sluice_size size)
{
    const double side = sqrt(1 - lambda);
    const uint32_t half_width = (uint32_t)(size.width * side) / 2;
    const uint32_t half_height = (uint32_t)(size.height * side) / 2;
    const uint32_t x = sluice_rng_below(rng, size.width);
    const uint32_t y = sluice_rng_below(rng, size.height);
    const uint32_t left = x > half_width ? x - half_width : 0;
    const uint32_t top = y > half_height ? y - half_height : 0;
    const uint32_t right = x + half_width < size.width ? x + half_width : size.width;
    const uint32_t bottom = y + half_height < size.height ? y + half_height : size.height;
    return (struct sluice_box){
        .left = left, .top = top, .width = right - left, .height = bottom - top};
}

struct sluice_mix sluice_draw_mix(const struct sluice_mix_params *params, uint64_t seed,
                                  uint32_t epoch, uint64_t batch, uint32_t rank,
                                  struct sluice_size size)
{
    struct sluice_rng rng = sluice_rng_init(seed, epoch, batch ^ (uint64_t)rank << 40, MIX_OP);
    struct sluice_mix mix = {.lambda = 1};
    const bool has_mixup = params->mixup_alpha > 0, has_cutmix = params->cutmix_alpha > 0;
    mix.is_mixed = sluice_rng_double(&rng) < params->p && (has_mixup || has_cutmix);
    const bool chooses_cutmix = sluice_rng_double(&rng) < params->cutmix_p;
    if (!mix.is_mixed)
        return mix;
    mix.is_cutmix = has_cutmix && (!has_mixup || chooses_cutmix);
    mix.lambda = sluice_draw_beta(&rng, mix.is_cutmix ? params->cutmix_alpha : params->mixup_alpha);
    if (mix.is_cutmix) {
        mix.box = draw_cut(&rng, mix.lambda, size);
        mix.lambda =
            1 - (double)mix.box.width * mix.box.height / ((double)size.width * size.height);
    }
    return mix;
}

static double draw_between(struct sluice_rng *rng, double min, double max)
{
    return min + (max - min) * sluice_rng_double(rng);
}

bool sluice_draw_erasing(const struct sluice_erasing_params *params,
                         const struct sluice_draw_key *key, struct sluice_size size,
                         struct sluice_box *box)
{
    struct sluice_rng rng = sluice_rng_init(key->seed, key->epoch, key->sample_id, ERASING_OP);
    if (sluice_rng_double(&rng) >= params->p)
        return false;
    const double min_log = sluice_exact_log(params->min_ratio);
    const double max_log = sluice_exact_log(params->max_ratio);
    for (int i = 0; i < MAX_ATTEMPTS; i++) {
        const double area = (double)size.width * size.height *
                            draw_between(&rng, params->min_scale, params->max_scale);
        const double ratio = sluice_exact_exp(draw_between(&rng, min_log, max_log));
        const int64_t height = sluice_round_half_even(sqrt(area * ratio));
        const int64_t width = sluice_round_half_even(sqrt(area / ratio));
        if (height < size.height && width < size.width) {
            *box = (struct sluice_box){.width = (uint32_t)width, .height = (uint32_t)height};
            box->top = sluice_rng_below(&rng, size.height - box->height + 1);
            box->left = sluice_rng_below(&rng, size.width - box->width + 1);
            return true;
        }
    }
    return false;
}

void sluice_fill_drawn(const struct sluice_draw_key *key, const void *table, void *out,
                       size_t count)
{
    struct sluice_rng rng = sluice_rng_init(key->seed, key->epoch, key->sample_id, FILL_OP);
    const char *from = table;
    char *to = out;
    for (size_t i = 0; i < count; i += 2) {
        const uint32_t word = sluice_rng_u32(&rng);
        memcpy(to + 4 * i, from + 4 * (size_t)(word & 0xFFFF), 4);
        if (i + 1 < count)
            memcpy(to + 4 * i + 4, from + 4 * (size_t)(word >> 16), 4);
    }
}
