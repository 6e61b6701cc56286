#include "op/batch_draws.h"

#include "image/image_internal.h"
#include "support/test.h"

#include <math.h>

#define NUM_DRAWS 20000

/* --- beta --- */

/* Kolmogorov's distance to a distribution; under 1.63 / sqrt(n) in 99 % of samples. */
static double distance(double alpha, double (*distribution)(double))
{
    static unsigned counts[1001];
    memset(counts, 0, sizeof(counts));
    for (uint32_t i = 0; i < NUM_DRAWS; i++) {
        struct sluice_rng rng = sluice_rng_init(7, 0, i, 3);
        const double drawn = sluice_draw_beta(&rng, alpha);
        CU_ASSERT_FATAL(drawn >= 0 && drawn <= 1);
        counts[(size_t)ceil(drawn * 1000)]++;
    }
    double most = 0, below = 0;
    for (size_t i = 0; i <= 1000; i++) {
        below += counts[i];
        most = fmax(most, fabs(below / NUM_DRAWS - distribution((double)i / 1000)));
    }
    return most;
}

static double uniform(double x)
{
    return x;
}

static double arcsine(double x)
{
    return 2 / 3.14159265358979 * asin(sqrt(x));
}

static double beta_of_2(double x)
{
    return x * x * (3 - 2 * x);
}

TEST(beta_has_its_distribution)
{
    const double most = 1.63 / sqrt(NUM_DRAWS);
    CU_ASSERT(distance(1, uniform) < most);
    CU_ASSERT(distance(0.5, arcsine) < most);
    CU_ASSERT(distance(2, beta_of_2) < most);
    CU_ASSERT(distance(2, uniform) > most);
}

/* Var = 1 / (4 (2 alpha + 1)). */
TEST(small_and_large_alphas_have_their_variance)
{
    static const double alphas[] = {1e-3, 0.1, 0.2, 0.8, 8, 1000};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(alphas); i++) {
        double sum = 0, squares = 0;
        for (uint32_t k = 0; k < NUM_DRAWS; k++) {
            struct sluice_rng rng = sluice_rng_init(8, 1, k, 3);
            const double off = sluice_draw_beta(&rng, alphas[i]) - 0.5;
            sum += off;
            squares += off * off;
        }
        const double variance = 0.25 / (2 * alphas[i] + 1);
        CU_ASSERT(fabs(sum / NUM_DRAWS) < 4 * sqrt(variance / NUM_DRAWS));
        CU_ASSERT(fabs(squares / NUM_DRAWS / variance - 1) < 0.05);
    }
}

/* --- mix --- */

TEST(mixes_by_its_probabilities)
{
    const struct sluice_mix_params params = {
        .mixup_alpha = 0.8, .cutmix_alpha = 1, .p = 0.75, .cutmix_p = 0.4};
    const struct sluice_size size = {31, 17};
    unsigned num_mixed = 0, num_cut = 0;
    double cut = 0;
    for (uint32_t i = 0; i < NUM_DRAWS; i++) {
        const struct sluice_mix mix = sluice_draw_mix(&params, 5, i % 7, i / 7, 2, size);
        num_mixed += mix.is_mixed;
        num_cut += mix.is_cutmix;
        CU_ASSERT_FATAL(mix.lambda >= 0 && mix.lambda <= 1);
        CU_ASSERT_FATAL(sluice_box_is_within(&mix.box, size.width, size.height) ||
                        mix.box.width == 0 || mix.box.height == 0);
        CU_ASSERT_FATAL(mix.is_mixed || mix.lambda == 1);
        if (mix.is_cutmix) {
            CU_ASSERT_DOUBLE_EQUAL_FATAL(
                mix.lambda, 1 - (double)mix.box.width * mix.box.height / (31 * 17), 1e-15);
            cut += mix.lambda;
        }
    }
    CU_ASSERT(fabs(num_mixed / (double)NUM_DRAWS - 0.75) < 0.012);
    CU_ASSERT(fabs(num_cut / (double)num_mixed - 0.4) < 0.016);
    CU_ASSERT(cut / num_cut > 0.6); /* boxes that reach outside are cut */
}

