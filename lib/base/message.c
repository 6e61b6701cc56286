#include "base/message.h"
#include "base/array.h"

#include "base/buf.h"
#include "base/checked.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Small copies are gathered in chunks of this size, so that a message of many
 * header fields is one segment and not many. */
#define CHUNK_BYTES 512

struct chunk {
    size_t used, capacity;
    uint8_t bytes[];
};

/* A function of our own and not plain free: its address is what tells a chunk
 * from memory that a caller appended by reference. */
static void free_chunk(void *owner)
{
    free(owner);
}

void sluice_message_clear(struct sluice_message *message)
{
    for (size_t i = 0; i < message->num_segments; i++) {
        if (message->segments[i].release)
            message->segments[i].release(message->segments[i].owner);
    }
    free(message->segments);
    *message = (struct sluice_message){0};
}

sluice_status sluice_message_append_ref(struct sluice_message *message, const uint8_t *data,
                                        size_t len, void (*release)(void *owner), void *owner,
                                        struct sluice_err *err)
{
    size_t total;
    if (!sluice_add_size(message->len, len, &total))
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "a message too long to count");
    if (!sluice_array_reserve(&message->segments, &message->capacity, message->num_segments + 1,
                              sizeof(*message->segments)))
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a message of %zu segments",
                           message->num_segments + 1);
    message->segments[message->num_segments++] = (struct sluice_segment){data, len, release, owner};
    message->len = total;
    return SLUICE_OK;
}

sluice_status sluice_message_append_copy(struct sluice_message *message, const void *data,
                                         size_t len, struct sluice_err *err)
{
    if (len == 0)
        return SLUICE_OK;

    struct sluice_segment *last =
        message->num_segments ? &message->segments[message->num_segments - 1] : NULL;
    if (last && last->release == free_chunk) {
        struct chunk *chunk = last->owner;
        if (chunk->capacity - chunk->used >= len) {
            memcpy(chunk->bytes + chunk->used, data, len);
            chunk->used += len;
            last->len += len;
            message->len += len;
            return SLUICE_OK;
        }
    }

    const size_t capacity = len > CHUNK_BYTES ? len : CHUNK_BYTES;
    struct chunk *chunk = malloc(sizeof(*chunk) + capacity);
    if (!chunk)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu bytes of a message", len);
    chunk->used = len;
    chunk->capacity = capacity;
    memcpy(chunk->bytes, data, len);
    const sluice_status status =
        sluice_message_append_ref(message, chunk->bytes, len, free_chunk, chunk, err);
    if (status != SLUICE_OK)
        free(chunk);
    return status;
}

/* A buffer that was lent to the transport is released on a thread of the transport's choice.  The
 * transport orders the two threads, but ThreadSanitizer cannot see that; this counter states the
 * same order in terms of C. */
static atomic_uint lent_bufs;

static void release_buf(void *owner)
{
    (void)atomic_load_explicit(&lent_bufs, memory_order_acquire);
    sluice_buf_unref(owner);
}

sluice_status sluice_message_append_buf(struct sluice_message *message, struct sluice_buf *buf,
                                        struct sluice_err *err)
{
    const sluice_status status =
        sluice_message_append_ref(message, buf->data, buf->len, release_buf, buf, err);
    if (status == SLUICE_OK) {
        sluice_buf_ref(buf);
        atomic_fetch_add_explicit(&lent_bufs, 1, memory_order_release);
    }
    return status;
}

struct sluice_cursor sluice_cursor_init(const struct sluice_message *message)
{
    return (struct sluice_cursor){.message = message, .end = message->len};
}

size_t sluice_cursor_left(const struct sluice_cursor *cursor)
{
    return cursor->end - cursor->pos;
}

