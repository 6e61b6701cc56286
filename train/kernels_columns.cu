#include "train/kernels_device.cuh"

/* Sums over the columns of a matrix, two of them in one pass: blocks of 32 columns sum chunks of
 * rows, then one block of 32 columns the chunks.  An Op adds what an element contributes, a Finish
 * makes of a column's sums what is wanted. */

namespace
{

constexpr unsigned COLUMNS = 32, SUM_ROWS = 8, FINISH_ROWS = 32, MAX_SUM_BLOCKS = 2048;

template <typename Op>
__global__ void column_sums_kernel(Op op, size_t rows, size_t num_c, size_t chunk,
                                   double2 *__restrict__ partials)
{
    __shared__ double2 shared[SUM_ROWS][COLUMNS];
    const size_t c = (size_t)blockIdx.x * COLUMNS + threadIdx.x;
    double2 sums = {0, 0};
    if (c < num_c) {
        op.begin(c);
        const size_t start = blockIdx.y * chunk;
        const size_t end = start + chunk < rows ? start + chunk : rows;
#pragma unroll 4
        for (size_t row = start + threadIdx.y; row < end; row += SUM_ROWS)
            op.add(row * num_c + c, sums);
    }
    shared[threadIdx.y][threadIdx.x] = sums;
    __syncthreads();
    if (threadIdx.y == 0 && c < num_c) {
        for (unsigned i = 1; i < SUM_ROWS; i++) {
            sums.x += shared[i][threadIdx.x].x;
            sums.y += shared[i][threadIdx.x].y;
        }
        partials[blockIdx.y * num_c + c] = sums;
    }
}

template <typename Finish>
__global__ void column_finish_kernel(Finish finish, size_t num_chunks, size_t num_c,
                                     const double2 *__restrict__ partials)
{
    __shared__ double2 shared[FINISH_ROWS][COLUMNS];
    const size_t c = (size_t)blockIdx.x * COLUMNS + threadIdx.x;
    double2 sums = {0, 0};
    for (size_t i = threadIdx.y; c < num_c && i < num_chunks; i += FINISH_ROWS) {
        sums.x += partials[i * num_c + c].x;
        sums.y += partials[i * num_c + c].y;
    }
    shared[threadIdx.y][threadIdx.x] = sums;
    __syncthreads();
    if (threadIdx.y == 0 && c < num_c) {
        for (unsigned i = 1; i < FINISH_ROWS; i++) {
            sums.x += shared[i][threadIdx.x].x;
            sums.y += shared[i][threadIdx.x].y;
        }
        finish(c, sums);
    }
}

template <typename Op, typename Finish>
cudaError_t column_sums(cudaStream_t stream, Op op, Finish finish, size_t rows, size_t num_c,
                        double *scratch)
{
    const unsigned column_blocks = (unsigned)((num_c + COLUMNS - 1) / COLUMNS);
    const size_t wanted = (rows + SUM_ROWS * 8 - 1) / (SUM_ROWS * 8);
    const size_t room = column_blocks < MAX_SUM_BLOCKS ? MAX_SUM_BLOCKS / column_blocks : 1;
    const size_t chunk =
        (rows + (wanted < room ? wanted : room) - 1) / (wanted < room ? wanted : room);
    const unsigned num_chunks = (unsigned)((rows + chunk - 1) / chunk);
    double2 *partials = (double2 *)scratch;
    column_sums_kernel<<<dim3(column_blocks, num_chunks), dim3(COLUMNS, SUM_ROWS), 0, stream>>>(
        op, rows, num_c, chunk, partials);
    column_finish_kernel<<<column_blocks, dim3(COLUMNS, FINISH_ROWS), 0, stream>>>(
        finish, num_chunks, num_c, partials);
    return cudaGetLastError();
}

struct bias_op {
    float *diffs;
    const float *values;
    __device__ void begin(size_t)
    {
    }
    __device__ void add(size_t i, double2 &sums)
    {
        float diff = diffs[i];
        if (values && values[i] <= 0)
            diffs[i] = diff = 0;
        sums.x += diff;
    }
};

struct bias_finish {
    float *diff_bias;
    __device__ void operator()(size_t c, double2 sums)
    {
        diff_bias[c] = (float)sums.x;
    }
};

/* Forward and backward pass must get the same bits: the backward pass computes the output again to
 * see where the relu was 0. */
__device__ float normalise(float value, float mean, float scale, float bias)
{
    return __fmaf_rn(value - mean, scale, bias);
}

struct moments_op {
    const float *in;
    __device__ void begin(size_t)
    {
    }
    __device__ void add(size_t i, double2 &sums)
    {
        const double value = in[i];
        sums.x += value;
        sums.y += value * value;
    }
};

struct moments_finish {
    struct sluice_cuda_batchnorm bn;
    double rows;
    __device__ void operator()(size_t c, double2 sums)
    {
        const double mean = sums.x / rows;
        const double variance = fmax(sums.y / rows - mean * mean, 0.0);
        const double unbias = rows > 1 ? rows / (rows - 1) : 1;
        bn.mean[c] = (float)mean;
        bn.inverse_deviation[c] = (float)(1 / sqrt(variance + bn.epsilon));
        bn.running_mean[c] = (float)((1 - bn.momentum) * bn.running_mean[c] + bn.momentum * mean);
        bn.running_var[c] =
            (float)((1 - bn.momentum) * bn.running_var[c] + bn.momentum * unbias * variance);
    }
};

struct batchnorm_diff_op {
    struct sluice_cuda_batchnorm bn;
    const float *in, *diff_out;
    float mean, inverse, scale, bias;
    __device__ void begin(size_t c)
    {
        mean = bn.mean[c];
        inverse = bn.inverse_deviation[c];
        scale = __fmul_rn(inverse, bn.weight[c]);
        bias = bn.bias[c];
    }
    __device__ void add(size_t i, double2 &sums)
    {
        const float value = in[i], diff = diff_out[i];
        if (bn.relu && normalise(value, mean, scale, bias) <= 0)
            return;
        sums.x += diff;
        sums.y += diff * ((value - mean) * inverse);
    }
};

struct batchnorm_diff_finish {
    float *diff_weight, *diff_bias;
    __device__ void operator()(size_t c, double2 sums)
    {
        diff_bias[c] = (float)sums.x;
        diff_weight[c] = (float)sums.y;
    }
};

__global__ void running_kernel(struct sluice_cuda_batchnorm bn)
{
    for (size_t c = first_index<size_t>(); c < bn.num_c; c += index_stride<size_t>()) {
        bn.mean[c] = bn.running_mean[c];
        bn.inverse_deviation[c] = (float)(1 / sqrt((double)bn.running_var[c] + bn.epsilon));
    }
}

/* A grid whose stride is a multiple of num_c / 4 float4s keeps each thread at its columns. */
unsigned blocks_for_columns(size_t count4, uint32_t num_c)
{
    uint32_t a = BLOCK, b = num_c / 4;
    while (b) {
        const uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    const unsigned step = num_c / 4 / a;
    return (blocks_for(count4, 4096) + step - 1) / step * step;
}

struct columns4 { /* four columns of a batchnorm */
    float mean[4], inverse[4], scale[4], bias[4];
    __device__ columns4(const struct sluice_cuda_batchnorm &bn, uint32_t c)
    {
        for (int k = 0; k < 4; k++) {
            mean[k] = bn.mean[c + k];
            inverse[k] = bn.inverse_deviation[c + k];
            scale[k] = __fmul_rn(inverse[k], bn.weight[c + k]);
            bias[k] = bn.bias[c + k];
        }
    }
};

__global__ void normalise_kernel(struct sluice_cuda_batchnorm bn, size_t count4,
                                 const float4 *__restrict__ in, float4 *__restrict__ out)
{
    size_t i = first_index<size_t>();
    const columns4 p(bn, (uint32_t)(i % (bn.num_c / 4)) * 4);
    for (; i < count4; i += index_stride<size_t>()) {
        const float4 v = in[i];
        out[i] = {at_least_0(normalise(v.x, p.mean[0], p.scale[0], p.bias[0]), bn.relu),
                  at_least_0(normalise(v.y, p.mean[1], p.scale[1], p.bias[1]), bn.relu),
                  at_least_0(normalise(v.z, p.mean[2], p.scale[2], p.bias[2]), bn.relu),
                  at_least_0(normalise(v.w, p.mean[3], p.scale[3], p.bias[3]), bn.relu)};
    }
}

/* dx = scale * (dy - mean(dy) - x^ * mean(dy * x^)), x^ the normalised input. */
__global__ void batchnorm_diff_kernel(struct sluice_cuda_batchnorm bn, size_t count4, float rows,
                                      const float4 *in, const float4 *diff_out, float4 *diff_in,
                                      const float *diff_weight, const float *diff_bias)
{
    size_t i = first_index<size_t>();
    const uint32_t c = (uint32_t)(i % (bn.num_c / 4)) * 4;
    const columns4 p(bn, c);
    float mean_diff[4], mean_product[4];
    for (int k = 0; k < 4; k++) {
        mean_diff[k] = diff_bias[c + k] / rows;
        mean_product[k] = diff_weight[c + k] / rows;
    }
    for (; i < count4; i += index_stride<size_t>()) {
        const float4 v4 = in[i], d4 = diff_out[i];
        const float v[4] = {v4.x, v4.y, v4.z, v4.w};
        float d[4] = {d4.x, d4.y, d4.z, d4.w};
        for (int k = 0; k < 4; k++) {
            if (bn.relu && normalise(v[k], p.mean[k], p.scale[k], p.bias[k]) <= 0)
                d[k] = 0;
            const float normalised = (v[k] - p.mean[k]) * p.inverse[k];
            d[k] = p.scale[k] * (d[k] - mean_diff[k] - normalised * mean_product[k]);
        }
        diff_in[i] = {d[0], d[1], d[2], d[3]};
    }
}

} // namespace

size_t sluice_cuda_scratch(size_t num_c)
{
    const size_t most = (size_t)MAX_SUM_BLOCKS * COLUMNS;
    return (num_c > most ? num_c : most) * sizeof(double2);
}

cudaError_t sluice_cuda_bias_backward(cudaStream_t stream, float *diffs, const float *values,
                                      size_t rows, size_t num_c, float *diff_bias, double *scratch)
{
    return column_sums(stream, bias_op{diffs, values}, bias_finish{diff_bias}, rows, num_c,
                       scratch);
}

static cudaError_t normalise_all(cudaStream_t stream, const struct sluice_cuda_batchnorm *bn,
                                 size_t rows, const float *in, float *out)
{
    const size_t count4 = rows * bn->num_c / 4;
    normalise_kernel<<<blocks_for_columns(count4, bn->num_c), BLOCK, 0, stream>>>(
        *bn, count4, (const float4 *)in, (float4 *)out);
    return cudaGetLastError();
}

cudaError_t sluice_cuda_batchnorm_train(cudaStream_t stream, const struct sluice_cuda_batchnorm *bn,
                                        size_t rows, const float *in, float *out)
{
    const cudaError_t error = column_sums(stream, moments_op{in}, moments_finish{*bn, (double)rows},
                                          rows, bn->num_c, bn->scratch);
    return error ? error : normalise_all(stream, bn, rows, in, out);
}

cudaError_t sluice_cuda_batchnorm_evaluate(cudaStream_t stream,
                                           const struct sluice_cuda_batchnorm *bn, size_t rows,
                                           const float *in, float *out)
{
    running_kernel<<<blocks_for(bn->num_c), BLOCK, 0, stream>>>(*bn);
    return normalise_all(stream, bn, rows, in, out);
}

cudaError_t sluice_cuda_batchnorm_backward(cudaStream_t stream,
                                           const struct sluice_cuda_batchnorm *bn, size_t rows,
                                           const float *in, const float *diff_out, float *diff_in,
                                           float *diff_weight, float *diff_bias)
{
    const cudaError_t error =
        column_sums(stream, batchnorm_diff_op{*bn, in, diff_out, 0, 0, 0, 0},
                    batchnorm_diff_finish{diff_weight, diff_bias}, rows, bn->num_c, bn->scratch);
    if (error)
        return error;
    const size_t count4 = rows * bn->num_c / 4;
    batchnorm_diff_kernel<<<blocks_for_columns(count4, bn->num_c), BLOCK, 0, stream>>>(
        *bn, count4, (float)rows, (const float4 *)in, (const float4 *)diff_out, (float4 *)diff_in,
        diff_weight, diff_bias);
    return cudaGetLastError();
}
