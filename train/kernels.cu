#include "train/kernels_cuda.h"

/* Nearly all of these are bound by memory: one element a thread, neighbours side by side.  The
 * index type is a parameter because 64-bit divisions would make them bound by arithmetic. */

namespace
{

constexpr unsigned BLOCK = 256;

/* Blocks beyond what fills any GPU take further elements by striding. */
unsigned blocks_for(size_t count, unsigned max_blocks = 1u << 16)
{
    const size_t blocks = (count + BLOCK - 1) / BLOCK;
    return blocks < 1 ? 1 : blocks > max_blocks ? max_blocks : (unsigned)blocks;
}

/* Whether 32-bit indices do: one stride past the end must not wrap around. */
bool fits_32(size_t count)
{
    return count <= 1u << 30;
}

template <typename I> __device__ I first_index()
{
    return (I)blockIdx.x * blockDim.x + threadIdx.x;
}

template <typename I> __device__ I index_stride()
{
    return (I)gridDim.x * blockDim.x;
}

template <typename I> struct place {
    I n;
    uint32_t c, y, x;
};

template <typename I> __device__ place<I> place_of(I i, uint32_t num_c, uint32_t h, uint32_t w)
{
    place<I> p;
    p.c = (uint32_t)(i % num_c);
    i /= num_c;
    p.x = (uint32_t)(i % w);
    i /= w;
    p.y = (uint32_t)(i % h);
    p.n = i / h;
    return p;
}

template <typename I>
__device__ I offset_of(I n, uint32_t c, uint32_t y, uint32_t x, uint32_t num_c, uint32_t h,
                       uint32_t w)
{
    return ((n * h + y) * w + x) * num_c + c;
}

/* relu(value), where relu is on; a NaN stays a NaN. */
__device__ float at_least_0(float value, bool relu)
{
    return relu && value < 0 ? 0 : value;
}

__global__ void input_kernel(const uint8_t *__restrict__ pixels, const float *__restrict__ table,
                             float *__restrict__ out, size_t count)
{
    __shared__ float lut[3 * 256];
    for (unsigned i = threadIdx.x; i < 3 * 256; i += blockDim.x)
        lut[i] = table[i];
    __syncthreads();
    for (size_t i = first_index<size_t>(); i < count; i += index_stride<size_t>())
        out[i] = lut[256 * (i % 3) + pixels[i]];
}

/* Three neighbours, a pixel, in a thread. */
__global__ void
mix_input_kernel(struct sluice_mix_batch batch, const struct sluice_mix_row *__restrict__ rows,
                 const uint8_t *__restrict__ pixels, const float *__restrict__ table,
                 const float *__restrict__ quantiles, float *__restrict__ out, size_t count)
{
    for (size_t i = first_index<size_t>(); i < count; i += index_stride<size_t>()) {
        const place<size_t> p = place_of<size_t>(i, 1, batch.image_height, batch.image_width);
        for (uint32_t c = 0; c < 3; c++)
            out[3 * i + c] = sluice_mix_value(&batch, rows, pixels, table, quantiles, (uint32_t)p.n,
                                              p.y, p.x, c);
    }
}

template <typename I>
__global__ void bias_kernel(float *__restrict__ values, const float *__restrict__ bias, I count,
                            I num_c, bool relu)
{
    for (I i = first_index<I>(); i < count; i += index_stride<I>())
        values[i] = at_least_0(values[i] + bias[i % num_c], relu);
}

__global__ void relu_kernel(float *values, size_t count)
{
    for (size_t i = first_index<size_t>(); i < count; i += index_stride<size_t>())
        values[i] = at_least_0(values[i], true);
}

__global__ void relu_backward_kernel(float *__restrict__ diffs, const float *__restrict__ values,
                                     size_t count)
{
    for (size_t i = first_index<size_t>(); i < count; i += index_stride<size_t>())
        diffs[i] = values[i] <= 0 ? 0 : diffs[i];
}

__global__ void add_kernel(float *out, const float *a, const float *b, size_t count, bool relu)
{
    for (size_t i = first_index<size_t>(); i < count; i += index_stride<size_t>())
        out[i] = at_least_0(a[i] + b[i], relu);
}

__global__ void add_backward_kernel(float *__restrict__ diffs, const float *__restrict__ values,
                                    float *__restrict__ to, size_t count, bool adds)
{
    for (size_t i = first_index<size_t>(); i < count; i += index_stride<size_t>()) {
        float diff = diffs[i];
        if (values && values[i] <= 0)
            diffs[i] = diff = 0;
        to[i] = adds ? to[i] + diff : diff;
    }
}

__global__ void fill_kernel(float *out, float value, size_t count)
{
    for (size_t i = first_index<size_t>(); i < count; i += index_stride<size_t>())
        out[i] = value;
}

__global__ void dropout_kernel(float *values, size_t count, uint64_t seed, uint64_t step,
                               uint32_t layer, uint32_t drop_below, float kept)
{
    const size_t num_blocks = (count + 3) / 4;
    for (size_t block = first_index<size_t>(); block < num_blocks;
         block += index_stride<size_t>()) {
        uint32_t words[4] = {(uint32_t)block, (uint32_t)step, (uint32_t)(step >> 32),
                             0x44000000u | layer};
        sluice_mix_philox((uint32_t)seed, (uint32_t)(seed >> 32), words);
        for (size_t k = 0; k < 4 && 4 * block + k < count; k++)
            values[4 * block + k] *= words[k] < drop_below ? 0.0f : kept;
    }
}

/* Four channels a thread, as finding the place costs more than looking at one. */
template <typename I>
__global__ void maxpool_kernel(struct sluice_cuda_window w, I count, const float4 *__restrict__ in,
                               float4 *__restrict__ out, uchar4 *__restrict__ which)
{
    for (I i = first_index<I>(); i < count; i += index_stride<I>()) {
        const place<I> p = place_of(i, w.c / 4, w.out_h, w.out_w);
        const int y0 = (int)(p.y * w.stride) - (int)w.pad;
        const int x0 = (int)(p.x * w.stride) - (int)w.pad;
        float best[4];
        int best_k[4] = {-1, -1, -1, -1};
        for (int j = 0; j < (int)w.kernel; j++) {
            for (int k = 0; k < (int)w.kernel; k++) {
                const int y = y0 + j, x = x0 + k;
                if (y < 0 || x < 0 || y >= (int)w.in_h || x >= (int)w.in_w)
                    continue;
                const float4 v =
                    in[offset_of(p.n, p.c, (uint32_t)y, (uint32_t)x, w.c / 4, w.in_h, w.in_w)];
                const float values[4] = {v.x, v.y, v.z, v.w};
                for (int l = 0; l < 4; l++) {
                    if (best_k[l] < 0 || values[l] > best[l] ||
                        (isnan(values[l]) && !isnan(best[l]))) {
                        best[l] = values[l];
                        best_k[l] = j * (int)w.kernel + k;
                    }
                }
            }
        }
        out[i] = {best[0], best[1], best[2], best[3]};
        which[i] = {(unsigned char)best_k[0], (unsigned char)best_k[1], (unsigned char)best_k[2],
                    (unsigned char)best_k[3]};
    }
}

/* Each element gathers from the windows over it, in a fixed order: scattering with atomics would
 * add in any order. */
template <typename I>
__global__ void
maxpool_backward_kernel(struct sluice_cuda_window w, I count, const float4 *__restrict__ diff_out,
                        const uchar4 *__restrict__ which, float4 *__restrict__ diff_in)
{
    for (I i = first_index<I>(); i < count; i += index_stride<I>()) {
        const place<I> p = place_of(i, w.c / 4, w.in_h, w.in_w);
        const uint32_t y = p.y + w.pad, x = p.x + w.pad;
        const uint32_t y0 = y < w.kernel ? 0 : (y - w.kernel) / w.stride + 1;
        const uint32_t x0 = x < w.kernel ? 0 : (x - w.kernel) / w.stride + 1;
        const uint32_t y1 = min(y / w.stride + 1, w.out_h);
        const uint32_t x1 = min(x / w.stride + 1, w.out_w);
        float4 sum = {0, 0, 0, 0};
        for (uint32_t oy = y0; oy < y1; oy++) {
            for (uint32_t ox = x0; ox < x1; ox++) {
                const I o = offset_of(p.n, p.c, oy, ox, w.c / 4, w.out_h, w.out_w);
                const uint32_t k = (y - oy * w.stride) * w.kernel + (x - ox * w.stride);
                const uchar4 at = which[o];
                const float4 diff = diff_out[o];
                sum.x += at.x == k ? diff.x : 0;
                sum.y += at.y == k ? diff.y : 0;
                sum.z += at.z == k ? diff.z : 0;
                sum.w += at.w == k ? diff.w : 0;
            }
        }
        diff_in[i] = sum;
    }
}

__device__ void bin(uint32_t i, uint32_t in, uint32_t out, uint32_t *start, uint32_t *end)
{
    *start = i * in / out; /* sides are at most 2^13 */
    *end = ((i + 1) * in + out - 1) / out;
}

template <typename I>
__global__ void avgpool_kernel(struct sluice_cuda_window w, I count, const float *__restrict__ in,
                               float *__restrict__ out)
{
    for (I i = first_index<I>(); i < count; i += index_stride<I>()) {
        const uint32_t out_x = (uint32_t)(i % w.out_w), out_y = (uint32_t)(i / w.out_w % w.out_h);
        const I plane = i / (w.out_w * w.out_h);
        const I n = plane / w.c;
        const uint32_t c = (uint32_t)(plane % w.c);
        uint32_t y0, y1, x0, x1;
        bin(out_y, w.in_h, w.out_h, &y0, &y1);
        bin(out_x, w.in_w, w.out_w, &x0, &x1);
        float sum = 0;
        for (uint32_t y = y0; y < y1; y++) {
            for (uint32_t x = x0; x < x1; x++)
                sum += in[offset_of(n, c, y, x, w.c, w.in_h, w.in_w)];
        }
        out[i] = sum / (float)((y1 - y0) * (x1 - x0));
    }
}

template <typename I>
__global__ void avgpool_backward_kernel(struct sluice_cuda_window w, I count,
                                        const float *__restrict__ diff_out,
                                        float *__restrict__ diff_in)
{
    for (I i = first_index<I>(); i < count; i += index_stride<I>()) {
        const place<I> p = place_of(i, w.c, w.in_h, w.in_w);
        /* The bins that hold row y are those that y's own bin in the other direction covers. */
        uint32_t oy0, oy1, ox0, ox1;
        bin(p.y, w.out_h, w.in_h, &oy0, &oy1);
        bin(p.x, w.out_w, w.in_w, &ox0, &ox1);
        float sum = 0;
        for (uint32_t oy = oy0; oy < oy1; oy++) {
            for (uint32_t ox = ox0; ox < ox1; ox++) {
                uint32_t y0, y1, x0, x1;
                bin(oy, w.in_h, w.out_h, &y0, &y1);
                bin(ox, w.in_w, w.out_w, &x0, &x1);
                sum += diff_out[((p.n * w.c + p.c) * w.out_h + oy) * w.out_w + ox] /
                       (float)((y1 - y0) * (x1 - x0));
            }
        }
        diff_in[i] = sum;
    }
}

/* Sums over the columns of a matrix, two of them in one pass: blocks of 32 columns sum chunks of
 * rows, then one block of 32 columns the chunks.  An Op adds what an element contributes, a Finish
 * makes of a column's sums what is wanted. */

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

template <typename T, typename Combine>
__device__ T reduce(T value, T *shared, Combine combine) /* every thread gets the result */
{
    shared[threadIdx.x] = value;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            shared[threadIdx.x] = combine(shared[threadIdx.x], shared[threadIdx.x + half]);
        __syncthreads();
    }
    const T result = shared[0];
    __syncthreads(); /* the caller may use `shared` again */
    return result;
}

