#ifndef SLUICE_LEND_CHANNEL_H
#define SLUICE_LEND_CHANNEL_H

#include "lend/page.h"

#include <sys/types.h>

/* The unix socket by which a borrower gets the owner's page.
 *
 *     borrower                                  owner
 *        |---- hello: priority, at_most_ms ------->|   looks who it is (SO_PEERCRED)
 *        |<--- answer: slot, the page's memfd -----|   or a status and a reason
 *        |                  ...                    |
 *     its end, however it comes, hangs up the socket: the owner frees the slot, and vice versa
 *
 * One message in each direction (SOCK_SEQPACKET keeps their bounds).  The descriptors here are
 * closed by exec, and in the child by fork(), so that a child does not keep up a dead parent's end.
 *
 * Threads: any. */

#define SLUICE_LEND_ANSWER_MS 5000 /* that one end waits for the other's message */

struct sluice_lend_hello {
    uint32_t priority, at_most_ms;
};

struct sluice_lend_answer {
    uint32_t status; /* sluice_status */
    uint32_t slot, generation;
    char text[240]; /* the reason of a refusal */
};

enum {
    SLUICE_LEND_HELLO_BYTES = 16,
    SLUICE_LEND_ANSWER_BYTES = 8 + sizeof(struct sluice_lend_answer)
};

/* SLUICE_E_CORRUPT: not a hello.  SLUICE_E_UNSUPPORTED: of another version. */
SLUICE_MUST_USE sluice_status sluice_lend_hello_parse(const uint8_t *bytes, size_t len,
                                                      struct sluice_lend_hello *hello,
                                                      struct sluice_err *err);
/* The status of a refusal, with its reason, too. */
SLUICE_MUST_USE sluice_status sluice_lend_answer_parse(const uint8_t *bytes, size_t len,
                                                       struct sluice_lend_answer *answer,
                                                       struct sluice_err *err);

/* --- the owner --- */

struct sluice_lend_listener {
    int fd;
    char *path;
    dev_t device; /* of the socket's file */
    ino_t inode;
};

/* Users other than this process's may connect if `is_for_others`. */
SLUICE_MUST_USE sluice_status sluice_lend_listen(const char *path, bool is_for_others,
                                                 struct sluice_lend_listener *listener,
                                                 struct sluice_err *err);
/* Removes the socket's file, if it is still this one's. */
void sluice_lend_unlink(const struct sluice_lend_listener *listener);
void sluice_lend_listener_close(struct sluice_lend_listener *listener);
/* A new connection, or -1: none, or no descriptor for it. */
int sluice_lend_accept(const struct sluice_lend_listener *listener);
/* The message that has come.  SLUICE_E_AGAIN: none yet; SLUICE_E_CLOSED: hung up. */
SLUICE_MUST_USE sluice_status sluice_lend_read_hello(int fd, struct sluice_lend_hello *hello,
                                                     uid_t *uid, pid_t *pid,
                                                     struct sluice_err *err);
/* memfd: -1 with a refusal.  False: it could not be sent. */
bool sluice_lend_send_answer(int fd, const struct sluice_lend_answer *answer, int memfd);
void sluice_lend_hang_up(int fd);

/* A new page in memory that nobody can make larger or smaller. */
SLUICE_MUST_USE sluice_status sluice_lend_page_create(struct sluice_lend_page **page, int *memfd,
                                                      struct sluice_err *err);
void sluice_lend_page_unmap(struct sluice_lend_page *page); /* NULL is allowed */

/* --- a borrower --- */

/* The page is unmapped with sluice_lend_page_unmap(), the socket closed with
 * sluice_lend_hang_up(). */
SLUICE_MUST_USE sluice_status sluice_lend_connect(const char *path,
                                                  const struct sluice_lend_hello *hello, int *fd,
                                                  struct sluice_lend_page **page, unsigned *slot,
                                                  uint32_t *generation, struct sluice_err *err);
/* Whether the owner is gone. */
bool sluice_lend_is_hung_up(int fd);

#endif
