#include "base/host_port.h"

#include "base/parse.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

sluice_status sluice_host_port_parse(const char *text, int default_port,
                                     struct sluice_host_port *address, struct sluice_err *err)
{
    const char *host = text, *rest;
    size_t len;
    if (strpbrk(text, " \t/"))
        return sluice_fail(err, SLUICE_E_INVALID, "'%s' is no HOST:PORT", text);
    if (text[0] == '[') {
        const char *end = strchr(text, ']');
        if (!end)
            return sluice_fail(err, SLUICE_E_INVALID, "'%s': a ']' is missing", text);
        host = text + 1;
        len = (size_t)(end - host);
        rest = end + 1;
    } else {
        len = strcspn(text, ":");
        rest = text + len;
        if (rest[0] && strchr(rest + 1, ':'))
            return sluice_fail(err, SLUICE_E_INVALID,
                               "'%s': an IPv6 address stands in brackets: [::1]:50051", text);
    }
    struct sluice_host_port found = {.port = default_port < 0 ? 0 : (uint16_t)default_port};
    if (len >= sizeof(found.host))
        return sluice_fail(err, SLUICE_E_INVALID, "'%.40s...': a name of %zu characters", text,
                           len);
    memcpy(found.host, host, len);
    if (rest[0] == ':') {
        uint64_t port = 0;
        if (sluice_parse_uint(rest + 1, &port, NULL) != SLUICE_OK || port > UINT16_MAX)
            return sluice_fail(err, SLUICE_E_INVALID, "'%s': the port is a number from 0 to 65535",
                               text);
        found.port = (uint16_t)port;
    } else if (rest[0] || default_port < 0 || len == 0) {
        return sluice_fail(err, SLUICE_E_INVALID, "'%s' is no HOST:PORT", text);
    }
    *address = found;
    return SLUICE_OK;
}

void sluice_host_port_format(const struct sluice_host_port *address, const char *any_host,
                             char out[SLUICE_HOST_PORT_BYTES])
{
    const char *host = address->host[0] ? address->host : any_host;
    const bool is_v6 = strchr(host, ':') != NULL;
    snprintf(out, SLUICE_HOST_PORT_BYTES, "%s%s%s:%u", is_v6 ? "[" : "", host, is_v6 ? "]" : "",
             address->port);
}

/* 0, or the errno of the first step that failed. */
static int try_bind(const struct addrinfo *address)
{
    const int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    const int one = 1; /* as servers do: a port whose connections have just ended is free */
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    const bool is_bound =
        bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, 1) == 0;
    const int error = is_bound ? 0 : errno;
    close(fd);
    return error;
}

sluice_status sluice_host_port_try_listen(const struct sluice_host_port *address,
                                          struct sluice_err *err)
{
    char text[SLUICE_HOST_PORT_BYTES], service[16];
    sluice_host_port_format(address, "0.0.0.0", text);
    snprintf(service, sizeof(service), "%u", address->port);
    const struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
                                   .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    const int code = getaddrinfo(address->host[0] ? address->host : NULL, service, &hints, &found);
    if (code != 0)
        return sluice_fail(err, SLUICE_E_IO,
                           "cannot listen on %s: the name %s does not resolve (%s)", text,
                           address->host, gai_strerror(code));
    int error = EADDRNOTAVAIL;
    for (const struct addrinfo *one = found; one && error; one = one->ai_next)
        error = try_bind(one);
    freeaddrinfo(found);
    switch (error) {
    case 0:
        return SLUICE_OK;
    case EADDRINUSE:
        return sluice_fail(err, SLUICE_E_IO,
                           "cannot listen on %s: another program listens there already", text);
    case EACCES:
        return sluice_fail(err, SLUICE_E_IO,
                           "cannot listen on %s: this user may not take port %u (those below 1024 "
                           "are root's); choose a higher one",
                           text, address->port);
    case EADDRNOTAVAIL:
        return sluice_fail(err, SLUICE_E_IO,
                           "cannot listen on %s: %s is no address of this machine", text,
                           address->host);
    default:
        return sluice_fail(err, SLUICE_E_IO, "cannot listen on %s: %s", text, strerror(error));
    }
}

struct sluice_host sluice_host_of(const struct sockaddr *address)
{
    struct sluice_host host = {{0}};
    if (address->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof(v4));
        host.bytes[10] = host.bytes[11] = 0xff;
        memcpy(host.bytes + 12, &v4.sin_addr, 4);
    } else if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, address, sizeof(v6));
        const bool is_v4 = IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr);
        const bool is_loopback = IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
        memcpy(host.bytes, &v6.sin6_addr, is_v4 || is_loopback ? 16 : 8);
    }
    return host;
}

bool sluice_host_is_same(const struct sluice_host *a, const struct sluice_host *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

bool sluice_is_loopback(const char *address)
{
    struct sluice_host_port parsed;
    struct in_addr v4;
    struct in6_addr v6;
    if (sluice_starts_with(address, "unix:") || sluice_starts_with(address, "unix-abstract:"))
        return true;
    if (sluice_host_port_parse(address, -1, &parsed, NULL) != SLUICE_OK)
        return false;
    if (inet_pton(AF_INET, parsed.host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, parsed.host, &v6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&v6);
    return strcmp(parsed.host, "localhost") == 0;
}
