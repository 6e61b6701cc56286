#ifndef SLUICE_GPU_CUDA_ERROR_H
#define SLUICE_GPU_CUDA_ERROR_H

#include "base/error.h"

#include <cuda_runtime_api.h>

/* Converts CUDA's errors to a sluice_status.  Threads: pure functions, except that they may reset
 * CUDA's last error of the calling thread. */

/* Returns SLUICE_E_NO_MEMORY, and resets CUDA's last error; SLUICE_E_UNSUPPORTED: no usable device;
 * or SLUICE_E_INTERNAL.  The text is "WHO: WHAT: CUDA's words"; `what` names the call or the
 * activity. */
SLUICE_MUST_USE sluice_status sluice_cuda_check(cudaError_t error, const char *who,
                                                const char *what, struct sluice_err *err);

#endif