/* One block for one sample. */
__global__ void loss_kernel(const float *__restrict__ logits, const uint32_t *__restrict__ labels,
                            uint32_t num_classes, double weight, float *__restrict__ diff,
                            struct sluice_cuda_sums *__restrict__ samples)
{
    __shared__ double doubles[BLOCK];
    __shared__ uint32_t counts[BLOCK];
    const size_t start = (size_t)blockIdx.x * num_classes;
    const uint32_t label = labels[blockIdx.x];
    const float own = logits[start + label];
    double max = own;
    uint32_t rank = 0;
    for (uint32_t c = threadIdx.x; c < num_classes; c += blockDim.x) {
        const float logit = logits[start + c];
        max = fmax(max, (double)logit);
        rank += logit > own || (logit == own && c < label);
    }
    max = reduce(max, doubles, [](double a, double b) { return fmax(a, b); });
    rank = reduce(rank, counts, [](uint32_t a, uint32_t b) { return a + b; });
    double sum = 0;
    for (uint32_t c = threadIdx.x; c < num_classes; c += blockDim.x)
        sum += exp(logits[start + c] - max);
    sum = reduce(sum, doubles, [](double a, double b) { return a + b; });
    if (threadIdx.x == 0)
        samples[blockIdx.x] = {log(sum) + max - own, rank < 1, rank < 5};
    if (diff) {
        for (uint32_t c = threadIdx.x; c < num_classes; c += blockDim.x)
            diff[start + c] = (float)((exp(logits[start + c] - max) / sum - (c == label)) * weight);
    }
}

