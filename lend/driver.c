#include "lend/driver.h"

#include "base/clock.h"
#include "base/error.h"
#include "lend/channel.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* Declared here, as the driver's header comes with the toolkit, which a user need not have. */
typedef int cuda_result;
enum {
    CUDA_OK = 0,
    CUDA_NOT_READY = 600,
    HOST_REGISTER_PORTABLE = 1,
    HOST_REGISTER_DEVICEMAP = 2,
    WAIT_VALUE_EQ = 1,
    STREAM_NON_BLOCKING = 1,
};

/* How long a stream of an idle GPU may take to see what the host wrote. */
#define PROBE_NS 5000000000u
/* How long it must wait for it. */
#define PROBE_WAIT_NS 20000000u

static struct {
    cuda_result (*init)(unsigned flags);
    cuda_result (*device_get)(int *device, int ordinal);
    cuda_result (*primary_retain)(void **context, int device);
    cuda_result (*primary_release)(int device);
    cuda_result (*push)(void *context);
    cuda_result (*pop)(void **context);
    cuda_result (*host_register)(void *memory, size_t bytes, unsigned flags);
    cuda_result (*host_unregister)(void *memory);
    cuda_result (*device_pointer)(unsigned long long *address, void *memory, unsigned flags);
    cuda_result (*wait_value)(void *stream, unsigned long long address, uint32_t value,
                              unsigned flags);
    cuda_result (*stream_create)(void **stream, unsigned flags);
    cuda_result (*stream_query)(void *stream);
    cuda_result (*stream_destroy)(void *stream);
    cuda_result (*error_name)(cuda_result result, const char **name);
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
    return cuda.error_name(result, &name) == CUDA_OK && name ? name : "an unknown error";
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
    } symbols[] = {
        {"cuInit", &cuda.init},
        {"cuDeviceGet", &cuda.device_get},
        {"cuDevicePrimaryCtxRetain", &cuda.primary_retain},
        {"cuDevicePrimaryCtxRelease_v2", &cuda.primary_release},
        {"cuCtxPushCurrent_v2", &cuda.push},
        {"cuCtxPopCurrent_v2", &cuda.pop},
        {"cuMemHostRegister_v2", &cuda.host_register},
        {"cuMemHostUnregister", &cuda.host_unregister},
        {"cuMemHostGetDevicePointer_v2", &cuda.device_pointer},
        {"cuStreamWaitValue32_v2", &cuda.wait_value},
        {"cuStreamCreate", &cuda.stream_create},
        {"cuStreamQuery", &cuda.stream_query},
        {"cuStreamDestroy_v2", &cuda.stream_destroy},
        {"cuGetErrorName", &cuda.error_name},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(symbols); i++) {
        *(void **)symbols[i].to = dlsym(library, symbols[i].name);
        if (!*(void **)symbols[i].to)
            return sluice_fail(err, SLUICE_E_UNSUPPORTED, "the CUDA driver has no %s",
                               symbols[i].name);
    }
    const cuda_result result = cuda.init(0);
    if (result != CUDA_OK)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "the CUDA driver does not start: %s",
                           name_of(result));
    is_loaded = true; /* the library stays */
    return SLUICE_OK;
}

static cuda_result open_page(struct sluice_lend_driver *d)
{
    cuda_result result = cuda.host_register(d->page, SLUICE_LEND_PAGE_BYTES,
                                            HOST_REGISTER_PORTABLE | HOST_REGISTER_DEVICEMAP);
    if (result != CUDA_OK)
        return result;
    result = cuda.device_pointer(&d->mask, (void *)&d->page->mask, 0);
    if (result != CUDA_OK)
        cuda.host_unregister(d->page);
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
    cuda_result result = cuda.device_get(&d->device, device);
    if (result == CUDA_OK)
        result = cuda.primary_retain(&d->context, d->device);
    if (result != CUDA_OK) {
        free(d);
        return sluice_fail(err, SLUICE_E_INVALID, "CUDA device %d: %s", device, name_of(result));
    }
    result = cuda.push(d->context);
    if (result == CUDA_OK) {
        void *popped;
        result = open_page(d);
        cuda.pop(&popped);
    }
    if (result != CUDA_OK) {
        cuda.primary_release(d->device);
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
    if (cuda.push(d->context) == CUDA_OK) {
        cuda.host_unregister(d->page);
        cuda.pop(&popped);
        cuda.primary_release(d->device);
    }
    free(d);
}

sluice_status sluice_lend_driver_point(struct sluice_lend_driver *d, void *stream,
                                       struct sluice_err *err)
{
    void *popped;
    cuda_result result = cuda.push(d->context);
    if (result == CUDA_OK) {
        result = cuda.wait_value(stream, d->mask, 0, WAIT_VALUE_EQ);
        cuda.pop(&popped);
    }
    if (result != CUDA_OK)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "the stream cannot wait: %s",
                           name_of(result));
    return SLUICE_OK;
}

/* Whether the stream is done before a moment. */
static cuda_result query_until(void *stream, uint64_t until_ns)
{
    cuda_result result;
    while ((result = cuda.stream_query(stream)) == CUDA_NOT_READY && sluice_clock_ns() < until_ns)
        ;
    return result;
}

static sluice_status try_to_wait(struct sluice_lend_driver *d, void *stream, struct sluice_err *err)
{
    atomic_store(&d->page->mask, 1);
    const sluice_status status = sluice_lend_driver_point(d, stream, err);
    const cuda_result held = query_until(stream, sluice_clock_ns() + PROBE_WAIT_NS);
    atomic_store(&d->page->mask, 0);
    const cuda_result freed = query_until(stream, sluice_clock_ns() + PROBE_NS);
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

static sluice_status probe_stream(struct sluice_lend_driver *d, int device, struct sluice_err *err)
{
    void *stream, *popped;
    sluice_status status = SLUICE_OK;
    cuda_result result = cuda.push(d->context);
    if (result == CUDA_OK) {
        result = cuda.stream_create(&stream, STREAM_NON_BLOCKING);
        if (result == CUDA_OK) {
            status = try_to_wait(d, stream, err);
            cuda.stream_destroy(stream);
        }
        cuda.pop(&popped);
    }
    if (result != CUDA_OK)
        status =
            sluice_fail(err, SLUICE_E_UNSUPPORTED, "CUDA device %d: %s", device, name_of(result));
    return status;
}

sluice_status sluice_lend_probe(int device, struct sluice_err *err)
{
    struct sluice_lend_page *page;
    int memfd;
    sluice_status status = sluice_lend_page_create(&page, &memfd, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_lend_driver *d = NULL;
    status = sluice_lend_driver_open(device, page, &d, err);
    if (status == SLUICE_OK)
        status = probe_stream(d, device, err);
    sluice_lend_driver_close(d);
    sluice_lend_page_unmap(page);
    close(memfd);
    return status;
}
