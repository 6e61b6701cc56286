#ifndef SLUICE_LEND_CHANNEL_H
#define SLUICE_LEND_CHANNEL_H

#include "lend/page.h"
#include "lend/tuning.h"

#include <sys/socket.h>
#include <sys/types.h>

/* The unix socket by which a borrower gets the owner's page.
 *
 *     borrower                                  owner
 *        |---- hello: priority, at_most_ms ------->|   looks who it is (SO_PEERCRED)
 *        |<--- answer: slot, the page's memfd -----|   or a status and a reason
 *        |                  ...                    |
 *     its end, however it comes, hangs up the socket: the owner frees the slot, and vice versa
 *
 * One message in each direction (SOCK_SEQPACKET keeps their bounds).  The sockets are those of
 * sluice_process_own_socket().
 *
 * Threads: any. */

#define SLUICE_LEND_MAGIC 0x534c4c31u /* "SLL1" */
#define SLUICE_LEND_VERSION 1u        /* of the messages, and of the page that comes with them */

struct sluice_lend_hello {
    uint32_t magic, version, priority, at_most_ms;
};

struct sluice_lend_answer {
    uint32_t magic, version;
    uint32_t status; /* sluice_status */
    uint32_t slot, generation;
    char text[236]; /* the reason of a refusal */
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

/* The message that has come.  SLUICE_E_AGAIN: none yet; SLUICE_E_CLOSED: hung up. */
SLUICE_MUST_USE sluice_status sluice_lend_read_hello(int fd, struct sluice_lend_hello *hello,
                                                     struct ucred *peer, struct sluice_err *err);
/* memfd: -1 with a refusal.  False: it could not be sent. */
bool sluice_lend_send_answer(int fd, struct sluice_lend_answer *answer, int memfd);

/* A new page in memory that nobody can make larger or smaller.  *page: NULL before. */
SLUICE_MUST_USE sluice_status sluice_lend_page_create(struct sluice_lend_page **page, int *memfd,
                                                      struct sluice_err *err);
/* Also what a create that failed left: NULL, -1. */
void sluice_lend_page_clear(struct sluice_lend_page *page, int memfd);

/* --- a borrower --- */

/* The page ends with sluice_lend_page_clear(), the socket with
 * sluice_process_end_socket(). */
SLUICE_MUST_USE sluice_status sluice_lend_connect(const char *path,
                                                  const struct sluice_lend_hello *hello, int *fd,
                                                  struct sluice_lend_page **page, unsigned *slot,
                                                  uint32_t *generation, struct sluice_err *err);
/* Whether the owner is gone. */
bool sluice_lend_is_hung_up(int fd);

#endif
