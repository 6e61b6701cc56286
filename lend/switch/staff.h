#ifndef SLUICE_LEND_SWITCH_STAFF_H
#define SLUICE_LEND_SWITCH_STAFF_H

#include "lend/switch/board.h"

#include <sys/types.h>

/* The worker processes of the server: its own program, started with a socket and the shared memory.  One
 * that dies is started again, at once if it was ready, else after 5 s.
 *
 *     ABSENT --start--> STARTING --READY--> IDLE <--order, note--> BUSY
 *        ^-------------------- its socket closes -------------------'
 *
 * Threads: one. */

struct switch_worker {
    enum {
        SWITCH_WORKER_ABSENT,
        SWITCH_WORKER_STARTING,
        SWITCH_WORKER_IDLE,
        SWITCH_WORKER_BUSY
    } state;
    bool is_training; /* its role */
    pid_t pid;
    int fd; /* SOCK_SEQPACKET, not blocking; -1: none */
    uint64_t start_at_ns, busy_since_ns;
};

struct switch_staff {
    const struct switch_options *options;
    char **argv; /* the server's */
    int argc;
    const char *lend; /* the socket of whom they take the GPU from; "": nobody */
    int weights_fd, board_fd;
    struct switch_worker workers[SWITCH_MAX_WORKERS + 1];
    unsigned num_workers;  /* with the training one, the last, if models are trained */
    uint64_t num_replaced; /* starts of absent ones */
};

/* Ends all processes: by closing their sockets, and after 5 s by SIGKILL.  Nothing else comes after it. */
void switch_staff_clear(struct switch_staff *staff);

/* STARTING, or ABSENT after a line in the log. */
void switch_staff_start(struct switch_staff *staff, struct switch_worker *worker);
/* Starts those that are absent and whose time has come. */
void switch_staff_restart(struct switch_staff *staff, uint64_t now_ns);

/* Makes the worker BUSY.  False: it is gone, which switch_staff_read() will say. */
bool switch_staff_order(struct switch_worker *worker, const struct switch_order *order);

enum switch_read { SWITCH_READ_NOTE, SWITCH_READ_NOTHING, SWITCH_READ_GONE };
/* The worker's next note, with which it is IDLE.  GONE: it died, and is ABSENT. */
enum switch_read switch_staff_read(struct switch_worker *worker, struct switch_note *note);

#endif