__global__ void mix_loss_kernel(struct sluice_mix_batch batch, const float *__restrict__ logits,
                                const uint32_t *__restrict__ labels, uint32_t num_classes,
                                double weight, float *__restrict__ diff,
                                struct sluice_cuda_sums *__restrict__ samples)
{
    __shared__ double doubles[BLOCK];
    __shared__ uint32_t counts[BLOCK];
    const size_t start = (size_t)blockIdx.x * num_classes;
    const uint32_t own = labels[blockIdx.x], other = labels[sluice_mix_partner(&batch, blockIdx.x)];
    const uint32_t hit = batch.own >= batch.other ? own : other;
    const float hit_logit = logits[start + hit];
    double max = hit_logit;
    uint32_t rank = 0;
    for (uint32_t c = threadIdx.x; c < num_classes; c += blockDim.x) {
        const float logit = logits[start + c];
        max = fmax(max, (double)logit);
        rank += logit > hit_logit || (logit == hit_logit && c < hit);
    }
    const auto plus = [](auto a, auto b) { return a + b; };
    max = reduce(max, doubles, [](double a, double b) { return fmax(a, b); });
    rank = reduce(rank, counts, plus);
    double sum = 0, target_sum = 0, products = 0;
    for (uint32_t c = threadIdx.x; c < num_classes; c += blockDim.x) {
        const double target = sluice_mix_target(&batch, own, other, c);
        sum += exp(logits[start + c] - max);
        target_sum += target;
        products += target * logits[start + c];
    }
    sum = reduce(sum, doubles, plus);
    target_sum = reduce(target_sum, doubles, plus);
    products = reduce(products, doubles, plus);
    if (threadIdx.x == 0)
        samples[blockIdx.x] = {target_sum * (log(sum) + max) - products, rank < 1, rank < 5};
    for (uint32_t c = threadIdx.x; c < num_classes; c += blockDim.x) {
        const double target = sluice_mix_target(&batch, own, other, c);
        diff[start + c] =
            (float)((exp(logits[start + c] - max) / sum * target_sum - target) * weight);
    }
}

