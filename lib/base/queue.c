#include "base/queue.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/cond.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct sluice_queue {
    pthread_mutex_t lock;
    pthread_cond_t item; /* an item came in, or the queue was closed */
    pthread_cond_t room; /* an item went out, or the queue was closed */
    size_t first, depth;
    bool is_closed;

    size_t capacity; /* constant */
    void *items[];
};

sluice_status sluice_queue_create(size_t capacity, struct sluice_queue **out,
                                  struct sluice_err *err)
{
    if (capacity < 1)
        return sluice_fail(err, SLUICE_E_INVALID, "a queue of no capacity");
    size_t bytes;
    struct sluice_queue *queue = NULL;
    if (sluice_mul_size(capacity, sizeof(queue->items[0]), &bytes) &&
        sluice_add_size(bytes, sizeof(*queue), &bytes))
        queue = calloc(1, bytes);
    if (!queue)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a queue of %zu", capacity);

    pthread_mutex_init(&queue->lock, NULL);
    sluice_cond_init(&queue->item);
    sluice_cond_init(&queue->room);
    queue->capacity = capacity;
    *out = queue;
    return SLUICE_OK;
}

void sluice_queue_destroy(struct sluice_queue *queue)
{
    if (!queue)
        return;
    pthread_cond_destroy(&queue->room);
    pthread_cond_destroy(&queue->item);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

static sluice_status push(struct sluice_queue *queue, void *item, bool may_wait)
{
    sluice_status status = SLUICE_OK;
    pthread_mutex_lock(&queue->lock);
    while (may_wait && queue->depth == queue->capacity && !queue->is_closed)
        pthread_cond_wait(&queue->room, &queue->lock);
    if (queue->is_closed) {
        status = SLUICE_E_CLOSED;
    } else if (queue->depth == queue->capacity) {
        status = SLUICE_E_AGAIN;
    } else {
        /* Not (first + depth) % capacity alone: the sum must not overflow. */
        const size_t until_end = queue->capacity - queue->first;
        const size_t at =
            queue->depth < until_end ? queue->first + queue->depth : queue->depth - until_end;
        queue->items[at] = item;
        queue->depth++;
        pthread_cond_signal(&queue->item);
    }
    pthread_mutex_unlock(&queue->lock);
    return status;
}

sluice_status sluice_queue_try_push(struct sluice_queue *queue, void *item)
{
    return push(queue, item, false);
}

sluice_status sluice_queue_push(struct sluice_queue *queue, void *item)
{
    return push(queue, item, true);
}

sluice_status sluice_queue_pop(struct sluice_queue *queue, int timeout_ms, void **item)
{
    const uint64_t until_ns =
        timeout_ms < 0 ? UINT64_MAX : sluice_clock_ns() + (uint64_t)timeout_ms * 1000000u;
    sluice_status status = SLUICE_OK;
    pthread_mutex_lock(&queue->lock);
    bool has_time = timeout_ms != 0;
    while (has_time && queue->depth == 0 && !queue->is_closed)
        has_time = sluice_cond_wait_until(&queue->item, &queue->lock, until_ns);
    if (queue->depth > 0) {
        *item = queue->items[queue->first];
        queue->first = queue->first + 1 == queue->capacity ? 0 : queue->first + 1;
        queue->depth--;
        pthread_cond_signal(&queue->room);
    } else {
        status = queue->is_closed ? SLUICE_E_CLOSED : SLUICE_E_AGAIN;
    }
    pthread_mutex_unlock(&queue->lock);
    return status;
}

void sluice_queue_close(struct sluice_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->is_closed = true;
    pthread_cond_broadcast(&queue->item);
    pthread_cond_broadcast(&queue->room);
    pthread_mutex_unlock(&queue->lock);
}

size_t sluice_queue_depth(struct sluice_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    const size_t depth = queue->depth;
    pthread_mutex_unlock(&queue->lock);
    return depth;
}
