#include "train/kernels_cuda.h"

#include "base/rng.h"
#include "support/test.h"
#include "train/mix.h"
#include "train/net.h"
#include "train_support.h"

#include <math.h>

/* Each kernel against a plain loop here. */

#define MAX_BLOCKS 32

static void *blocks[MAX_BLOCKS];
static size_t num_blocks;

static void require(cudaError_t error)
{
    if (error)
        printf("%s\n", cudaGetErrorString(error));
    CU_ASSERT_EQUAL_FATAL(error, cudaSuccess);
}

/* A copy on the device; NULL: not initialised.  Freed by end(). */
static void *to_device(const void *host, size_t bytes)
{
    void *memory = NULL;
    CU_ASSERT_FATAL(num_blocks < MAX_BLOCKS);
    require(cudaMalloc(&memory, bytes));
    blocks[num_blocks++] = memory;
    if (host)
        require(cudaMemcpy(memory, host, bytes, cudaMemcpyHostToDevice));
    return memory;
}

static void *from_device(const void *device, size_t bytes)
{
    void *host = calloc(1, bytes);
    require(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
    return host;
}

static void end(void)
{
    while (num_blocks)
        cudaFree(blocks[--num_blocks]);
}

/* In [-1, 1), the same for the same salt; steps of 1/8 so that equal values turn up. */
static float *make_values(size_t count, uint32_t salt)
{
    float *values = malloc(count * sizeof(*values));
    for (size_t i = 0; i < count; i++) {
        uint32_t words[4];
        const uint32_t key[2] = {(uint32_t)sluice_test_seed(), salt};
        const uint32_t counter[4] = {(uint32_t)i, 0, 0, 0};
        sluice_philox4x32_10(key, counter, words);
        values[i] = (float)(int)(words[0] % 16) / 8 - 1;
    }
    return values;
}

static size_t at(const struct sluice_cuda_window *w, size_t n, size_t c, size_t y, size_t x,
                 size_t h, size_t width)
{
    return ((n * h + y) * width + x) * w->c + c;
}

TEST(input_looks_each_channel_up_in_its_table)
{
    enum { COUNT = 3 * 7 * 5 * 3 };
    float table[3 * 256];
    for (int i = 0; i < 3 * 256; i++)
        table[i] = (float)i / 7;
    uint8_t pixels[COUNT];
    for (int i = 0; i < COUNT; i++)
        pixels[i] = (uint8_t)(i * 37);
    float *out = to_device(NULL, COUNT * sizeof(float));
    require(sluice_cuda_input(NULL, to_device(pixels, COUNT), to_device(table, sizeof(table)), out,
                              COUNT));
    float *got = from_device(out, COUNT * sizeof(float));
    for (size_t i = 0; i < COUNT; i++)
        CU_ASSERT_EQUAL(got[i], table[256 * (i % 3) + pixels[i]]);
    free(got);
    end();
}

/* Every kind and fill of a mixed batch, from its draws on. */
TEST(mixed_batches_are_those_of_the_host)
{
    enum { ROWS = 7, SIZE = 20, CLASSES = 300, COUNT = ROWS * SIZE * SIZE * 3 };
    static uint8_t pixels[COUNT];
    static float quantiles[SLUICE_NUM_QUANTILES], wanted[COUNT], diff[ROWS * CLASSES];
    uint32_t labels[ROWS], draw_epochs[ROWS] = {0};
    uint64_t ids[ROWS];
    struct sluice_mix_row rows[ROWS];
    unsigned num_of_kind[3] = {0};
    sluice_normal_quantiles(quantiles);
    train_test_fill_table();
    train_test_fill_batch(ROWS, SIZE, CLASSES, 0, pixels, labels);
    for (unsigned n = 0; n < ROWS; n++)
        ids[n] = ((uint64_t)n << 33) + n;
    float *logits = make_values((size_t)ROWS * CLASSES, 31);
    for (uint64_t index = 0; index < 24; index++) {
        struct sluice_batch_ops ops = sluice_batch_ops_none();
        ops.mix.mixup_alpha = ops.mix.cutmix_alpha = 1;
        ops.mix.p = 0.8;
        ops.label_smoothing = 0.1;
        ops.erasing.p = 0.5;
        ops.fill = (enum sluice_fill)(index % 3);
        ops.is_rolled = index / 3 % 2;
        const struct sluice_train_key key = {
            .index = index, .ids = ids, .draw_epochs = draw_epochs};
        const struct sluice_train_batch batch = {
            .pixels = pixels, .labels = labels, .n = ROWS, .key = &key};
        struct sluice_mix_batch drawn;
        struct sluice_err err = {0};
        train_test_require(sluice_mix_draw(&ops, 9, &batch, (struct sluice_size){SIZE, SIZE},
                                           CLASSES, &drawn, rows, &err),
                           &err);
        num_of_kind[drawn.kind]++;

        float *table = to_device(train_test_table, sizeof(train_test_table));
        float *out = to_device(NULL, sizeof(wanted));
        require(sluice_cuda_mix_input(NULL, &drawn, to_device(rows, sizeof(rows)),
                                      to_device(pixels, sizeof(pixels)), table,
                                      to_device(quantiles, sizeof(quantiles)), out));
        float *got = from_device(out, sizeof(wanted));
        sluice_mix_input(&drawn, rows, pixels, train_test_table, quantiles, wanted);
        CU_ASSERT(train_test_same_bits(got, wanted, sizeof(wanted)));
        free(got);

        static const struct sluice_cuda_sums zero;
        struct sluice_cuda_sums *sums = to_device(&zero, sizeof(zero));
        float *diff_out = to_device(NULL, sizeof(diff));
        const size_t logit_bytes = (size_t)ROWS * CLASSES * sizeof(*logits);
        require(sluice_cuda_mix_loss(NULL, &drawn, to_device(logits, logit_bytes),
                                     to_device(labels, sizeof(labels)), CLASSES, diff_out,
                                     to_device(NULL, ROWS * sizeof(zero)), sums));
        struct sluice_train_totals totals = {0};
        for (uint32_t n = 0; n < ROWS; n++)
            sluice_mix_loss(&drawn, n, labels, logits + (size_t)n * CLASSES, CLASSES, 1.0 / ROWS,
                            diff + (size_t)n * CLASSES, &totals);
        struct sluice_cuda_sums *got_sums = from_device(sums, sizeof(zero));
        CU_ASSERT_DOUBLE_EQUAL(got_sums->loss, totals.loss_sum, 1e-9);
        CU_ASSERT_EQUAL(got_sums->top1, totals.top1);
        CU_ASSERT_EQUAL(got_sums->top5, totals.top5);
        float *got_diff = from_device(diff_out, sizeof(diff));
        for (size_t i = 0; i < (size_t)ROWS * CLASSES; i++)
            CU_ASSERT_DOUBLE_EQUAL(got_diff[i], diff[i], 1e-7);
        free(got_sums);
        free(got_diff);
        end();
    }
    free(logits);
    CU_ASSERT(num_of_kind[0] > 0 && num_of_kind[1] > 0 && num_of_kind[2] > 0);
}

TEST(bias_is_added_by_channel_and_may_end_in_a_relu)
{
    enum { C = 5, COUNT = 363 * C };
    float *values = make_values(COUNT, 1), *bias = make_values(C, 2);
    values[COUNT / 2] = NAN;
    for (int relu = 0; relu < 2; relu++) {
        float *device = to_device(values, COUNT * sizeof(float));
        require(sluice_cuda_bias(NULL, device, to_device(bias, C * sizeof(float)), COUNT, C, relu));
        float *got = from_device(device, COUNT * sizeof(float));
        for (size_t i = 0; i < COUNT; i++) {
            const float sum = values[i] + bias[i % C];
            CU_ASSERT(isnan(sum) ? isnan(got[i]) : got[i] == (relu && sum < 0 ? 0 : sum));
        }
        free(got);
        end();
    }
    free(values);
    free(bias);
}

/* Few and many rows, columns that fill no block and many blocks. */
TEST(biases_gradients_are_sums_of_columns)
{
    static const size_t sizes[][2] = {{1, 1}, {3, 7}, {1000, 33}, {20011, 64}, {5, 70001}};
    for (size_t k = 0; k < 2 * SLUICE_ARRAY_LEN(sizes); k++) {
        const size_t rows = sizes[k / 2][0], num_c = sizes[k / 2][1], count = rows * num_c;
        const bool relu = k % 2;
        float *diffs = make_values(count, 15), *values = make_values(count, 16);
        double *wanted = calloc(num_c, sizeof(*wanted));
        float *device = to_device(diffs, count * sizeof(float));
        float *sums = to_device(NULL, num_c * sizeof(float));
        require(sluice_cuda_bias_backward(
            NULL, device, relu ? to_device(values, count * sizeof(float)) : NULL, rows, num_c, sums,
            to_device(NULL, sluice_cuda_scratch(num_c))));
        float *got = from_device(device, count * sizeof(float));
        float *got_sums = from_device(sums, num_c * sizeof(float));
        for (size_t i = 0; i < count; i++) {
            const float diff = relu && values[i] <= 0 ? 0 : diffs[i];
            CU_ASSERT_EQUAL(got[i], diff);
            wanted[i % num_c] += diff;
        }
        for (size_t c = 0; c < num_c; c++)
            CU_ASSERT_EQUAL(got_sums[c], (float)wanted[c]); /* eighths: exact in double */
        free(diffs), free(values), free(wanted), free(got), free(got_sums);
        end();
    }
}

/* In double: out, running statistics, gradients; with `relu` of the output's relu. */
static void check_batchnorm(size_t rows, uint32_t num_c, bool relu)
{
    const size_t count = rows * num_c, bytes = count * sizeof(float), row = num_c * sizeof(float);
    const double epsilon = 1e-5, momentum = 0.1;
    float *in = make_values(count, 17), *diff = make_values(count, 18);
    float *weight = make_values(num_c, 19), *bias = make_values(num_c, 20);
    for (size_t i = 0; i < count; i++)
        in[i] = in[i] * 0.37f + 3.1f + (float)(i / num_c % 7) * 0.011f;
    float *ones = malloc(row);
    for (size_t c = 0; c < num_c; c++)
        ones[c] = 1;
    const struct sluice_cuda_batchnorm bn = {
        .num_c = num_c,
        .weight = to_device(weight, row),
        .bias = to_device(bias, row),
        .running_mean = to_device(ones, row),
        .running_var = to_device(ones, row),
        .mean = to_device(NULL, row),
        .inverse_deviation = to_device(NULL, row),
        .epsilon = epsilon,
        .momentum = momentum,
        .relu = relu,
        .scratch = to_device(NULL, sluice_cuda_scratch(num_c)),
    };
    const float *device_in = to_device(in, bytes);
    float *out = to_device(NULL, bytes), *evaluated = to_device(NULL, bytes);
    float *diffs = to_device(diff, bytes); /* in place */
    float *diff_weight = to_device(NULL, row), *diff_bias = to_device(NULL, row);
    require(sluice_cuda_batchnorm_train(NULL, &bn, rows, device_in, out));
    require(sluice_cuda_batchnorm_backward(NULL, &bn, rows, device_in, diffs, diffs, diff_weight,
                                           diff_bias));
    require(sluice_cuda_batchnorm_evaluate(NULL, &bn, rows, device_in, evaluated));
    float *got = from_device(out, bytes), *got_evaluated = from_device(evaluated, bytes);
    float *got_diff = from_device(diffs, bytes);
    float *got_weight = from_device(diff_weight, row), *got_bias = from_device(diff_bias, row);
    float *got_mean = from_device(bn.running_mean, row),
          *got_var = from_device(bn.running_var, row);
    for (size_t c = 0; c < num_c; c++) {
        double sum = 0, squares = 0, sum_diff = 0, sum_product = 0;
        for (size_t i = c; i < count; i += num_c)
            sum += in[i];
        const double mean = sum / (double)rows;
        for (size_t i = c; i < count; i += num_c)
            squares += (in[i] - mean) * (in[i] - mean);
        const double variance = squares / (double)rows;
        const double inverse = 1 / sqrt(variance + epsilon);
        const double unbiased = rows > 1 ? squares / (double)(rows - 1) : 0;
        CU_ASSERT_DOUBLE_EQUAL(got_mean[c], 0.9 + 0.1 * mean, 1e-6);
        CU_ASSERT_DOUBLE_EQUAL(got_var[c], 0.9 + 0.1 * unbiased, 1e-6);
        const double running_inverse = 1 / sqrt(got_var[c] + epsilon);
        for (size_t i = c; i < count; i += num_c) {
            const double normalised = (in[i] - mean) * inverse;
            const double y = normalised * weight[c] + bias[c];
            const double running = (in[i] - got_mean[c]) * running_inverse * weight[c] + bias[c];
            CU_ASSERT_DOUBLE_EQUAL(got[i], relu ? fmax(y, 0) : y, 2e-5);
            CU_ASSERT_DOUBLE_EQUAL(got_evaluated[i], relu ? fmax(running, 0) : running, 1e-5);
            if (relu && got[i] <= 0) /* its own output decides: y may be within rounding of 0 */
                diff[i] = 0;
            sum_diff += diff[i];
            sum_product += diff[i] * normalised;
        }
        const double tolerance = 1e-6 * (double)rows + 4e-5;
        CU_ASSERT_DOUBLE_EQUAL(got_bias[c], sum_diff, tolerance);
        CU_ASSERT_DOUBLE_EQUAL(got_weight[c], sum_product, tolerance);
        for (size_t i = c; i < count; i += num_c) {
            const double normalised = (in[i] - mean) * inverse;
            const double wanted =
                weight[c] * inverse *
                (diff[i] - sum_diff / (double)rows - normalised * sum_product / (double)rows);
            CU_ASSERT_DOUBLE_EQUAL(got_diff[i] / inverse, wanted / inverse, 2e-5);
        }
    }
    free(in), free(diff), free(weight), free(bias), free(ones), free(got), free(got_evaluated);
    free(got_diff), free(got_weight), free(got_bias), free(got_mean), free(got_var);
    end();
}

TEST(batchnorm_is_torchs)
{
    check_batchnorm(2, 4, false);
    check_batchnorm(1000, 32, true);
    check_batchnorm(3001, 64, false);
    check_batchnorm(77, 1020, true);
    check_batchnorm(1, 8, false); /* torch refuses a single row; its variance is 0 here */
}

TEST(relu_passes_gradients_where_its_output_is_positive)
{
    enum { COUNT = 70001 };
    float *values = make_values(COUNT, 3), *diffs = make_values(COUNT, 4);
    values[9] = NAN;
    float *device = to_device(values, COUNT * sizeof(float));
    float *device_diffs = to_device(diffs, COUNT * sizeof(float));
    require(sluice_cuda_relu(NULL, device, COUNT));
    require(sluice_cuda_relu_backward(NULL, device_diffs, device, COUNT));
    float *got = from_device(device, COUNT * sizeof(float));
    float *got_diffs = from_device(device_diffs, COUNT * sizeof(float));
    CU_ASSERT(isnan(got[9]));
    for (size_t i = 0; i < COUNT; i++) {
        if (i == 9)
            continue;
        CU_ASSERT_EQUAL(got[i], values[i] > 0 ? values[i] : 0);
        CU_ASSERT_EQUAL(got_diffs[i], values[i] > 0 ? diffs[i] : 0);
    }
    free(values), free(diffs), free(got), free(got_diffs);
    end();
}

TEST(add_may_write_over_its_first_term_and_end_in_a_relu)
{
    enum { COUNT = 1027 };
    float *a = make_values(COUNT, 5), *b = make_values(COUNT, 6);
    float *device = to_device(a, COUNT * sizeof(float));
    float *out = to_device(NULL, COUNT * sizeof(float));
    const float *device_b = to_device(b, COUNT * sizeof(float));
    require(sluice_cuda_add(NULL, out, device, device_b, COUNT, true));
    require(sluice_cuda_add(NULL, device, device, device_b, COUNT, false));
    float *got = from_device(out, COUNT * sizeof(float));
    float *in_place = from_device(device, COUNT * sizeof(float));
    for (size_t i = 0; i < COUNT; i++) {
        CU_ASSERT_EQUAL(got[i], a[i] + b[i] < 0 ? 0 : a[i] + b[i]);
        CU_ASSERT_EQUAL(in_place[i], a[i] + b[i]);
    }
    free(a), free(b), free(got), free(in_place);
    end();
}

TEST(a_sums_gradient_goes_to_both_terms)
{
    enum { COUNT = 1027 };
    float *diffs = make_values(COUNT, 21), *values = make_values(COUNT, 22);
    float *before = make_values(COUNT, 23);
    for (int k = 0; k < 4; k++) {
        const bool relu = k & 1, adds = k & 2;
        float *device = to_device(diffs, COUNT * sizeof(float));
        float *to = to_device(before, COUNT * sizeof(float));
        require(sluice_cuda_add_backward(
            NULL, device, relu ? to_device(values, COUNT * sizeof(float)) : NULL, to, COUNT, adds));
        float *got = from_device(device, COUNT * sizeof(float));
        float *got_to = from_device(to, COUNT * sizeof(float));
        for (size_t i = 0; i < COUNT; i++) {
            const float diff = relu && values[i] <= 0 ? 0 : diffs[i];
            CU_ASSERT_EQUAL(got[i], diff);
            CU_ASSERT_EQUAL(got_to[i], adds ? before[i] + diff : diff);
        }
        free(got), free(got_to);
        end();
    }
    free(diffs), free(values), free(before);
}

TEST(dropout_drops_what_the_net_says)
{
    enum { COUNT = 12347 };
    static float mask[COUNT];
    const uint64_t seed = 0x123456789abcdef0u, step = (1ull << 32) + 5;
    sluice_net_dropout_mask(seed, step, 14, 0.3, mask, COUNT);
    static float ones[COUNT + 1];
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(ones); i++)
        ones[i] = 1;
    float *values = to_device(ones, sizeof(ones));
    require(sluice_cuda_dropout(NULL, values, COUNT, seed, step, 14, 0.3));
    float *got = from_device(values, (COUNT + 1) * sizeof(float));
    CU_ASSERT(train_test_same_bits(got, mask, sizeof(mask)));
    CU_ASSERT_EQUAL(got[COUNT], 1);
    free(got);
    end();
}