__global__ void sum_kernel(const struct sluice_cuda_sums *samples, size_t num_samples,
                           struct sluice_cuda_sums *sums)
{
    __shared__ double doubles[BLOCK];
    __shared__ unsigned long long counts[BLOCK];
    double loss = 0;
    unsigned long long top1 = 0, top5 = 0;
    for (size_t i = threadIdx.x; i < num_samples; i += blockDim.x) {
        loss += samples[i].loss;
        top1 += samples[i].top1;
        top5 += samples[i].top5;
    }
    const auto plus = [](auto a, auto b) { return a + b; };
    loss = reduce(loss, doubles, plus);
    top1 = reduce(top1, counts, plus);
    top5 = reduce(top5, counts, plus);
    if (threadIdx.x == 0) {
        sums->loss += loss;
        sums->top1 += top1;
        sums->top5 += top5;
    }
}

__global__ void sgd_kernel(float *__restrict__ values, float *__restrict__ momenta,
                           const float *__restrict__ grads, size_t count, float lr, float momentum,
                           float weight_decay)
{
    for (size_t i = first_index<size_t>(); i < count; i += index_stride<size_t>()) {
        const float w = values[i];
        const float decayed = __fadd_rn(grads[i], __fmul_rn(weight_decay, w));
        const float m = __fadd_rn(__fmul_rn(momentum, momenta[i]), decayed);
        momenta[i] = m;
        values[i] = __fsub_rn(w, __fmul_rn(lr, m));
    }
}

} // namespace

