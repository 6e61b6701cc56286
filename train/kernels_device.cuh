#ifndef SLUICE_TRAIN_KERNELS_DEVICE_CUH
#define SLUICE_TRAIN_KERNELS_DEVICE_CUH

#include "train/kernels_cuda.h"

/* Shared by the kernels of kernels_cuda.h: grids, and indices that stride over them. */

constexpr unsigned BLOCK = 256;

/* Blocks beyond what fills any GPU take further elements by striding. */
static inline unsigned blocks_for(size_t count, unsigned max_blocks = 1u << 16)
{
    const size_t blocks = (count + BLOCK - 1) / BLOCK;
    return blocks < 1 ? 1 : blocks > max_blocks ? max_blocks : (unsigned)blocks;
}

template <typename I> static __device__ I first_index()
{
    return (I)blockIdx.x * blockDim.x + threadIdx.x;
}

template <typename I> static __device__ I index_stride()
{
    return (I)gridDim.x * blockDim.x;
}

/* relu(value), where relu is on; a NaN stays a NaN. */
static __device__ inline float at_least_0(float value, bool relu)
{
    return relu && value < 0 ? 0 : value;
}

#endif
