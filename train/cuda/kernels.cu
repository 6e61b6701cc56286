#include "train/cuda/kernels_device.cuh"

/* Kernels of single values: the input, element-wise maps, SGD. */

namespace
{

/* Packs in a thread's hands at once. */
constexpr int MAP_UNROLL = 4;

/* Runs op on every pack of Op::V values, then on the values that fill no pack. */
template <typename Op> __global__ void map_kernel(Op op, size_t count)
{
    constexpr int V = Op::V;
    const size_t num_packs = count / V;
    take_packs<MAP_UNROLL>((size_t)blockIdx.x * (BLOCK * MAP_UNROLL) + threadIdx.x, BLOCK,
                           num_packs, [&](size_t i) { return op.template load_pack<V>(i); },
                           [&](size_t i, const auto &x) { op.template run<V>(i, x); });
    const size_t rest = num_packs * V + threadIdx.x;
    if (blockIdx.x == 0 && rest < count)
        op.template run<1>(rest, op.template load_pack<1>(rest));
}

template <typename Op> cudaError_t map(cudaStream_t stream, const Op &op, size_t count)
{
    const size_t blocks = ceil_div(count / Op::V, BLOCK * MAP_UNROLL);
    if (count > 0)
        map_kernel<<<(unsigned)(blocks ? blocks : 1), BLOCK, 0, stream>>>(op, count);
    return cudaGetLastError();
}

/* to[i] = F()(from[i]) */
template <typename From, typename To, typename F> struct unary_op {
    static constexpr int V = sizeof(From) == sizeof(To) ? WIDTH<From> : 4;
    const From *from;
    To *to;
    template <int N> __device__ pack<From, N> load_pack(size_t i) const
    {
        return load<N>(from, i);
    }
    template <int N> __device__ void run(size_t i, const pack<From, N> &x) const
    {
        float out[N];
#pragma unroll
        for (int k = 0; k < N; k++)
            out[k] = F()(x.at(k));
        store(to, i, out);
    }
};

template <typename T, int N> struct two_packs {
    pack<T, N> a, b;
};

/* to[i] = F()(to[i], from[i]) */
template <typename T, typename F> struct binary_op {
    static constexpr int V = WIDTH<T>;
    T *to;
    const T *from;
    template <int N> __device__ two_packs<T, N> load_pack(size_t i) const
    {
        return {load<N>((const T *)to, i), load<N>(from, i)};
    }
    template <int N> __device__ void run(size_t i, const two_packs<T, N> &x) const
    {
        float out[N];
#pragma unroll
        for (int k = 0; k < N; k++)
            out[k] = F()(x.a.at(k), x.b.at(k));
        store(to, i, out);
    }
};

struct same {
    __device__ float operator()(float value) const
    {
        return value;
    }
};

struct relu_of {
    __device__ float operator()(float value) const
    {
        return at_least_0(value, true);
    }
};

struct relu_diff {
    __device__ float operator()(float diff, float value) const
    {
        return value <= 0 ? 0 : diff;
    }
};

struct sum_of {
    __device__ float operator()(float a, float b) const
    {
        return a + b;
    }
};

/* Four values take the four words of a Philox block, as in sluice_net_dropout_mask(). */
template <typename T> struct dropout_op {
    static constexpr int V = WIDTH<T>;
    T *values;
    uint64_t seed;
    const struct sluice_cuda_step *step;
    uint32_t layer, drop_below;
    float kept;
    template <int N> __device__ pack<T, N> load_pack(size_t i) const
    {
        return load<N>(values, i);
    }
    __device__ void draw(size_t block, uint32_t (&words)[4]) const
    {
        const uint64_t number = __ldg((const unsigned long long *)&step->step);
        words[0] = (uint32_t)block;
        words[1] = (uint32_t)number;
        words[2] = (uint32_t)(number >> 32);
        words[3] = 0x44000000u | layer;
        sluice_mix_philox((uint32_t)seed, (uint32_t)(seed >> 32), words);
    }
    template <int N> __device__ void run(size_t i, const pack<T, N> &x) const
    {
        constexpr int TAKEN = N < 4 ? N : 4; /* of each block */
        float out[N];
#pragma unroll
        for (int first = 0; first < N; first += TAKEN) {
            uint32_t words[4];
            draw((i * N + first) / 4, words);
#pragma unroll
            for (int k = 0; k < TAKEN; k++) {
                const unsigned place = (unsigned)(i * N + first + k) % 4;
                const uint32_t word = place < 2 ? words[place == 1] : words[2 + (place == 3)];
                const float mask = word < drop_below ? 0.0f : kept;
                out[first + k] = x.at(first + k) * mask;
            }
        }
        store(values, i, out);
    }
};

template <typename T> struct nonfinite_op {
    static constexpr int V = WIDTH<T>;
    const T *values;
    uint32_t *flag;
    template <int N> __device__ pack<T, N> load_pack(size_t i) const
    {
        return load<N>(values, i);
    }
    template <int N> __device__ void run(size_t, const pack<T, N> &x) const
    {
        bool is_bad = false;
#pragma unroll
        for (int k = 0; k < N; k++)
            is_bad |= !isfinite(x.at(k));
        if (is_bad)
            atomicOr(flag, 1u);
    }
};

struct sgd_op {
    static constexpr int V = WIDTH<float>;
    template <int N> struct loaded {
        pack<float, N> w, m, g;
    };
    float *values, *momenta;
    const float *grads;
    bf16 *copies;
    const struct sluice_cuda_step *step;
    float momentum, weight_decay;
    const uint32_t *is_bad;
    template <int N> __device__ loaded<N> load_pack(size_t i) const
    {
        return {load<N>(values, i), load<N>(momenta, i), load<N>(grads, i)};
    }
    template <int N> __device__ void run(size_t i, const loaded<N> &x) const
    {
        if (__ldg(is_bad))
            return;
        const float lr = __ldg(&step->lr);
        float w[N], m[N];
#pragma unroll
        for (int k = 0; k < N; k++) {
            w[k] = x.w.at(k);
            const float decayed = __fadd_rn(x.g.at(k), __fmul_rn(weight_decay, w[k]));
            m[k] = __fadd_rn(__fmul_rn(momentum, x.m.at(k)), decayed);
            w[k] = __fsub_rn(w[k], __fmul_rn(lr, m[k]));
        }
        store(momenta, i, m);
        store(values, i, w);
        if (copies)
            store(copies, i, w);
    }
};

/* Pixels that a thread reads before it writes the first. */
constexpr int INPUT_UNROLL = 4;

__device__ void load_table(float (&lut)[3 * 256], const float *table)
{
    for (unsigned i = threadIdx.x; i < 3 * 256; i += blockDim.x)
        lut[i] = table[i];
    __syncthreads();
}

template <typename T, int C>
__global__ void __launch_bounds__(BLOCK)
    input_kernel(const uint8_t *__restrict__ pixels, const float *__restrict__ table,
                 T *__restrict__ out, size_t num_pixels, const uint32_t *unless)
{
    __shared__ float lut[3 * 256];
    if (*unless)
        return;
    load_table(lut, table);
    const size_t stride = (size_t)gridDim.x * BLOCK;
    for (size_t i = (size_t)blockIdx.x * BLOCK + threadIdx.x; i < num_pixels;
         i += INPUT_UNROLL * stride) {
        uint8_t x[INPUT_UNROLL][3];
#pragma unroll
        for (int u = 0; u < INPUT_UNROLL; u++) {
            for (int c = 0; c < 3; c++)
                x[u][c] = i + u * stride < num_pixels ? pixels[3 * (i + u * stride) + c] : 0;
        }
#pragma unroll
        for (int u = 0; u < INPUT_UNROLL; u++) {
            float values[C] = {};
            for (int c = 0; c < 3; c++)
                values[c] = lut[256 * c + x[u][c]];
            if (i + u * stride < num_pixels)
                store(out, i + u * stride, values);
        }
    }
}

template <typename T, int C>
__global__ void __launch_bounds__(BLOCK)
    input_rows_kernel(const float *__restrict__ rows, T *__restrict__ out, size_t num_samples,
                      size_t num_pixels)
{
    const size_t stride = (size_t)gridDim.x * BLOCK;
    for (size_t i = (size_t)blockIdx.x * BLOCK + threadIdx.x; i < num_samples * num_pixels;
         i += stride) {
        const float *row = rows + i / num_pixels * 3 * num_pixels + i % num_pixels;
        float values[C] = {};
        for (int c = 0; c < 3; c++)
            values[c] = row[c * num_pixels];
        store(out, i, values);
    }
}

__global__ void __launch_bounds__(BLOCK)
    copy_unless_kernel(uint32_t *__restrict__ to, const uint32_t *__restrict__ from, size_t count,
                       const uint32_t *unless)
{
    if (*unless)
        return;
    const size_t stride = (size_t)gridDim.x * BLOCK;
    for (size_t i = (size_t)blockIdx.x * BLOCK + threadIdx.x; i < count; i += stride)
        to[i] = from[i];
}

/* Blocks take rows of the images in turn: their number is known on the device alone. */
template <typename T, int C>
__global__ void __launch_bounds__(BLOCK)
    mix_input_kernel(const struct sluice_cuda_step *step,
                     const struct sluice_mix_row *__restrict__ rows,
                     const uint8_t *__restrict__ pixels, const float *__restrict__ table,
                     const float *__restrict__ quantiles, T *__restrict__ out, uint32_t num_samples,
                     const uint32_t *unless)
{
    __shared__ float lut[3 * 256];
    if (*unless)
        return;
    const struct sluice_mix_batch mix = step->mix;
    load_table(lut, table);
    const uint32_t height = mix.image_height, width = mix.image_width;
    for (size_t row = blockIdx.x; row < (size_t)num_samples * height; row += gridDim.x) {
        const uint32_t n = (uint32_t)(row / height), y = (uint32_t)(row % height);
        for (uint32_t x = threadIdx.x; x < width; x += BLOCK) {
            float values[C] = {};
#pragma unroll
            for (uint32_t c = 0; c < 3; c++)
                values[c] = sluice_mix_value(&mix, rows, pixels, lut, quantiles, n, y, x, c);
            store(out, row * width + x, values);
        }
    }
}

/* Each block loads the table, so as many as run at once are enough. */
unsigned input_blocks(size_t wanted)
{
    const size_t most = (size_t)num_multiprocessors() * (2048 / BLOCK);
    return (unsigned)(wanted < most ? wanted : most);
}

} // namespace