/* Calls kernel<index type> for `count` elements. */
#define LAUNCH_WINDOW(kernel, window, larger, count, ...)                                          \
    do {                                                                                           \
        const unsigned blocks = blocks_for(count);                                                 \
        if (fits_32(larger))                                                                       \
            kernel<uint32_t>                                                                       \
                <<<blocks, BLOCK, 0, stream>>>(*(window), (uint32_t)(count), __VA_ARGS__);         \
        else                                                                                       \
            kernel<uint64_t><<<blocks, BLOCK, 0, stream>>>(*(window), (count), __VA_ARGS__);       \
        return cudaGetLastError();                                                                 \
    } while (0)

static size_t in_count(const struct sluice_cuda_window *w, size_t num_samples)
{
    return num_samples * w->c * w->in_h * w->in_w;
}

static size_t out_count(const struct sluice_cuda_window *w, size_t num_samples)
{
    return num_samples * w->c * w->out_h * w->out_w;
}

static size_t larger_count(const struct sluice_cuda_window *w, size_t num_samples)
{
    const size_t in = in_count(w, num_samples), out = out_count(w, num_samples);
    return in > out ? in : out;
}

size_t sluice_cuda_scratch(size_t num_c)
{
    const size_t most = (size_t)MAX_SUM_BLOCKS * COLUMNS;
    return (num_c > most ? num_c : most) * sizeof(double2);
}

cudaError_t sluice_cuda_input(cudaStream_t stream, const uint8_t *pixels, const float *table,
                              float *out, size_t count)
{
    /* Few blocks, each of which loads the table. */
    input_kernel<<<blocks_for(count, 2048), BLOCK, 0, stream>>>(pixels, table, out, count);
    return cudaGetLastError();
}

cudaError_t sluice_cuda_mix_input(cudaStream_t stream, const struct sluice_mix_batch *batch,
                                  const struct sluice_mix_row *rows, const uint8_t *pixels,
                                  const float *table, const float *quantiles, float *out)
{
    const size_t count = (size_t)batch->n * batch->image_height * batch->image_width;
    mix_input_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*batch, rows, pixels, table,
                                                              quantiles, out, count);
    return cudaGetLastError();
}

cudaError_t sluice_cuda_bias(cudaStream_t stream, float *values, const float *bias, size_t count,
                             size_t num_c, bool relu)
{
    if (fits_32(count))
        bias_kernel<uint32_t><<<blocks_for(count), BLOCK, 0, stream>>>(
            values, bias, (uint32_t)count, (uint32_t)num_c, relu);
    else
        bias_kernel<uint64_t>
            <<<blocks_for(count), BLOCK, 0, stream>>>(values, bias, count, num_c, relu);
    return cudaGetLastError();
}

cudaError_t sluice_cuda_bias_backward(cudaStream_t stream, float *diffs, const float *values,
                                      size_t rows, size_t num_c, float *diff_bias, double *scratch)
{
    return column_sums(stream, bias_op{diffs, values}, bias_finish{diff_bias}, rows, num_c,
                       scratch);
}

cudaError_t sluice_cuda_relu(cudaStream_t stream, float *values, size_t count)
{
    relu_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(values, count);
    return cudaGetLastError();
}

cudaError_t sluice_cuda_relu_backward(cudaStream_t stream, float *diffs, const float *values,
                                      size_t count)
{
    relu_backward_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(diffs, values, count);
    return cudaGetLastError();
}

