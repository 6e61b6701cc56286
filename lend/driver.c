#include "lend/driver.h"

#include "base/clock.h"
#include "base/error.h"
#include "lend/channel.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

/* Declared here, as the driver's header comes with the toolkit, which a user need not have. */
typedef int cuda_result;
enum {
    CUDA_OK = 0,
    CUDA_NOT_READY = 600,
    HOST_REGISTER_PORTABLE = 1,
    HOST_REGISTER_DEVICEMAP = 2,
    WAIT_VALUE_EQ = 1,
};

/* How long a stream of an idle GPU may take to see what the host wrote. */
#define PROBE_NS 5000000000u
/* How long it must wait for it. */
#define PROBE_WAIT_NS 20000000u

#define FUNCTIONS(X)                                                                               \
    X(cuInit, unsigned flags)                                                                      \
    X(cuDeviceGet, int *device, int ordinal)                                                       \
    X(cuDevicePrimaryCtxRetain, void **context, int device)                                        \
    X(cuDevicePrimaryCtxRelease_v2, int device)                                                    \
    X(cuCtxPushCurrent_v2, void *context)                                                          \
    X(cuCtxPopCurrent_v2, void **context)                                                          \
    X(cuMemHostRegister_v2, void *memory, size_t bytes, unsigned flags)                            \
    X(cuMemHostUnregister, void *memory)                                                           \
    X(cuMemHostGetDevicePointer_v2, unsigned long long *address, void *memory, unsigned flags)     \
    X(cuStreamWaitValue32_v2, void *stream, unsigned long long address, uint32_t value,            \
      unsigned flags)                                                                              \
    X(cuStreamQuery, void *stream)                                                                 \
    X(cuGetErrorName, cuda_result result, const char **name)
#define POINTER(function, ...) cuda_result (*function)(__VA_ARGS__);
#define SYMBOL(function, ...) {#function, (void *)&cuda.function},

static struct {
    FUNCTIONS(POINTER)
} cuda;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of loading */
static bool is_loaded;

struct sluice_lend_driver {
    int device;
    void *context;
    struct sluice_lend_page *page;
    unsigned long long mask; /* its address on the device */
};

static const char *name_of(cuda_result result)
{
    const char *name = NULL;
    return cuda.cuGetErrorName(result, &name) == CUDA_OK && name ? name : "an unknown error";
}

static sluice_status load(struct sluice_err *err)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "lending a GPU needs the CUDA driver: %s",
                           dlerror());
    const struct {
        const char *name;
        void *to;
    } symbols[] = {FUNCTIONS(SYMBOL)};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(symbols); i++) {
        *(void **)symbols[i].to = dlsym(library, symbols[i].name);
        if (!*(void **)symbols[i].to)
            return sluice_fail(err, SLUICE_E_UNSUPPORTED, "the CUDA driver has no %s",
                               symbols[i].name);
    }
    const cuda_result result = cuda.cuInit(0);
    if (result != CUDA_OK)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "the CUDA driver does not start: %s",
                           name_of(result));
    is_loaded = true; /* the library stays */
    return SLUICE_OK;
}

/* In the device's context. */
static cuda_result open_page(struct sluice_lend_driver *d)
{
    unsigned long long page;
    cuda_result result = cuda.cuMemHostRegister_v2(
        d->page, SLUICE_LEND_PAGE_BYTES, HOST_REGISTER_PORTABLE | HOST_REGISTER_DEVICEMAP);
    if (result != CUDA_OK)
        return result;
    result = cuda.cuMemHostGetDevicePointer_v2(&page, d->page, 0);
    if (result == CUDA_OK)
        d->mask = page + offsetof(struct sluice_lend_page, mask);
    else
        cuda.cuMemHostUnregister(d->page);
    return result;
}

