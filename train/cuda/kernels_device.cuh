#ifndef SLUICE_TRAIN_CUDA_KERNELS_DEVICE_CUH
#define SLUICE_TRAIN_CUDA_KERNELS_DEVICE_CUH

#include "train/cuda/kernels_cuda.h"

#include <assert.h>
#include <cuda_bf16.h>
#include <type_traits>

/* Shared by the kernels of kernels_cuda.h.
 *
 * Nearly all are bound by memory.  A thread moves packs of 16 bytes, neighbours side by side, and
 * asks for several before it uses the first: about 40 KiB have to be on their way to each
 * multiprocessor to hide the latency of device memory. */

using bf16 = __nv_bfloat16;

constexpr unsigned BLOCK = 256;

/* V values that are loaded and stored at once.  Words, as the compiler would keep a bf16 that it
 * knows by itself in a register of its own. */
template <typename T, int V> struct alignas(sizeof(T) * V) pack {
    static constexpr bool IS_BF16 = sizeof(T) == 2, IS_ONE = IS_BF16 && V == 1;
    static constexpr int NUM_WORDS = IS_ONE ? 1 : (int)sizeof(T) * V / 4;
    std::conditional_t<IS_ONE, uint16_t, uint32_t> words[NUM_WORDS];

    __device__ float at(int k) const
    {
        if (!IS_BF16)
            return __uint_as_float(words[k]);
        const uint32_t word = words[IS_ONE ? 0 : k / 2];
        return __uint_as_float(k % 2 ? word & 0xFFFF0000u : word << 16);
    }
};

/* Values in a pack of 16 bytes. */
template <typename T> constexpr int WIDTH = 16 / (int)sizeof(T);

template <int V, typename T> __device__ inline pack<T, V> load(const T *from, size_t i)
{
    return reinterpret_cast<const pack<T, V> *>(from)[i];
}

/* Rounds to nearest even. */
template <typename T, int V> __device__ inline void store(T *to, size_t i, const float (&values)[V])
{
    using result = pack<T, V>;
    result p;
#pragma unroll
    for (int k = 0; k < result::NUM_WORDS; k++) {
        if constexpr (!result::IS_BF16) {
            p.words[k] = __float_as_uint(values[k]);
        } else if constexpr (result::IS_ONE) {
            p.words[k] = __bfloat16_as_ushort(__float2bfloat16_rn(values[k]));
        } else {
            const __nv_bfloat162 pair = __floats2bfloat162_rn(values[2 * k], values[2 * k + 1]);
            p.words[k] = *reinterpret_cast<const uint32_t *>(&pair);
        }
    }
    reinterpret_cast<result *>(to)[i] = p;
}

template <typename T> __device__ inline float rounded(float value)
{
    return sizeof(T) == 2 ? __bfloat162float(__float2bfloat16_rn(value)) : value;
}

/* relu(value), where relu is on; a NaN stays a NaN. */
__device__ inline float at_least_0(float value, bool relu)
{
    return relu && value < 0 ? 0 : value;
}

static inline bool is_aligned(const void *pointer)
{
    return (uintptr_t)pointer % 16 == 0;
}

static inline unsigned num_multiprocessors()
{
    int device = 0, count = 1;
    if (cudaGetDevice(&device) ||
        cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device))
        return 1; /* the launch that follows reports the error */
    return (unsigned)count;
}

static inline size_t ceil_div(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* Reads UNROLL packs from i on, `stride` apart and before `end`, and then uses them: use(i, pack).
 * Where all are there, no load is bound to a condition, which would let the compiler put it right
 * before its use. */
template <int UNROLL, typename Load, typename Use>
__device__ inline void take_packs(size_t i, size_t stride, size_t end, const Load &load,
                                  const Use &use)
{
    decltype(load(i)) x[UNROLL];
    if (i + (UNROLL - 1) * stride < end) {
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            x[u] = load(i + u * stride);
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            use(i + u * stride, x[u]);
        return;
    }
#pragma unroll
    for (int u = 0; u < UNROLL - 1; u++) {
        if (i + u * stride < end)
            x[u] = load(i + u * stride);
    }
#pragma unroll
    for (int u = 0; u < UNROLL - 1; u++) {
        if (i + u * stride < end)
            use(i + u * stride, x[u]);
    }
}

/* f(T()) for the type. */
template <typename F> static cudaError_t with_type(enum sluice_cuda_type type, const F &f)
{
    return type == SLUICE_CUDA_BF16 ? f(bf16()) : f(float());
}

#endif