cudaError_t sluice_cuda_add(cudaStream_t stream, float *out, const float *a, const float *b,
                            size_t count, bool relu)
{
    add_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(out, a, b, count, relu);
    return cudaGetLastError();
}

cudaError_t sluice_cuda_add_backward(cudaStream_t stream, float *diffs, const float *values,
                                     float *to, size_t count, bool adds)
{
    add_backward_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(diffs, values, to, count, adds);
    return cudaGetLastError();
}

cudaError_t sluice_cuda_fill(cudaStream_t stream, float *out, float value, size_t count)
{
    fill_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(out, value, count);
    return cudaGetLastError();
}

cudaError_t sluice_cuda_dropout(cudaStream_t stream, float *values, size_t count, uint64_t seed,
                                uint64_t step, uint32_t layer, double p)
{
    const uint32_t drop_below = (uint32_t)(p * 0x1p32);
    const float kept = (float)(1 / (1 - p));
    dropout_kernel<<<blocks_for((count + 3) / 4), BLOCK, 0, stream>>>(values, count, seed, step,
                                                                      layer, drop_below, kept);
    return cudaGetLastError();
}

cudaError_t sluice_cuda_maxpool(cudaStream_t stream, const struct sluice_cuda_window *window,
                                size_t num_samples, const float *in, float *out, uint8_t *which)
{
    LAUNCH_WINDOW(maxpool_kernel, window, larger_count(window, num_samples),
                  out_count(window, num_samples) / 4, (const float4 *)in, (float4 *)out,
                  (uchar4 *)which);
}

cudaError_t sluice_cuda_maxpool_backward(cudaStream_t stream,
                                         const struct sluice_cuda_window *window,
                                         size_t num_samples, const float *diff_out,
                                         const uint8_t *which, float *diff_in)
{
    LAUNCH_WINDOW(maxpool_backward_kernel, window, larger_count(window, num_samples),
                  in_count(window, num_samples) / 4, (const float4 *)diff_out,
                  (const uchar4 *)which, (float4 *)diff_in);
}

cudaError_t sluice_cuda_avgpool(cudaStream_t stream, const struct sluice_cuda_window *window,
                                size_t num_samples, const float *in, float *out)
{
    LAUNCH_WINDOW(avgpool_kernel, window, larger_count(window, num_samples),
                  out_count(window, num_samples), in, out);
}

cudaError_t sluice_cuda_avgpool_backward(cudaStream_t stream,
                                         const struct sluice_cuda_window *window,
                                         size_t num_samples, const float *diff_out, float *diff_in)
{
    LAUNCH_WINDOW(avgpool_backward_kernel, window, larger_count(window, num_samples),
                  in_count(window, num_samples), diff_out, diff_in);
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

cudaError_t sluice_cuda_loss(cudaStream_t stream, const float *logits, const uint32_t *labels,
                             size_t num_samples, uint32_t num_classes, float *diff,
                             struct sluice_cuda_sums *scratch, struct sluice_cuda_sums *sums)
{
    loss_kernel<<<(unsigned)num_samples, BLOCK, 0, stream>>>(
        logits, labels, num_classes, 1.0 / (double)num_samples, diff, scratch);
    sum_kernel<<<1, BLOCK, 0, stream>>>(scratch, num_samples, sums);
    return cudaGetLastError();
}

cudaError_t sluice_cuda_mix_loss(cudaStream_t stream, const struct sluice_mix_batch *batch,
                                 const float *logits, const uint32_t *labels, uint32_t num_classes,
                                 float *diff, struct sluice_cuda_sums *scratch,
                                 struct sluice_cuda_sums *sums)
{
    mix_loss_kernel<<<batch->n, BLOCK, 0, stream>>>(*batch, logits, labels, num_classes,
                                                    1.0 / batch->n, diff, scratch);
    sum_kernel<<<1, BLOCK, 0, stream>>>(scratch, batch->n, sums);
    return cudaGetLastError();
}

cudaError_t sluice_cuda_sgd(cudaStream_t stream, float *values, float *momenta, const float *grads,
                            size_t count, float lr, float momentum, float weight_decay)
{
    sgd_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(values, momenta, grads, count, lr, momentum,
                                                        weight_decay);
    return cudaGetLastError();
}
