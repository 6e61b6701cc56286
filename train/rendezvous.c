#include "train/rendezvous.h"

#include "base/clock.h"
#include "base/text.h"
#include "host/pass_fds.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* ns that rank 0 waits for the first message of a connection: the others send it at once, and one
 * that was stopped before comes again. */
#define HELLO_NS 1000000000u
/* ns between two attempts to reach rank 0, or to get its socket. */
#define RETRY_NS 10000000u

#define MAGIC 0x534c5231u /* "SLR1" */

struct hello {
    uint32_t magic, rank, world_size, len;
};

enum verdict { WELCOME, OTHER_WORLD, TAKEN };

struct answer {
    uint32_t verdict, world_size, len;
};

/* One call. */
struct meeting {
    const char *key;
    unsigned rank, world_size;
    void *bytes; /* len */
    uint32_t len;
    int *fd; /* NULL: bytes alone */
    uint64_t until_ns;
    struct sockaddr_un address;
    socklen_t address_len;
};

static sluice_status fail_errno(const struct meeting *m, const char *what, struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_IO, "rendezvous %s: %s: %s", m->key, what, strerror(errno));
}

/* False: the deadline has passed. */
static bool wait_readable(int fd, uint64_t until_ns)
{
    for (;;) {
        const uint64_t now = sluice_clock_ns();
        const uint64_t left_ms = now < until_ns ? (until_ns - now + 999999u) / 1000000u : 0;
        struct pollfd item = {.fd = fd, .events = POLLIN};
        if (poll(&item, 1, left_ms < INT_MAX ? (int)left_ms : INT_MAX) > 0)
            return true;
        if (left_ms == 0)
            return false;
    }
}

/* False: the deadline has passed. */
static bool wait_to_retry(const struct meeting *m)
{
    const uint64_t now = sluice_clock_ns();
    if (now >= m->until_ns)
        return false;
    const uint64_t left = m->until_ns - now;
    sluice_clock_sleep_until(now + (left < RETRY_NS ? left : RETRY_NS));
    return true;
}

/* The user of the other end. */
static bool get_peer(int fd, uid_t *uid)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0)
        return false;
    *uid = peer.uid;
    return true;
}

static bool send_answer(const struct meeting *m, int to, enum verdict verdict)
{
    struct answer answer = {verdict, m->world_size, m->len};
    const struct iovec parts[] = {{&answer, sizeof(answer)}, {m->bytes, m->len}};
    const bool is_welcome = verdict == WELCOME;
    return sluice_send_fds(to, parts, is_welcome ? 2 : 1, m->fd, is_welcome && m->fd ? 1 : 0,
                           MSG_DONTWAIT) >= 0;
}

/* True: a rank was met for the first time. */
static bool meet(const struct meeting *m, int from, bool *is_met)
{
    uid_t uid;
    if (!get_peer(from, &uid) || uid != geteuid())
        return false;
    const uint64_t soon_ns = sluice_clock_ns() + HELLO_NS;
    struct hello hello;
    if (!wait_readable(from, soon_ns < m->until_ns ? soon_ns : m->until_ns) ||
        recv(from, &hello, sizeof(hello), MSG_DONTWAIT) != (ssize_t)sizeof(hello) ||
        hello.magic != MAGIC)
        return false;
    const bool is_ours =
        hello.world_size == m->world_size && hello.rank > 0 && hello.rank < m->world_size;
    /* It may be here for the next hand-over, of another length. */
    if (is_ours && is_met[hello.rank]) {
        (void)send_answer(m, from, TAKEN);
        return false;
    }
    if (!is_ours || hello.len != m->len) {
        (void)send_answer(m, from, OTHER_WORLD);
        return false;
    }
    is_met[hello.rank] = send_answer(m, from, WELCOME);
    return is_met[hello.rank];
}

static sluice_status fail_missing(const struct meeting *m, const bool *is_met,
                                  struct sluice_err *err)
{
    char text[128] = "";
    size_t used = 0;
    for (unsigned rank = 1; rank < m->world_size; rank++) {
        char one[16];
        if (is_met[rank] || !sluice_print(one, sizeof(one), "%s%u", used ? ", " : "", rank))
            continue;
        if (used + strlen(one) + sizeof(", ...") > sizeof(text)) {
            strcpy(text + used, ", ...");
            break;
        }
        strcpy(text + used, one);
        used += strlen(one);
    }
    return sluice_fail(err, SLUICE_E_IO,
                       "rendezvous %s: of %u ranks, these did not come in time: %s (all must be on "
                       "this host)",
                       m->key, m->world_size, text);
}

static sluice_status listen_at(const struct meeting *m, int *listener, struct sluice_err *err)
{
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return fail_errno(m, "socket", err);
    /* A run that is being ended may still have the name. */
    while (bind(fd, (const struct sockaddr *)&m->address, m->address_len) != 0) {
        if (errno == EADDRINUSE && wait_to_retry(m))
            continue;
        const sluice_status status = fail_errno(m, "another run has its socket", err);
        close(fd);
        return status;
    }
    if (listen(fd, SOMAXCONN) != 0) {
        const sluice_status status = fail_errno(m, "listen", err);
        close(fd);
        return status;
    }
    *listener = fd;
    return SLUICE_OK;
}

static sluice_status hand_over(const struct meeting *m, struct sluice_err *err)
{
    int listener;
    bool *is_met = calloc(m->world_size, sizeof(*is_met));
    if (!is_met)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %u ranks", m->world_size);
    sluice_status status = listen_at(m, &listener, err);
    if (status) {
        free(is_met);
        return status;
    }
    unsigned num_missing = m->world_size - 1;
    while (!status && num_missing > 0) {
        if (!wait_readable(listener, m->until_ns)) {
            status = fail_missing(m, is_met, err);
            break;
        }
        const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) {
            num_missing -= meet(m, fd, is_met);
            close(fd);
        } else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
            status = fail_errno(m, "accept", err);
        }
    }
    close(listener);
    free(is_met);
    return status;
}

