#include "crypto/secret.h"

#include "base/log.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void sluice_sha256(const void *data, size_t len, uint8_t hash[SLUICE_SHA256_BYTES])
{
    SHA256(data, len, hash);
}

bool sluice_secret_equal(const void *a, const void *b, size_t len)
{
    return CRYPTO_memcmp(a, b, len) == 0;
}

void sluice_secret_wipe(void *data, size_t len)
{
    OPENSSL_cleanse(data, len);
}

sluice_status sluice_secret_create(size_t len, struct sluice_secret **secret,
                                   struct sluice_err *err)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t bytes = (sizeof(**secret) + len + 1 + page - 1) / page * page;
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a secret");
    (void)madvise(pages, bytes, MADV_DONTDUMP);
    struct sluice_secret *made = pages;
    made->len = len;
    made->page_bytes = bytes;
    *secret = made;
    return SLUICE_OK;
}

void sluice_secret_destroy(struct sluice_secret *secret)
{
    if (!secret)
        return;
    const size_t bytes = secret->page_bytes;
    sluice_secret_wipe(secret, bytes);
    munmap(secret, bytes);
}

/* Reads to the end of the file, or one byte more than there is room for. */
static sluice_status read_all(int fd, const char *path, size_t max_bytes,
                              struct sluice_secret *secret, struct sluice_err *err)
{
    size_t len = 0;
    for (;;) {
        const ssize_t n = read(fd, secret->text + len, max_bytes + 1 - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return sluice_fail(err, SLUICE_E_IO, "%s: %s", path, strerror(errno));
        len += (size_t)n;
        if (len > max_bytes)
            return sluice_fail(err, SLUICE_E_UNSUPPORTED, "%s: more than %zu bytes", path,
                               max_bytes);
        if (n == 0)
            break;
    }
    secret->len = len;
    return SLUICE_OK;
}

sluice_status sluice_secret_read(const char *path, size_t max_bytes, struct sluice_secret **secret,
                                 struct sluice_err *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return sluice_fail(err, errno == ENOENT ? SLUICE_E_NOT_FOUND : SLUICE_E_IO, "%s: %s", path,
                           strerror(errno));
    struct sluice_secret *made = NULL;
    sluice_status status = sluice_secret_create(max_bytes + 1, &made, err);
    if (status == SLUICE_OK)
        status = read_all(fd, path, max_bytes, made, err);
    close(fd);
    if (status == SLUICE_OK)
        *secret = made;
    else
        sluice_secret_destroy(made);
    return status;
}

sluice_status sluice_secret_trim_token(struct sluice_secret *secret, struct sluice_err *err)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789-._~+/=";
    size_t len = secret->len;
    while (len > 0 && strchr(" \t\r\n", secret->text[len - 1]))
        secret->text[--len] = '\0';
    secret->len = len;
    if (len < SLUICE_TOKEN_MIN || len > SLUICE_TOKEN_MAX)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "a token has %d to %d characters, and this one %zu", SLUICE_TOKEN_MIN,
                           SLUICE_TOKEN_MAX, len);
    if (strspn(secret->text, letters) != len)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "a token has letters, digits and -._~+/= alone, and this one others");
    return SLUICE_OK;
}

void sluice_secret_keep_from_core_dumps(void)
{
    const int fd = open("/proc/self/coredump_filter", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "0", 1) != 1)
        sluice_log(SLUICE_LOG_WARN, "a core dump of this process would show its keys and tokens: "
                                    "/proc/self/coredump_filter cannot be written");
    if (fd >= 0)
        close(fd);
}
