#ifndef SLUICE_GPU_CUDA_CONTEXT_H
#define SLUICE_GPU_CUDA_CONTEXT_H

#include "base/error.h"

/* A device made current in the calling thread for a while.
 *
 * By the driver's functions: to set the runtime's device back would make a context on device 0 in
 * a thread that has used none, and that takes hundreds of megabytes there.  Until leave, calls of
 * the thread do not end a capture of a CUDA graph that another thread has under way.
 *
 * Threads: any, after open. */

struct sluice_cuda_context;

/* SLUICE_E_UNSUPPORTED: there is no such device, or none that can be used. */
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
