#ifndef SLUICE_BASE_BUF_H
#define SLUICE_BASE_BUF_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* A reference-counted byte buffer from a pool.
 *
 * A sample's bytes live in one buffer from the file to the wire, and in one from the wire to the
 * batch.  A holder of a reference may read; the holder of the only reference may write.  The last
 * unref returns the memory to the pool, on any thread (including gRPC's release callbacks).
 *
 * Threads: all functions may be called from any thread; one buffer's bytes are not locked. */

struct sluice_buf_pool;

struct sluice_buf {
    /* 64-byte aligned; SLUICE_BUF_SLACK bytes after the capacity are readable. */
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

/* Limits the bytes of live buffers: a buffer larger than the limit is SLUICE_E_UNSUPPORTED, one
 * that does not fit now is SLUICE_E_NO_MEMORY.  0: no limit, the default. */
void sluice_buf_pool_limit(struct sluice_buf_pool *pool, size_t max_live_bytes);
/* Frees the unused buffers. */
void sluice_buf_pool_trim(struct sluice_buf_pool *pool);
size_t sluice_buf_pool_live_bytes(struct sluice_buf_pool *pool);

/* A new buffer with one reference, len 0 and room for `capacity` bytes (0 is
 * allowed), contents undefined.  `pool` NULL: plain allocation.
 * SLUICE_E_NO_MEMORY leaves *buf untouched. */
SLUICE_MUST_USE sluice_status sluice_buf_create(struct sluice_buf_pool *pool, size_t capacity,
                                                struct sluice_buf **buf, struct sluice_err *err);

/* Makes *buf a buffer over `len` bytes; both stay the caller's.  References may be added and
 * dropped, but nothing is ever freed.  `data` must be aligned and have slack, as above. */
void sluice_buf_lend(struct sluice_buf *buf, uint8_t *data, size_t len);

/* Sets on_last(owner, bytes), which the last unref calls once, on any thread.  The caller must hold
 * the only reference. */
void sluice_buf_on_last(struct sluice_buf *buf, void (*on_last)(void *owner, size_t bytes),
                        void *owner, size_t bytes);

/* An upper bound of a buffer's memory for `capacity` bytes. */
size_t sluice_buf_footprint(size_t capacity);

struct sluice_buf *sluice_buf_ref(struct sluice_buf *buf); /* returns buf */
void sluice_buf_unref(struct sluice_buf *buf);             /* NULL is allowed */

#endif
