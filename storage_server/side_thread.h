#ifndef SLUICE_STORAGE_SERVER_SIDE_THREAD_H
#define SLUICE_STORAGE_SERVER_SIDE_THREAD_H

#include "base/error.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A module's own thread, such as a watchdog or a timer: it sleeps until a time or until a change is
 * signalled, works, and sleeps again.
 *
 *     static void *watch_main(void *ctx)
 *     {
 *         struct watch *watch = ctx;
 *         pthread_mutex_lock(&watch->lock);
 *         while (sluice_side_thread_sleep(&watch->thread, watch->next_ns))
 *             look(watch);                    releases the lock meanwhile, if it takes long
 *         pthread_mutex_unlock(&watch->lock);
 *         return NULL;
 *     }
 *
 * Threads: open, stop and clear on one at a time; the rest under the module's lock. */

struct sluice_side_thread {
    pthread_cond_t changed;  /* wakes the thread; also signals is_stopping */
    atomic_bool is_stopping; /* set under the lock; read also without it */

    pthread_mutex_t *lock; /* private from here; the module's */
    pthread_t thread;
    bool is_running;
};

/* Starts `main`, which must return once is_stopping.  Borrows the lock until clear.  SLUICE_E_IO:
 * "cannot start WHAT: ...", and there is nothing to clear. */
SLUICE_MUST_USE sluice_status sluice_side_thread_open(struct sluice_side_thread *thread,
                                                      pthread_mutex_t *lock,
                                                      void *(*main)(void *ctx), void *ctx,
                                                      const char *what, struct sluice_err *err);

/* Sleeps until `until_ns` or a stop; other signals of `changed` do not end the sleep.  Call it on
 * the thread, under the lock, which is released during the sleep.  False: the thread must stop. */
bool sluice_side_thread_sleep(struct sluice_side_thread *thread, uint64_t until_ns);

/* Stops the thread and waits for its end.  Call it without the lock; twice is fine. */
void sluice_side_thread_stop(struct sluice_side_thread *thread);

/* Stops the thread and destroys `changed`.  Does nothing to {0}. */
void sluice_side_thread_clear(struct sluice_side_thread *thread);

#endif
