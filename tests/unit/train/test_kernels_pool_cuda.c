#include "train/cuda/kernels_cuda.h"

#include "kernels_support.h"
#include "support/test.h"

#include <math.h>

/* Pooling against plain loops. */

#define FOR_TYPES(type)                                                                            \
    for (enum sluice_cuda_type type = SLUICE_CUDA_F32; type < KERNELS_NUM_TYPES; type++)

enum { N = 3 };

static size_t at(const struct sluice_cuda_window *w, size_t n, size_t c, size_t y, size_t x,
                 size_t h, size_t width)
{
    return ((n * h + y) * width + x) * w->c + c;
}

/* Sides that the windows fill and do not fill, several blocks for a row, and the models'. */
static const struct sluice_cuda_window pools[] = {
    {.c = 16, .in_h = 13, .in_w = 11, .out_h = 6, .out_w = 5, .kernel = 3, .stride = 2, .pad = 0},
    {.c = 24, .in_h = 14, .in_w = 10, .out_h = 6, .out_w = 4, .kernel = 3, .stride = 2, .pad = 0},
    {.c = 8, .in_h = 14, .in_w = 9, .out_h = 7, .out_w = 5, .kernel = 3, .stride = 2, .pad = 1},
    {.c = 8, .in_h = 1, .in_w = 2, .out_h = 1, .out_w = 1, .kernel = 3, .stride = 2, .pad = 1},
    {.c = 8, .in_h = 4, .in_w = 4, .out_h = 2, .out_w = 2, .kernel = 2, .stride = 2, .pad = 0},
    {.c = 40, .in_h = 7, .in_w = 5, .out_h = 3, .out_w = 2, .kernel = 2, .stride = 2, .pad = 0},
    {.c = 64, .in_h = 9, .in_w = 255, .out_h = 5, .out_w = 128, .kernel = 3, .stride = 2, .pad = 1},
    {.c = 64,
     .in_h = 112,
     .in_w = 112,
     .out_h = 56,
     .out_w = 56,
     .kernel = 3,
     .stride = 2,
     .pad = 1},
    {.c = 64, .in_h = 55, .in_w = 55, .out_h = 27, .out_w = 27, .kernel = 3, .stride = 2, .pad = 0},
    {.c = 512,
     .in_h = 28,
     .in_w = 28,
     .out_h = 14,
     .out_w = 14,
     .kernel = 2,
     .stride = 2,
     .pad = 0},
};

/* Of output (oy, ox) of a plane: the place of its maximum in the input. */
static size_t maximum(const struct sluice_cuda_window *w, const float *in, size_t n, size_t c,
                      size_t oy, size_t ox)
{
    size_t best = SIZE_MAX;
    for (size_t k = 0; k < (size_t)w->kernel * w->kernel; k++) {
        const size_t y = oy * w->stride + k / w->kernel - w->pad;
        const size_t x = ox * w->stride + k % w->kernel - w->pad;
        if (y >= w->in_h || x >= w->in_w) /* also below 0: unsigned */
            continue;
        const size_t i = at(w, n, c, y, x, w->in_h, w->in_w);
        if (best == SIZE_MAX || in[i] > in[best] || (isnan(in[i]) && !isnan(in[best])))
            best = i;
    }
    return best;
}

static void check_maxpool(enum sluice_cuda_type type, const struct sluice_cuda_window *w)
{
    const size_t num_in = (size_t)N * w->c * w->in_h * w->in_w;
    const size_t num_out = (size_t)N * w->c * w->out_h * w->out_w;
    float *in = kernels_make(num_in, 7), *diff_out = kernels_make(num_out, 8);
    in[num_in / 3] = NAN;
    in[num_in / 2] = in[num_in / 2 + w->c] = -INFINITY;
    for (size_t i = 0; i < (size_t)w->in_w * w->c; i++) /* a row without numbers */
        in[i] = -INFINITY;
    float *wanted = calloc(num_out, sizeof(float)), *wanted_diff = calloc(num_in, sizeof(float));
    for (size_t o = 0; o < num_out; o++) {
        const size_t c = o % w->c, ox = o / w->c % w->out_w, oy = o / w->c / w->out_w % w->out_h;
        const size_t best = maximum(w, in, o / w->c / w->out_w / w->out_h, c, oy, ox);
        wanted[o] = in[best];
        wanted_diff[best] += diff_out[o]; /* eighths: exact */
    }
    void *out = kernels_tensor(type, NULL, num_out);
    void *diff_in = kernels_tensor(type, NULL, num_in);
    uint8_t *which = kernels_to_device(NULL, num_out);
    kernels_require(
        sluice_cuda_maxpool(NULL, type, w, N, kernels_tensor(type, in, num_in), out, which));
    kernels_require(sluice_cuda_maxpool_backward(
        NULL, type, w, N, kernels_tensor(type, diff_out, num_out), which, diff_in));
    float *got = kernels_values(type, out, num_out);
    float *got_diff = kernels_values(type, diff_in, num_in);
    kernels_check_same(got, wanted, num_out);
    kernels_check_same(got_diff, wanted_diff, num_in);
    free(in), free(diff_out), free(wanted), free(wanted_diff), free(got), free(got_diff);
    kernels_end();
}

