#include "rpc/grpc151/interpose.h"

#include "rpc/grpc151/door.h"

#include <grpc/grpc.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef ssize_t recvmsg_fn(int, struct msghdr *, int);
static accept4_fn *next_accept4;
static recvmsg_fn *next_recvmsg;

#if defined(__SANITIZE_THREAD__)
/* ThreadSanitizer cannot see what the library reads into its buffers, nor when it passes them on;
 * so it must not see half of it, either (tests/support/tsan.supp). */
static int plain_accept4(int listener, struct sockaddr *address, socklen_t *len, int flags)
{
    return (int)syscall(SYS_accept4, listener, address, len, flags);
}

static ssize_t plain_recvmsg(int fd, struct msghdr *message, int flags)
{
    return syscall(SYS_recvmsg, fd, message, flags);
}

static void find_next(void)
{
    next_accept4 = plain_accept4;
    next_recvmsg = plain_recvmsg;
}
#else
static void find_next(void)
{
    void *found = dlsym(RTLD_NEXT, "accept4");
    memcpy(&next_accept4, &found, sizeof(found)); /* C has no cast between the two */
    found = dlsym(RTLD_NEXT, "recvmsg");
    memcpy(&next_recvmsg, &found, sizeof(found));
    if (!next_accept4 || !next_recvmsg)
        abort();
}
#endif

static void find_next_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_next);
}

/* Whether an error of accept4() concerns this connection or is temporary, rather than the listener.
 */
static bool is_passing(int error)
{
    switch (error) {
    case EBADF:
    case EFAULT:
    case EINVAL: /* also: the listener was shut down */
    case ENOTSOCK:
        return false;
    default:
        return true;
    }
}

SLUICE_EXPORTED int accept4(int fd, struct sockaddr *addr, socklen_t *addr_len, int flags)
{
    find_next_once();
    for (;;) {
        union {
            struct sockaddr any;
            struct sockaddr_storage room;
        } peer = {.any = {0}};
        socklen_t len = sizeof(peer);
        const int accepted = next_accept4(fd, &peer.any, &len, flags);
        if (accepted < 0) {
            const int error = errno;
            if (error == EAGAIN || error == EINTR || !is_passing(error) || !door_has(fd)) {
                errno = error;
                return -1;
            }
            if (error == EMFILE || error == ENFILE) {
                if (door_refuses_with_reserve(fd, next_accept4))
                    continue;
            } else if (error != ENOBUFS && error != ENOMEM) {
                continue; /* an error of the connection, which is gone from the queue */
            }
            errno = EAGAIN; /* the next connection wakes the listener */
            return -1;
        }
        if (door_refuses(accepted, &peer.any))
            continue;
        if (addr && addr_len) {
            memcpy(addr, &peer, *addr_len < len ? *addr_len : len);
            *addr_len = len;
        }
        return accepted;
    }
}

SLUICE_EXPORTED ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    find_next_once();
    const ssize_t len = next_recvmsg(fd, message, flags);
    if (len <= 0 || flags != 0)
        return len;
    return door_cuts(fd, message, (size_t)len) ? 0 : len; /* 0: the peer has closed */
}

bool interpose_is_before_grpc(void)
{
    /* C has no casts from functions to data. */
    accept4_fn *const ours = accept4;
    void (*const grpcs)(void) = grpc_init;
    void *own, *library;
    memcpy(&own, &ours, sizeof(own));
    memcpy(&library, &grpcs, sizeof(library));
    Dl_info own_object, library_object;
    return dlsym(RTLD_DEFAULT, "accept4") == own ||
           (dladdr(own, &own_object) && dladdr(library, &library_object) &&
            own_object.dli_fbase == library_object.dli_fbase);
}