/* How far an attempt to reach rank 0 came. */
enum attempt { MET, NOT_THERE, NO_ANSWER, NAME_TAKEN };

static sluice_status take_answer(const struct meeting *m, int from, enum attempt *attempt,
                                 struct sluice_err *err)
{
    struct answer answer = {0};
    uint8_t bytes[SLUICE_RENDEZVOUS_MAX_BYTES];
    struct iovec parts[] = {{&answer, sizeof(answer)}, {bytes, sizeof(bytes)}};
    int fd;
    *attempt = NO_ANSWER;
    if (!wait_readable(from, m->until_ns))
        return SLUICE_OK;
    const ssize_t got = sluice_receive_fds(from, parts, 2, &fd, 1, MSG_DONTWAIT);
    if (got < (ssize_t)sizeof(answer))
        return SLUICE_OK;
    if (answer.verdict == TAKEN) {
        *attempt = NAME_TAKEN;
        return SLUICE_OK;
    }
    if (answer.verdict == WELCOME && got == (ssize_t)(sizeof(answer) + m->len) &&
        (fd >= 0) == (m->fd != NULL)) {
        if (m->fd)
            *m->fd = fd;
        else
            memcpy(m->bytes, bytes, m->len);
        *attempt = MET;
        return SLUICE_OK;
    }
    if (fd >= 0)
        close(fd);
    return sluice_fail(err, SLUICE_E_INVALID,
                       "rendezvous %s: rank %u of %u meets a rank 0 of %u ranks that hands over %u "
                       "bytes, not %u",
                       m->key, m->rank, m->world_size, answer.world_size, answer.len, m->len);
}

static sluice_status ask(const struct meeting *m, int fd, enum attempt *attempt,
                         struct sluice_err *err)
{
    *attempt = NOT_THERE;
    if (connect(fd, (const struct sockaddr *)&m->address, m->address_len) != 0) {
        if (errno == ECONNREFUSED || errno == EAGAIN || errno == EINTR)
            return SLUICE_OK;
        return fail_errno(m, "connect", err);
    }
    uid_t uid;
    if (!get_peer(fd, &uid) || uid != geteuid())
        return sluice_fail(err, SLUICE_E_IO, "rendezvous %s: its socket belongs to another user",
                           m->key);
    *attempt = NO_ANSWER;
    const struct hello hello = {MAGIC, m->rank, m->world_size, m->len};
    if (send(fd, &hello, sizeof(hello), MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof(hello))
        return SLUICE_OK;
    return take_answer(m, fd, attempt, err);
}

static sluice_status find_rank_0(const struct meeting *m, struct sluice_err *err)
{
    for (;;) {
        const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
            return fail_errno(m, "socket", err);
        enum attempt attempt;
        const sluice_status status = ask(m, fd, &attempt, err);
        close(fd);
        if (status || attempt == MET)
            return status;
        if (!wait_to_retry(m))
            return sluice_fail(err, SLUICE_E_IO,
                               "rendezvous %s: rank %u %s (all ranks must be on this host)", m->key,
                               m->rank,
                               attempt == NAME_TAKEN  ? "came to rank 0 after another of its number"
                               : attempt == NO_ANSWER ? "got no answer from rank 0 in time"
                                                      : "did not find rank 0 in time");
    }
}

static sluice_status run_meeting(struct meeting *m, struct sluice_err *err)
{
    if (m->world_size < 1 || m->rank >= m->world_size)
        return sluice_fail(err, SLUICE_E_INVALID, "rendezvous: rank %u of %u", m->rank,
                           m->world_size);
    if (m->world_size == 1)
        return SLUICE_OK;
    if (!m->key || !m->key[0] || strlen(m->key) > SLUICE_RENDEZVOUS_MAX_KEY)
        return sluice_fail(err, SLUICE_E_INVALID, "rendezvous: a key has 1 to %d bytes",
                           SLUICE_RENDEZVOUS_MAX_KEY);
    m->address.sun_family = AF_UNIX;
    char *name = m->address.sun_path + 1; /* abstract: behind a 0 */
    (void)sluice_print(name, sizeof(m->address.sun_path) - 1, "sluice-rendezvous-%u-%s",
                       (unsigned)geteuid(), m->key);
    m->address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    return m->rank == 0 ? hand_over(m, err) : find_rank_0(m, err);
}

sluice_status sluice_rendezvous(const char *key, unsigned rank, unsigned world_size, void *bytes,
                                size_t len, uint64_t until_ns, struct sluice_err *err)
{
    if (len > SLUICE_RENDEZVOUS_MAX_BYTES)
        return sluice_fail(err, SLUICE_E_INVALID, "rendezvous: %zu bytes; %d at most", len,
                           SLUICE_RENDEZVOUS_MAX_BYTES);
    struct meeting m = {.key = key,
                        .rank = rank,
                        .world_size = world_size,
                        .bytes = bytes,
                        .len = (uint32_t)len,
                        .until_ns = until_ns};
    return run_meeting(&m, err);
}

sluice_status sluice_rendezvous_fd(const char *key, unsigned rank, unsigned world_size, int *fd,
                                   uint64_t until_ns, struct sluice_err *err)
{
    struct meeting m = {
        .key = key, .rank = rank, .world_size = world_size, .fd = fd, .until_ns = until_ns};
    return run_meeting(&m, err);
}
