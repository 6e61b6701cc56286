#include "cuda_memory.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

/* Declared here, as the driver's header comes with the toolkit, which a user need not have. */
enum { CUDA_OK = 0, HOST_ALLOC_PORTABLE = 1, MAX_DEVICES = 64 };
typedef int cuda_result;

static struct {
    cuda_result (*init)(unsigned flags);
    cuda_result (*device_get)(int *device, int ordinal);
    cuda_result (*primary_retain)(void **context, int device);
    cuda_result (*push)(void *context);
    cuda_result (*pop)(void **context);
    cuda_result (*host_alloc)(void **memory, size_t bytes, unsigned flags);
    cuda_result (*host_free)(void *memory);
    cuda_result (*error_name)(cuda_result result, const char **name);
} driver;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_loaded;
static struct place {
    struct sluice_host_memory memory;
    void *context; /* NULL: not asked for yet */
} places[MAX_DEVICES];

__attribute__((format(printf, 3, 4))) static sluice_status
fail(struct sluice_err *err, sluice_status status, const char *format, ...)
{
    if (err && !err->text[0]) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof(err->text), format, args);
        va_end(args);
    }
    return status;
}

static const char *name_of(cuda_result result)
{
    const char *name = NULL;
    return driver.error_name(result, &name) == CUDA_OK && name ? name : "an unknown error";
}

static sluice_status load_driver(struct sluice_err *err)
{
    if (is_loaded)
        return SLUICE_OK;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return fail(err, SLUICE_E_NOT_FOUND, "page-locked memory needs the CUDA driver: %s",
                    dlerror());
    const struct {
        const char *name;
        void *to;
    } symbols[] = {
        {"cuInit", &driver.init},
        {"cuDeviceGet", &driver.device_get},
        {"cuDevicePrimaryCtxRetain", &driver.primary_retain},
        {"cuCtxPushCurrent_v2", &driver.push},
        {"cuCtxPopCurrent_v2", &driver.pop},
        {"cuMemHostAlloc", &driver.host_alloc},
        {"cuMemFreeHost", &driver.host_free},
        {"cuGetErrorName", &driver.error_name},
    };
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        *(void **)symbols[i].to = dlsym(library, symbols[i].name);
        if (!*(void **)symbols[i].to)
            return fail(err, SLUICE_E_UNSUPPORTED, "the CUDA driver has no %s", symbols[i].name);
    }
    const cuda_result result = driver.init(0);
    if (result != CUDA_OK)
        return fail(err, SLUICE_E_NOT_FOUND, "the CUDA driver does not start: %s", name_of(result));
    is_loaded = true; /* the library stays, as its memory may outlive every loader */
    return SLUICE_OK;
}

/* Any thread; the context is made current for the call alone. */
static sluice_status host_alloc(void *ctx, size_t bytes, void **memory, struct sluice_err *err)
{
    const struct place *place = ctx;
    void *popped, *made = NULL;
    cuda_result result = driver.push(place->context);
    if (result == CUDA_OK) {
        result = driver.host_alloc(&made, bytes, HOST_ALLOC_PORTABLE);
        driver.pop(&popped);
    }
    if (result != CUDA_OK)
        return fail(err, SLUICE_E_NO_MEMORY, "%zu bytes of page-locked memory: %s", bytes,
                    name_of(result));
    *memory = made; /* of whole pages, so aligned */
    return SLUICE_OK;
}

static void host_free(void *ctx, void *memory, size_t bytes)
{
    (void)bytes;
    const struct place *place = ctx;
    void *popped;
    /* At the process's end the driver may have gone already, and the memory with it. */
    if (driver.push(place->context) == CUDA_OK) {
        driver.host_free(memory);
        driver.pop(&popped);
    }
}

static sluice_status open_place(int ordinal, struct sluice_err *err)
{
    struct place *place = &places[ordinal];
    if (place->context)
        return SLUICE_OK;
    int device;
    void *context;
    cuda_result result = driver.device_get(&device, ordinal);
    if (result == CUDA_OK)
        result = driver.primary_retain(&context, device);
    if (result != CUDA_OK)
        return fail(err, SLUICE_E_NOT_FOUND, "CUDA device %d: %s", ordinal, name_of(result));
    place->context = context;
    place->memory =
        (struct sluice_host_memory){.alloc = host_alloc, .free = host_free, .ctx = place};
    return SLUICE_OK;
}

sluice_status sluice_cuda_memory(int device, const struct sluice_host_memory **memory,
                                 struct sluice_err *err)
{
    if (device < 0 || device >= MAX_DEVICES)
        return fail(err, SLUICE_E_INVALID, "CUDA device %d: 0 to %d", device, MAX_DEVICES - 1);
    pthread_mutex_lock(&lock);
    sluice_status status = load_driver(err);
    if (status == SLUICE_OK)
        status = open_place(device, err);
    pthread_mutex_unlock(&lock);
    if (status == SLUICE_OK)
        *memory = &places[device].memory;
    return status;
}