static const struct sluice_cuda_window pools[] = {
    {.c = 12, .in_h = 13, .in_w = 11, .out_h = 6, .out_w = 5, .kernel = 3, .stride = 2, .pad = 0},
    {.c = 4, .in_h = 14, .in_w = 9, .out_h = 7, .out_w = 5, .kernel = 3, .stride = 2, .pad = 1},
    {.c = 8, .in_h = 4, .in_w = 4, .out_h = 2, .out_w = 2, .kernel = 2, .stride = 2, .pad = 0},
};

static void check_maxpool(const struct sluice_cuda_window *w)
{
    enum { N = 3 };
    const size_t num_in = (size_t)N * w->c * w->in_h * w->in_w;
    const size_t num_out = (size_t)N * w->c * w->out_h * w->out_w;
    float *in = make_values(num_in, 7), *diff_out = make_values(num_out, 8);
    in[num_in / 3] = NAN;
    float *wanted = calloc(num_out, sizeof(float)), *wanted_diff = calloc(num_in, sizeof(float));
    for (size_t n = 0; n < N; n++) {
        for (size_t c = 0; c < w->c; c++) {
            for (size_t oy = 0; oy < w->out_h; oy++) {
                for (size_t ox = 0; ox < w->out_w; ox++) {
                    size_t best = SIZE_MAX;
                    for (size_t k = 0; k < (size_t)w->kernel * w->kernel; k++) {
                        const size_t y = oy * w->stride + k / w->kernel - w->pad;
                        const size_t x = ox * w->stride + k % w->kernel - w->pad;
                        if (y >= w->in_h || x >= w->in_w) /* also below 0: unsigned */
                            continue;
                        const size_t i = at(w, n, c, y, x, w->in_h, w->in_w);
                        if (best == SIZE_MAX || in[i] > in[best] ||
                            (isnan(in[i]) && !isnan(in[best])))
                            best = i;
                    }
                    const size_t o = at(w, n, c, oy, ox, w->out_h, w->out_w);
                    wanted[o] = in[best];
                    wanted_diff[best] += diff_out[o];
                }
            }
        }
    }
    float *out = to_device(NULL, num_out * sizeof(float));
    uint8_t *which = to_device(NULL, num_out);
    float *diff_in = to_device(NULL, num_in * sizeof(float));
    require(sluice_cuda_maxpool(NULL, w, N, to_device(in, num_in * sizeof(float)), out, which));
    require(sluice_cuda_maxpool_backward(NULL, w, N, to_device(diff_out, num_out * sizeof(float)),
                                         which, diff_in));
    float *got = from_device(out, num_out * sizeof(float));
    float *got_diff = from_device(diff_in, num_in * sizeof(float));
    for (size_t i = 0; i < num_out; i++)
        CU_ASSERT(got[i] == wanted[i] || (isnan(got[i]) && isnan(wanted[i])));
    for (size_t i = 0; i < num_in; i++) /* eighths add without rounding */
        CU_ASSERT_EQUAL(got_diff[i], wanted_diff[i]);
    free(in), free(diff_out), free(wanted), free(wanted_diff), free(got), free(got_diff);
    end();
}

