#include "train/cuda/kernels_cuda.h"

#include "kernels_support.h"
#include "support/test.h"

#include <math.h>

/* Batch norm and biases against loops in double. */

#define FOR_TYPES(type)                                                                            \
    for (enum sluice_cuda_type type = SLUICE_CUDA_F32; type < KERNELS_NUM_TYPES; type++)

#define EPSILON 1e-5
#define MOMENTUM 0.1

static void check_bias(enum sluice_cuda_type type, size_t rows, size_t num_c, bool relu)
{
    const size_t count = rows * num_c;
    float *values = kernels_make_scaled(type, count, 1, 0.7, 0), *bias = kernels_make(num_c, 2);
    float *wanted = malloc(count * sizeof(*wanted));
    values[count / 2] = NAN;
    for (size_t i = 0; i < count; i++) {
        const float sum = values[i] + bias[i % num_c];
        wanted[i] = kernels_round(type, relu && sum < 0 ? 0 : sum);
    }
    void *device = kernels_tensor(type, values, count);
    kernels_require(sluice_cuda_bias(
        NULL, type, device, kernels_to_device(bias, num_c * sizeof(float)), count, num_c, relu));
    float *got = kernels_values(type, device, count);
    kernels_check_same(got, wanted, count);
    free(values), free(bias), free(wanted), free(got);
    kernels_end();
}

/* With relu the gradients are masked by an output. */
static void check_bias_backward(enum sluice_cuda_type type, size_t rows, size_t num_c, bool relu)
{
    const size_t count = rows * num_c;
    float *diffs = kernels_make(count, 15), *values = kernels_make(count, 16);
    float *wanted = calloc(num_c, sizeof(*wanted)), *wanted_diffs = malloc(count * sizeof(float));
    double *sums = calloc(num_c, sizeof(*sums));
    for (size_t i = 0; i < count; i++) {
        wanted_diffs[i] = relu && values[i] <= 0 ? 0 : diffs[i];
        sums[i % num_c] += wanted_diffs[i];
    }
    for (size_t c = 0; c < num_c; c++)
        wanted[c] = (float)sums[c]; /* eighths: exact */
    void *device = kernels_tensor(type, diffs, count);
    float *device_sums = kernels_to_device(NULL, num_c * sizeof(float));
    kernels_require(sluice_cuda_bias_backward(
        NULL, type, device, relu ? kernels_tensor(type, values, count) : NULL, rows, num_c,
        device_sums, kernels_to_device(NULL, sluice_cuda_scratch(num_c))));
    float *got = kernels_values(type, device, count);
    float *got_sums = kernels_from_device(device_sums, num_c * sizeof(float));
    kernels_check_same(got, wanted_diffs, count);
    kernels_check_same(got_sums, wanted, num_c);
    free(diffs), free(values), free(wanted), free(wanted_diffs), free(sums);
    free(got), free(got_sums);
    kernels_end();
}

/* Few and many rows, columns that fill no pack, no block, and many blocks. */
static const size_t bias_sizes[][2] = {{1, 1},      {3, 7},     {1000, 33}, {20011, 64},
                                       {5, 70001},  {363, 5},   {7, 24},    {2, 4096},
                                       {1000, 320}, {4099, 96}, {64, 1000}};

TEST(bias_is_added_by_channel_and_may_end_in_a_relu)
{
    FOR_TYPES(type)
    {
        for (size_t k = 0; k < SLUICE_ARRAY_LEN(bias_sizes); k++) {
            check_bias(type, bias_sizes[k][0], bias_sizes[k][1], false);
            check_bias(type, bias_sizes[k][0], bias_sizes[k][1], true);
        }
    }
}

TEST(biases_gradients_are_sums_of_columns)
{
    FOR_TYPES(type)
    {
        for (size_t k = 0; k < SLUICE_ARRAY_LEN(bias_sizes); k++) {
            check_bias_backward(type, bias_sizes[k][0], bias_sizes[k][1], false);
            check_bias_backward(type, bias_sizes[k][0], bias_sizes[k][1], true);
        }
    }
}

