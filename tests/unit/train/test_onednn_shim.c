#include "train/cpu/onednn_shim.h"

#include "base/rng.h"

#include "support/test.h"

#include <math.h>

/* Each operation against loops that do what its definition says, on small odd geometries. */

static struct sluice_onednn *onednn;
static struct sluice_err err;
static struct sluice_rng rng;

static void require(sluice_status status)
{
    if (status)
        printf("%s: %s\n", sluice_status_name(status), err.text);
    REQUIRE_OK(status);
}

static float *random_array(size_t count)
{
    float *values = malloc(count * sizeof(*values));
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(2 * sluice_rng_double(&rng) - 1);
    return values;
}

static void close_to(const float *values, const double *wanted, size_t count, const char *what)
{
    double largest = 1e-3, worst = 0;
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(wanted[i]));
        worst = fmax(worst, fabs(values[i] - wanted[i]));
    }
    if (!(worst <= 1e-5 * largest))
        printf("%s: off by %g of %g\n", what, worst, largest);
    CU_ASSERT(worst <= 1e-5 * largest);
}

/* There and back. */
static void run_layer(const struct sluice_onednn_geometry *g,
                      const struct sluice_onednn_arrays *arrays)
{
    struct sluice_onednn_layer *layer = NULL;
    require(sluice_onednn_layer_create(onednn, g, &layer, &err));
    require(sluice_onednn_forward(layer, arrays, &err));
    require(sluice_onednn_backward(layer, arrays, &err));
    sluice_onednn_layer_destroy(layer);
}

static size_t at(const struct sluice_onednn_geometry *g, unsigned n, unsigned c, unsigned y,
                 unsigned x) /* of src */
{
    return (((size_t)n * g->h + y) * g->w + x) * g->c + c;
}

static size_t out_at(const struct sluice_onednn_geometry *g, unsigned n, unsigned c, unsigned y,
                     unsigned x)
{
    return (((size_t)n * g->out_h + y) * g->out_w + x) * g->out_c + c;
}

/* Forward, and all three gradients, in one walk over the products that make the convolution. */
static void convolve(const struct sluice_onednn_geometry *g, const struct sluice_onednn_arrays *a,
                     double *dst, double *diff_src, double *diff_weight, double *diff_bias)
{
    for (unsigned n = 0; n < g->n; n++)
        for (unsigned o = 0; o < g->out_c; o++)
            for (unsigned y = 0; y < g->out_h; y++)
                for (unsigned x = 0; x < g->out_w; x++) {
                    const size_t out = out_at(g, n, o, y, x);
                    dst[out] = g->has_bias ? a->bias[o] : 0;
                    diff_bias[o] += a->diff_dst[out];
                    for (unsigned c = 0; c < g->c; c++)
                        for (unsigned j = 0; j < g->kernel; j++)
                            for (unsigned i = 0; i < g->kernel; i++) {
                                const unsigned sy = y * g->stride + j - g->pad;
                                const unsigned sx = x * g->stride + i - g->pad;
                                if (sy >= g->h || sx >= g->w)
                                    continue; /* also below 0, which wraps */
                                const size_t in = at(g, n, c, sy, sx);
                                const size_t w = ((o * g->c + c) * g->kernel + j) * g->kernel + i;
                                dst[out] += (double)a->weight[w] * a->src[in];
                                diff_src[in] += (double)a->weight[w] * a->diff_dst[out];
                                diff_weight[w] += (double)a->src[in] * a->diff_dst[out];
                            }
                }
}

static void check_weighted(struct sluice_onednn_geometry g)
{
    g.needs_diff_src = true;
    const size_t src_count = (size_t)g.n * g.c * g.h * g.w;
    const size_t dst_count = (size_t)g.n * g.out_c * g.out_h * g.out_w;
    const size_t weight_count = (size_t)g.out_c * g.c * g.kernel * g.kernel;
    float *src = random_array(src_count), *dst = random_array(dst_count);
    float *weight = random_array(weight_count), *bias = random_array(g.out_c);
    float *diff_dst = random_array(dst_count), *diff_src = random_array(src_count);
    float *diff_weight = random_array(weight_count), *diff_bias = random_array(g.out_c);
    const struct sluice_onednn_arrays arrays = {.src = src,
                                                .dst = dst,
                                                .weight = weight,
                                                .bias = g.has_bias ? bias : NULL,
                                                .diff_src = diff_src,
                                                .diff_dst = diff_dst,
                                                .diff_weight = diff_weight,
                                                .diff_bias = g.has_bias ? diff_bias : NULL};
    run_layer(&g, &arrays);

    double *wanted_dst = calloc(dst_count, sizeof(double));
    double *wanted_src = calloc(src_count, sizeof(double));
    double *wanted_weight = calloc(weight_count, sizeof(double));
    double *wanted_bias = calloc(g.out_c, sizeof(double));
    convolve(&g, &arrays, wanted_dst, wanted_src, wanted_weight, wanted_bias);
    close_to(dst, wanted_dst, dst_count, "dst");
    close_to(diff_src, wanted_src, src_count, "diff_src");
    close_to(diff_weight, wanted_weight, weight_count, "diff_weight");
    if (g.has_bias)
        close_to(diff_bias, wanted_bias, g.out_c, "diff_bias");

    void *const arrays_to_free[] = {src,        dst,        weight,        bias,
                                    diff_dst,   diff_src,   diff_weight,   diff_bias,
                                    wanted_dst, wanted_src, wanted_weight, wanted_bias};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(arrays_to_free); i++)
        free(arrays_to_free[i]);
}

