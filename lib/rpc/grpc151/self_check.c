#include "rpc/grpc151/self_check.h"

#include "base/clock.h"
#include "base/host_port.h"
#include "base/log.h"
#include "base/text.h"
#include "crypto/certificates.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct target {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un local;
        struct sockaddr_storage room;
    } address;
    socklen_t len;
};

static bool is_unix_path(const char *listen)
{
    return sluice_starts_with(listen, "unix:");
}

static bool is_unix_abstract(const char *listen)
{
    return sluice_starts_with(listen, "unix-abstract:");
}

bool self_check_is_unix(const char *listen)
{
    return is_unix_path(listen) || is_unix_abstract(listen);
}

static sluice_status find_unix(const char *listen, struct target *target, struct sluice_err *err)
{
    struct sockaddr_un *local = &target->address.local;
    const bool is_abstract = is_unix_abstract(listen);
    const char *name = strchr(listen, ':') + 1;
    if (!is_abstract && sluice_starts_with(name, "//")) /* unix:///absolute */
        name += 2;
    char *out = local->sun_path + (is_abstract ? 1 : 0);
    local->sun_family = AF_UNIX;
    if (!sluice_print(out, sizeof(local->sun_path) - 1, "%s", name))
        return sluice_fail(err, SLUICE_E_IO, "%s: the path is too long", listen);
    target->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name) + 1);
    return SLUICE_OK;
}

bool self_check_is_taken(const char *listen)
{
    struct target target = {.len = 0};
    if (!is_unix_path(listen) || find_unix(listen, &target, NULL) != SLUICE_OK)
        return false;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    /* EAGAIN: its queue of connections is full. */
    const bool is_taken = connect(fd, &target.address.any, target.len) == 0 || errno == EAGAIN;
    close(fd);
    return is_taken;
}

/* A wildcard's own address is this machine's. */
static sluice_status find_host(const char *listen, int port, struct target *target,
                               struct sluice_err *err)
{
    char service[16];
    struct sluice_host_port parsed;
    const sluice_status status = sluice_host_port_parse(listen, -1, &parsed, err);
    if (status != SLUICE_OK)
        return status;
    const char *host = parsed.host;
    (void)snprintf(service, sizeof(service), "%d", port);
    const bool is_wildcard = !host[0] || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;

    const struct addrinfo hints = {.ai_flags = AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    const int code = getaddrinfo(is_wildcard ? "127.0.0.1" : host, service, &hints, &found);
    if (code != 0)
        return sluice_fail(err, SLUICE_E_IO, "%s: %s", host, gai_strerror(code));
    memcpy(&target->address, found->ai_addr, found->ai_addrlen);
    target->len = found->ai_addrlen;
    freeaddrinfo(found);
    return SLUICE_OK;
}

/* Takes a port, so that the door knows the connection when it comes. */
static sluice_status announce(int fd, const struct target *target, struct door *door,
                              struct sluice_err *err)
{
    struct target own = {.address.any.sa_family = target->address.any.sa_family,
                         .len = target->len};
    if (own.address.any.sa_family == AF_UNIX) {
        door_expect(door, DOOR_UNIX);
        return SLUICE_OK;
    }
    if (bind(fd, &own.address.any, own.len) != 0 ||
        getsockname(fd, &own.address.any, &own.len) != 0)
        return sluice_fail(err, SLUICE_E_IO, "no port to connect from: %s", strerror(errno));
    door_expect(door, ntohs(own.address.any.sa_family == AF_INET ? own.address.v4.sin_port
                                                                 : own.address.v6.sin6_port));
    return SLUICE_OK;
}

/* False once the time is over. */
static bool wait_for(int fd, short events, uint64_t deadline_ns)
{
    for (;;) {
        const uint64_t now_ns = sluice_clock_ns();
        if (now_ns >= deadline_ns)
            return false;
        struct pollfd one = {.fd = fd, .events = events};
        const int ready = poll(&one, 1, (int)((deadline_ns - now_ns) / 1000000u) + 1);
        if (ready > 0)
            return true;
        if (ready < 0 && errno != EINTR)
            return false;
    }
}

static sluice_status connect_to(int fd, const struct target *target, uint64_t deadline_ns,
                                struct sluice_err *err)
{
    if (connect(fd, &target->address.any, target->len) == 0)
        return SLUICE_OK;
    int error = errno;
    if (error == EINPROGRESS) {
        socklen_t len = sizeof(error);
        if (!wait_for(fd, POLLOUT, deadline_ns))
            return sluice_fail(err, SLUICE_E_IO, "the connection is not accepted");
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
            error = errno;
    }
    if (error == 0)
        return SLUICE_OK;
    return sluice_fail(err, SLUICE_E_IO, "no connection: %s", strerror(error));
}

/* Reads up to `size` bytes that are there or come in time. */
static sluice_status read_some(int fd, uint8_t *data, size_t size, uint64_t deadline_ns,
                               size_t *got, struct sluice_err *err)
{
    for (;;) {
        const ssize_t n = recv(fd, data, size, 0);
        if (n > 0) {
            *got = (size_t)n;
            return SLUICE_OK;
        }
        if (n == 0)
            return sluice_fail(err, SLUICE_E_IO, "the connection was closed");
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN)
            return sluice_fail(err, SLUICE_E_IO, "the connection was lost: %s", strerror(errno));
        if (!wait_for(fd, POLLIN, deadline_ns))
            return sluice_fail(err, SLUICE_E_IO, "no answer");
    }
}