/* What a test of batch norm is made of, on the host, and norm on the device. */
struct norm_case {
    enum sluice_cuda_type type;
    size_t rows, count;
    uint32_t num_c;
    float *in, *add, *diff, *more; /* add, more: or NULL */
    float *weight, *bias;
    struct sluice_cuda_norm norm;
    const void *device_in;
    void *out;
    /* Of the channels, in double. */
    double *mean, *inverse, *unbiased;
    double *wanted; /* of `count` */
};

static void find_moments(struct norm_case *t)
{
    for (size_t c = 0; c < t->num_c; c++) {
        double sum = 0, squares = 0;
        for (size_t i = c; i < t->count; i += t->num_c)
            sum += t->in[i];
        t->mean[c] = sum / (double)t->rows;
        for (size_t i = c; i < t->count; i += t->num_c)
            squares += (t->in[i] - t->mean[c]) * (t->in[i] - t->mean[c]);
        t->inverse[c] = 1 / sqrt(squares / (double)t->rows + EPSILON);
        t->unbiased[c] = t->rows > 1 ? squares / (double)(t->rows - 1) : 0;
    }
}

static struct norm_case make_case(enum sluice_cuda_type type, size_t rows, uint32_t num_c,
                                  bool relu, bool adds, bool has_more, double offset)
{
    struct norm_case t = {.type = type, .rows = rows, .num_c = num_c, .count = rows * num_c};
    const size_t row = num_c * sizeof(float);
    t.in = kernels_make_scaled(type, t.count, 17, 0.37, offset);
    for (size_t i = 0; i < t.count; i++)
        t.in[i] = kernels_round(type, t.in[i] + (double)(i / num_c % 7) * 0.011);
    t.add = adds ? kernels_make_scaled(type, t.count, 25, 0.6, 0.1) : NULL;
    t.diff = kernels_make_scaled(type, t.count, 18, 0.77, 0.02);
    t.more = has_more ? kernels_make_scaled(type, t.count, 26, 0.31, 0) : NULL;
    t.weight = kernels_make(num_c, 19);
    t.bias = kernels_make(num_c, 20);
    t.mean = calloc(num_c, sizeof(double));
    t.inverse = calloc(num_c, sizeof(double));
    t.unbiased = calloc(num_c, sizeof(double));
    t.wanted = calloc(t.count, sizeof(double));
    float *ones = malloc(row);
    for (size_t c = 0; c < num_c; c++)
        ones[c] = 1;
    t.norm = (struct sluice_cuda_norm){
        .num_c = num_c,
        .weight = kernels_to_device(t.weight, row),
        .bias = kernels_to_device(t.bias, row),
        .running_mean = kernels_to_device(ones, row),
        .running_var = kernels_to_device(ones, row),
        .mean = kernels_to_device(NULL, row),
        .inverse_deviation = kernels_to_device(NULL, row),
        .epsilon = EPSILON,
        .momentum = MOMENTUM,
        .relu = relu,
        .scratch = kernels_to_device(NULL, sluice_cuda_scratch(num_c)),
    };
    free(ones);
    t.device_in = kernels_tensor(type, t.in, t.count);
    t.out = kernels_tensor(type, t.add, t.count);
    find_moments(&t);
    return t;
}

static void end_case(struct norm_case *t)
{
    free(t->in), free(t->add), free(t->diff), free(t->more), free(t->weight), free(t->bias);
    free(t->mean), free(t->inverse), free(t->unbiased), free(t->wanted);
    kernels_end();
}

/* The means that a channel's values are shifted by are rounded to float32, which counts as much
 * more as its deviation is small; this is for values of a few units. */
static double tolerance_of(const double *inverse, size_t num_c)
{
    double most = 0;
    for (size_t c = 0; c < num_c; c++)
        most = fmax(most, inverse[c]);
    return 1e-5 + 6e-7 * most;
}

