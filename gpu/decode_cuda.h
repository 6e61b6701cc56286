#ifndef SLUICE_GPU_DECODE_CUDA_H
#define SLUICE_GPU_DECODE_CUDA_H

#include "gpu/layout.h"

#include <cuda_runtime_api.h>

/* The kernels of decode.cu, pixels.cu and hash.cu, in the order in which a batch needs them.
 *
 * Each function queues one kernel on `stream` and returns the result of the launch.  `memory` is of
 * the device; num_tasks comes from the batch's index, and num_tables is its max_huffman.
 *
 * Threads: any, one per stream. */

#ifdef __cplusplus
extern "C" {
#endif

struct sluice_gpu_memory;

/* Load the kernels of each file; otherwise their first launch does. */
cudaError_t sluice_gpu_load_decode(void);
cudaError_t sluice_gpu_load_pixels(void);
cudaError_t sluice_gpu_load_hash(void);

cudaError_t sluice_gpu_launch_weigh(cudaStream_t stream, const struct sluice_gpu_memory *memory);
cudaError_t sluice_gpu_launch_decode(cudaStream_t stream, const struct sluice_gpu_memory *memory,
                                     uint32_t num_tasks, uint32_t num_tables);
cudaError_t sluice_gpu_launch_transform(cudaStream_t stream, const struct sluice_gpu_memory *memory,
                                        uint32_t num_tasks);
cudaError_t sluice_gpu_launch_across(cudaStream_t stream, const struct sluice_gpu_memory *memory,
                                     uint32_t num_tasks);
cudaError_t sluice_gpu_launch_down(cudaStream_t stream, const struct sluice_gpu_memory *memory);
cudaError_t sluice_gpu_launch_pixels(cudaStream_t stream, const struct sluice_gpu_memory *memory);

/* hashes[i] is the hash of items[i].  All three arrays are in memory that the device can access.
 * `rows` is 8-byte aligned and readable up to a multiple of 8 bytes. */
cudaError_t sluice_gpu_launch_hash(cudaStream_t stream, const uint8_t *rows,
                                   const struct sluice_gpu_row_views *views,
                                   const struct sluice_gpu_hash_item *items, uint32_t num_items,
                                   struct sluice_gpu_hash *hashes);

#ifdef __cplusplus
}
#endif

#endif
