/* Stands in for CUDA's driver: a libcuda.so.1 for test_driver.c, which reads what is noted here.  The
 * "device" addresses memory of the host elsewhere by DEVICE_OFFSET; a stream that waits is ready once
 * the value is there. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* they are in the toolkit's header */

#define VISIBLE __attribute__((visibility("default")))
#define DEVICE_OFFSET UINT64_C(0x100000000000)

enum { OK = 0, INVALID_VALUE = 1, INVALID_DEVICE = 101, NOT_READY = 600, NOT_SUPPORTED = 801 };

VISIBLE struct {
    const char *fails;       /* a function that fails with NOT_SUPPORTED */
    int is_blind;            /* a stream does not wait for the value */
    int is_deaf;             /* a stream that waits does not see a change */
    int num_retained, depth; /* contexts */
    void *registered;
    size_t registered_bytes;
    unsigned register_flags, wait_flags, num_waits;
    void *wait_stream;
    uint64_t wait_address;
    uint32_t wait_value;
} fake_cuda;

static int context; /* its address is the context */
static int is_failing(const char *name)
{
    return fake_cuda.fails && strcmp(fake_cuda.fails, name) == 0;
}

/* First line of each function. */
#define ENTER()                                                                                    \
    if (is_failing(__func__))                                                                      \
    return NOT_SUPPORTED
/* Of those that need a current context. */
#define ENTER_CONTEXT()                                                                            \
    ENTER();                                                                                       \
    if (fake_cuda.depth < 1)                                                                       \
    return INVALID_VALUE

VISIBLE int cuInit(unsigned flags)
{
    ENTER();
    return flags == 0 ? OK : INVALID_VALUE;
}

VISIBLE int cuDeviceGet(int *device, int ordinal)
{
    ENTER();
    if (ordinal != 0)
        return INVALID_DEVICE;
    *device = 17;
    return OK;
}

VISIBLE int cuDevicePrimaryCtxRetain(void **to, int device)
{
    ENTER();
    if (device != 17)
        return INVALID_DEVICE;
    fake_cuda.num_retained++;
    *to = &context;
    return OK;
}

VISIBLE int cuDevicePrimaryCtxRelease_v2(int device)
{
    fake_cuda.num_retained--;
    return device == 17 ? OK : INVALID_DEVICE;
}

VISIBLE int cuCtxPushCurrent_v2(void *pushed)
{
    ENTER();
    fake_cuda.depth++;
    return pushed == &context ? OK : INVALID_VALUE;
}

VISIBLE int cuCtxPopCurrent_v2(void **popped)
{
    ENTER_CONTEXT();
    fake_cuda.depth--;
    *popped = &context;
    return OK;
}

VISIBLE int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
    ENTER_CONTEXT();
    if (fake_cuda.registered)
        return INVALID_VALUE;
    fake_cuda.registered = memory;
    fake_cuda.registered_bytes = bytes;
    fake_cuda.register_flags = flags;
    return OK;
}

VISIBLE int cuMemHostUnregister(void *memory)
{
    ENTER_CONTEXT();
    if (memory != fake_cuda.registered)
        return INVALID_VALUE;
    fake_cuda.registered = NULL;
    return OK;
}

VISIBLE int cuMemHostGetDevicePointer_v2(uint64_t *address, void *memory, unsigned flags)
{
    ENTER_CONTEXT();
    if (memory != fake_cuda.registered || flags)
        return INVALID_VALUE;
    *address = (uint64_t)(uintptr_t)memory + DEVICE_OFFSET;
    return OK;
}

#ifndef FAKE_CUDA_IS_OLD
VISIBLE int cuStreamWaitValue32_v2(void *stream, uint64_t address, uint32_t value, unsigned flags)
{
    ENTER_CONTEXT();
    fake_cuda.num_waits++;
    fake_cuda.wait_stream = stream;
    fake_cuda.wait_address = address;
    fake_cuda.wait_value = value;
    fake_cuda.wait_flags = flags;
    return OK;
}
#endif

VISIBLE int cuStreamQuery(void *stream)
{
    ENTER_CONTEXT();
    (void)stream;
    if (fake_cuda.is_blind)
        return OK;
    if (fake_cuda.is_deaf)
        return NOT_READY;
    const volatile uint32_t *word =
        (const uint32_t *)(uintptr_t)(fake_cuda.wait_address - DEVICE_OFFSET);
    return *word == fake_cuda.wait_value ? OK : NOT_READY;
}

VISIBLE int cuGetErrorName(int result, const char **name)
{
    if (result == 12345)
        return INVALID_VALUE;
    *name = result == NOT_SUPPORTED ? "FAKE_NOT_SUPPORTED" : "FAKE_ERROR";
    return OK;
}