/* `got` against normalisation with these statistics, + add, relu. */
static void check_output(const struct norm_case *t, const float *got, const double *mean,
                         const double *inverse)
{
    for (size_t i = 0; i < t->count; i++) {
        const size_t c = i % t->num_c;
        double y = (t->in[i] - mean[c]) * inverse[c] * t->weight[c] + t->bias[c];
        y += t->add ? t->add[i] : 0;
        t->wanted[i] = t->norm.relu ? fmax(y, 0) : y;
    }
    kernels_check(t->type, got, t->wanted, t->count, tolerance_of(inverse, t->num_c));
}

/* With `add`, the output is written over it. */
static float *check_forward(struct norm_case *t)
{
    const size_t row = t->num_c * sizeof(float);
    kernels_require(sluice_cuda_norm_train(NULL, t->type, &t->norm, t->rows, t->device_in,
                                           t->add ? t->out : NULL, t->out));
    float *got = kernels_values(t->type, t->out, t->count);
    float *mean = kernels_from_device(t->norm.running_mean, row);
    float *var = kernels_from_device(t->norm.running_var, row);
    check_output(t, got, t->mean, t->inverse);
    double *wanted = calloc(t->num_c, sizeof(*wanted));
    for (size_t c = 0; c < t->num_c; c++)
        wanted[c] = 1 - MOMENTUM + MOMENTUM * t->mean[c];
    kernels_check(SLUICE_CUDA_F32, mean, wanted, t->num_c, 1e-6);
    for (size_t c = 0; c < t->num_c; c++)
        wanted[c] = 1 - MOMENTUM + MOMENTUM * t->unbiased[c];
    kernels_check(SLUICE_CUDA_F32, var, wanted, t->num_c, 1e-6);
    free(mean), free(var), free(wanted);
    return got;
}

/* With the running statistics that training left. */
static void check_evaluate(struct norm_case *t)
{
    const size_t row = t->num_c * sizeof(float);
    float *mean = kernels_from_device(t->norm.running_mean, row);
    float *var = kernels_from_device(t->norm.running_var, row);
    double *means = calloc(t->num_c, sizeof(double)), *inverse = calloc(t->num_c, sizeof(double));
    for (size_t c = 0; c < t->num_c; c++) {
        means[c] = mean[c];
        inverse[c] = 1 / sqrt(var[c] + EPSILON);
    }
    void *out = kernels_tensor(t->type, NULL, t->count);
    kernels_require(
        sluice_cuda_norm_evaluate(NULL, t->type, &t->norm, t->rows, t->device_in,
                                  t->add ? kernels_tensor(t->type, t->add, t->count) : NULL, out));
    float *got = kernels_values(t->type, out, t->count);
    check_output(t, got, means, inverse);

    struct sluice_cuda_norm known = t->norm; /* has mean and inverse_deviation by now */
    known.running_mean = known.running_var = NULL;
    kernels_require(
        sluice_cuda_norm_evaluate(NULL, t->type, &known, t->rows, t->device_in,
                                  t->add ? kernels_tensor(t->type, t->add, t->count) : NULL, out));
    float *again = kernels_values(t->type, out, t->count);
    kernels_check_same(again, got, t->count);
    free(mean), free(var), free(means), free(inverse), free(got), free(again);
}

/* What a backward pass left, on the host. */
struct gradients {
    float *diff_add, *diff_in, *diff_weight, *diff_bias;
};

static void free_gradients(struct gradients *g)
{
    free(g->diff_add), free(g->diff_in), free(g->diff_weight), free(g->diff_bias);
}