TEST(maxpool_takes_the_first_maximum)
{
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(pools); i++)
        check_maxpool(&pools[i]);
}

/* Bins that divide, that overlap, that cover all, and more bins than rows. */
static const struct sluice_cuda_window adaptive[] = {
    {.c = 3, .in_h = 12, .in_w = 6, .out_h = 6, .out_w = 6},
    {.c = 4, .in_h = 13, .in_w = 7, .out_h = 6, .out_w = 5},
    {.c = 5, .in_h = 7, .in_w = 9, .out_h = 1, .out_w = 1},
    {.c = 2, .in_h = 1, .in_w = 4, .out_h = 6, .out_w = 6},
};

static void check_avgpool(const struct sluice_cuda_window *w)
{
    enum { N = 3 };
    const size_t num_in = (size_t)N * w->c * w->in_h * w->in_w;
    const size_t num_out = (size_t)N * w->c * w->out_h * w->out_w;
    float *in = make_values(num_in, 9), *diff_out = make_values(num_out, 10);
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
    float *out = to_device(NULL, num_out * sizeof(float));
    float *diff_in = to_device(NULL, num_in * sizeof(float));
    require(sluice_cuda_avgpool(NULL, w, N, to_device(in, num_in * sizeof(float)), out));
    require(sluice_cuda_avgpool_backward(NULL, w, N, to_device(diff_out, num_out * sizeof(float)),
                                         diff_in));
    float *got = from_device(out, num_out * sizeof(float));
    float *got_diff = from_device(diff_in, num_in * sizeof(float));
    for (size_t i = 0; i < num_out; i++)
        CU_ASSERT_DOUBLE_EQUAL(got[i], wanted[i], 1e-6);
    for (size_t i = 0; i < num_in; i++)
        CU_ASSERT_DOUBLE_EQUAL(got_diff[i], wanted_diff[i], 4e-6);
    free(in), free(diff_out), free(wanted), free(wanted_diff), free(got), free(got_diff);
    end();
}

