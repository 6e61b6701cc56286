#include "compute_client/train/kernels_cuda.h"

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

/* So far that a stride past the end does not wrap around. */
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

template <bool NHWC, typename I>
__device__ place<I> place_of(I i, uint32_t num_c, uint32_t h, uint32_t w)
{
    place<I> p;
    if (NHWC) {
        p.c = (uint32_t)(i % num_c);
        i /= num_c;
    }
    p.x = (uint32_t)(i % w);
    i /= w;
    p.y = (uint32_t)(i % h);
    i /= h;
    if (!NHWC) {
        p.c = (uint32_t)(i % num_c);
        i /= num_c;
    }
    p.n = i;
    return p;
}

template <bool NHWC, typename I>
__device__ I offset_of(I n, uint32_t c, uint32_t y, uint32_t x, uint32_t num_c, uint32_t h,
                       uint32_t w)
{
    return NHWC ? ((n * h + y) * w + x) * num_c + c : ((n * num_c + c) * h + y) * w + x;
}

template <bool NHWC>
__global__ void input_kernel(const uint8_t *__restrict__ pixels, const float *__restrict__ table,
                             float *__restrict__ out, size_t num_samples, uint32_t num_pixels)
{
    __shared__ float lut[3 * 256];
    for (unsigned i = threadIdx.x; i < 3 * 256; i += blockDim.x)
        lut[i] = table[i];
    __syncthreads();
    const size_t count = num_samples * num_pixels;
    for (size_t i = first_index<size_t>(); i < count; i += index_stride<size_t>()) {
        const size_t start =
            NHWC ? 3 * i : i / num_pixels * 3 * num_pixels + i % num_pixels;
        for (unsigned c = 0; c < 3; c++)
            out[start + c * (NHWC ? 1 : (size_t)num_pixels)] = lut[256 * c + pixels[3 * i + c]];
    }
}

template <typename I>
__global__ void bias_kernel(float *__restrict__ values, const float *__restrict__ bias, I count,
                            I inner, I num_c, bool relu)
{
    for (I i = first_index<I>(); i < count; i += index_stride<I>()) {
        const float value = values[i] + bias[(inner == 1 ? i : i / inner) % num_c];
        values[i] = relu && value < 0 ? 0 : value;
    }
}

__global__ void relu_kernel(float *values, size_t count)
{
    for (size_t i = first_index<size_t>(); i < count; i += index_stride<size_t>())
        values[i] = values[i] < 0 ? 0 : values[i];
}

__global__ void relu_backward_kernel(float *__restrict__ diffs, const float *__restrict__ values,
                                     size_t count)
{
    for (size_t i = first_index<size_t>(); i < count; i += index_stride<size_t>())
        diffs[i] = values[i] <= 0 ? 0 : diffs[i];
}

__global__ void add_kernel(float *out, const float *a, const float *b, size_t count)
{
    for (size_t i = first_index<size_t>(); i < count; i += index_stride<size_t>())
        out[i] = a[i] + b[i];
}

__global__ void fill_kernel(float *out, float value, size_t count)
{
    for (size_t i = first_index<size_t>(); i < count; i += index_stride<size_t>())
        out[i] = value;
}