/* in_place: diff_in, or with has_add diff_add, is diff_out. */
static struct gradients run_backward(const struct norm_case *t, const void *out, bool has_add,
                                     bool in_place)
{
    const size_t row = t->num_c * sizeof(float);
    void *diff_out = kernels_tensor(t->type, t->diff, t->count);
    void *other = in_place ? diff_out : kernels_tensor(t->type, NULL, t->count);
    void *diff_add = has_add ? other : NULL;
    void *diff_in = has_add ? kernels_tensor(t->type, NULL, t->count) : other;
    float *diff_weight = kernels_to_device(NULL, row), *diff_bias = kernels_to_device(NULL, row);
    kernels_require(
        sluice_cuda_norm_backward(NULL, t->type, &t->norm, t->rows, t->device_in, out, diff_out,
                                  t->more ? kernels_tensor(t->type, t->more, t->count) : NULL,
                                  diff_add, diff_in, diff_weight, diff_bias));
    return (struct gradients){
        .diff_add = has_add ? kernels_values(t->type, diff_add, t->count) : NULL,
        .diff_in = kernels_values(t->type, diff_in, t->count),
        .diff_weight = kernels_from_device(diff_weight, row),
        .diff_bias = kernels_from_device(diff_bias, row),
    };
}

/* d, from the output that the forward pass wrote: it may differ from the reference near 0. */
static float *find_d(const struct norm_case *t, const float *out)
{
    float *d = calloc(t->count, sizeof(*d));
    for (size_t i = 0; i < t->count; i++) {
        d[i] = t->more ? kernels_round(t->type, t->diff[i] + t->more[i]) : t->diff[i];
        d[i] = t->norm.relu && out[i] <= 0 ? 0 : d[i];
    }
    return d;
}

static void check_gradients(const struct norm_case *t, const struct gradients *got, const float *d)
{
    const double rows = (double)t->rows;
    float *scaled = malloc(t->count * sizeof(*scaled));
    size_t num_off = 0;
    for (size_t c = 0; c < t->num_c; c++) {
        double sum = 0, product = 0;
        for (size_t i = c; i < t->count; i += t->num_c) {
            sum += d[i];
            product += d[i] * (t->in[i] - t->mean[c]) * t->inverse[c];
        }
        const double tolerance = 1e-6 * rows + 4e-5 + 6e-7 * t->inverse[c] * (fabs(sum) + 1);
        num_off += !(fabs(got->diff_bias[c] - sum) <= tolerance);
        num_off += !(fabs(got->diff_weight[c] - product) <= tolerance);
        for (size_t i = c; i < t->count; i += t->num_c) {
            const double normalised = (t->in[i] - t->mean[c]) * t->inverse[c];
            t->wanted[i] = t->weight[c] * (d[i] - sum / rows - normalised * product / rows);
            scaled[i] = (float)(got->diff_in[i] / t->inverse[c]);
        }
    }
    CU_ASSERT_EQUAL(num_off, 0);
    kernels_check(t->type, scaled, t->wanted, t->count, tolerance_of(t->inverse, t->num_c));
    if (got->diff_add)
        kernels_check_same(got->diff_add, d, t->count);
    free(scaled);
}

static void check_backward(const struct norm_case *t, const float *out)
{
    float *d = find_d(t, out);
    for (int k = 0; k < 8; k++) {
        const bool has_add = k & 1, in_place = k & 2, passes_out = k & 4;
        if (!passes_out && t->norm.relu && t->add)
            continue; /* the output cannot be had from `in` alone */
        struct gradients got = run_backward(t, passes_out ? t->out : NULL, has_add, in_place);
        check_gradients(t, &got, d);
        struct gradients again = run_backward(t, passes_out ? t->out : NULL, has_add, in_place);
        CU_ASSERT(memcmp(got.diff_in, again.diff_in, t->count * sizeof(float)) == 0);
        CU_ASSERT(memcmp(got.diff_weight, again.diff_weight, t->num_c * sizeof(float)) == 0);
        free_gradients(&got);
        free_gradients(&again);
    }
    free(d);
}

static void check_norm(enum sluice_cuda_type type, size_t rows, uint32_t num_c)
{
    for (int k = 0; k < 8; k++) {
        struct norm_case t = make_case(type, rows, num_c, k & 1, k & 2, k & 4, 3.1);
        float *out = check_forward(&t);
        check_backward(&t, out);
        check_evaluate(&t);
        free(out);
        end_case(&t);
    }
}