sluice_status sluice_lend_driver_open(int device, struct sluice_lend_page *page,
                                      struct sluice_lend_driver **driver, struct sluice_err *err)
{
    pthread_mutex_lock(&lock);
    const sluice_status status = is_loaded ? SLUICE_OK : load(err);
    pthread_mutex_unlock(&lock);
    if (status != SLUICE_OK)
        return status;
    struct sluice_lend_driver *d = malloc(sizeof(*d));
    if (!d)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "lending a GPU: no memory");
    *d = (struct sluice_lend_driver){.page = page};
    cuda_result result = cuda.cuDeviceGet(&d->device, device);
    if (result == CUDA_OK)
        result = cuda.cuDevicePrimaryCtxRetain(&d->context, d->device);
    if (result != CUDA_OK) {
        free(d);
        return sluice_fail(err, SLUICE_E_INVALID, "CUDA device %d: %s", device, name_of(result));
    }
    result = cuda.cuCtxPushCurrent_v2(d->context);
    if (result == CUDA_OK) {
        void *popped;
        result = open_page(d);
        cuda.cuCtxPopCurrent_v2(&popped);
    }
    if (result != CUDA_OK) {
        cuda.cuDevicePrimaryCtxRelease_v2(d->device);
        free(d);
        return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                           "CUDA device %d cannot read a page of the host: %s", device,
                           name_of(result));
    }
    *driver = d;
    return SLUICE_OK;
}

void sluice_lend_driver_close(struct sluice_lend_driver *d)
{
    if (!d)
        return;
    void *popped;
    /* At the process's end the driver may have gone already. */
    if (cuda.cuCtxPushCurrent_v2(d->context) == CUDA_OK) {
        cuda.cuMemHostUnregister(d->page);
        cuda.cuCtxPopCurrent_v2(&popped);
        cuda.cuDevicePrimaryCtxRelease_v2(d->device);
    }
    free(d);
}

sluice_status sluice_lend_driver_point(struct sluice_lend_driver *d, void *stream,
                                       struct sluice_err *err)
{
    void *popped;
    cuda_result result = cuda.cuCtxPushCurrent_v2(d->context);
    if (result == CUDA_OK) {
        result = cuda.cuStreamWaitValue32_v2(stream, d->mask, 0, WAIT_VALUE_EQ);
        cuda.cuCtxPopCurrent_v2(&popped);
    }
    if (result != CUDA_OK)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "the stream cannot wait: %s",
                           name_of(result));
    return SLUICE_OK;
}

/* Whether the default stream is done before a moment. */
static cuda_result query_until(uint64_t until_ns)
{
    cuda_result result;
    while ((result = cuda.cuStreamQuery(NULL)) == CUDA_NOT_READY && sluice_clock_ns() < until_ns)
        ;
    return result;
}

static sluice_status try_to_wait(struct sluice_lend_driver *d, struct sluice_err *err)
{
    void *popped;
    if (cuda.cuCtxPushCurrent_v2(d->context) != CUDA_OK)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "the device's context is lost");
    atomic_store(&d->page->mask, 1);
    const sluice_status status = sluice_lend_driver_point(d, NULL, err);
    const cuda_result held = query_until(sluice_clock_ns() + PROBE_WAIT_NS);
    atomic_store(&d->page->mask, 0);
    const cuda_result freed = query_until(sluice_clock_ns() + PROBE_NS);
    cuda.cuCtxPopCurrent_v2(&popped);
    if (status != SLUICE_OK)
        return status;
    if (held != CUDA_NOT_READY)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "a stream does not wait for the page: %s",
                           held == CUDA_OK ? "it goes on" : name_of(held));
    if (freed != CUDA_OK)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "a stream that waits does not go on: %s",
                           name_of(freed));
    return SLUICE_OK;
}

sluice_status sluice_lend_probe(int device, struct sluice_err *err)
{
    struct sluice_lend_page *page = NULL;
    struct sluice_lend_driver *d = NULL;
    int memfd;
    sluice_status status = sluice_lend_page_create(&page, &memfd, err);
    if (status == SLUICE_OK)
        status = sluice_lend_driver_open(device, page, &d, err);
    if (status == SLUICE_OK)
        status = try_to_wait(d, err);
    sluice_lend_driver_close(d);
    sluice_lend_page_clear(page, memfd);
    return status;
}