/* Philox4x32-10 (Salmon and others, 2011), as lib/base/rng.c has it. */
__device__ void philox(uint32_t k0, uint32_t k1, uint32_t c[4])
{
    for (int round = 0; round < 10; round++) {
        const uint32_t high0 = __umulhi(0xD2511F53u, c[0]), low0 = 0xD2511F53u * c[0];
        const uint32_t high1 = __umulhi(0xCD9E8D57u, c[2]), low1 = 0xCD9E8D57u * c[2];
        c[0] = high1 ^ c[1] ^ k0;
        c[1] = low1;
        c[2] = high0 ^ c[3] ^ k1;
        c[3] = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

__global__ void dropout_kernel(float *values, size_t count, uint64_t seed, uint64_t step,
                               uint32_t layer, uint32_t drop_below, float kept)
{
    const size_t num_blocks = (count + 3) / 4;
    for (size_t block = first_index<size_t>(); block < num_blocks;
         block += index_stride<size_t>()) {
        uint32_t words[4] = {(uint32_t)block, (uint32_t)step, (uint32_t)(step >> 32),
                             0x44000000u | layer};
        philox((uint32_t)seed, (uint32_t)(seed >> 32), words);
        for (size_t k = 0; k < 4 && 4 * block + k < count; k++)
            values[4 * block + k] *= words[k] < drop_below ? 0.0f : kept;
    }
}

template <bool NHWC, typename I>
__global__ void maxpool_kernel(struct sluice_cuda_window w, I count, const float *__restrict__ in,
                               float *__restrict__ out, uint8_t *__restrict__ which)
{
    for (I i = first_index<I>(); i < count; i += index_stride<I>()) {
        const place<I> p = place_of<NHWC>(i, w.c, w.out_h, w.out_w);
        const int y0 = (int)(p.y * w.stride) - (int)w.pad;
        const int x0 = (int)(p.x * w.stride) - (int)w.pad;
        float best = 0;
        int best_k = -1;
        for (int j = 0; j < (int)w.kernel; j++) {
            for (int k = 0; k < (int)w.kernel; k++) {
                const int y = y0 + j, x = x0 + k;
                if (y < 0 || x < 0 || y >= (int)w.in_h || x >= (int)w.in_w)
                    continue;
                const float value =
                    in[offset_of<NHWC>(p.n, p.c, (uint32_t)y, (uint32_t)x, w.c, w.in_h, w.in_w)];
                if (best_k < 0 || value > best || (isnan(value) && !isnan(best))) {
                    best = value;
                    best_k = j * (int)w.kernel + k;
                }
            }
        }
        out[i] = best;
        which[i] = (uint8_t)best_k;
    }
}

/* Gathers from the windows over an element, so that nothing is added in an order of chance. */
template <bool NHWC, typename I>
__global__ void maxpool_backward_kernel(struct sluice_cuda_window w, I count,
                                        const float *__restrict__ diff_out,
                                        const uint8_t *__restrict__ which,
                                        float *__restrict__ diff_in)
{
    for (I i = first_index<I>(); i < count; i += index_stride<I>()) {
        const place<I> p = place_of<NHWC>(i, w.c, w.in_h, w.in_w);
        const uint32_t y = p.y + w.pad, x = p.x + w.pad;
        const uint32_t y0 = y < w.kernel ? 0 : (y - w.kernel) / w.stride + 1;
        const uint32_t x0 = x < w.kernel ? 0 : (x - w.kernel) / w.stride + 1;
        const uint32_t y1 = min(y / w.stride + 1, w.out_h);
        const uint32_t x1 = min(x / w.stride + 1, w.out_w);
        float sum = 0;
        for (uint32_t oy = y0; oy < y1; oy++) {
            for (uint32_t ox = x0; ox < x1; ox++) {
                const I o = offset_of<NHWC>(p.n, p.c, oy, ox, w.c, w.out_h, w.out_w);
                if (which[o] == (y - oy * w.stride) * w.kernel + (x - ox * w.stride))
                    sum += diff_out[o];
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

template <bool NHWC, typename I>
__global__ void avgpool_kernel(struct sluice_cuda_window w, I count, const float *__restrict__ in,
                               float *__restrict__ out)
{
    for (I i = first_index<I>(); i < count; i += index_stride<I>()) {
        const place<I> p = place_of<false>(i, w.c, w.out_h, w.out_w);
        uint32_t y0, y1, x0, x1;
        bin(p.y, w.in_h, w.out_h, &y0, &y1);
        bin(p.x, w.in_w, w.out_w, &x0, &x1);
        float sum = 0;
        for (uint32_t y = y0; y < y1; y++) {
            for (uint32_t x = x0; x < x1; x++)
                sum += in[offset_of<NHWC>(p.n, p.c, y, x, w.c, w.in_h, w.in_w)];
        }
        out[i] = sum / (float)((y1 - y0) * (x1 - x0));
    }
}

template <bool NHWC, typename I>
__global__ void avgpool_backward_kernel(struct sluice_cuda_window w, I count,
                                        const float *__restrict__ diff_out,
                                        float *__restrict__ diff_in)
{
    for (I i = first_index<I>(); i < count; i += index_stride<I>()) {
        const place<I> p = place_of<NHWC>(i, w.c, w.in_h, w.in_w);
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
                sum += diff_out[offset_of<false>(p.n, p.c, oy, ox, w.c, w.out_h, w.out_w)] /
                       (float)((y1 - y0) * (x1 - x0));
            }
        }
        diff_in[i] = sum;
    }
}

__global__ void running_of_one_kernel(float *mean, float *variance, const float *batch_mean,
                                      size_t num_c, double momentum)
{
    for (size_t c = first_index<size_t>(); c < num_c; c += index_stride<size_t>()) {
        mean[c] = (float)((1 - momentum) * mean[c] + momentum * batch_mean[c]);
        variance[c] = (float)((1 - momentum) * variance[c]);
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

/* Calls kernel<is_nhwc, index type> for `count` elements. */
#define LAUNCH_WINDOW(kernel, window, larger, count, ...)                                          \
    do {                                                                                           \
        const unsigned blocks = blocks_for(count);                                                 \
        if ((window)->is_nhwc && fits_32(larger))                                                  \
            kernel<true, uint32_t>                                                                 \
                <<<blocks, BLOCK, 0, stream>>>(*(window), (uint32_t)(count), __VA_ARGS__);         \
        else if ((window)->is_nhwc)                                                                \
            kernel<true, uint64_t><<<blocks, BLOCK, 0, stream>>>(*(window), (count), __VA_ARGS__); \
        else if (fits_32(larger))                                                                  \
            kernel<false, uint32_t>                                                                \
                <<<blocks, BLOCK, 0, stream>>>(*(window), (uint32_t)(count), __VA_ARGS__);         \
        else                                                                                       \
            kernel<false, uint64_t>                                                                \
                <<<blocks, BLOCK, 0, stream>>>(*(window), (count), __VA_ARGS__);                   \
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

cudaError_t sluice_cuda_input(cudaStream_t stream, const uint8_t *pixels, const float *table,
                              float *out, size_t num_samples, size_t num_pixels, bool is_nhwc)
{
    /* Few blocks, each of which loads the table. */
    const unsigned blocks = blocks_for(num_samples * num_pixels, 2048);
    if (is_nhwc)
        input_kernel<true>
            <<<blocks, BLOCK, 0, stream>>>(pixels, table, out, num_samples, (uint32_t)num_pixels);
    else
        input_kernel<false>
            <<<blocks, BLOCK, 0, stream>>>(pixels, table, out, num_samples, (uint32_t)num_pixels);
    return cudaGetLastError();
}

cudaError_t sluice_cuda_bias(cudaStream_t stream, float *values, const float *bias, size_t count,
                             size_t inner, size_t num_c, bool relu)
{
    if (fits_32(count))
        bias_kernel<uint32_t><<<blocks_for(count), BLOCK, 0, stream>>>(
            values, bias, (uint32_t)count, (uint32_t)inner, (uint32_t)num_c, relu);
    else
        bias_kernel<uint64_t><<<blocks_for(count), BLOCK, 0, stream>>>(values, bias, count, inner,
                                                                       num_c, relu);
    return cudaGetLastError();
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
                            size_t count)
{
    add_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(out, a, b, count);
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
                  out_count(window, num_samples), in, out, which);
}

cudaError_t sluice_cuda_maxpool_backward(cudaStream_t stream,
                                         const struct sluice_cuda_window *window,
                                         size_t num_samples, const float *diff_out,
                                         const uint8_t *which, float *diff_in)
{
    LAUNCH_WINDOW(maxpool_backward_kernel, window, larger_count(window, num_samples),
                  in_count(window, num_samples), diff_out, which, diff_in);
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

cudaError_t sluice_cuda_running_of_one(cudaStream_t stream, float *mean, float *variance,
                                       const float *batch_mean, size_t num_c, double momentum)
{
    running_of_one_kernel<<<blocks_for(num_c), BLOCK, 0, stream>>>(mean, variance, batch_mean,
                                                                   num_c, momentum);
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

cudaError_t sluice_cuda_sgd(cudaStream_t stream, float *values, float *momenta, const float *grads,
                            size_t count, float lr, float momentum, float weight_decay)
{
    sgd_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(values, momenta, grads, count, lr, momentum,
                                                        weight_decay);
    return cudaGetLastError();
}
