#include "host/pass_fds.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(SLUICE_MOST_PASSED_FDS * sizeof(int))];
};

ssize_t sluice_send_fds(int to, const struct iovec *parts, size_t num_parts, const int *fds,
                        size_t num_fds, int flags)
{
    union control control = {.bytes = {0}};
    struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = num_parts};
    if (num_fds > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(num_fds * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(num_fds * sizeof(int));
        memcpy(CMSG_DATA(header), fds, num_fds * sizeof(int));
    }
    return sendmsg(to, &message, flags | MSG_NOSIGNAL);
}

ssize_t sluice_receive_fds(int from, const struct iovec *parts, size_t num_parts, int *fds,
                           size_t num_fds, int flags)
{
    union control control = {.bytes = {0}};
    struct msghdr message = {.msg_iov = (struct iovec *)parts,
                             .msg_iovlen = num_parts,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    int came[SLUICE_MOST_PASSED_FDS];
    size_t num_came = 0;
    const ssize_t got = recvmsg(from, &message, flags | MSG_CMSG_CLOEXEC);
    /* The kernel drops what has no room. */
    const struct cmsghdr *header = got >= 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
        num_came = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(came, CMSG_DATA(header), num_came * sizeof(int));
    }
    for (size_t i = 0; i < num_came && num_came != num_fds; i++)
        close(came[i]);
    for (size_t i = 0; i < num_fds; i++)
        fds[i] = num_came == num_fds ? came[i] : -1;
    return got;
}
