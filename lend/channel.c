#include "lend/channel.h"

#include "base/error.h"
#include "base/process.h"
#include "host/pass_fds.h"
#include "host/unix_listener.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

/* --- messages --- */

/* Copies a message that begins with magic and version. */
static sluice_status copy(const uint8_t *bytes, size_t len, uint32_t *message, size_t want,
                          const char *who, struct sluice_err *err)
{
    if (len == want)
        memcpy(message, bytes, want);
    if (len != want || message[0] != SLUICE_LEND_MAGIC)
        return sluice_fail(err, SLUICE_E_CORRUPT, "these %zu bytes are not from a %s of a GPU", len,
                           who);
    if (message[1] != SLUICE_LEND_VERSION)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "the %s has version %u, and we have %u", who,
                           (unsigned)message[1], SLUICE_LEND_VERSION);
    return SLUICE_OK;
}

sluice_status sluice_lend_hello_parse(const uint8_t *bytes, size_t len,
                                      struct sluice_lend_hello *hello, struct sluice_err *err)
{
    struct sluice_lend_hello h;
    const sluice_status status = copy(bytes, len, &h.magic, sizeof(h), "borrower", err);
    if (status == SLUICE_OK)
        *hello = h;
    return status;
}

sluice_status sluice_lend_answer_parse(const uint8_t *bytes, size_t len,
                                       struct sluice_lend_answer *answer, struct sluice_err *err)
{
    struct sluice_lend_answer a;
    const sluice_status status = copy(bytes, len, &a.magic, sizeof(a), "lender", err);
    if (status != SLUICE_OK)
        return status;
    if (!memchr(a.text, 0, sizeof(a.text)) || a.status >= SLUICE_NUM_STATUS ||
        a.slot >= SLUICE_LEND_SLOTS)
        return sluice_fail(err, SLUICE_E_CORRUPT, "the answer of the lender makes no sense");
    if (a.status != SLUICE_OK)
        return sluice_fail(err, (sluice_status)a.status, "refused: %s", a.text);
    *answer = a;
    return SLUICE_OK;
}

/* --- the page's memory --- */

static bool map(int memfd, struct sluice_lend_page **page)
{
    void *memory = mmap(NULL, SLUICE_LEND_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
    if (memory != MAP_FAILED)
        *page = memory;
    return memory != MAP_FAILED;
}

sluice_status sluice_lend_page_create(struct sluice_lend_page **page, int *memfd,
                                      struct sluice_err *err)
{
    *memfd = memfd_create("sluice-lend", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*memfd < 0 || ftruncate(*memfd, SLUICE_LEND_PAGE_BYTES) != 0 ||
        fcntl(*memfd, F_ADD_SEALS, SEALS) != 0 || !map(*memfd, page))
        return sluice_fail(err, SLUICE_E_IO, "a page to lend a GPU: %s", strerror(errno));
    sluice_lend_page_init(*page);
    return SLUICE_OK;
}

void sluice_lend_page_clear(struct sluice_lend_page *page, int memfd)
{
    if (page)
        munmap(page, SLUICE_LEND_PAGE_BYTES);
    if (memfd >= 0)
        close(memfd);
}

/* Sealed and large enough, so that no access of it can fail. */
static sluice_status open_page(int memfd, struct sluice_lend_page **page, struct sluice_err *err)
{
    const int seals = fcntl(memfd, F_GET_SEALS);
    struct stat file;
    struct sluice_lend_page *mapped = NULL;
    if (seals < 0 || (seals & SEALS) != SEALS || fstat(memfd, &file) != 0 ||
        file.st_size < SLUICE_LEND_PAGE_BYTES || !map(memfd, &mapped) ||
        !sluice_lend_page_is_valid(mapped)) {
        sluice_lend_page_clear(mapped, -1);
        return sluice_fail(err, SLUICE_E_CORRUPT,
                           "the lender's page is too small, not sealed or of another kind");
    }
    *page = mapped;
    return SLUICE_OK;
}

/* --- the owner --- */

sluice_status sluice_lend_read_hello(int fd, struct sluice_lend_hello *hello, struct ucred *peer,
                                     struct sluice_err *err)
{
    uint8_t bytes[sizeof(*hello) + 1];
    socklen_t peer_len = sizeof(*peer);
    const ssize_t len = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (len < 0 && (errno == EAGAIN || errno == EINTR))
        return SLUICE_E_AGAIN;
    if (len <= 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &peer_len) != 0)
        return SLUICE_E_CLOSED;
    return sluice_lend_hello_parse(bytes, (size_t)len, hello, err);
}

