#include "crypto/certificates.h"

#include <openssl/bio.h>
#include <openssl/ssl.h>

size_t sluice_tls_client_hello(uint8_t hello[SLUICE_CLIENT_HELLO_BYTES])
{
    static const unsigned char protocols[] = "\2h2";
    size_t len = 0;
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *ssl = ctx ? SSL_new(ctx) : NULL;
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    if (ssl && in && out) {
        SSL_set_bio(ssl, in, out); /* takes both */
        SSL_set_connect_state(ssl);
        (void)SSL_set_alpn_protos(ssl, protocols, sizeof(protocols) - 1);
        (void)SSL_do_handshake(ssl); /* wants to read now */
        const int n = BIO_read(out, hello, SLUICE_CLIENT_HELLO_BYTES);
        len = n > 0 ? (size_t)n : 0;
    } else {
        BIO_free(in);
        BIO_free(out);
    }
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    return len;
}