TEST(convolution_is_its_definition)
{
    static const struct {
        unsigned n, c, h, w, out_c, out_h, out_w, kernel, stride, pad;
        bool has_bias;
    } cases[] = {
        {2, 3, 15, 13, 16, 4, 3, 11, 4, 4, true},
        {3, 16, 5, 7, 8, 5, 7, 3, 1, 1, false},
        {1, 5, 6, 6, 33, 3, 3, 1, 2, 0, false},
        {2, 64, 1, 1, 32, 1, 1, 3, 2, 1, true},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++)
        check_weighted((struct sluice_onednn_geometry){.kind = SLUICE_ONEDNN_CONV,
                                                       .n = cases[i].n,
                                                       .c = cases[i].c,
                                                       .h = cases[i].h,
                                                       .w = cases[i].w,
                                                       .out_c = cases[i].out_c,
                                                       .out_h = cases[i].out_h,
                                                       .out_w = cases[i].out_w,
                                                       .kernel = cases[i].kernel,
                                                       .stride = cases[i].stride,
                                                       .pad = cases[i].pad,
                                                       .has_bias = cases[i].has_bias});
}

TEST(linear_is_its_definition)
{
    check_weighted((struct sluice_onednn_geometry){.kind = SLUICE_ONEDNN_LINEAR,
                                                   .n = 3,
                                                   .c = 37,
                                                   .h = 1,
                                                   .w = 1,
                                                   .out_c = 11,
                                                   .out_h = 1,
                                                   .out_w = 1,
                                                   .kernel = 1,
                                                   .stride = 1,
                                                   .has_bias = true});
}

/* Also: the padding never wins, and of equal values the first gets the gradient. */
TEST(maxpool_is_its_definition)
{
    const struct sluice_onednn_geometry g = {.kind = SLUICE_ONEDNN_MAXPOOL,
                                             .n = 2,
                                             .c = 19,
                                             .h = 7,
                                             .w = 8,
                                             .out_c = 19,
                                             .out_h = 4,
                                             .out_w = 4,
                                             .kernel = 3,
                                             .stride = 2,
                                             .pad = 1};
    const size_t src_count = (size_t)2 * 19 * 7 * 8, dst_count = (size_t)2 * 19 * 4 * 4;
    float *src = random_array(src_count), *dst = random_array(dst_count);
    float *diff_src = random_array(src_count), *diff_dst = random_array(dst_count);
    for (size_t i = 0; i < src_count; i++)
        src[i] = floorf(4 * src[i]) - 5; /* many ties, all below zero */
    const struct sluice_onednn_arrays arrays = {
        .src = src, .dst = dst, .diff_src = diff_src, .diff_dst = diff_dst};
    run_layer(&g, &arrays);

    double *wanted_dst = calloc(dst_count, sizeof(double));
    double *wanted_src = calloc(src_count, sizeof(double));
    for (unsigned n = 0; n < g.n; n++)
        for (unsigned c = 0; c < g.c; c++)
            for (unsigned y = 0; y < g.out_h; y++)
                for (unsigned x = 0; x < g.out_w; x++) {
                    const size_t out = out_at(&g, n, c, y, x);
                    size_t best = SIZE_MAX;
                    for (unsigned j = 0; j < 3; j++)
                        for (unsigned i = 0; i < 3; i++) {
                            const unsigned sy = y * 2 + j - 1, sx = x * 2 + i - 1;
                            if (sy >= g.h || sx >= g.w)
                                continue;
                            const size_t in = at(&g, n, c, sy, sx);
                            if (best == SIZE_MAX || src[in] > src[best])
                                best = in;
                        }
                    wanted_dst[out] = src[best];
                    wanted_src[best] += diff_dst[out];
                }
    close_to(dst, wanted_dst, dst_count, "dst");
    close_to(diff_src, wanted_src, src_count, "diff_src");
    free(src);
    free(dst);
    free(diff_src);
    free(diff_dst);
    free(wanted_dst);
    free(wanted_src);
}

