#include "base/hash.h"
#include "wire/message_reader.h"
#include "wire/wire.h"
#include "wire/wire_fields.h"
#include "wire/wire_internal.h"

#include <assert.h>

static void put_u64(uint8_t *out, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        out[i] = (uint8_t)(value >> 8 * i);
}

static void update(struct sluice_hasher64 *hasher, struct sluice_cursor bytes)
{
    const uint8_t *data;
    for (size_t len; (len = sluice_cursor_next(&bytes, &data)) > 0;)
        sluice_hasher64_update(hasher, data, len);
}

static uint64_t hash_bytes(struct sluice_cursor bytes)
{
    const uint8_t *data = NULL;
    struct sluice_cursor rest = bytes;
    const size_t len = sluice_cursor_next(&rest, &data);
    if (sluice_cursor_left(&rest) == 0)
        return sluice_hash64(len ? data : (const uint8_t *)"", len);
    struct sluice_hasher64 hasher;
    sluice_hasher64_init(&hasher);
    update(&hasher, bytes);
    return sluice_hasher64_digest(&hasher);
}

/* --- at the end of a message --- */

/* A message's hash so far: of [0, until), `hashed` of which are in the hasher. */
struct walk {
    struct sluice_hasher64 hasher;
    struct sluice_cursor hashed; /* from here on nothing is hashed yet */
};

static void hash_until(struct walk *walk, size_t pos)
{
    struct sluice_cursor bytes = walk->hashed;
    bytes.end = pos;
    update(&walk->hasher, bytes);
    (void)sluice_cursor_skip(&walk->hashed, pos - walk->hashed.pos);
}

/* Hashes the part of a SampleReply before its payloads, and passes over these. */
static bool leave_payloads_out(struct walk *walk, struct sluice_cursor sample)
{
    while (sluice_cursor_left(&sample) > 0) {
        struct sluice_wire_field field;
        if (!sluice_wire_next_field(&sample, &field))
            return false;
        if (field.number != SAMPLE_REPLY_PAYLOAD || field.type != SLUICE_WIRE_BYTES)
            continue;
        hash_until(walk, field.data.pos);
        (void)sluice_cursor_skip(&walk->hashed, sluice_cursor_left(&field.data));
    }
    return true;
}

/* NONE leaves a walk over all of the message. */
static enum sluice_wire_hash walk_message(uint32_t number, bool is_fetch_reply,
                                          const struct sluice_message *message, struct walk *walk)
{
    struct sluice_cursor cursor = sluice_cursor_init(message);
    walk->hashed = cursor;
    sluice_hasher64_init(&walk->hasher);
    while (sluice_cursor_left(&cursor) > 0) {
        const size_t start = cursor.pos;
        struct sluice_wire_field field;
        if (!sluice_wire_next_field(&cursor, &field))
            return SLUICE_WIRE_HASH_NONE;
        if (field.number == number) {
            hash_until(walk, start);
            return field.type == SLUICE_WIRE_64BIT && sluice_cursor_left(&cursor) == 0 &&
                           field.value == sluice_hasher64_digest(&walk->hasher)
                       ? SLUICE_WIRE_HASH_RIGHT
                       : SLUICE_WIRE_HASH_WRONG;
        }
        if (is_fetch_reply && field.number == FETCH_REPLY_SAMPLES &&
            (field.type != SLUICE_WIRE_BYTES || !leave_payloads_out(walk, field.data)))
            return SLUICE_WIRE_HASH_NONE;
    }
    hash_until(walk, message->len);
    return SLUICE_WIRE_HASH_NONE;
}

static void put_field(uint32_t number, uint64_t hash, uint8_t field[SLUICE_WIRE_HASH_BYTES])
{
    assert(number < 16); /* its tag is one byte */
    field[0] = (uint8_t)(number << 3 | SLUICE_WIRE_64BIT);
    put_u64(field + 1, hash);
}

sluice_status sluice_wire_put_hash(uint32_t number, struct sluice_message *message,
                                   struct sluice_err *err)
{
    uint8_t field[SLUICE_WIRE_HASH_BYTES];
    put_field(number, hash_bytes(sluice_cursor_init(message)), field);
    return sluice_message_append_copy(message, field, sizeof(field), err);
}

enum sluice_wire_hash sluice_wire_check_hash(uint32_t number, const struct sluice_message *message)
{
    struct walk walk;
    return walk_message(number, false, message, &walk);
}

void sluice_wire_put_fetch_reply_hash(const struct sluice_message *message, const uint8_t *tail,
                                      size_t len, uint8_t field[SLUICE_WIRE_HASH_BYTES])
{
    struct walk walk;
    const enum sluice_wire_hash found = walk_message(FETCH_REPLY_HASH, true, message, &walk);
    assert(found == SLUICE_WIRE_HASH_NONE && walk.hashed.pos == message->len);
    (void)found;
    sluice_hasher64_update(&walk.hasher, tail, len);
    put_field(FETCH_REPLY_HASH, sluice_hasher64_digest(&walk.hasher), field);
}

bool sluice_wire_fetch_reply_is_whole(const struct sluice_message *message)
{
    struct walk walk;
    return walk_message(FETCH_REPLY_HASH, true, message, &walk) == SLUICE_WIRE_HASH_RIGHT;
}

sluice_status sluice_wire_damaged(const char *name, struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_IO, "a %s was damaged on its way: its hash is wrong", name);
}

/* --- of a sample --- */

static uint64_t sample_hash(uint64_t request_id, const struct sluice_draw_key *key,
                            uint64_t listed_id, uint64_t payload_hash)
{
    const struct sluice_box *crop = &key->crop;
    const uint64_t numbers[] = {
        request_id,
        key->sample_id,
        key->seed,
        key->epoch,
        payload_hash,
        listed_id,
        key->schedule,
        (uint64_t)crop->top << 32 | crop->left,
        (uint64_t)crop->height << 32 | crop->width,
        key->bucket,
    };
    uint8_t bytes[sizeof(numbers)];
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(numbers); i++)
        put_u64(bytes + 8 * i, numbers[i]);
    /* Without the last ones as it was before there were any. */
    const bool has_crop = numbers[7] || numbers[8];
    const size_t len = key->bucket ? 10 : has_crop ? 9 : key->schedule ? 7 : listed_id ? 6 : 5;
    return sluice_hash64(bytes, 8 * len);
}

void sluice_wire_seal_sample_reply(struct sluice_wire_sample_reply *reply,
                                   const struct sluice_draw_key *key, uint64_t listed_id)
{
    const struct sluice_buf *payload = reply->payload;
    reply->hash =
        sample_hash(reply->request_id, key, listed_id,
                    payload ? sluice_hash64(payload->data, payload->len) : sluice_hash64("", 0));
}

bool sluice_wire_sample_reply_is_whole(const struct sluice_wire_sample_reply *reply,
                                       const struct sluice_draw_key *key, uint64_t listed_id)
{
    return reply->hash == sample_hash(reply->request_id, key, listed_id, hash_bytes(reply->hashed));
}
