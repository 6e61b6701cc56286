#ifndef SLUICE_CRYPTO_SECRET_H
#define SLUICE_CRYPTO_SECRET_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Secrets: pages that no core dump shows and that are wiped before they are given back, hashes, and
 * a comparison whose time does not depend on the bytes.
 *
 * Threads: any; a secret is one thread's at a time. */

#define SLUICE_SHA256_BYTES 32

void sluice_sha256(const void *data, size_t len, uint8_t hash[SLUICE_SHA256_BYTES]);

/* The time depends on `len` alone. */
bool sluice_secret_equal(const void *a, const void *b, size_t len);

/* Not optimised away.  NULL with 0 bytes is fine. */
void sluice_secret_wipe(void *data, size_t len);

struct sluice_secret {
    size_t len;
    size_t page_bytes; /* of the whole */
    char text[];       /* `len` bytes and a 0 */
};

/* Room for `len` bytes, all 0, on pages of its own. */
SLUICE_MUST_USE sluice_status sluice_secret_create(size_t len, struct sluice_secret **secret,
                                                   struct sluice_err *err);
void sluice_secret_destroy(struct sluice_secret *secret); /* wipes; NULL is allowed */

/* The same from a regular file or a pipe of at most max_bytes; no buffer of the C library sees it.
 * Errors name the file. */
SLUICE_MUST_USE sluice_status sluice_secret_read(const char *path, size_t max_bytes,
                                                 struct sluice_secret **secret,
                                                 struct sluice_err *err);

/* A token as HTTP has it (RFC 6750, "b64token"): 16 to 1024 letters, digits and "-._~+/=". */
#define SLUICE_TOKEN_MIN 16
#define SLUICE_TOKEN_MAX 1024

/* Cuts blanks and newlines off the end.  SLUICE_E_INVALID says what is wrong with the rest, and
 * shows nothing of it. */
SLUICE_MUST_USE sluice_status sluice_secret_trim_token(struct sluice_secret *secret,
                                                       struct sluice_err *err);

/* For a program, not a library: from here on the process leaves nothing of its memory but what
 * files hold in core dumps, as libraries copy keys and tokens to where nobody wipes them.
 * (core(5), coredump_filter.) */
void sluice_secret_keep_from_core_dumps(void);

#endif
