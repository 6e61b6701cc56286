#ifndef SLUICE_BASE_MESSAGE_H
#define SLUICE_BASE_MESSAGE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A message between wire, which handles its content, and rpc, which sends it: a list of byte
 * segments, each with its owner.
 *
 * Sending: wire appends small header bytes by copy and payloads by reference; rpc passes the
 * segments to gRPC, which releases them on its own thread. Receiving: rpc appends gRPC's slices by
 * reference; wire reads through a cursor; the user of a payload copies it once, to its destination.
 *
 * Threads: a message belongs to one thread at a time, unless it is shared; a segment's release may
 * be called from any thread. */

struct sluice_buf;
struct sluice_buf_pool;

struct sluice_segment {
    const uint8_t *data;
    size_t len;
    void (*release)(void *owner); /* NULL: nothing to release */
    void *owner;
};

struct sluice_message {
    struct sluice_segment *segments;
    size_t num_segments, capacity;
    size_t len; /* total bytes */
};

/* Releases every segment; {0} again afterwards.  Idempotent. */
void sluice_message_clear(struct sluice_message *message);

/* Appends a copy of the bytes.  Neighbouring small copies share one segment's
 * memory where they can. */
SLUICE_MUST_USE sluice_status sluice_message_append_copy(struct sluice_message *message,
                                                         const void *data, size_t len,
                                                         struct sluice_err *err);

/* Appends the bytes by reference; `release(owner)` is called exactly once, when the message is
 * cleared or its last user is done.  On failure it is NOT called and the owner stays the caller's.
 */
SLUICE_MUST_USE sluice_status sluice_message_append_ref(struct sluice_message *message,
                                                        const uint8_t *data, size_t len,
                                                        void (*release)(void *owner), void *owner,
                                                        struct sluice_err *err);

/* Appends buf's bytes [0, len); adds a reference of its own to buf. */
SLUICE_MUST_USE sluice_status sluice_message_append_buf(struct sluice_message *message,
                                                        struct sluice_buf *buf,
                                                        struct sluice_err *err);

/* A read position.  Borrows the message, which must not change meanwhile. */
struct sluice_cursor {
    const struct sluice_message *message;
    size_t segment, offset; /* of the next byte */
    size_t pos, end;        /* bytes read so far; where reading stops */
};

struct sluice_cursor sluice_cursor_init(const struct sluice_message *message);
size_t sluice_cursor_left(const struct sluice_cursor *cursor);

/* All return false, with the cursor where it was, if fewer bytes are left. */
bool sluice_cursor_read(struct sluice_cursor *cursor, void *out, size_t len);
bool sluice_cursor_skip(struct sluice_cursor *cursor, size_t len);
/* Sets *sub to a cursor over the next len bytes only; `cursor` moves past them. */
bool sluice_cursor_sub(struct sluice_cursor *cursor, size_t len, struct sluice_cursor *sub);
/* Copies the next len bytes to a new buffer from `pool` (NULL: plain memory).  SLUICE_E_INVALID if
 * fewer are left; on failure the cursor stays where it was. */
SLUICE_MUST_USE sluice_status sluice_cursor_gather(struct sluice_cursor *cursor, size_t len,
                                                   struct sluice_buf_pool *pool,
                                                   struct sluice_buf **buf, struct sluice_err *err);
/* Returns the number of next bytes that are contiguous in memory, and moves the cursor past them.
 * 0 at the end. */
size_t sluice_cursor_next(struct sluice_cursor *cursor, const uint8_t **data);
/* A protobuf varint (at most 10 bytes, and 64 bits). */
bool sluice_cursor_varint(struct sluice_cursor *cursor, uint64_t *value);

/* A constant message with a reference count, for several readers on threads of their own.  It is
 * cleared with its last reference. */
struct sluice_shared_message;

/* Takes the message's content, leaving {0}, and returns it with one reference.  On
 * SLUICE_E_NO_MEMORY the message is untouched. */
SLUICE_MUST_USE sluice_status sluice_message_share(struct sluice_message *message,
                                                   struct sluice_shared_message **shared,
                                                   struct sluice_err *err);
/* Borrowed. */
const struct sluice_message *sluice_shared_message_get(const struct sluice_shared_message *shared);
struct sluice_shared_message *sluice_shared_message_ref(struct sluice_shared_message *shared);
void sluice_shared_message_unref(struct sluice_shared_message *shared); /* NULL is allowed */

#endif
