#include "gpu/decode_cuda.h"
#include "gpu/decode_kernels.h"
#include "gpu/resize_kernels.h"

namespace
{

constexpr uint32_t DECODE_THREADS = SLUICE_GPU_SEGMENTS_IN_TASK * SLUICE_GPU_THREADS_OF_SEGMENT;
constexpr uint32_t TRANSFORM_THREADS = SLUICE_GPU_BLOCKS_IN_TASK * 8;

uint32_t blocks_for(uint64_t count, uint32_t threads)
{
    return (uint32_t)((count + threads - 1) / threads);
}

__global__ void __launch_bounds__(SLUICE_GPU_WEIGH_THREADS)
    weigh(const sluice_gpu_memory memory, uint32_t blocks_of_view)
{
    const uint32_t number = blockIdx.x / blocks_of_view;
    const sluice_gpu_sample *sample = sluice_gpu_sample_of(&memory, number / memory.num_views);
    const sluice_gpu_view *view = sluice_gpu_view_of(sample, number % memory.num_views);
    uint32_t o = blockIdx.x % blocks_of_view * SLUICE_GPU_WEIGH_THREADS + threadIdx.x;
    if (o < view->across.count) {
        sluice_gpu_weigh(&memory, &view->across, (int)view->is_flipped, o);
        return;
    }
    o -= view->across.count;
    if (o < view->down.count)
        sluice_gpu_weigh(&memory, &view->down, 0, o);
}

__global__ void __launch_bounds__(DECODE_THREADS) decode(const sluice_gpu_memory memory)
{
    extern __shared__ uint4 dynamic_memory[];
    sluice_gpu_decode_shared &shared = *(sluice_gpu_decode_shared *)dynamic_memory;
    uint32_t number, task = blockIdx.x;
    SLUICE_GPU_FIND(&memory, task, decode_tasks, number);
    const sluice_gpu_sample *sample = sluice_gpu_sample_of(&memory, number);
    sluice_gpu_decode_prepare(&shared, sample, threadIdx.x, DECODE_THREADS);
    __syncthreads();
    sluice_gpu_decode_fill(&shared, sample, threadIdx.x, DECODE_THREADS);
    __syncthreads();
    /* The threads of a warp wait for each other at each symbol: few of them decode. */
    const uint32_t slot = threadIdx.x / SLUICE_GPU_THREADS_OF_SEGMENT;
    const uint32_t segment = task * SLUICE_GPU_SEGMENTS_IN_TASK + slot;
    if (threadIdx.x % SLUICE_GPU_THREADS_OF_SEGMENT == 0 && segment < sample->num_segments &&
        !sluice_gpu_decode_segment(&memory, sample, &shared, segment, slot))
        memory.faults[number] = 1; /* whoever finds a fault writes the same */
}

__global__ void __launch_bounds__(TRANSFORM_THREADS) transform(const sluice_gpu_memory memory)
{
    __shared__ sluice_gpu_transform_shared shared;
    uint32_t number, task = blockIdx.x;
    SLUICE_GPU_FIND(&memory, task, transform_tasks, number);
    const sluice_gpu_sample *sample = sluice_gpu_sample_of(&memory, number);
    const sluice_gpu_line line = sluice_gpu_transform_line(sample, task, threadIdx.x);
    int is_good = 1;
    if (line.plane)
        is_good = sluice_gpu_transform_columns(&memory, &shared, &line);
    __syncwarp(); /* the eight threads of a block are of one warp */
    if (line.plane)
        is_good &= sluice_gpu_transform_rows(&memory, &shared, &line);
    if (!is_good)
        memory.faults[number] = 1;
}

__global__ void __launch_bounds__(SLUICE_GPU_ACROSS_THREADS) across(const sluice_gpu_memory memory)
{
    __shared__ sluice_gpu_across_shared shared;
    uint32_t number, task = blockIdx.x;
    SLUICE_GPU_FIND(&memory, task, across_tasks, number);
    const sluice_gpu_sample *sample = sluice_gpu_sample_of(&memory, number);
    const sluice_gpu_view *view = sluice_gpu_across_view(sample, &task);
    const sluice_gpu_across work = sluice_gpu_across_task(&memory, sample, view, task);
    sluice_gpu_across_chroma(&memory, sample, view, &work, &shared, threadIdx.x);
    __syncthreads();
    sluice_gpu_across_load(&memory, sample, view, &work, &shared, threadIdx.x);
    __syncthreads();
    sluice_gpu_across_weights(&memory, view, &work, &shared, threadIdx.x);
    __syncthreads();
    sluice_gpu_across_sum(&memory, view, &work, &shared, threadIdx.x);
}

__global__ void __launch_bounds__(SLUICE_GPU_DOWN_THREADS)
    down(const sluice_gpu_memory memory, uint32_t blocks_of_view)
{
    const uint32_t number = blockIdx.x / blocks_of_view;
    const sluice_gpu_sample *sample = sluice_gpu_sample_of(&memory, number / memory.num_views);
    const sluice_gpu_view *view = sluice_gpu_view_of(sample, number % memory.num_views);
    const uint32_t threads_of_row =
        (view->across.count + SLUICE_GPU_DOWN_PIXELS - 1) / SLUICE_GPU_DOWN_PIXELS;
    const uint32_t i = blockIdx.x % blocks_of_view * SLUICE_GPU_DOWN_THREADS + threadIdx.x;
    const uint32_t y = i / threads_of_row, x = i % threads_of_row * SLUICE_GPU_DOWN_PIXELS;
    if (y < view->down.count)
        sluice_gpu_down(&memory, sample, view, x, y);
}

} // namespace