/* Rows that fill no block, several turns and a rest; channels that fill no tile, one, several. */
TEST(norm_is_torchs)
{
    FOR_TYPES(type)
    {
        check_norm(type, 2, 8);
        check_norm(type, 1000, 32);
        check_norm(type, 3001, 64);
        check_norm(type, 77, 1016);
        check_norm(type, 131, 2048);
        check_norm(type, 5003, 24);
        check_norm(type, 1, 8); /* torch refuses a single row; its variance is 0 here */
    }
}

/* More than all threads of a GPU take in one turn. */
TEST(norm_takes_many_rows)
{
    FOR_TYPES(type)
    {
        struct norm_case t = make_case(type, 100003, 64, true, false, false, 3.1);
        float *out = check_forward(&t);
        float *d = find_d(&t, out);
        struct gradients got = run_backward(&t, NULL, false, true);
        check_gradients(&t, &got, d);
        free_gradients(&got);
        free(out), free(d);
        end_case(&t);
    }
}

/* In float32 the squares of these cancel down to the last bits, unless they are shifted first. */
TEST(variance_far_from_0_does_not_cancel)
{
    struct norm_case t = make_case(SLUICE_CUDA_F32, 9001, 16, false, false, false, 1000);
    kernels_require(
        sluice_cuda_norm_train(NULL, t.type, &t.norm, t.rows, t.device_in, NULL, t.out));
    float *inverse = kernels_from_device(t.norm.inverse_deviation, 16 * sizeof(float));
    kernels_check(SLUICE_CUDA_F32, inverse, t.inverse, 16, 1e-4);
    free(inverse);
    end_case(&t);
}

TEST(a_nan_reaches_output_and_gradient)
{
    FOR_TYPES(type)
    {
        struct norm_case t = make_case(type, 300, 16, true, false, false, 0);
        t.in[16 * 100 + 5] = NAN;
        t.device_in = kernels_tensor(type, t.in, t.count);
        kernels_require(
            sluice_cuda_norm_train(NULL, type, &t.norm, t.rows, t.device_in, NULL, t.out));
        struct gradients got = run_backward(&t, t.out, false, false);
        float *out = kernels_values(type, t.out, t.count);
        float *var = kernels_from_device(t.norm.running_var, 16 * sizeof(float));
        size_t num_off = 0;
        for (size_t i = 0; i < t.count; i++) {
            num_off += !isnan(out[i]) != (i % 16 != 5);
            num_off += !isnan(got.diff_in[i]) != (i % 16 != 5);
        }
        CU_ASSERT_EQUAL(num_off, 0);
        CU_ASSERT(isnan(var[5]) && !isnan(var[4]));
        free(out), free(var);
        free_gradients(&got);
        end_case(&t);
    }
}

/* Past 2^32 values. */
TEST(kernels_reach_beyond_32_bits)
{
    const size_t count = ((size_t)1 << 32) + 8;
    const float bias[8] = {1, 2, 3, 4, 5, 6, 7, -1};
    uint16_t *values = NULL;
    if (cudaMalloc((void **)&values, count * sizeof(*values)) != cudaSuccess) {
        cudaGetLastError();
        printf("(no %zu GB on this device) ", count * sizeof(*values) >> 30);
        return;
    }
    kernels_require(cudaMemset(values, 0, count * sizeof(*values)));
    kernels_require(sluice_cuda_bias(NULL, SLUICE_CUDA_BF16, values,
                                     kernels_to_device(bias, sizeof(bias)), count, 8, false));
    kernels_require(sluice_cuda_relu(NULL, SLUICE_CUDA_BF16, values, count));
    const size_t indices[] = {0, 6, 7, 1u << 31, (size_t)1 << 32, count - 2, count - 1};
    const uint16_t wanted[] = {0x3F80, 0x40E0, 0, 0x3F80, 0x3F80, 0x40E0, 0};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(indices); i++) {
        uint16_t got = 0;
        kernels_require(cudaMemcpy(&got, values + indices[i], sizeof(got), cudaMemcpyDeviceToHost));
        CU_ASSERT_EQUAL(got, wanted[i]);
    }
    cudaFree(values);
    kernels_end();
}
