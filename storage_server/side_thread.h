#ifndef SLUICE_STORAGE_SERVER_SIDE_THREAD_H
#define SLUICE_STORAGE_SERVER_SIDE_THREAD_H

#include "base/error.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A thread of a module's own that sleeps until a time, or until something has changed, and works
 * in between, as a watchdog or a timer does.
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
    pthread_cond_t changed;  /* what the thread waits for, is_stopping among it */
    atomic_bool is_stopping; /* set under the lock; read also without it */

    pthread_mutex_t *lock; /* private from here; the module's */
    pthread_t thread;
    bool is_running;
};

/* Starts `main`, which returns once is_stopping.  Borrows the lock until clear.  SLUICE_E_IO
 * "cannot start WHAT: ..."; nothing is left to clear then. */
SLUICE_MUST_USE sluice_status sluice_side_thread_open(struct sluice_side_thread *thread,
                                                      pthread_mutex_t *lock,
                                                      void *(*main)(void *ctx), void *ctx,
                                                      const char *what, struct sluice_err *err);

/* On the thread, under the lock, which is released meanwhile: sleeps until then, whatever changes.
 * False: it is to stop. */
bool sluice_side_thread_sleep(struct sluice_side_thread *thread, uint64_t until_ns);

/* Tells the thread to stop, and waits for its end; without the lock.  Twice is fine. */
void sluice_side_thread_stop(struct sluice_side_thread *thread);

/* Stops it.  Nobody uses `changed` any more.  Of {0} nothing. */
void sluice_side_thread_clear(struct sluice_side_thread *thread);

#endif