TEST(avgpool_has_torchs_bins)
{
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(adaptive); i++)
        check_avgpool(&adaptive[i]);
}

static void check_loss(size_t n, uint32_t num_classes)
{
    float *logits = make_values(n * num_classes, 11); /* with ties */
    uint32_t *labels = malloc(n * sizeof(*labels));
    struct sluice_cuda_sums wanted = {100, 10, 20}; /* it adds */
    double *wanted_diff = malloc(n * num_classes * sizeof(double));
    const struct sluice_cuda_sums before = wanted;
    for (size_t s = 0; s < n; s++) {
        const float *own = logits + s * num_classes;
        labels[s] = (uint32_t)(s * 7 + 3) % num_classes;
        unsigned rank = 0;
        double sum = 0;
        for (uint32_t c = 0; c < num_classes; c++) {
            sum += exp((double)own[c]);
            rank += own[c] > own[labels[s]] || (own[c] == own[labels[s]] && c < labels[s]);
        }
        wanted.loss += log(sum) - own[labels[s]];
        wanted.top1 += rank < 1;
        wanted.top5 += rank < 5;
        for (uint32_t c = 0; c < num_classes; c++)
            wanted_diff[s * num_classes + c] =
                (exp((double)own[c]) / sum - (c == labels[s])) / (double)n;
    }
    float *diff = to_device(NULL, n * num_classes * sizeof(float));
    struct sluice_cuda_sums *sums = to_device(&before, sizeof(before));
    require(sluice_cuda_loss(NULL, to_device(logits, n * num_classes * sizeof(float)),
                             to_device(labels, n * sizeof(*labels)), n, num_classes, diff,
                             to_device(NULL, n * sizeof(*sums)), sums));
    struct sluice_cuda_sums *got = from_device(sums, sizeof(*sums));
    float *got_diff = from_device(diff, n * num_classes * sizeof(float));
    CU_ASSERT_DOUBLE_EQUAL(got->loss, wanted.loss, 1e-9 * (double)n);
    CU_ASSERT_EQUAL(got->top1, wanted.top1);
    CU_ASSERT_EQUAL(got->top5, wanted.top5);
    for (size_t i = 0; i < n * num_classes; i++)
        CU_ASSERT_DOUBLE_EQUAL(got_diff[i] * (double)n, wanted_diff[i] * (double)n, 1e-7);
    free(logits), free(labels), free(wanted_diff), free(got), free(got_diff);
    end();
}

