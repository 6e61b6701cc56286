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
    size_t live;                       /* buffers handed out */
    size_t live_bytes, max_live_bytes; /* 0: no limit */
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

void sluice_buf_pool_limit(struct sluice_buf_pool *pool, size_t max_live_bytes)
{
    pthread_mutex_lock(&pool->lock);
    pool->max_live_bytes = max_live_bytes;
    pthread_mutex_unlock(&pool->lock);
}

void sluice_buf_pool_trim(struct sluice_buf_pool *pool)
{
    struct sluice_buf *unused = NULL;
    pthread_mutex_lock(&pool->lock);
    for (unsigned c = 0; c < NUM_CLASSES; c++) {
        while (pool->cached[c]) {
            struct sluice_buf *buf = pool->cached[c];
            pool->cached[c] = buf->next;
            buf->next = unused;
            unused = buf;
        }
    }
    pool->cached_bytes = 0;
    pthread_mutex_unlock(&pool->lock);
    while (unused) {
        struct sluice_buf *next = unused->next;
        buf_free(unused);
        unused = next;
    }
}

size_t sluice_buf_pool_live_bytes(struct sluice_buf_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    const size_t bytes = pool->live_bytes;
    pthread_mutex_unlock(&pool->lock);
    return bytes;
}

/* Counts a buffer of `room` bytes as handed out and takes an unused one, if there is one. */
static sluice_status pool_take(struct sluice_buf_pool *pool, unsigned size_class, size_t room,
                               struct sluice_buf **unused, struct sluice_err *err)
{
    pthread_mutex_lock(&pool->lock);
    const size_t live = pool->live_bytes, most = pool->max_live_bytes;
    if (most && (room > most || live > most - room)) {
        pthread_mutex_unlock(&pool->lock);
        if (room > most)
            return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                               "a buffer of %zu bytes is more than the memory limit allows (%zu)",
                               room, most);
        return sluice_fail(err, SLUICE_E_NO_MEMORY,
                           "no memory for a buffer of %zu bytes now: %zu of %zu are in use", room,
                           live, most);
    }
    struct sluice_buf *buf = size_class < NUM_CLASSES ? pool->cached[size_class] : NULL;
    if (buf) {
        pool->cached[size_class] = buf->next;
        pool->cached_bytes -= buf->capacity;
    }
    pool->live++;
    pool->live_bytes += room;
    pthread_mutex_unlock(&pool->lock);
    *unused = buf;
    return SLUICE_OK;
}

/* Caches or frees a buffer of `room` bytes whose last reference is gone; NULL: it is freed
 * already. */
static void pool_give(struct sluice_buf_pool *pool, struct sluice_buf *buf, size_t room)
{
    pthread_mutex_lock(&pool->lock);
    pool->live--;
    pool->live_bytes -= room;
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

size_t sluice_buf_footprint(size_t capacity)
{
    const unsigned size_class = class_for(capacity);
    const size_t room = size_class < NUM_CLASSES ? class_capacity(size_class) : capacity;
    return room + SLUICE_BUF_SLACK + sizeof(struct sluice_buf);
}

sluice_status sluice_buf_create(struct sluice_buf_pool *pool, size_t capacity,
                                struct sluice_buf **out, struct sluice_err *err)
{
    const unsigned size_class = pool ? class_for(capacity) : UNPOOLED;
    const size_t room = size_class < NUM_CLASSES ? class_capacity(size_class) : capacity;
    struct sluice_buf *buf = NULL;
    const sluice_status status = pool ? pool_take(pool, size_class, room, &buf, err) : SLUICE_OK;
    if (status != SLUICE_OK)
        return status;
    if (!buf) {
        size_t bytes = 0;
        buf = calloc(1, sizeof(*buf));
        /* aligned_alloc wants a multiple of the alignment. */
        if (buf && sluice_add_size(room, SLUICE_BUF_SLACK + 63, &bytes))
            buf->data = aligned_alloc(64, bytes & ~(size_t)63);
        if (!buf || !buf->data) {
            free(buf);
            if (pool)
                pool_give(pool, NULL, room);
            return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a buffer of %zu bytes",
                               capacity);
        }
        buf->capacity = room;
        buf->size_class = size_class;
    }
    buf->pool = pool;
    buf->next = NULL;
    buf->on_last = NULL;
    buf->len = 0;
    atomic_init(&buf->refs, 1);
    *out = buf;
    return SLUICE_OK;
}

void sluice_buf_lend(struct sluice_buf *buf, uint8_t *data, size_t len)
{
    *buf = (struct sluice_buf){.data = data, .len = len, .capacity = len, .size_class = UNPOOLED};
    atomic_init(&buf->refs, 1);
}

void sluice_buf_on_last(struct sluice_buf *buf, void (*on_last)(void *owner, size_t bytes),
                        void *owner, size_t bytes)
{
    buf->on_last = on_last;
    buf->owner = owner;
    buf->owner_bytes = bytes;
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
    void (*on_last)(void *owner, size_t bytes) = buf->on_last;
    void *owner = buf->owner;
    const size_t owner_bytes = buf->owner_bytes;
    if (buf->pool)
        pool_give(buf->pool, buf, buf->capacity);
    else
        buf_free(buf);
    if (on_last)
        on_last(owner, owner_bytes);
}
