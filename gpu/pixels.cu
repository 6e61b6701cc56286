#include "gpu/decode_cuda.h"
#include "gpu/pixel_kernels.h"

namespace
{

/* A block of threads for each view of each sample. */
__global__ void __launch_bounds__(SLUICE_GPU_PIXELS_THREADS) pixels(const sluice_gpu_memory memory)
{
    __shared__ sluice_gpu_pixels_shared shared;
    const sluice_gpu_sample *sample = sluice_gpu_sample_of(&memory, blockIdx.x / memory.num_views);
    const sluice_gpu_view *view = sluice_gpu_view_of(sample, blockIdx.x % memory.num_views);
    const sluice_gpu_pixels work = sluice_gpu_pixels_init(&memory, sample, view, &shared,
                                                          threadIdx.x, SLUICE_GPU_PIXELS_THREADS);
    for (uint32_t at = 0; at < view->calls_bytes;) {
        const sluice_kernel_call *call = sluice_gpu_call_of(sample, view, at);
        const uint32_t num_phases = sluice_gpu_num_phases(call->kernel);
        for (uint32_t phase = 0; phase < num_phases; phase++) {
            sluice_gpu_run_phase(&work, call, phase);
            __syncthreads();
        }
        at += call->bytes;
    }
}

} // namespace

cudaError_t sluice_gpu_load_pixels(void)
{
    cudaFuncAttributes attributes;
    return cudaFuncGetAttributes(&attributes, pixels);
}

cudaError_t sluice_gpu_launch_pixels(cudaStream_t stream, const sluice_gpu_memory *memory)
{
    pixels<<<memory->num_samples * memory->num_views, SLUICE_GPU_PIXELS_THREADS, 0, stream>>>(
        *memory);
    return cudaGetLastError();
}
