#ifndef SLUICE_CRYPTO_SECRET_H
#define SLUICE_CRYPTO_SECRET_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Secrets: memory that is excluded from core dumps and wiped before it is freed, hashes, and a
 * constant-time comparison.
 *
 * Threads: any; a secret belongs to one thread at a time. */

#define SLUICE_SHA256_BYTES 32

void sluice_sha256(const void *data, size_t len, uint8_t hash[SLUICE_SHA256_BYTES]);

/* Compares in a time that depends only on `len`. */
bool sluice_secret_equal(const void *a, const void *b, size_t len);

/* Not optimised away.  NULL with 0 bytes is fine. */
void sluice_secret_wipe(void *data, size_t len);

struct sluice_secret {
    size_t len;
    size_t page_bytes; /* of the whole */
    char text[];       /* `len` bytes and a 0 */
};

/* Creates a secret of `len` zero bytes on its own pages. */
SLUICE_MUST_USE sluice_status sluice_secret_create(size_t len, struct sluice_secret **secret,
                                                   struct sluice_err *err);
void sluice_secret_destroy(struct sluice_secret *secret); /* wipes; NULL is allowed */

/* Reads a secret from a regular file or a pipe of at most max_bytes, without buffers of the C
 * library.  Errors name the file. */
SLUICE_MUST_USE sluice_status sluice_secret_read(const char *path, size_t max_bytes,
                                                 struct sluice_secret **secret,
                                                 struct sluice_err *err);

/* The syntax of a token (RFC 6750, "b64token"): 16 to 1024 letters, digits and "-._~+/=". */
#define SLUICE_TOKEN_MIN 16
#define SLUICE_TOKEN_MAX 1024

/* Removes blanks and newlines at the end and checks the token.  SLUICE_E_INVALID names the fault
 * without showing the token. */
SLUICE_MUST_USE sluice_status sluice_secret_trim_token(struct sluice_secret *secret,
                                                       struct sluice_err *err);

/* Restricts core dumps of the process to file-backed memory (core(5), coredump_filter), because
 * libraries copy keys and tokens to memory that is not wiped.  For a program, not a library. */
void sluice_secret_keep_from_core_dumps(void);

#endif
