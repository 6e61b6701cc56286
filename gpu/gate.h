#ifndef SLUICE_GPU_GATE_H
#define SLUICE_GPU_GATE_H

#include "base/error.h"

/* A gate before which the device's work waits while somebody else uses the GPU.
 *
 * Threads: `point` is called from any. */

struct sluice_gpu_gate {
    /* Adds a point to the stream (a cudaStream_t): work put on it later waits there.  With `stream`
     * NULL (the host's device) the call itself waits.  A failure is the device's.  NULL: no gate. */
    sluice_status (*point)(void *data, void *stream, struct sluice_err *err);
    void *data;
};

static inline SLUICE_MUST_USE sluice_status sluice_gpu_stop_at(const struct sluice_gpu_gate *gate,
                                                               void *stream, struct sluice_err *err)
{
    return gate->point ? gate->point(gate->data, stream, err) : SLUICE_OK;
}

#endif
