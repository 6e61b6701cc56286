#ifndef SLUICE_HOST_PASS_FDS_H
#define SLUICE_HOST_PASS_FDS_H

#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Descriptors that travel with a message over a unix socket (SCM_RIGHTS).
 *
 * Threads: any. */

enum { SLUICE_MOST_PASSED_FDS = 2 };

/* As sendmsg() without SIGPIPE; `fds` remain the caller's. */
ssize_t sluice_send_fds(int to, const struct iovec *parts, size_t num_parts, const int *fds,
                        size_t num_fds, int flags);
/* As recvmsg().  `fds`: num_fds new ones, which exec closes; -1 each if another number came. */
ssize_t sluice_receive_fds(int from, const struct iovec *parts, size_t num_parts, int *fds,
                           size_t num_fds, int flags);

#endif
