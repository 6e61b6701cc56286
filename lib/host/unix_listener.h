#ifndef SLUICE_HOST_UNIX_LISTENER_H
#define SLUICE_HOST_UNIX_LISTENER_H

#include "base/error.h"

#include <sys/types.h>
#include <sys/un.h>

/* A listening unix socket at a path (SOCK_SEQPACKET: messages keep their bounds).  A socket that a
 * dead process left there is replaced; one that somebody listens at, or anything else, is not.
 *
 * Threads: one at a time for each. */

struct sluice_unix_listener {
    int fd; /* not blocking; of sluice_process_own_socket() */
    char *path;
    dev_t device; /* of the socket's file */
    ino_t inode;
};

/* SLUICE_E_INVALID: the path is empty or too long. */
SLUICE_MUST_USE sluice_status sluice_unix_address(const char *path, struct sockaddr_un *address,
                                                  struct sluice_err *err);

/* `mode`: who may connect.  SLUICE_E_INVALID: somebody listens there, or it is not a socket. */
SLUICE_MUST_USE sluice_status sluice_unix_listen(const char *path, mode_t mode, int backlog,
                                                 struct sluice_unix_listener *listener,
                                                 struct sluice_err *err);
/* A new connection, which does not block, ended with sluice_process_end_socket(); -1: see errno. */
int sluice_unix_accept(const struct sluice_unix_listener *listener);
/* Removes the socket's file, if it is still this one's. */
void sluice_unix_unlink(const struct sluice_unix_listener *listener);
/* Leaves the file. */
void sluice_unix_close(struct sluice_unix_listener *listener);

#endif
