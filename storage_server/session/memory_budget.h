#ifndef SLUICE_STORAGE_SERVER_SESSION_MEMORY_BUDGET_H
#define SLUICE_STORAGE_SERVER_SESSION_MEMORY_BUDGET_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One budget for the memory that clients make the server hold: requests that wait, replies from
 * the moment they are scheduled until the transport has let go of them, and probes.
 *
 *     session (a client, session.h)  ->  holder (a stream or a call)  ->  bytes taken and given
 * back
 *
 * What is taken is an estimate before the work and the buffer's size afterwards.  Who is refused
 * waits, and is called once there is room.
 *
 * Shares are dynamic thresholds (Choudhury, Hahne, "Dynamic queue length thresholds for
 * shared-memory packet switches", 1998): a client may hold MEMORY_SHARE times what is free, and a
 * holder that much of what its client may still take.  So one client alone has two thirds of the
 * budget, two have two fifths each, and whoever comes finds room, without anything being taken from
 * those who are there, which could not give it: a client that never reads keeps what it has.  One
 * sample may always be worked on: a client that holds nothing may take all that is free, a holder
 * that holds nothing all that its client may.
 *
 * That is the estimate.  The measure is the process: a thread reads its resident memory while
 * something is held, and while that is more than the limit nothing new is taken; freed memory is
 * returned to the system.
 *
 * Threads: any.  The lock is a leaf; the waiter is called on the budget's own thread without it. */

struct sluice_memory_budget;
struct sluice_memory_holder;
struct sluice_session;

struct sluice_memory_options {
    uint64_t bytes; /* to share out */
    /* Resident bytes above which nothing is taken, and what reads them; NULL: not measured. */
    uint64_t most_resident;
    uint64_t (*resident)(void);
    /* Returns freed memory to the system; called on the budget's thread, or that of
     * sluice_memory_is_beyond().  NULL: nothing. */
    void (*trim)(void *ctx);
    void *ctx;
};

SLUICE_MUST_USE sluice_status
sluice_memory_budget_create(const struct sluice_memory_options *options,
                            struct sluice_memory_budget **budget, struct sluice_err *err);
/* Ends the thread: waiters that are left are called once more.  No wait may follow.  NULL is
 * allowed; may be called twice. */
void sluice_memory_budget_close(struct sluice_memory_budget *budget);
/* After close; no holder is open, but bytes may still be held: the last one frees it. */
void sluice_memory_budget_destroy(struct sluice_memory_budget *budget); /* NULL is allowed */

/* A stream or call of the session, to which it keeps a reference.  `on_room` may be NULL if it
 * never waits.  NULL: no memory. */
struct sluice_memory_holder *sluice_memory_open(struct sluice_memory_budget *budget,
                                                struct sluice_session *session,
                                                void (*on_room)(void *ctx), void *ctx);
/* Its memory may be released later.  Does not wait.  NULL is allowed. */
void sluice_memory_close(struct sluice_memory_holder *holder);

/* Requests find a little room where replies find none: a client that reads slowly may still ask. */
enum sluice_memory_use { SLUICE_MEMORY_REPLY, SLUICE_MEMORY_REQUEST };

/* False: there is no room for it now. */
SLUICE_MUST_USE bool sluice_memory_take(struct sluice_memory_holder *holder, size_t bytes,
                                        enum sluice_memory_use use);
void sluice_memory_give(struct sluice_memory_holder *holder, size_t bytes);
/* The same as a buffer's hook (sluice_buf_on_last()). */
void sluice_memory_give_hook(void *holder, size_t bytes);

/* After a take for a reply was refused: on_room(ctx) is called once, when so much may fit.  False:
 * it fits by now, or the budget is closed, when everything does. */
SLUICE_MUST_USE bool sluice_memory_wait(struct sluice_memory_holder *holder, size_t bytes);

/* The holder need not be called any more.  False: it did not wait, or is being called now. */
bool sluice_memory_forget(struct sluice_memory_holder *holder);

/* The process itself holds so much more than before, or less: most_resident moves with it.  Any
 * thread. */
void sluice_memory_budget_shift(struct sluice_memory_budget *budget, int64_t bytes);

/* Measures: is the process larger than all that is taken explains, by a quarter of the budget above
 * most_resident, even with freed memory returned?  trim() is called here, too. */
bool sluice_memory_is_beyond(struct sluice_memory_budget *budget);

/* Whether these bytes could ever be taken. */
bool sluice_memory_could_fit(const struct sluice_memory_budget *budget, uint64_t bytes);

struct sluice_memory_stats {
    uint64_t bytes, used, peak; /* the budget; held now; most that was held */
    uint64_t refused;           /* takes that found no room */
    unsigned num_waiting;
};
struct sluice_memory_stats sluice_memory_stats(struct sluice_memory_budget *budget);

#endif
