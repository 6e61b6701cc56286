#ifndef SLUICE_BASE_QUEUE_H
#define SLUICE_BASE_QUEUE_H

#include "base/error.h"

#include <stddef.h>

/* A bounded first-in, first-out queue of pointers between threads.
 *
 * The promise: an item that was accepted comes out exactly once, also after the
 * queue was closed; an item that was not stays the caller's.  The queue never
 * looks behind a pointer.
 *
 * Threads: any number may push, pop and close; create and destroy alone. */

struct sluice_queue;

/* capacity >= 1, allocated at once: nothing later can run out of memory. */
SLUICE_MUST_USE sluice_status sluice_queue_create(size_t capacity, struct sluice_queue **queue,
                                                  struct sluice_err *err);

/* NULL is allowed.  Items still inside are dropped unseen: pop them first. */
void sluice_queue_destroy(struct sluice_queue *queue);

/* SLUICE_E_AGAIN: full; SLUICE_E_CLOSED.  Never waits. */
SLUICE_MUST_USE sluice_status sluice_queue_try_push(struct sluice_queue *queue, void *item);

/* Waits for room; SLUICE_E_CLOSED, also for those that wait when it is closed. */
SLUICE_MUST_USE sluice_status sluice_queue_push(struct sluice_queue *queue, void *item);

/* Waits up to timeout_ms (0: not at all; < 0: for ever) for an item.
 * SLUICE_E_AGAIN: none came; SLUICE_E_CLOSED: closed and empty, none will. */
SLUICE_MUST_USE sluice_status sluice_queue_pop(struct sluice_queue *queue, int timeout_ms,
                                               void **item);

/* Refuses new items from here on and wakes everyone who waits; what is inside
 * can still be popped.  May be called twice. */
void sluice_queue_close(struct sluice_queue *queue);

size_t sluice_queue_depth(struct sluice_queue *queue); /* at this moment */

#endif