cudaError_t sluice_cuda_copy_unless(cudaStream_t stream, void *to, const void *from, size_t bytes,
                                    const uint32_t *unless)
{
    assert(bytes % 4 == 0);
    copy_unless_kernel<<<8, BLOCK, 0, stream>>>((uint32_t *)to, (const uint32_t *)from, bytes / 4,
                                                unless);
    return cudaGetLastError();
}

cudaError_t sluice_cuda_input(cudaStream_t stream, enum sluice_cuda_type type,
                              const uint8_t *pixels, const float *table, void *out,
                              size_t num_pixels, uint32_t num_c, const uint32_t *unless)
{
    assert(num_c == 4 || num_c == 8);
    return with_type(type, [&](auto t) {
        using T = decltype(t);
        const auto kernel = num_c == 4 ? input_kernel<T, 4> : input_kernel<T, 8>;
        kernel<<<input_blocks(ceil_div(num_pixels, BLOCK)), BLOCK, 0, stream>>>(
            pixels, table, (T *)out, num_pixels, unless);
        return cudaGetLastError();
    });
}

cudaError_t sluice_cuda_input_rows(cudaStream_t stream, enum sluice_cuda_type type,
                                   const float *rows, void *out, size_t num_samples,
                                   size_t num_pixels, uint32_t num_c)
{
    assert(num_c == 4 || num_c == 8);
    return with_type(type, [&](auto t) {
        using T = decltype(t);
        const auto kernel = num_c == 4 ? input_rows_kernel<T, 4> : input_rows_kernel<T, 8>;
        kernel<<<input_blocks(ceil_div(num_samples * num_pixels, BLOCK)), BLOCK, 0, stream>>>(
            rows, (T *)out, num_samples, num_pixels);
        return cudaGetLastError();
    });
}

