#include "crypto/certificates.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* A system's file of all public CAs has 220 kB. */
#define MAX_CERT_BYTES ((size_t)4 << 20)
#define MAX_KEY_BYTES ((size_t)64 << 10)

#define SOON_DAYS 14

static sluice_status read_text(const char *path, char **text, struct sluice_err *err)
{
    struct sluice_buf *buf = NULL;
    sluice_status status = sluice_file_read(path, MAX_CERT_BYTES, NULL, &buf, err);
    if (status != SLUICE_OK)
        return status;
    *text = strndup((const char *)buf->data, buf->len);
    sluice_buf_unref(buf);
    return *text ? SLUICE_OK : sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %s", path);
}

/* "Jan  1 00:00:00 2030 GMT" */
static const char *show_time(const ASN1_TIME *time, char text[64])
{
    BIO *out = BIO_new(BIO_s_mem());
    int len = out && ASN1_TIME_print(out, time) ? BIO_read(out, text, 63) : 0;
    text[len > 0 ? len : 0] = '\0';
    BIO_free(out);
    return text;
}

static sluice_status check_dates(const char *path, const X509 *cert, struct sluice_err *err)
{
    char text[64];
    time_t soon = time(NULL) + SOON_DAYS * 86400;
    if (X509_cmp_current_time(X509_get0_notBefore(cert)) > 0)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%s: the certificate is valid from %s on, later "
                           "than this machine's clock",
                           path, show_time(X509_get0_notBefore(cert), text));
    if (X509_cmp_current_time(X509_get0_notAfter(cert)) < 0)
        return sluice_fail(err, SLUICE_E_INVALID, "%s: the certificate expired on %s", path,
                           show_time(X509_get0_notAfter(cert), text));
    if (X509_cmp_time(X509_get0_notAfter(cert), &soon) < 0)
        sluice_log(SLUICE_LOG_WARN, "%s: the certificate expires on %s", path,
                   show_time(X509_get0_notAfter(cert), text));
    return SLUICE_OK;
}

/* Reads all certificates of a PEM text, as gRPC will; *first gets the first one. */
static sluice_status parse_certificates(const char *path, const char *text, X509 **first,
                                        struct sluice_err *err)
{
    BIO *in = BIO_new_mem_buf(text, -1);
    X509 *cert = NULL;
    bool is_bad = in == NULL;
    *first = NULL;
    while (in && (cert = PEM_read_bio_X509(in, NULL, NULL, NULL)) != NULL) {
        if (*first)
            X509_free(cert);
        else
            *first = cert;
    }
    /* "No start line" is how a text ends. */
    const unsigned long code = ERR_peek_last_error();
    is_bad |= code && ERR_GET_REASON(code) != PEM_R_NO_START_LINE;
    ERR_clear_error();
    BIO_free(in);
    if (*first && !is_bad)
        return SLUICE_OK;
    X509_free(*first);
    *first = NULL;
    return sluice_fail(err, SLUICE_E_INVALID, "%s: %s", path,
                       is_bad ? "a certificate in it is damaged" : "not PEM: no certificate in it");
}

static sluice_status read_certificates(const char *path, char **text, X509 **first,
                                       struct sluice_err *err)
{
    sluice_status status = read_text(path, text, err);
    if (status == SLUICE_OK)
        status = parse_certificates(path, *text, first, err);
    if (status == SLUICE_OK)
        status = check_dates(path, *first, err);
    return status;
}

/* Seconds of Unix time; 0: it cannot be told. */
static int64_t end_of(const X509 *cert)
{
    int days = 0, seconds = 0;
    ASN1_TIME *epoch = ASN1_TIME_set(NULL, 0);
    const bool is_known =
        epoch && ASN1_TIME_diff(&days, &seconds, epoch, X509_get0_notAfter(cert)) == 1;
    ASN1_TIME_free(epoch);
    return is_known ? (int64_t)days * 86400 + seconds : 0;
}

static int no_passphrase(char *buf, int size, int rwflag, void *ctx)
{
    (void)buf, (void)size, (void)rwflag;
    *(bool *)ctx = true;
    return -1;
}

static void tell_open_key(const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_mode & (S_IRWXG | S_IRWXO) & 044)
        sluice_log(SLUICE_LOG_WARN, "%s: the key can be read by other users (chmod 600)", path);
}

static sluice_status read_key(const struct sluice_tls_files *files, const X509 *cert,
                              struct sluice_secret **text, struct sluice_err *err)
{
    sluice_status status = sluice_secret_read(files->key, MAX_KEY_BYTES, text, err);
    if (status != SLUICE_OK)
        return status;
    tell_open_key(files->key);
    bool wants_passphrase = false;
    BIO *in = BIO_new_mem_buf((*text)->text, (int)(*text)->len);
    EVP_PKEY *key = in ? PEM_read_bio_PrivateKey(in, NULL, no_passphrase, &wants_passphrase) : NULL;
    if (wants_passphrase)
        status = sluice_fail(err, SLUICE_E_UNSUPPORTED,
                             "%s: the key needs a passphrase; write it without one to a file that "
                             "only this program's user may read",
                             files->key);
    else if (!key)
        status =
            sluice_fail(err, SLUICE_E_INVALID, "%s: not PEM: no private key in it", files->key);
    else if (X509_check_private_key(cert, key) != 1)
        status = sluice_fail(err, SLUICE_E_INVALID, "%s: the key does not fit the certificate %s",
                             files->key, files->cert);
    EVP_PKEY_free(key);
    BIO_free(in);
    ERR_clear_error();
    return status;
}

sluice_status sluice_tls_read(const struct sluice_tls_files *files, struct sluice_tls_texts *texts,
                              struct sluice_err *err)
{
    struct sluice_tls_texts read = {0};
    X509 *cert = NULL, *ca = NULL;
    sluice_status status = SLUICE_OK;
    if (files->cert)
        status = read_certificates(files->cert, &read.cert, &cert, err);
    if (status == SLUICE_OK && cert)
        read.cert_end = end_of(cert);
    if (status == SLUICE_OK && files->key && cert)
        status = read_key(files, cert, &read.key, err);
    if (status == SLUICE_OK && files->ca) /* of a system's many CAs some later one may be old */
        status = read_certificates(files->ca, &read.ca, &ca, err);
    X509_free(cert);
    X509_free(ca);
    if (status == SLUICE_OK)
        *texts = read;
    else
        sluice_tls_texts_clear(&read);
    return status;
}

void sluice_tls_texts_clear(struct sluice_tls_texts *texts)
{
    free(texts->cert);
    free(texts->ca);
    sluice_secret_destroy(texts->key);
    *texts = (struct sluice_tls_texts){0};
}

bool sluice_tls_is_for(const char *pem, const char *host)
{
    BIO *in = BIO_new_mem_buf(pem, -1);
    X509 *cert = in ? PEM_read_bio_X509(in, NULL, NULL, NULL) : NULL;
    int is_for = cert ? X509_check_ip_asc(cert, host, 0) : 0;
    if (is_for == -2) /* not an address */
        is_for = X509_check_host(cert, host, 0, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, NULL);
    X509_free(cert);
    BIO_free(in);
    ERR_clear_error();
    return is_for == 1;
}