bool sluice_lend_send_answer(int fd, struct sluice_lend_answer *answer, int memfd)
{
    answer->magic = SLUICE_LEND_MAGIC;
    answer->version = SLUICE_LEND_VERSION;
    const struct iovec part = {answer, sizeof(*answer)};
    return sluice_send_fds(fd, &part, 1, &memfd, memfd >= 0, MSG_DONTWAIT) ==
           (ssize_t)sizeof(*answer);
}

/* --- a borrower --- */

static sluice_status read_answer(int fd, struct sluice_lend_answer *answer, int *memfd,
                                 struct sluice_err *err)
{
    uint8_t bytes[sizeof(*answer) + 1];
    const struct iovec part = {bytes, sizeof(bytes)};
    ssize_t len;
    while ((len = sluice_receive_fds(fd, &part, 1, memfd, 1, 0)) < 0 && errno == EINTR)
        ;
    if (len < 0 && errno == EAGAIN)
        return sluice_fail(err, SLUICE_E_IO, "no answer for %d s", SLUICE_LEND_ANSWER_MS / 1000);
    if (len <= 0)
        return sluice_fail(err, SLUICE_E_NOT_FOUND, "the lender ended just now");
    return sluice_lend_answer_parse(bytes, (size_t)len, answer, err);
}

static sluice_status connect_to(int fd, const char *path, struct sluice_err *err)
{
    struct sockaddr_un address;
    const sluice_status status = sluice_unix_address(path, &address, err);
    if (status != SLUICE_OK)
        return status;
    const struct timeval most = {SLUICE_LEND_ANSWER_MS / 1000, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
        return SLUICE_OK;
    switch (errno) {
    case ENOENT:
    case ENOTDIR:
    case ECONNREFUSED:
        return sluice_fail(err, SLUICE_E_NOT_FOUND, "%s: nobody lends a GPU here", path);
    case EACCES:
    case EPERM:
        return sluice_fail(err, SLUICE_E_INVALID, "%s: this user may not connect", path);
    case EPROTOTYPE:
        return sluice_fail(err, SLUICE_E_CORRUPT, "%s: the socket of some other program", path);
    default:
        return sluice_fail(err, SLUICE_E_IO, "%s: %s", path, strerror(errno));
    }
}

sluice_status sluice_lend_connect(const char *path, const struct sluice_lend_hello *hello, int *fd,
                                  struct sluice_lend_page **page, unsigned *slot,
                                  uint32_t *generation, struct sluice_err *err)
{
    const int made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (made < 0)
        return sluice_fail(err, SLUICE_E_IO, "%s: %s", path, strerror(errno));
    sluice_process_own_socket(made);
    struct sluice_lend_answer answer = {.status = SLUICE_OK};
    struct sluice_err reason = {{0}};
    int memfd = -1;
    sluice_status status = connect_to(made, path, err);
    if (status == SLUICE_OK &&
        send(made, hello, sizeof(*hello), MSG_NOSIGNAL) != (ssize_t)sizeof(*hello))
        status = sluice_fail(&reason, SLUICE_E_NOT_FOUND, "the lender ended just now");
    if (status == SLUICE_OK)
        status = read_answer(made, &answer, &memfd, &reason);
    if (status == SLUICE_OK)
        status = open_page(memfd, page, &reason);
    if (memfd >= 0)
        close(memfd);
    if (status != SLUICE_OK) {
        sluice_process_end_socket(made);
        return sluice_fail(err, status, "%s: %s", path, reason.text);
    }
    *fd = made;
    *slot = answer.slot;
    *generation = answer.generation;
    return SLUICE_OK;
}

bool sluice_lend_is_hung_up(int fd)
{
    struct pollfd item = {.fd = fd, .events = POLLIN};
    return poll(&item, 1, 0) > 0; /* the owner sends nothing after its answer */
}
