#include "train/kernels_device.cuh"

/* Kernels of single elements and of pools.  Nearly all are bound by memory: one element a thread,
 * neighbours side by side.  The index type is a parameter because 64-bit divisions would make them
 * bound by arithmetic. */

namespace
{

/* Whether 32-bit indices do: one stride past the end must not wrap around. */
bool fits_32(size_t count)
{
    return count <= 1u << 30;
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

cudaError_t sluice_cuda_sgd(cudaStream_t stream, float *values, float *momenta, const float *grads,
                            size_t count, float lr, float momentum, float weight_decay)
{
    sgd_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(values, momenta, grads, count, lr, momentum,
                                                        weight_decay);
    return cudaGetLastError();
}