cudaError_t sluice_cuda_mix_input(cudaStream_t stream, enum sluice_cuda_type type,
                                  const struct sluice_cuda_step *step,
                                  const struct sluice_mix_row *rows, const uint8_t *pixels,
                                  const float *table, const float *quantiles, void *out,
                                  size_t num_samples, uint32_t num_c, const uint32_t *unless)
{
    assert(num_c == 4 || num_c == 8);
    return with_type(type, [&](auto t) {
        using T = decltype(t);
        const auto kernel = num_c == 4 ? mix_input_kernel<T, 4> : mix_input_kernel<T, 8>;
        kernel<<<input_blocks(SIZE_MAX), BLOCK, 0, stream>>>(
            step, rows, pixels, table, quantiles, (T *)out, (uint32_t)num_samples, unless);
        return cudaGetLastError();
    });
}

cudaError_t sluice_cuda_relu(cudaStream_t stream, enum sluice_cuda_type type, void *values,
                             size_t count)
{
    return with_type(type, [&](auto t) {
        using T = decltype(t);
        return map(stream, unary_op<T, T, relu_of>{(T *)values, (T *)values}, count);
    });
}

cudaError_t sluice_cuda_relu_backward(cudaStream_t stream, enum sluice_cuda_type type, void *diffs,
                                      const void *values, size_t count)
{
    return with_type(type, [&](auto t) {
        using T = decltype(t);
        return map(stream, binary_op<T, relu_diff>{(T *)diffs, (const T *)values}, count);
    });
}