TEST(ranks_and_batches_draw_apart)
{
    const struct sluice_mix_params params = {.mixup_alpha = 1, .p = 1, .cutmix_p = 0.5};
    const struct sluice_size size = {8, 8};
    const double first = sluice_draw_mix(&params, 1, 2, 3, 0, size).lambda;
    CU_ASSERT_EQUAL(sluice_draw_mix(&params, 1, 2, 3, 0, size).lambda, first);
    CU_ASSERT_NOT_EQUAL(sluice_draw_mix(&params, 1, 2, 3, 1, size).lambda, first);
    CU_ASSERT_NOT_EQUAL(sluice_draw_mix(&params, 1, 2, 4, 0, size).lambda, first);
    CU_ASSERT_NOT_EQUAL(sluice_draw_mix(&params, 1, 3, 3, 0, size).lambda, first);
    CU_ASSERT_NOT_EQUAL(sluice_draw_mix(&params, 2, 2, 3, 0, size).lambda, first);
}

TEST(nothing_is_mixed_without_an_alpha)
{
    const struct sluice_mix_params params = {.p = 1, .cutmix_p = 1};
    const struct sluice_mix mix = sluice_draw_mix(&params, 1, 2, 3, 0, (struct sluice_size){8, 8});
    CU_ASSERT(!mix.is_mixed && !mix.is_cutmix);
    CU_ASSERT_EQUAL(mix.lambda, 1);
}

/* --- erasing --- */

TEST(erases_boxes_within_the_image)
{
    const struct sluice_erasing_params params = {
        .p = 0.25, .min_scale = 0.02, .max_scale = 1.0 / 3, .min_ratio = 0.3, .max_ratio = 1 / 0.3};
    const struct sluice_size size = {60, 40};
    unsigned num = 0;
    double area = 0;
    for (uint32_t i = 0; i < NUM_DRAWS; i++) {
        const struct sluice_draw_key key = {.seed = 3, .epoch = 1, .sample_id = i};
        struct sluice_box box = {0};
        if (!sluice_draw_erasing(&params, &key, size, &box))
            continue;
        num++;
        area += (double)box.width * box.height / (60 * 40);
        CU_ASSERT_FATAL(sluice_box_is_within(&box, 60, 40));
        CU_ASSERT_FATAL(box.width < 60 && box.height < 40);
    }
    CU_ASSERT(fabs(num / (double)NUM_DRAWS - 0.25) < 0.012);
    CU_ASSERT(area / num > 0.14 && area / num < 0.18);
}

TEST(an_image_of_one_pixel_is_not_erased)
{
    const struct sluice_erasing_params params = {
        .p = 1, .min_scale = 1, .max_scale = 1, .min_ratio = 1, .max_ratio = 1};
    const struct sluice_draw_key key = {.seed = 3};
    struct sluice_box box;
    CU_ASSERT(!sluice_draw_erasing(&params, &key, (struct sluice_size){1, 1}, &box));
}

/* Each weight of Dirichlet(alpha, ...) has mean 1/n and variance (n - 1) / (n^2 (n alpha + 1)). */
TEST(dirichlet_has_its_mean_and_variance)
{
    static const double alphas[] = {0.01, 0.5, 1, 20};
    for (size_t a = 0; a < SLUICE_ARRAY_LEN(alphas); a++) {
        struct sluice_rng rng = sluice_rng_init(1, 2, 3, 4);
        double sum = 0, squares = 0;
        enum { NUM = 20000, N = 4 };
        for (int i = 0; i < NUM; i++) {
            double weights[N], all = 0;
            sluice_draw_dirichlet(&rng, alphas[a], N, weights);
            for (int k = 0; k < N; k++)
                all += weights[k];
            CU_ASSERT(fabs(all - 1) < 1e-12);
            sum += weights[2];
            squares += (weights[2] - 1.0 / N) * (weights[2] - 1.0 / N);
        }
        const double variance = (N - 1.0) / (N * N * (N * alphas[a] + 1));
        CU_ASSERT(fabs(sum / NUM - 1.0 / N) < 5 * sqrt(variance / NUM));
        CU_ASSERT(fabs(squares / NUM / variance - 1) < 0.08);
    }
}
