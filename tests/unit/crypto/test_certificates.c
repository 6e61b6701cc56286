#include "crypto/certificates.h"

#include "support/test.h"

#include <time.h>

static char folder[2048];

static const char *in(const char *name)
{
    static char paths[4][4096];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

/* A CA, a server's and a client's certificate; an expired one, one of the future, a key with a
 * passphrase. */
static void make_files(void)
{
    char command[8192];
    snprintf(folder, sizeof(folder), "%s", sluice_test_dir());
    if (system("command -v openssl >/dev/null") != 0)
        sluice_test_skip("openssl is missing");
    snprintf(command, sizeof(command),
             "exec >/dev/null 2>&1; set -e; '%s/scripts/dev-certs' '%s'; cd '%s'; "
             "openssl req -new -key server-key.pem -subj /CN=old -out old.csr; "
             "openssl x509 -req -in old.csr -CA ca.pem -CAkey ca-key.pem -days -1 -out old.pem; "
             "openssl pkey -in server-key.pem -aes128 -passout pass:secret -out locked.pem; "
             "echo 'no pem' >text; head -c 200 server.pem >half.pem; "
             "cat ca.pem half.pem >damaged.pem",
             sluice_test_source_dir(), folder, folder);
    if (system(command) != 0)
        sluice_test_skip("openssl does not make what is needed");
}

TEST(reads_what_belongs_together)
{
    const struct sluice_tls_files files = {
        .cert = in("server.pem"), .key = in("server-key.pem"), .ca = in("ca.pem")};
    struct sluice_tls_texts texts = {0};
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_tls_read(&files, &texts, &err));
    CU_ASSERT_PTR_NOT_NULL(strstr(texts.cert, "BEGIN CERTIFICATE"));
    CU_ASSERT_PTR_NOT_NULL(strstr(texts.ca, "BEGIN CERTIFICATE"));
    CU_ASSERT_PTR_NOT_NULL(strstr(texts.key->text, "PRIVATE KEY"));
    const int64_t left_s = texts.cert_end - (int64_t)time(NULL);
    CU_ASSERT(left_s > 300 * INT64_C(86400) && left_s < 400 * INT64_C(86400)); /* it has a year */
    sluice_tls_texts_clear(&texts);
    sluice_tls_texts_clear(&texts);
    const struct sluice_tls_files none = {0};
    CHECK_OK(sluice_tls_read(&none, &texts, NULL));
    CU_ASSERT(!texts.cert && !texts.key && !texts.ca && !texts.cert_end);
}

TEST(errors_name_the_file_and_the_reason)
{
    static const struct {
        const char *cert, *key, *ca, *named, *why;
    } cases[] = {
        {"none.pem", "server-key.pem", NULL, "none.pem", "No such file"},
        {"server.pem", "none.pem", NULL, "none.pem", "No such file"},
        {NULL, NULL, "none.pem", "none.pem", "No such file"},
        {"text", "server-key.pem", NULL, "text", "not PEM: no certificate in it"},
        {"server.pem", "text", NULL, "text", "not PEM: no private key in it"},
        {"server.pem", "ca.pem", NULL, "ca.pem", "not PEM: no private key in it"},
        {"server-key.pem", "server-key.pem", NULL, "server-key.pem", "no certificate in it"},
        {"half.pem", "server-key.pem", NULL, "half.pem", "damaged"},
        {NULL, NULL, "damaged.pem", "damaged.pem", "damaged"},
        {"server.pem", "client-key.pem", NULL, "client-key.pem", "does not fit the certificate"},
        {"server.pem", "locked.pem", NULL, "locked.pem", "needs a passphrase"},
        {"old.pem", "server-key.pem", NULL, "old.pem", "the certificate expired on "},
        {NULL, NULL, "old.pem", "old.pem", "the certificate expired on "},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        const struct sluice_tls_files files = {
            .cert = cases[i].cert ? in(cases[i].cert) : NULL,
            .key = cases[i].key ? in(cases[i].key) : NULL,
            .ca = cases[i].ca ? in(cases[i].ca) : NULL,
        };
        struct sluice_tls_texts texts = {0};
        struct sluice_err err = {0};
        CU_ASSERT_NOT_EQUAL(sluice_tls_read(&files, &texts, &err), SLUICE_OK);
        if (!strstr(err.text, cases[i].named) || !strstr(err.text, cases[i].why)) {
            printf("case %zu: %s\n", i, err.text);
            CU_FAIL("other words");
        }
        CU_ASSERT(!texts.cert && !texts.key && !texts.ca);
    }
}

TEST(says_hello_as_a_client_of_tls)
{
    uint8_t hello[SLUICE_CLIENT_HELLO_BYTES];
    const size_t len = sluice_tls_client_hello(hello);
    CU_ASSERT_FATAL(len > 100);
    CU_ASSERT_EQUAL(hello[0], 22); /* a handshake ... */
    CU_ASSERT_EQUAL((size_t)hello[3] << 8 | hello[4], len - 5);
    CU_ASSERT_EQUAL(hello[5], 1); /* ... that a client begins */
}

int main(void)
{
    make_files();
    return sluice_test_main();
}
