#ifndef SLUICE_GPU_CUDA_CONTEXT_H
#define SLUICE_GPU_CUDA_CONTEXT_H

#include "base/error.h"

/* Makes a device current in the calling thread, from enter to leave.
 *
 * Calls the driver's functions: in a thread without a context, the runtime's cudaSetDevice() would
 * create one on device 0, which takes hundreds of megabytes.  From enter to leave, the thread's
 * calls do not invalidate the capture of a CUDA graph in another thread.
 *
 * Threads: any, after open. */

struct sluice_cuda_context;

/* SLUICE_E_UNSUPPORTED: the device does not exist or cannot be used. */
SLUICE_MUST_USE sluice_status sluice_cuda_context_open(int device,
                                                       struct sluice_cuda_context **context,
                                                       struct sluice_err *err);
void sluice_cuda_context_close(struct sluice_cuda_context *context); /* NULL is allowed */

struct sluice_cuda_scope {
    void *before;
    int capture_mode;
};
struct sluice_cuda_scope sluice_cuda_enter(const struct sluice_cuda_context *context);
void sluice_cuda_leave(const struct sluice_cuda_context *context, struct sluice_cuda_scope scope);

#endif
