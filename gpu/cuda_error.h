#ifndef SLUICE_GPU_CUDA_ERROR_H
#define SLUICE_GPU_CUDA_ERROR_H

#include "base/error.h"

#include <cuda_runtime_api.h>

/* CUDA's errors as ours.  Threads: pure, but for CUDA's last error of the calling thread. */

/* SLUICE_E_NO_MEMORY, which is CUDA's last error no more; SLUICE_E_UNSUPPORTED: no device that can
 * be used; SLUICE_E_INTERNAL.  The text is "WHO: WHAT: CUDA's words"; `what` names the call, or
 * what was being done. */
SLUICE_MUST_USE sluice_status sluice_cuda_check(cudaError_t error, const char *who,
                                                const char *what, struct sluice_err *err);

#endif