TEST(loss_is_cross_entropy_and_counts_hits)
{
    check_loss(5, 10);
    check_loss(300, 7);
    check_loss(3, 1000);
    check_loss(1, 1);
}

/* exp() of these overflows unless the maximum is taken off first. */
TEST(loss_of_large_logits_is_finite)
{
    const float logits[3] = {1000, 999, -1000};
    const uint32_t label = 1;
    struct sluice_cuda_sums *sums = to_device(&(struct sluice_cuda_sums){0}, sizeof(*sums));
    require(sluice_cuda_loss(NULL, to_device(logits, sizeof(logits)),
                             to_device(&label, sizeof(label)), 1, 3, NULL,
                             to_device(NULL, sizeof(*sums)), sums));
    struct sluice_cuda_sums *got = from_device(sums, sizeof(*sums));
    CU_ASSERT_DOUBLE_EQUAL(got->loss, 1 + log1p(exp(-1)), 1e-12);
    CU_ASSERT(got->top1 == 0 && got->top5 == 1);
    free(got);
    end();
}

TEST(sgd_rounds_as_the_cpu_does)
{
    enum { COUNT = 5003 };
    const float lr = 0.013f, momentum = 0.9f, weight_decay = 3e-4f;
    float *w = make_values(COUNT, 12), *m = make_values(COUNT, 13), *g = make_values(COUNT, 14);
    for (size_t i = 0; i < COUNT; i++) {
        w[i] *= 0.1f;
        m[i] *= 0.3f;
        g[i] *= 0.7f;
    }
    float *device_w = to_device(w, COUNT * sizeof(float));
    float *device_m = to_device(m, COUNT * sizeof(float));
    require(sluice_cuda_sgd(NULL, device_w, device_m, to_device(g, COUNT * sizeof(float)), COUNT,
                            lr, momentum, weight_decay));
    float *got_w = from_device(device_w, COUNT * sizeof(float));
    float *got_m = from_device(device_m, COUNT * sizeof(float));
    for (size_t i = 0; i < COUNT; i++) {
        m[i] = momentum * m[i] + (g[i] + weight_decay * w[i]);
        w[i] -= lr * m[i];
    }
    CU_ASSERT(train_test_same_bits(got_m, m, COUNT * sizeof(float)));
    CU_ASSERT(train_test_same_bits(got_w, w, COUNT * sizeof(float)));
    free(w), free(m), free(g), free(got_w), free(got_m);
    end();
}

