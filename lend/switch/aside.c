#include "lend/switch/aside.h"

#include "host/unix_listener.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LOCK_TIMEOUT_MS 10000

/* Declared here, as in cuda.h, which comes with the toolkit. */
enum { CUDA_OK = 0, RUNNING = 0, CHECKPOINTED = 2 };
struct lock_args {
    unsigned timeout_ms, reserved0;
    uint64_t reserved1[7];
};

static struct {
    int (*init)(unsigned flags);
    int (*error_name)(int result, const char **name);
    int (*get_state)(int pid, int *state);
    int (*lock)(int pid, struct lock_args *args);
    int (*checkpoint)(int pid, void *args);
    int (*restore)(int pid, void *args);
    int (*unlock)(int pid, void *args);
} driver;

/* OK, or `status` with what failed and the driver's word for it. */
static sluice_status check(int result, sluice_status status, pid_t pid, const char *what,
                           struct sluice_err *err)
{
    const char *name = NULL;
    if (result == CUDA_OK)
        return SLUICE_OK;
    if (driver.error_name(result, &name) != CUDA_OK || !name)
        name = "unknown error";
    return sluice_fail(err, status, "process %d: %s: %s", (int)pid, what, name);
}

static sluice_status load_driver(struct sluice_err *err)
{
    static bool is_loaded;
    if (is_loaded)
        return SLUICE_OK;
    void *const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "no CUDA driver: %s", dlerror());
    const struct {
        const char *name;
        void *to;
    } symbols[] = {
        {"cuInit", &driver.init},
        {"cuGetErrorName", &driver.error_name},
        {"cuCheckpointProcessGetState", &driver.get_state},
        {"cuCheckpointProcessLock", &driver.lock},
        {"cuCheckpointProcessCheckpoint", &driver.checkpoint},
        {"cuCheckpointProcessRestore", &driver.restore},
        {"cuCheckpointProcessUnlock", &driver.unlock},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(symbols); i++) {
        void *const symbol = dlsym(library, symbols[i].name);
        if (!symbol)
            return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                               "the CUDA driver has no %s: it must be 570 or newer",
                               symbols[i].name);
        memcpy(symbols[i].to, &symbol, sizeof symbol);
    }
    const sluice_status status =
        check(driver.init(0), SLUICE_E_UNSUPPORTED, getpid(), "cuInit", err);
    is_loaded = status == SLUICE_OK;
    return status;
}

/* The owner that lends at the path, and its state for CUDA. */
static sluice_status find(const char *path, pid_t *pid, int *state, struct sluice_err *err)
{
    struct sockaddr_un address;
    struct ucred peer = {0};
    socklen_t length = sizeof peer;
    sluice_status status = sluice_unix_address(path, &address, err);
    if (status != SLUICE_OK)
        return status;
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0); /* as an owner's listener */
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.pid <= 0)
        status = sluice_fail(err, SLUICE_E_NOT_FOUND, "%s: no process is found: %s", path,
                             strerror(errno));
    if (fd >= 0)
        close(fd);
    if (status == SLUICE_OK)
        status = load_driver(err);
    *pid = peer.pid;
    return status != SLUICE_OK ? status
                               : check(driver.get_state(peer.pid, state), SLUICE_E_INVALID,
                                       peer.pid, "it does not use CUDA", err);
}

sluice_status switch_aside_put(const char *path, struct sluice_err *err)
{
    struct lock_args args = {.timeout_ms = LOCK_TIMEOUT_MS};
    int state = RUNNING;
    pid_t pid = 0;
    sluice_status status = find(path, &pid, &state, err);
    if (status == SLUICE_OK && state != RUNNING)
        status = sluice_fail(err, SLUICE_E_INVALID, "process %d is locked or aside", (int)pid);
    if (status == SLUICE_OK)
        status = check(driver.lock(pid, &args), SLUICE_E_IO, pid, "it cannot be locked", err);
    if (status != SLUICE_OK)
        return status;
    status = check(driver.checkpoint(pid, NULL), SLUICE_E_IO, pid,
                   "its memory on the GPU cannot be put aside", err);
    if (status != SLUICE_OK)
        (void)driver.unlock(pid, NULL);
    return status;
}

sluice_status switch_aside_return(const char *path, struct sluice_err *err)
{
    int state = RUNNING;
    pid_t pid = 0;
    sluice_status status = find(path, &pid, &state, err);
    if (status != SLUICE_OK || state == RUNNING)
        return status;
    if (state == CHECKPOINTED)
        status = check(driver.restore(pid, NULL), SLUICE_E_IO, pid,
                       "its memory on the GPU does not come back", err);
    if (status == SLUICE_OK)
        status = check(driver.unlock(pid, NULL), SLUICE_E_IO, pid, "it cannot be unlocked", err);
    return status;
}
