#include "gpu/decode_cuda.h"
#include "gpu/hash_kernels.h"

namespace
{

/* A block of threads a row. */
__global__ void __launch_bounds__(SLUICE_GPU_HASH_THREADS)
    hash(const uint8_t *rows, const sluice_gpu_row_views views, const sluice_gpu_hash_item *items,
         sluice_gpu_hash *hashes)
{
    __shared__ sluice_gpu_hash_shared shared;
    const sluice_gpu_hash_item item = items[blockIdx.x];
    const sluice_gpu_hash_input input = sluice_gpu_hash_input_of(rows, &views, &item);
    const uint64_t num_blocks = sluice_gpu_hash_num_blocks(&input);
    for (uint64_t first = 0; first < num_blocks; first += SLUICE_GPU_HASH_BLOCKS_AT_ONCE) {
        const uint32_t num = sluice_gpu_hash_num_at_once(num_blocks, first);
        sluice_gpu_hash_sum(&input, &shared, first, num, threadIdx.x, SLUICE_GPU_HASH_THREADS);
        __syncthreads();
        if (threadIdx.x < 8)
            sluice_gpu_hash_scramble(&shared, first, num, threadIdx.x);
        __syncthreads();
    }
    if (threadIdx.x < 8)
        sluice_gpu_hash_rest(&input, &shared, threadIdx.x);
    __syncthreads();
    if (threadIdx.x == 0)
        hashes[blockIdx.x].low = sluice_gpu_hash_merge(&input, &shared, 0);
    if (threadIdx.x == 32) /* of another warp */
        hashes[blockIdx.x].high = sluice_gpu_hash_merge(&input, &shared, 1);
}

} // namespace

cudaError_t sluice_gpu_launch_hash(cudaStream_t stream, const uint8_t *rows,
                                   const sluice_gpu_row_views *views,
                                   const sluice_gpu_hash_item *items, uint32_t num_items,
                                   sluice_gpu_hash *hashes)
{
    hash<<<num_items, SLUICE_GPU_HASH_THREADS, 0, stream>>>(rows, *views, items, hashes);
    return cudaGetLastError();
}

cudaError_t sluice_gpu_load_hash(void)
{
    cudaFuncAttributes attributes;
    return cudaFuncGetAttributes(&attributes, hash);
}
