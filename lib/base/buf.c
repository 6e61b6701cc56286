#include "base/buf.h"

#include "base/checked.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

/* Classes: four per power of two from 4 KiB, so that a buffer wastes at most a
 * quarter.  Larger than the last class: exact, never cached. */
#define MIN_SHIFT 12
#define NUM_CLASSES 64
#define UNPOOLED NUM_CLASSES

struct sluice_buf_pool {
    pthread_mutex_t lock;
    struct sluice_buf *cached[NUM_CLASSES];
    size_t cached_bytes;
    size_t live; /* buffers handed out */
    bool is_destroyed;

    size_t max_cached_bytes; /* constant */
};

static size_t class_capacity(unsigned size_class)
{
    const size_t base = (size_t)1 << (MIN_SHIFT + size_class / 4);
    return base + (base / 4) * (size_class % 4);
}

static unsigned class_for(size_t capacity)
{
    for (unsigned c = 0; c < NUM_CLASSES; c++) {
        if (class_capacity(c) >= capacity)
            return c;
    }
    return UNPOOLED;
}

sluice_status sluice_buf_pool_create(size_t max_cached_bytes, struct sluice_buf_pool **pool,
                                     struct sluice_err *err)
{
    struct sluice_buf_pool *p = calloc(1, sizeof(*p));
    if (!p)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a buffer pool");
    pthread_mutex_init(&p->lock, NULL);
    p->max_cached_bytes = max_cached_bytes;
    *pool = p;
    return SLUICE_OK;
}

static void buf_free(struct sluice_buf *buf)
{
    free(buf->data);
    free(buf);
}

static void pool_free(struct sluice_buf_pool *pool)
{
    for (unsigned c = 0; c < NUM_CLASSES; c++) {
        while (pool->cached[c]) {
            struct sluice_buf *buf = pool->cached[c];
            pool->cached[c] = buf->next;
            buf_free(buf);
        }
    }
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

void sluice_buf_pool_destroy(struct sluice_buf_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->is_destroyed = true;
    const bool is_last = pool->live == 0;
    pthread_mutex_unlock(&pool->lock);
    if (is_last)
        pool_free(pool);
}

static struct sluice_buf *pool_take(struct sluice_buf_pool *pool, unsigned size_class)
{
    pthread_mutex_lock(&pool->lock);
    struct sluice_buf *buf = size_class < NUM_CLASSES ? pool->cached[size_class] : NULL;
    if (buf) {
        pool->cached[size_class] = buf->next;
        pool->cached_bytes -= buf->capacity;
    }
    pool->live++;
    pthread_mutex_unlock(&pool->lock);
    return buf;
}

/* Caches or frees a buffer whose last reference is gone; NULL: it is freed already. */
static void pool_give(struct sluice_buf_pool *pool, struct sluice_buf *buf)
{
    pthread_mutex_lock(&pool->lock);
    pool->live--;
    if (buf && buf->size_class < NUM_CLASSES && !pool->is_destroyed &&
        pool->cached_bytes + buf->capacity <= pool->max_cached_bytes) {
        buf->next = pool->cached[buf->size_class];
        pool->cached[buf->size_class] = buf;
        pool->cached_bytes += buf->capacity;
        buf = NULL;
    }
    const bool is_last = pool->is_destroyed && pool->live == 0;
    pthread_mutex_unlock(&pool->lock);
    if (buf)
        buf_free(buf);
    if (is_last)
        pool_free(pool);
}

sluice_status sluice_buf_create(struct sluice_buf_pool *pool, size_t capacity,
                                struct sluice_buf **out, struct sluice_err *err)
{
    const unsigned size_class = pool ? class_for(capacity) : UNPOOLED;
    struct sluice_buf *buf = pool ? pool_take(pool, size_class) : NULL;
    if (!buf) {
        const size_t room = size_class < NUM_CLASSES ? class_capacity(size_class) : capacity;
        size_t bytes = 0;
        buf = calloc(1, sizeof(*buf));
        /* aligned_alloc wants a multiple of the alignment. */
        if (buf && sluice_add_size(room, SLUICE_BUF_SLACK + 63, &bytes))
            buf->data = aligned_alloc(64, bytes & ~(size_t)63);
        if (!buf || !buf->data) {
            free(buf);
            if (pool)
                pool_give(pool, NULL);
            return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a buffer of %zu bytes",
                               capacity);
        }
        buf->capacity = room;
        buf->size_class = size_class;
    }
    buf->pool = pool;
    buf->next = NULL;
    buf->len = 0;
    atomic_init(&buf->refs, 1);
    *out = buf;
    return SLUICE_OK;
}

struct sluice_buf *sluice_buf_ref(struct sluice_buf *buf)
{
    atomic_fetch_add_explicit(&buf->refs, 1, memory_order_relaxed);
    return buf;
}

void sluice_buf_unref(struct sluice_buf *buf)
{
    /* Release: this holder's accesses come before the reuse.  Acquire: whoever frees the buffer
     * sees all of them. */
    if (!buf || atomic_fetch_sub_explicit(&buf->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (buf->pool)
        pool_give(buf->pool, buf);
    else
        buf_free(buf);
}