cudaError_t sluice_cuda_add(cudaStream_t stream, enum sluice_cuda_type type, void *to,
                            const void *from, size_t count)
{
    return with_type(type, [&](auto t) {
        using T = decltype(t);
        return map(stream, binary_op<T, sum_of>{(T *)to, (const T *)from}, count);
    });
}

cudaError_t sluice_cuda_dropout(cudaStream_t stream, enum sluice_cuda_type type, void *values,
                                size_t count, uint64_t seed, const struct sluice_cuda_step *step,
                                uint32_t layer, double p)
{
    const uint32_t drop_below = (uint32_t)(p * 0x1p32);
    const float kept = (float)(1 / (1 - p));
    return with_type(type, [&](auto t) {
        using T = decltype(t);
        return map(stream, dropout_op<T>{(T *)values, seed, step, layer, drop_below, kept}, count);
    });
}

cudaError_t sluice_cuda_to_float(cudaStream_t stream, const void *from, float *to, size_t count)
{
    return map(stream, unary_op<bf16, float, same>{(const bf16 *)from, to}, count);
}

cudaError_t sluice_cuda_from_float(cudaStream_t stream, const float *from, void *to, size_t count)
{
    return map(stream, unary_op<float, bf16, same>{from, (bf16 *)to}, count);
}

cudaError_t sluice_cuda_flag_nonfinite(cudaStream_t stream, enum sluice_cuda_type type,
                                       const void *values, size_t count, uint32_t *flag)
{
    return with_type(type, [&](auto t) {
        using T = decltype(t);
        return map(stream, nonfinite_op<T>{(const T *)values, flag}, count);
    });
}

cudaError_t sluice_cuda_sgd(cudaStream_t stream, float *values, float *momenta, const float *grads,
                            void *copies, size_t count, const struct sluice_cuda_step *step,
                            float momentum, float weight_decay, const uint32_t *is_bad)
{
    return map(stream,
               sgd_op{values, momenta, grads, (bf16 *)copies, step, momentum, weight_decay, is_bad},
               count);
}
