#ifndef SLUICE_STORAGE_SERVER_SESSION_MEMORY_BUDGET_H
#define SLUICE_STORAGE_SERVER_SESSION_MEMORY_BUDGET_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One budget for the memory that the server holds for clients: waiting requests, replies from their
 * scheduling until the transport has released them, and probes.
 *
 *     session (a client, session.h)  ->  holder (a stream or a call)  ->  bytes taken and given
 * back
 *
 * A job takes an estimate before the work and corrects it to the buffer's size afterwards.  A
 * holder that is refused waits, and is called once there is room.
 *
 * Shares are dynamic thresholds (Choudhury, Hahne, "Dynamic queue length thresholds for
 * shared-memory packet switches", 1998): a client may hold MEMORY_SHARE times the free bytes, and a
 * holder the same multiple of the bytes that its client may still take.  So one client alone has
 * two thirds of the budget, two have two fifths each, and a newcomer always finds room.  Memory is
 * never taken back, because it cannot be: a client that never reads keeps its share.  One sample
 * can always be worked on: a client that holds nothing may take everything that is free, and a
 * holder that holds nothing may take everything that its client may.
 *
 * The shares are estimates, so the budget also measures: while anything is held, a thread reads the
 * resident memory of the process.  While it is above the limit, nothing more can be taken, and
 * freed memory is returned to the system.
 *
 * Threads: any.  The lock is a leaf; the waiter is called on the budget's own thread without it. */

struct sluice_memory_budget;
struct sluice_memory_holder;
struct sluice_session;

struct sluice_memory_options {
    uint64_t bytes; /* to share out */
    /* Resident bytes above which nothing can be taken; resident() reads them, NULL: not measured. */
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
/* Ends the thread; remaining waiters are called once more.  No wait may follow.  NULL is allowed;
 * twice is fine. */
void sluice_memory_budget_close(struct sluice_memory_budget *budget);
/* Call it after close, with no holder open.  Bytes may still be held: the last to be given back
 * frees the budget. */
void sluice_memory_budget_destroy(struct sluice_memory_budget *budget); /* NULL is allowed */

/* Opens a holder for a stream or call of the session; keeps a reference to the session.  `on_room`
 * may be NULL if the holder never waits.  Returns NULL if there is no memory. */
struct sluice_memory_holder *sluice_memory_open(struct sluice_memory_budget *budget,
                                                struct sluice_session *session,
                                                void (*on_room)(void *ctx), void *ctx);
/* Its memory may be released later.  Does not wait.  NULL is allowed. */
void sluice_memory_close(struct sluice_memory_holder *holder);

/* Requests still have a little room when replies have none: a client that reads slowly may still
 * ask. */
enum sluice_memory_use { SLUICE_MEMORY_REPLY, SLUICE_MEMORY_REQUEST };

/* False: the bytes do not fit at the moment. */
SLUICE_MUST_USE bool sluice_memory_take(struct sluice_memory_holder *holder, size_t bytes,
                                        enum sluice_memory_use use);
void sluice_memory_give(struct sluice_memory_holder *holder, size_t bytes);
/* The same as a buffer's hook (sluice_buf_on_last()). */
void sluice_memory_give_hook(void *holder, size_t bytes);

/* Call it after a take for a reply was refused: on_room(ctx) is called once, when `bytes` may fit.
 * False: they fit already, or the budget is closed, when everything fits. */
SLUICE_MUST_USE bool sluice_memory_wait(struct sluice_memory_holder *holder, size_t bytes);

/* The holder need not be called any more.  False: it did not wait, or is being called now. */
bool sluice_memory_forget(struct sluice_memory_holder *holder);

/* The process's own memory has grown by `bytes` (< 0: shrunk); most_resident moves with it. */
void sluice_memory_budget_shift(struct sluice_memory_budget *budget, int64_t bytes);

/* Measures whether resident memory is more than a quarter of the budget above most_resident, after
 * freed memory was returned: more than the taken bytes explain.  May call trim(). */
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
