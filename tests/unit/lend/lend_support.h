#ifndef SLUICE_TESTS_LEND_SUPPORT_H
#define SLUICE_TESTS_LEND_SUPPORT_H

#include "sluice/lend.h"

#include "support/test.h"

#include <pthread.h>
#include <sys/types.h>

/* Borrowers in processes of their own: this program again, so that sanitizers work in them. */

struct lend_child {
    pid_t pid;
    int to, from; /* pipes */
};

enum lend_order {
    LEND_OPEN,  /* value: priority; limit: at_most_ms */
    LEND_TAKE,  /* value: timeout_ms */
    LEND_GIVE,  /* value: ticket; the reply's status is 1 if it was given */
    LEND_CLOSE, /* the borrower, not the process */
    LEND_CYCLE, /* takes and gives until it is killed; no reply but the first */
    LEND_USER,  /* value: a user that the process becomes */
};

struct lend_reply {
    int status; /* -1: the process is gone */
    uint32_t ticket;
    char text[256];
};

struct lend_child lend_child_start(const char *path);
void lend_child_send(const struct lend_child *child, enum lend_order order, int value, int limit);
struct lend_reply lend_child_reply(const struct lend_child *child);
/* Both. */
struct lend_reply lend_child_do(const struct lend_child *child, enum lend_order order, int value);
/* With this signal, or 0: at the end of its orders.  Waits until it is gone. */
void lend_child_end(struct lend_child *child, int signal);

/* An owner without a device. */
struct sluice_lend *lend_open(const char *path, uint32_t at_most_ms);
struct sluice_lend_counters lend_counters(struct sluice_lend *lend);

/* Runs sluice_lend_point() in a thread. */
struct lend_point {
    struct sluice_lend *lend;
    pthread_t thread;
    _Atomic int tid;
    _Atomic int is_done;
};
void lend_point_start(struct lend_point *point, struct sluice_lend *lend);
/* Whether it waits: true once its thread sleeps in the kernel, false if it has returned. */
bool lend_point_waits(struct lend_point *point);
void lend_point_join(struct lend_point *point);

#endif
