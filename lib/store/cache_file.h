#ifndef SLUICE_STORE_CACHE_FILE_H
#define SLUICE_STORE_CACHE_FILE_H

#include "base/error.h"
#include "base/hash.h"

#include <stdbool.h>
#include <stdint.h>

/* Private to lib/store: a file of the cache (store_cache.h) holds a piece of an object, of one
 * version: a header, then the bytes.  Names are in hexadecimal digits:
 *
 *     3f/3f0123456789abcd-FROM-BYTES
 *
 * Only the machine that wrote a file reads it: numbers are in its byte order.
 *
 * Threads: pure functions. */

#define SLUICE_CACHE_NAME_BYTES 40 /* with the folder before it and the 0 at its end */
#define SLUICE_CACHE_HEADER_BYTES 56

/* The bytes [from, from + bytes) of an object, or of a range of one. */
struct sluice_cache_piece {
    uint64_t id; /* of the object's identity: the upper half */
    uint32_t from, bytes;
};

/* The identity of bytes [offset, offset + bytes) of one version of an object. */
struct sluice_hash128 sluice_cache_identify(const char *key, int64_t version, uint64_t offset,
                                            uint64_t bytes);

void sluice_cache_name(const struct sluice_cache_piece *piece, char out[SLUICE_CACHE_NAME_BYTES]);
/* False: not a name of sluice_cache_name().  `name` excludes the folder, but begins with the
 * folder's two digits. */
bool sluice_cache_name_parse(const char *folder, const char *name,
                             struct sluice_cache_piece *piece);

void sluice_cache_header_put(struct sluice_hash128 identity, const struct sluice_cache_piece *piece,
                             const void *data, uint8_t out[SLUICE_CACHE_HEADER_BYTES]);
/* Checks that the header is this piece's.  SLUICE_E_CORRUPT: it is damaged, or another piece's.
 * *data_hash is the expected sluice_hash64() of the bytes. */
SLUICE_MUST_USE sluice_status sluice_cache_header_check(const uint8_t in[SLUICE_CACHE_HEADER_BYTES],
                                                        struct sluice_hash128 identity,
                                                        const struct sluice_cache_piece *piece,
                                                        uint64_t *data_hash,
                                                        struct sluice_err *err);

#endif
