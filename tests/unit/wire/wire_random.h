#ifndef SLUICE_TESTS_UNIT_WIRE_RANDOM_H
#define SLUICE_TESTS_UNIT_WIRE_RANDOM_H

#include "base/buf.h"
#include "base/message.h"
#include "base/rng.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Random contents and random cuts for the tests of lib/wire.  Functions that
 * allocate end the program when they cannot. */

/* One generator per program, from sluice_test_seed(). */
struct sluice_rng *random_rng(void);

uint32_t random_u32(void); /* of a random number of bits, so that all varint lengths occur */
uint64_t random_u64(void); /* the same */
bool random_bool(void);
void random_bytes(void *out, size_t len);

/* A new string of up to max_len bytes: ASCII and some two-byte UTF-8. */
char *random_text(size_t max_len);
void random_dataset_id(char out[33]); /* empty in one of four */
struct sluice_buf *random_buf(size_t len);

/* The message's bytes in one new piece; message->len says how many. */
uint8_t *message_flatten(const struct sluice_message *message);

/* A message of these bytes, cut at random into segments (empty ones too), each an allocation
 * of its own so that a sanitizer sees a read beyond it. */
struct sluice_message message_cut(const uint8_t *data, size_t len);

/* Replaces *message by itself, cut at random. */
void message_recut(struct sluice_message *message);

#endif
