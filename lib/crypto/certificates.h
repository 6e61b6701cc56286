#ifndef SLUICE_CRYPTO_CERTIFICATES_H
#define SLUICE_CRYPTO_CERTIFICATES_H

#include "base/error.h"
#include "crypto/secret.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads and checks certificates and keys in PEM files before gRPC gets them, because gRPC only
 * reports that it failed.
 *
 * Threads: any. */

struct sluice_tls_files {
    const char *cert, *key; /* a certificate chain up to its CA, and its key; or NULL */
    const char *ca;         /* CAs for the other side's certificate; or NULL */
};

struct sluice_tls_texts {
    char *cert, *ca;  /* NULL: none */
    int64_t cert_end; /* of the first certificate in `cert`: seconds of Unix time; 0: none */
    struct sluice_secret *key; /* NULL: none */
};

/* Reads the files that are given; *texts is the caller's to clear.  Errors name the file and the
 * fault: it is missing or unreadable, is not PEM, needs a passphrase, has expired or is not valid
 * yet, or the key does not match.  Warns of a certificate that expires within two weeks. */
SLUICE_MUST_USE sluice_status sluice_tls_read(const struct sluice_tls_files *files,
                                              struct sluice_tls_texts *texts,
                                              struct sluice_err *err);
void sluice_tls_texts_clear(struct sluice_tls_texts *texts); /* idempotent */

/* Whether a certificate, in PEM, is for this host: an IP address must be one of its IP addresses,
 * and a name one of its DNS names (RFC 6125; without any, its common name).  E-mail names and DNS
 * names that look like an address do not count. */
bool sluice_tls_is_for(const char *pem, const char *host);

/* Makes the first flight of a TLS client that requests HTTP/2, to check whether a TLS server
 * answers.  Returns its length; 0: failed. */
#define SLUICE_CLIENT_HELLO_BYTES 2048
size_t sluice_tls_client_hello(uint8_t hello[SLUICE_CLIENT_HELLO_BYTES]);

#endif
