#include "gpu/cuda_error.h"

sluice_status sluice_cuda_check(cudaError_t error, const char *who, const char *what,
                                struct sluice_err *err)
{
    sluice_status status;
    switch (error) {
    case cudaSuccess:
        return SLUICE_OK;
    case cudaErrorMemoryAllocation:
        status = SLUICE_E_NO_MEMORY;
        cudaGetLastError(); /* clears it, or the next launch reports it again */
        break;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorSystemNotReady:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorDevicesUnavailable:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
        status = SLUICE_E_UNSUPPORTED;
        break;
    default:
        status = SLUICE_E_INTERNAL;
        break;
    }
    return sluice_fail(err, status, "%s: %s: %s", who, what, cudaGetErrorString(error));
}