#define FRAME_BYTES 9
#define PING_TYPE 6
#define ACK_FLAG 1
#define TLS_HANDSHAKE 22

/* Frames are skipped until one is the answer to the PING. */
static sluice_status wait_for_pong(int fd, uint64_t deadline_ns, struct sluice_err *err)
{
    uint8_t header[FRAME_BYTES], dropped[256];
    for (;;) {
        for (size_t have = 0, got = 0; have < sizeof(header); have += got) {
            const sluice_status status =
                read_some(fd, header + have, sizeof(header) - have, deadline_ns, &got, err);
            if (status != SLUICE_OK)
                return status;
        }
        size_t left = (size_t)header[0] << 16 | (size_t)header[1] << 8 | header[2];
        if (header[3] == PING_TYPE && header[4] & ACK_FLAG)
            return SLUICE_OK;
        for (size_t got = 0; left > 0; left -= got) {
            const sluice_status status =
                read_some(fd, dropped, left < sizeof(dropped) ? left : sizeof(dropped), deadline_ns,
                          &got, err);
            if (status != SLUICE_OK)
                return status;
        }
    }
}

/* The server's hello is a record of the type 22 (RFC 8446, section 5.1). */
static sluice_status shake_hands(int fd, uint64_t deadline_ns, struct sluice_err *err)
{
    uint8_t hello[SLUICE_CLIENT_HELLO_BYTES], type = 0;
    const size_t len = sluice_tls_client_hello(hello);
    size_t got = 0;
    if (len == 0)
        return sluice_fail(err, SLUICE_E_IO, "no TLS to ask with");
    if (send(fd, hello, len, MSG_NOSIGNAL) < 0)
        return sluice_fail(err, SLUICE_E_IO, "the connection was lost: %s", strerror(errno));
    const sluice_status status = read_some(fd, &type, 1, deadline_ns, &got, err);
    if (status != SLUICE_OK || type == TLS_HANDSHAKE)
        return status;
    return sluice_fail(err, SLUICE_E_IO, "the TLS handshake is refused");
}

static sluice_status exchange_pings(int fd, uint64_t deadline_ns, struct sluice_err *err)
{
    static const char hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                                "\0\0\0\4\0\0\0\0\0"           /* SETTINGS, none */
                                "\0\0\10\6\0\0\0\0\0sluice-?"; /* PING */
    if (send(fd, hello, sizeof(hello) - 1, MSG_NOSIGNAL) < 0)
        return sluice_fail(err, SLUICE_E_IO, "the connection was lost: %s", strerror(errno));
    return wait_for_pong(fd, deadline_ns, err);
}

sluice_status self_check(const struct self_check_target *of, unsigned timeout_ms,
                         struct sluice_err *err)
{
    const uint64_t deadline_ns = sluice_clock_ns() + timeout_ms * 1000000ull;
    door_report(of->door);
    struct target target = {.len = 0};
    sluice_status status = self_check_is_unix(of->listen)
                               ? find_unix(of->listen, &target, err)
                               : find_host(of->listen, of->port, &target, err);
    if (status != SLUICE_OK)
        return status;
    const int fd =
        socket(target.address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return sluice_fail(err, SLUICE_E_IO, "no socket: %s", strerror(errno));
    status = announce(fd, &target, of->door, err);
    if (status == SLUICE_OK)
        status = connect_to(fd, &target, deadline_ns, err);
    if (status == SLUICE_OK)
        status =
            of->has_tls ? shake_hands(fd, deadline_ns, err) : exchange_pings(fd, deadline_ns, err);
    close(fd);
    if (status == SLUICE_OK && !door_has_seen_expected(of->door)) {
        static atomic_flag is_told = ATOMIC_FLAG_INIT;
        if (!atomic_flag_test_and_set(&is_told))
            sluice_log(SLUICE_LOG_WARN, "this gRPC accepts connections by a way of its own: no "
                                        "limit on connections holds, and floods are not cut");
    }
    return status;
}