/* Past 2^30 elements indices have 64 bits. */
TEST(kernels_reach_beyond_32_bits)
{
    const size_t count = ((size_t)1 << 32) + 3; /* 1 modulo 3 */
    const float bias[3] = {1, 2, 3};
    float *values = NULL;
    if (cudaMalloc((void **)&values, count * sizeof(float)) != cudaSuccess) {
        cudaGetLastError();
        printf("(no %zu GB on this device) ", count * sizeof(float) >> 30);
        return;
    }
    require(cudaMemset(values, 0, count * sizeof(float)));
    require(sluice_cuda_bias(NULL, values, to_device(bias, sizeof(bias)), count, 3, true));
    const size_t indices[] = {0, 1, 2, 1u << 31, (size_t)1 << 32, count - 2, count - 1};
    const float wanted[] = {1, 2, 3, 3, 2, 3, 1};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(indices); i++) {
        float got = 0;
        require(cudaMemcpy(&got, values + indices[i], sizeof(got), cudaMemcpyDeviceToHost));
        CU_ASSERT_EQUAL(got, wanted[i]);
    }
    cudaFree(values);
    end();
}

int main(void)
{
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error || count < 1)
        sluice_test_skip(cudaGetErrorString(error ? error : cudaErrorNoDevice));
    return sluice_test_main();
}
