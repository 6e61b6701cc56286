/* To preload: accept4() fails with the error number of DEAF while the file DEAF_IF exists. */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int accept4(int fd, struct sockaddr *addr, socklen_t *addr_len, int flags)
{
    int (*next)(int, struct sockaddr *, socklen_t *, int);
    void *found = dlsym(RTLD_NEXT, "accept4");
    memcpy(&next, &found, sizeof(found)); /* C has no cast between the two */
    const char *error = getenv("DEAF"), *file = getenv("DEAF_IF");
    if (error && file && access(file, F_OK) == 0) {
        errno = (int)strtol(error, NULL, 10);
        return -1;
    }
    return next(fd, addr, addr_len, flags);
}
