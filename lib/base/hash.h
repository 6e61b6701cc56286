#ifndef SLUICE_BASE_HASH_H
#define SLUICE_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* XXH3 (libxxhash) for content hashes, fingerprints and digests.  Not cryptographic: it detects
 * accidents, not forgeries.
 *
 * Threads: a state belongs to one thread at a time; the rest is pure. */

struct sluice_hash128 {
    uint64_t high, low;
};

uint64_t sluice_hash64(const void *data, size_t len);               /* XXH3-64, seed 0 */
struct sluice_hash128 sluice_hash128(const void *data, size_t len); /* XXH3-128, seed 0 */

/* 32 lower-case hex digits, high word first (xxhash's canonical form), and NUL. */
void sluice_hash128_hex(struct sluice_hash128 hash, char out[33]);

/* The same 16 bytes in canonical (big-endian) order. */
void sluice_hash128_bytes(struct sluice_hash128 hash, uint8_t out[16]);

/* A running XXH3-128. */
struct sluice_hasher;
struct sluice_hasher *sluice_hasher_create(void);         /* NULL: no memory */
void sluice_hasher_destroy(struct sluice_hasher *hasher); /* NULL is allowed */
void sluice_hasher_reset(struct sluice_hasher *hasher);
void sluice_hasher_update(struct sluice_hasher *hasher, const void *data, size_t len);
struct sluice_hash128 sluice_hasher_digest(const struct sluice_hasher *hasher); /* so far */

/* A running XXH3-64, in the caller's memory. */
struct sluice_hasher64 {
    _Alignas(64) unsigned char state[640]; /* libxxhash's */
};
void sluice_hasher64_init(struct sluice_hasher64 *hasher);
void sluice_hasher64_update(struct sluice_hasher64 *hasher, const void *data, size_t len);
uint64_t sluice_hasher64_digest(const struct sluice_hasher64 *hasher); /* so far */

#endif