/* Moves len bytes on, copying them to `out` unless it is NULL. */
static bool advance(struct sluice_cursor *cursor, uint8_t *out, size_t len)
{
    if (len > sluice_cursor_left(cursor))
        return false;
    cursor->pos += len;
    while (len > 0) {
        const struct sluice_segment *segment = &cursor->message->segments[cursor->segment];
        size_t take = segment->len - cursor->offset;
        if (take > len)
            take = len;
        if (out && take) {
            memcpy(out, segment->data + cursor->offset, take);
            out += take;
        }
        cursor->offset += take;
        len -= take;
        if (cursor->offset == segment->len) {
            cursor->segment++;
            cursor->offset = 0;
        }
    }
    return true;
}

bool sluice_cursor_read(struct sluice_cursor *cursor, void *out, size_t len)
{
    return advance(cursor, out, len);
}

bool sluice_cursor_skip(struct sluice_cursor *cursor, size_t len)
{
    return advance(cursor, NULL, len);
}

bool sluice_cursor_sub(struct sluice_cursor *cursor, size_t len, struct sluice_cursor *sub)
{
    struct sluice_cursor start = *cursor;
    if (!advance(cursor, NULL, len))
        return false;
    start.end = start.pos + len;
    *sub = start;
    return true;
}

size_t sluice_cursor_next(struct sluice_cursor *cursor, const uint8_t **data)
{
    size_t len = 0;
    while (len == 0 && sluice_cursor_left(cursor) > 0) {
        const struct sluice_segment *segment = &cursor->message->segments[cursor->segment];
        len = segment->len - cursor->offset;
        if (len > sluice_cursor_left(cursor))
            len = sluice_cursor_left(cursor);
        *data = segment->data + cursor->offset;
        cursor->pos += len;
        cursor->offset += len;
        if (cursor->offset == segment->len) {
            cursor->segment++;
            cursor->offset = 0;
        }
    }
    return len;
}

sluice_status sluice_cursor_gather(struct sluice_cursor *cursor, size_t len,
                                   struct sluice_buf_pool *pool, struct sluice_buf **buf,
                                   struct sluice_err *err)
{
    if (len > sluice_cursor_left(cursor))
        return sluice_fail(err, SLUICE_E_INVALID, "%zu bytes of a message that has %zu left", len,
                           sluice_cursor_left(cursor));
    struct sluice_buf *made;
    const sluice_status status = sluice_buf_create(pool, len, &made, err);
    if (status != SLUICE_OK)
        return status;
    (void)advance(cursor, made->data, len);
    made->len = len;
    *buf = made;
    return SLUICE_OK;
}

bool sluice_cursor_varint(struct sluice_cursor *cursor, uint64_t *value)
{
    struct sluice_cursor at = *cursor;
    uint64_t result = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte;
        if (!advance(&at, &byte, 1))
            return false;
        if (shift == 63 && byte > 1)
            return false;
        result |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80)) {
            *cursor = at;
            *value = result;
            return true;
        }
    }
    return false;
}

struct sluice_shared_message {
    struct sluice_message message;
    atomic_uint refs;
};

sluice_status sluice_message_share(struct sluice_message *message,
                                   struct sluice_shared_message **shared, struct sluice_err *err)
{
    struct sluice_shared_message *made = malloc(sizeof(*made));
    if (!made)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to share a message");
    made->message = *message;
    atomic_init(&made->refs, 1);
    *message = (struct sluice_message){0};
    *shared = made;
    return SLUICE_OK;
}

const struct sluice_message *sluice_shared_message_get(const struct sluice_shared_message *shared)
{
    return &shared->message;
}

struct sluice_shared_message *sluice_shared_message_ref(struct sluice_shared_message *shared)
{
    atomic_fetch_add_explicit(&shared->refs, 1, memory_order_relaxed);
    return shared;
}

void sluice_shared_message_unref(struct sluice_shared_message *shared)
{
    /* Acquire and release: all reads by other holders come before the memory is freed. */
    if (!shared || atomic_fetch_sub_explicit(&shared->refs, 1, memory_order_acq_rel) != 1)
        return;
    sluice_message_clear(&shared->message);
    free(shared);
}