cudaError_t sluice_gpu_load_decode(void)
{
    cudaFuncAttributes attributes;
    cudaError_t error = cudaFuncGetAttributes(&attributes, weigh);
    if (error == cudaSuccess)
        error = cudaFuncGetAttributes(&attributes, decode);
    if (error == cudaSuccess)
        error = cudaFuncGetAttributes(&attributes, transform);
    if (error == cudaSuccess)
        error = cudaFuncGetAttributes(&attributes, across);
    return error == cudaSuccess ? cudaFuncGetAttributes(&attributes, down) : error;
}

cudaError_t sluice_gpu_launch_weigh(cudaStream_t stream, const sluice_gpu_memory *memory)
{
    const uint32_t blocks =
        blocks_for((uint64_t)memory->max_width + memory->max_height, SLUICE_GPU_WEIGH_THREADS);
    weigh<<<blocks * memory->num_samples * memory->num_views, SLUICE_GPU_WEIGH_THREADS, 0,
            stream>>>(*memory, blocks);
    return cudaGetLastError();
}

cudaError_t sluice_gpu_launch_decode(cudaStream_t stream, const sluice_gpu_memory *memory,
                                     uint32_t num_tasks, uint32_t num_tables)
{
    static_assert(sizeof(sluice_gpu_decode_shared) <= 48 << 10, "what every device has");
    const size_t bytes =
        offsetof(sluice_gpu_decode_shared, lookups) + num_tables * sizeof(sluice_gpu_lookup);
    decode<<<num_tasks, DECODE_THREADS, bytes, stream>>>(*memory);
    return cudaGetLastError();
}

cudaError_t sluice_gpu_launch_transform(cudaStream_t stream, const sluice_gpu_memory *memory,
                                        uint32_t num_tasks)
{
    transform<<<num_tasks, TRANSFORM_THREADS, 0, stream>>>(*memory);
    return cudaGetLastError();
}

cudaError_t sluice_gpu_launch_across(cudaStream_t stream, const sluice_gpu_memory *memory,
                                     uint32_t num_tasks)
{
    across<<<num_tasks, SLUICE_GPU_ACROSS_THREADS, 0, stream>>>(*memory);
    return cudaGetLastError();
}

cudaError_t sluice_gpu_launch_down(cudaStream_t stream, const sluice_gpu_memory *memory)
{
    const uint64_t threads =
        (uint64_t)blocks_for(memory->max_width, SLUICE_GPU_DOWN_PIXELS) * memory->max_height;
    const uint32_t blocks = blocks_for(threads, SLUICE_GPU_DOWN_THREADS);
    down<<<blocks * memory->num_samples * memory->num_views, SLUICE_GPU_DOWN_THREADS, 0, stream>>>(
        *memory, blocks);
    return cudaGetLastError();
}
