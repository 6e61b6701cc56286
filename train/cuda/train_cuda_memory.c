#include "train/cuda/train_cuda_state.h"

#include "base/array.h"
#include "gpu/cuda_error.h"

sluice_status cuda_check(cudaError_t error, const char *what, struct sluice_err *err)
{
    return sluice_cuda_check(error, "device cuda", what, err);
}

sluice_status cuda_check_cudnn(cudnnStatus_t error, const char *what, struct sluice_err *err)
{
    if (error == CUDNN_STATUS_SUCCESS)
        return SLUICE_OK;
    return sluice_fail(err,
                       error == CUDNN_STATUS_ALLOC_FAILED ? SLUICE_E_NO_MEMORY : SLUICE_E_INTERNAL,
                       "device cuda: %s: %s", what, cudnnGetErrorString(error));
}

sluice_status cuda_wait(struct cuda_trainer *cuda, struct sluice_err *err)
{
    const sluice_status status =
        cuda_check(cudaEventRecord(cuda->done, cuda->compute), "cudaEventRecord", err);
    return status ? status : cuda_check(cudaEventSynchronize(cuda->done), "computing", err);
}

sluice_status cuda_alloc(struct cuda_trainer *cuda, size_t bytes, void *memory,
                         struct sluice_err *err)
{
    void *block = NULL;
    if (!sluice_array_reserve(&cuda->owned, &cuda->max_owned, cuda->num_owned + 1,
                              sizeof(*cuda->owned)))
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a trainer");
    const cudaError_t error = cudaMalloc(&block, bytes > 0 ? bytes : 1);
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError(); /* clears it, or the next launch reports it again */
        return sluice_fail(err, SLUICE_E_NO_MEMORY,
                           "device cuda: no memory for %zu MB more: is the batch too large?",
                           bytes >> 20);
    }
    sluice_status status = cuda_check(error, "cudaMalloc", err);
    if (status)
        return status;
    cuda->owned[cuda->num_owned++] = block;
    cuda->owned_bytes += bytes;
    /* Its first use may be on another stream. */
    status = cuda_check(cudaMemsetAsync(block, 0, bytes, cuda->compute), "cudaMemset", err);
    if (!status)
        status = cuda_check(cudaStreamSynchronize(cuda->compute), "cudaMemset", err);
    if (!status)
        *(void **)memory = block;
    return status;
}
