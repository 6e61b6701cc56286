#include "rpc/credentials.h"

#include "base/log.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* When a file was written, as far as stat() tells. */
struct stamp {
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec changed;
};

enum { NUM_FILES = 3 };

struct rpc_identity {
    struct sluice_tls_files files; /* constant */

    pthread_mutex_t lock;
    struct stamp stamps[NUM_FILES]; /* of the last attempt to read them */
    struct sluice_tls_texts texts;
    bool is_new; /* gRPC has not got them yet */
};

static void take_stamps(const struct sluice_tls_files *files, struct stamp stamps[NUM_FILES])
{
    const char *const names[NUM_FILES] = {files->cert, files->key, files->ca};
    memset(stamps, 0, NUM_FILES * sizeof(*stamps));
    for (int i = 0; i < NUM_FILES; i++) {
        struct stat st;
        if (!names[i] || stat(names[i], &st) != 0)
            continue;
        stamps[i].dev = st.st_dev;
        stamps[i].ino = st.st_ino;
        stamps[i].size = st.st_size;
        stamps[i].changed = st.st_mtim;
    }
}

/* Under the lock.  The stamps are taken first: a file that changes while it is read is read once
 * more. */
static sluice_status read_files(struct rpc_identity *identity, struct sluice_err *err)
{
    take_stamps(&identity->files, identity->stamps);
    struct sluice_tls_texts texts;
    const sluice_status status = sluice_tls_read(&identity->files, &texts, err);
    if (status != SLUICE_OK)
        return status;
    sluice_tls_texts_clear(&identity->texts);
    identity->texts = texts;
    identity->is_new = true;
    return SLUICE_OK;
}

sluice_status rpc_identity_create(const struct sluice_tls_files *files,
                                  struct rpc_identity **identity, struct sluice_err *err)
{
    struct rpc_identity *made = calloc(1, sizeof(*made));
    if (!made)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for certificates");
    made->files = *files;
    pthread_mutex_init(&made->lock, NULL);
    const sluice_status status = read_files(made, err);
    if (status == SLUICE_OK)
        *identity = made;
    else
        rpc_identity_destroy(made);
    return status;
}

void rpc_identity_destroy(struct rpc_identity *identity)
{
    if (!identity)
        return;
    sluice_tls_texts_clear(&identity->texts);
    pthread_mutex_destroy(&identity->lock);
    free(identity);
}

sluice_status rpc_identity_reload(struct rpc_identity *identity, struct sluice_err *err)
{
    pthread_mutex_lock(&identity->lock);
    const sluice_status status = read_files(identity, err);
    pthread_mutex_unlock(&identity->lock);
    return status;
}

int64_t rpc_identity_certificate_end(struct rpc_identity *identity)
{
    pthread_mutex_lock(&identity->lock);
    const int64_t end = identity->texts.cert_end;
    pthread_mutex_unlock(&identity->lock);
    return end;
}

/* gRPC's question at each connection. */
static grpc_ssl_certificate_config_reload_status
give_certificates(void *user_data, grpc_ssl_server_certificate_config **config)
{
    struct rpc_identity *identity = user_data;
    struct stamp stamps[NUM_FILES];
    struct sluice_err err = {0};
    sluice_status status = SLUICE_OK;
    take_stamps(&identity->files, stamps);
    pthread_mutex_lock(&identity->lock);
    const bool has_changed = memcmp(stamps, identity->stamps, sizeof(stamps)) != 0;
    if (has_changed)
        status = read_files(identity, &err);
    const bool is_new = identity->is_new;
    if (is_new) {
        const grpc_ssl_pem_key_cert_pair pair = {identity->texts.key->text, identity->texts.cert};
        /* gRPC 1.51 asserts that there are roots, though no certificate is asked for. */
        const char *roots = identity->texts.ca ? identity->texts.ca : identity->texts.cert;
        *config = grpc_ssl_server_certificate_config_create(roots, &pair, 1);
        identity->is_new = false;
    }
    pthread_mutex_unlock(&identity->lock);
    if (status != SLUICE_OK)
        sluice_log(SLUICE_LOG_WARN, "the certificate stays the one of before: %s", err.text);
    else if (has_changed)
        sluice_log(SLUICE_LOG_INFO, "new certificate from %s", identity->files.cert);
    return is_new ? GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW
                  : GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
}

grpc_server_credentials *rpc_identity_credentials(struct rpc_identity *identity)
{
    const grpc_ssl_client_certificate_request_type request =
        identity->files.ca ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                           : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
    return grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(
            request, give_certificates, identity)); /* which takes the options */
}

/* gRPC compares the target with any name in the certificate, of whatever kind. */
static int check_name(const char *target, const char *pem, void *ctx)
{
    (void)ctx;
    return sluice_tls_is_for(pem, target) ? 0 : 1;
}

sluice_status rpc_client_credentials(const struct sluice_rpc_client_tls *tls,
                                     grpc_channel_credentials **credentials, struct sluice_err *err)
{
    if (!tls) {
        *credentials = grpc_insecure_credentials_create();
        return SLUICE_OK;
    }
    const struct sluice_tls_files files = {.cert = tls->cert, .key = tls->key, .ca = tls->ca};
    struct sluice_tls_texts texts;
    const sluice_status status = sluice_tls_read(&files, &texts, err);
    if (status != SLUICE_OK)
        return status;
    grpc_ssl_pem_key_cert_pair pair = {texts.key ? texts.key->text : NULL, texts.cert};
    const grpc_ssl_verify_peer_options options = {.verify_peer_callback = check_name};
    *credentials =
        grpc_ssl_credentials_create_ex(texts.ca, texts.cert ? &pair : NULL, &options, NULL);
    sluice_tls_texts_clear(&texts);
    return *credentials ? SLUICE_OK
                        : sluice_fail(err, SLUICE_E_INVALID, "gRPC takes no TLS from these files");
}