TEST(batchnorm_is_its_definition_also_in_place)
{
    enum { N = 3, C = 21, H = 4, W = 3, PIXELS = N * H * W, COUNT = PIXELS * C };
    const struct sluice_onednn_geometry g = {.kind = SLUICE_ONEDNN_BATCHNORM,
                                             .n = N,
                                             .c = C,
                                             .h = H,
                                             .w = W,
                                             .out_c = C,
                                             .out_h = H,
                                             .out_w = W,
                                             .epsilon = 1e-5f};
    float *src = random_array(COUNT), *dst = random_array(COUNT), *diff = random_array(COUNT);
    float *scale = random_array(C), *shift = random_array(C);
    float mean[C], variance[C], diff_scale[C], diff_shift[C];
    double wanted_dst[COUNT], wanted_diff[COUNT], wanted_scale[C], wanted_shift[C];
    for (int c = 0; c < C; c++) {
        double m = 0, v = 0, sum = 0, dot = 0;
        for (int i = 0; i < PIXELS; i++)
            m += src[i * C + c] / (double)PIXELS;
        for (int i = 0; i < PIXELS; i++)
            v += (src[i * C + c] - m) * (src[i * C + c] - m) / PIXELS;
        const double inverse = 1 / sqrt(v + 1e-5);
        for (int i = 0; i < PIXELS; i++) {
            const double x = (src[i * C + c] - m) * inverse;
            wanted_dst[i * C + c] = x * scale[c] + shift[c];
            sum += diff[i * C + c];
            dot += diff[i * C + c] * x;
        }
        for (int i = 0; i < PIXELS; i++) {
            const double x = (src[i * C + c] - m) * inverse;
            wanted_diff[i * C + c] =
                scale[c] * inverse * (diff[i * C + c] - sum / PIXELS - x * dot / PIXELS);
        }
        wanted_scale[c] = dot;
        wanted_shift[c] = sum;
    }

    const struct sluice_onednn_arrays arrays = {.src = src,
                                                .dst = dst,
                                                .weight = scale,
                                                .bias = shift,
                                                .mean = mean,
                                                .variance = variance,
                                                .diff_src = diff,
                                                .diff_dst = diff,
                                                .diff_weight = diff_scale,
                                                .diff_bias = diff_shift};
    run_layer(&g, &arrays);
    close_to(dst, wanted_dst, COUNT, "dst");
    close_to(diff, wanted_diff, COUNT, "diff_src");
    close_to(diff_scale, wanted_scale, C, "diff_weight");
    close_to(diff_shift, wanted_shift, C, "diff_bias");
    free(src);
    free(dst);
    free(diff);
    free(scale);
    free(shift);
}

TEST(relu_is_its_definition_in_place)
{
    const struct sluice_onednn_geometry g = {.kind = SLUICE_ONEDNN_RELU,
                                             .n = 2,
                                             .c = 5,
                                             .h = 3,
                                             .w = 7,
                                             .out_c = 5,
                                             .out_h = 3,
                                             .out_w = 7};
    enum { COUNT = 2 * 5 * 3 * 7 };
    float *x = random_array(COUNT), *diff = random_array(COUNT);
    x[0] = 0;
    double wanted[COUNT], wanted_diff[COUNT];
    for (int i = 0; i < COUNT; i++) {
        wanted[i] = x[i] > 0 ? x[i] : 0;
        wanted_diff[i] = x[i] > 0 ? diff[i] : 0;
    }
    const struct sluice_onednn_arrays arrays = {
        .src = x, .dst = x, .diff_src = diff, .diff_dst = diff};
    run_layer(&g, &arrays);
    close_to(x, wanted, COUNT, "dst");
    close_to(diff, wanted_diff, COUNT, "diff_src");
    free(x);
    free(diff);
}

TEST(a_geometry_that_does_not_fit_is_an_error)
{
    const struct sluice_onednn_geometry g = {.kind = SLUICE_ONEDNN_CONV,
                                             .n = 1,
                                             .c = 3,
                                             .h = 8,
                                             .w = 8,
                                             .out_c = 4,
                                             .out_h = 5,
                                             .out_w = 5,
                                             .kernel = 3,
                                             .stride = 1,
                                             .pad = 1};
    struct sluice_onednn_layer *layer = NULL;
    struct sluice_err why = {{0}};
    CU_ASSERT_EQUAL(sluice_onednn_layer_create(onednn, &g, &layer, &why), SLUICE_E_INTERNAL);
    CU_ASSERT_PTR_NULL(layer);
    CU_ASSERT_PTR_NOT_NULL(strstr(why.text, "oneDNN"));
    sluice_onednn_layer_destroy(NULL);
    sluice_onednn_destroy(NULL);
}

int main(void)
{
    rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    if (sluice_onednn_create(2, &onednn, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    sluice_onednn_enter(onednn);
    const int status = sluice_test_main();
    sluice_onednn_destroy(onednn);
    return status;
}
