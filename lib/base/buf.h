#ifndef SLUICE_BASE_BUF_H
#define SLUICE_BASE_BUF_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* A reference-counted byte buffer, drawn from a pool.
 *
 * A sample's bytes live in one of these from the file to the wire, and from the
 * wire to the batch: whoever holds a reference may read, and whoever holds the
 * only one may write.  The last unref gives the memory back to the pool, from
 * whichever thread it comes (gRPC's release callbacks among them).
 *
 * Threads: all functions may be called from any thread; one buffer's bytes are
 * not locked. */

struct sluice_buf_pool;

struct sluice_buf {
    /* 64-byte aligned; SLUICE_BUF_SLACK bytes after the capacity may be read, too. */
    uint8_t *data;
    size_t len; /* bytes in use, set by the writer */
    size_t capacity;
    /* Private from here on. */
    struct sluice_buf_pool *pool;
    struct sluice_buf *next;
    void (*on_last)(void *owner, size_t bytes);
    void *owner;
    size_t owner_bytes;
    unsigned size_class;
    _Atomic unsigned refs;
};

#define SLUICE_BUF_SLACK 64

/* A pool keeps at most `max_cached_bytes` of unused buffers; the rest is freed.
 * It lives until it is destroyed and its last buffer is back. */
SLUICE_MUST_USE sluice_status sluice_buf_pool_create(size_t max_cached_bytes,
                                                     struct sluice_buf_pool **pool,
                                                     struct sluice_err *err);
void sluice_buf_pool_destroy(struct sluice_buf_pool *pool); /* NULL is allowed */

/* From now on no more than this is handed out at a time: a buffer that could never be had is
 * SLUICE_E_UNSUPPORTED, one that cannot be had now SLUICE_E_NO_MEMORY.  0: no limit, as at first.
 */
void sluice_buf_pool_limit(struct sluice_buf_pool *pool, size_t max_live_bytes);
/* Frees the unused buffers. */
void sluice_buf_pool_trim(struct sluice_buf_pool *pool);
size_t sluice_buf_pool_live_bytes(struct sluice_buf_pool *pool);

/* A new buffer with one reference, len 0 and room for `capacity` bytes (0 is
 * allowed), contents undefined.  `pool` NULL: plain allocation.
 * SLUICE_E_NO_MEMORY leaves *buf untouched. */
SLUICE_MUST_USE sluice_status sluice_buf_create(struct sluice_buf_pool *pool, size_t capacity,
                                                struct sluice_buf **buf, struct sluice_err *err);

/* Makes *buf, in the caller's memory, a buffer of `len` bytes that are the caller's, too:
 * references to it come and go, and none is the last.  `data` is aligned and has its slack, as
 * above. */
void sluice_buf_lend(struct sluice_buf *buf, uint8_t *data, size_t len);

/* on_last(owner, bytes) is called once, with the last unref; by whom holds the only reference.  It
 * may be called from any thread. */
void sluice_buf_on_last(struct sluice_buf *buf, void (*on_last)(void *owner, size_t bytes),
                        void *owner, size_t bytes);

/* Upper bound of the memory of a buffer for `capacity` bytes. */
size_t sluice_buf_footprint(size_t capacity);

struct sluice_buf *sluice_buf_ref(struct sluice_buf *buf); /* returns buf */
void sluice_buf_unref(struct sluice_buf *buf);             /* NULL is allowed */

#endif