TEST(maxpool_takes_the_first_maximum)
{
    FOR_TYPES(type)
    {
        for (size_t i = 0; i < SLUICE_ARRAY_LEN(pools); i++)
            check_maxpool(type, &pools[i]);
    }
}

TEST(maxpool_refuses_windows_that_no_model_has)
{
    const struct sluice_cuda_window good = pools[0];
    struct sluice_cuda_window bad[4] = {good, good, good, good};
    bad[0].kernel = 4;
    bad[1].stride = 1;
    bad[2].pad = 2;
    bad[3].c = 12;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(bad); i++) {
        CU_ASSERT_EQUAL(sluice_cuda_maxpool(NULL, SLUICE_CUDA_F32, &bad[i], N, NULL, NULL, NULL),
                        cudaErrorInvalidValue);
        CU_ASSERT_EQUAL(
            sluice_cuda_maxpool_backward(NULL, SLUICE_CUDA_F32, &bad[i], N, NULL, NULL, NULL),
            cudaErrorInvalidValue);
    }
}

/* Bins that divide, that overlap, that cover all, more bins than rows, and bins of one place. */
static const struct sluice_cuda_window adaptive[] = {
    {.c = 8, .in_h = 12, .in_w = 6, .out_h = 6, .out_w = 6},
    {.c = 16, .in_h = 13, .in_w = 7, .out_h = 6, .out_w = 5},
    {.c = 40, .in_h = 7, .in_w = 9, .out_h = 1, .out_w = 1},
    {.c = 8, .in_h = 1, .in_w = 4, .out_h = 6, .out_w = 6},
    {.c = 512, .in_h = 7, .in_w = 7, .out_h = 7, .out_w = 7},
    {.c = 2048, .in_h = 7, .in_w = 7, .out_h = 1, .out_w = 1},
};

static void check_avgpool(enum sluice_cuda_type type, const struct sluice_cuda_window *w)
{
    const size_t num_in = (size_t)N * w->c * w->in_h * w->in_w;
    const size_t num_out = (size_t)N * w->c * w->out_h * w->out_w;
    float *in = kernels_make(num_in, 9), *diff_out = kernels_make(num_out, 10);
    double *wanted = calloc(num_out, sizeof(double)), *wanted_diff = calloc(num_in, sizeof(double));
    for (size_t o = 0; o < num_out; o++) {
        const size_t ox = o % w->out_w, oy = o / w->out_w % w->out_h;
        const size_t c = o / ((size_t)w->out_w * w->out_h) % w->c;
        const size_t n = o / ((size_t)w->out_w * w->out_h * w->c);
        const size_t y0 = oy * w->in_h / w->out_h, x0 = ox * w->in_w / w->out_w;
        const size_t y1 = (size_t)ceil((double)(oy + 1) * w->in_h / w->out_h - 1e-9);
        const size_t x1 = (size_t)ceil((double)(ox + 1) * w->in_w / w->out_w - 1e-9);
        const double share = 1 / (double)((y1 - y0) * (x1 - x0));
        for (size_t y = y0; y < y1; y++) {
            for (size_t x = x0; x < x1; x++) {
                const size_t i = at(w, n, c, y, x, w->in_h, w->in_w);
                wanted[o] += in[i] * share;
                wanted_diff[i] += diff_out[o] * share;
            }
        }
    }
    void *out = kernels_tensor(type, NULL, num_out);
    void *diff_in = kernels_tensor(type, NULL, num_in);
    kernels_require(sluice_cuda_avgpool(NULL, type, w, N, kernels_tensor(type, in, num_in), out));
    kernels_require(sluice_cuda_avgpool_backward(NULL, type, w, N,
                                                 kernels_tensor(type, diff_out, num_out), diff_in));
    float *got = kernels_values(type, out, num_out);
    float *got_diff = kernels_values(type, diff_in, num_in);
    kernels_check(type, got, wanted, num_out, 1e-6);
    kernels_check(type, got_diff, wanted_diff, num_in, 4e-6);
    free(in), free(diff_out), free(wanted), free(wanted_diff), free(got), free(got_diff);
    kernels_end();
}

TEST(avgpool_has_torchs_bins)
{
    FOR_TYPES(type)
    {
        for (size_t i = 0; i < SLUICE_ARRAY_LEN(adaptive); i++)
            check_avgpool(type, &adaptive[i]);
    }
}
