#ifndef SLUICE_CRYPTO_CERTIFICATES_H
#define SLUICE_CRYPTO_CERTIFICATES_H

#include "base/error.h"
#include "crypto/secret.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Certificates and keys in PEM files, read and checked before gRPC gets them, which says of bad
 * ones no more than that it failed.
 *
 * Threads: any. */

struct sluice_tls_files {
    const char *cert, *key; /* a certificate with those that lead to its CA, and its key; or NULL */
    const char *ca;         /* certificates that the other side's must lead to; or NULL */
};

struct sluice_tls_texts {
    char *cert, *ca;  /* NULL: none */
    int64_t cert_end; /* of the first certificate in `cert`: seconds of Unix time; 0: none */
    struct sluice_secret *key; /* NULL: none */
};

/* Reads the files that are given; *texts is the caller's to clear.  Errors name the file and what
 * is wrong: it is missing or cannot be read, is not PEM, needs a passphrase, has expired or is not
 * valid yet, or the key does not fit.  A certificate that ends within two weeks is a warning. */
SLUICE_MUST_USE sluice_status sluice_tls_read(const struct sluice_tls_files *files,
                                              struct sluice_tls_texts *texts,
                                              struct sluice_err *err);
void sluice_tls_texts_clear(struct sluice_tls_texts *texts); /* twice is fine */

/* Whether a certificate, in PEM, is for this host: an IP address must be one of its IP addresses,
 * and a name one of its DNS names (RFC 6125; without any, its common name).  Names of e-mail and
 * DNS names that look like an address are neither. */
bool sluice_tls_is_for(const char *pem, const char *host);

/* The first flight of a TLS client that asks for HTTP/2: to learn whether a server of TLS answers.
 * Returns its bytes, 0: it could not be made. */
#define SLUICE_CLIENT_HELLO_BYTES 2048
size_t sluice_tls_client_hello(uint8_t hello[SLUICE_CLIENT_HELLO_BYTES]);

#endif
