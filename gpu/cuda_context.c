#include "gpu/cuda_context.h"

#include "gpu/cuda_error.h"

#include <cuda.h>
#include <stdlib.h>

#define WHO "GPU"

struct sluice_cuda_context {
    CUcontext context; /* the primary one, as the runtime's */
    CUresult (*device_get)(CUdevice *device, int ordinal);
    CUresult (*retain)(CUcontext *context, CUdevice device);
    CUresult (*get_current)(CUcontext *context);
    CUresult (*set_current)(CUcontext context);
};

/* The driver's library is not linked: it is where there is a GPU. */
static sluice_status find(const char *name, void **function, struct sluice_err *err)
{
    enum cudaDriverEntryPointQueryResult result;
#if CUDART_VERSION >= 12050
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion(name, function, 12000, cudaEnableDefault, &result);
#else
    const cudaError_t error = cudaGetDriverEntryPoint(name, function, cudaEnableDefault, &result);
#endif
    const sluice_status status = sluice_cuda_check(error, WHO, name, err);
    if (status == SLUICE_OK && result != cudaDriverEntryPointSuccess)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, WHO ": the driver has no %s", name);
    return status;
}

static sluice_status find_all(struct sluice_cuda_context *context, struct sluice_err *err)
{
    const struct {
        const char *name;
        void **function;
    } functions[] = {
        {"cuDeviceGet", (void **)&context->device_get},
        {"cuDevicePrimaryCtxRetain", (void **)&context->retain},
        {"cuCtxGetCurrent", (void **)&context->get_current},
        {"cuCtxSetCurrent", (void **)&context->set_current},
    };
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]) && status == SLUICE_OK; i++)
        status = find(functions[i].name, functions[i].function, err);
    return status;
}

sluice_status sluice_cuda_context_open(int device, struct sluice_cuda_context **out,
                                       struct sluice_err *err)
{
    int count = 0;
    sluice_status status =
        sluice_cuda_check(cudaGetDeviceCount(&count), WHO, "looking for devices", err);
    if (status != SLUICE_OK)
        return status;
    if (device < 0 || device >= count)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, WHO ": there is no device %d; %d in all",
                           device, count);
    struct sluice_cuda_context *context = calloc(1, sizeof(*context));
    if (!context)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a CUDA context");
    status = find_all(context, err);
    CUdevice found;
    if (status == SLUICE_OK && (context->device_get(&found, device) != CUDA_SUCCESS ||
                                context->retain(&context->context, found) != CUDA_SUCCESS))
        status = sluice_fail(err, SLUICE_E_UNSUPPORTED, WHO ": device %d cannot be used", device);
    if (status != SLUICE_OK) {
        free(context);
        return status;
    }
    *out = context;
    return SLUICE_OK;
}

void sluice_cuda_context_close(struct sluice_cuda_context *context)
{
    /* The primary context stays until the process ends, as when the runtime makes it: other users
     * of the runtime may hold memory in it. */
    free(context);
}

struct sluice_cuda_scope sluice_cuda_enter(const struct sluice_cuda_context *context)
{
    CUcontext before = NULL;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    /* These fail only where all of CUDA does: what follows says so. */
    context->get_current(&before);
    if (before != context->context)
        context->set_current(context->context);
    cudaThreadExchangeStreamCaptureMode(&mode);
    return (struct sluice_cuda_scope){before, mode};
}

void sluice_cuda_leave(const struct sluice_cuda_context *context, struct sluice_cuda_scope scope)
{
    enum cudaStreamCaptureMode mode = (enum cudaStreamCaptureMode)scope.capture_mode;
    cudaThreadExchangeStreamCaptureMode(&mode);
    if (scope.before != context->context)
        context->set_current(scope.before);
}
