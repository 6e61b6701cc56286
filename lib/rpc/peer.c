#include "rpc/peer.h"

#include "base/parse.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

/* The address between `start` and the port, without brackets, which may be percent-encoded. */
static bool take_address(const char *start, char *address, size_t room)
{
    const char *colon = strrchr(start, ':');
    if (!colon)
        return false;
    if (strncmp(start, "%5B", 3) == 0)
        start += 3;
    else if (start[0] == '[')
        start++;
    size_t len = colon > start ? (size_t)(colon - start) : 0;
    if (len >= 3 && strncmp(start + len - 3, "%5D", 3) == 0)
        len -= 3;
    else if (len >= 1 && start[len - 1] == ']')
        len--;
    const char *zone = memchr(start, '%', len);
    if (zone)
        len = (size_t)(zone - start);
    if (!len || len >= room)
        return false;
    memcpy(address, start, len);
    address[len] = '\0';
    return true;
}

/* Parses an address of "ipv4:" or "ipv6:"; an IPv4 address mapped to IPv6 counts as IPv4. */
enum family { NEITHER, IPV4, IPV6 };

static enum family parse(const char *peer, struct in_addr *four, struct in6_addr *six)
{
    char address[SLUICE_PEER_HOST];
    const bool is_ip = (strncmp(peer, "ipv4:", 5) == 0 || strncmp(peer, "ipv6:", 5) == 0) &&
                       take_address(peer + 5, address, sizeof(address));
    if (is_ip && inet_pton(AF_INET, address, four) == 1)
        return IPV4;
    if (!is_ip || inet_pton(AF_INET6, address, six) != 1)
        return NEITHER;
    if (!IN6_IS_ADDR_V4MAPPED(six))
        return IPV6;
    memcpy(four, &six->s6_addr[12], sizeof(*four));
    return IPV4;
}

void sluice_peer_host(const char *peer, char host[static SLUICE_PEER_HOST])
{
    struct in6_addr six;
    struct in_addr four;
    switch (parse(peer, &four, &six)) {
    case IPV4:
        (void)inet_ntop(AF_INET, &four, host, SLUICE_PEER_HOST);
        break;
    case IPV6:
        memset(&six.s6_addr[8], 0, 8);
        (void)inet_ntop(AF_INET6, &six, host, SLUICE_PEER_HOST);
        break;
    case NEITHER:
        snprintf(host, SLUICE_PEER_HOST, "%s", peer);
        break;
    }
}

void sluice_peer_text(const char *peer, char text[static SLUICE_PEER_TEXT])
{
    struct in6_addr six;
    struct in_addr four;
    char address[INET6_ADDRSTRLEN];
    switch (parse(peer, &four, &six)) {
    case IPV4:
        (void)inet_ntop(AF_INET, &four, address, sizeof(address));
        snprintf(text, SLUICE_PEER_TEXT, "%s%s", address, strrchr(peer, ':'));
        break;
    case IPV6:
        (void)inet_ntop(AF_INET6, &six, address, sizeof(address));
        snprintf(text, SLUICE_PEER_TEXT, "[%s]%s", address, strrchr(peer, ':'));
        break;
    case NEITHER:
        snprintf(text, SLUICE_PEER_TEXT, "%s", peer);
        break;
    }
}

bool sluice_peer_find(const char *peer, struct sluice_host *host, uint16_t *port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    const enum family family = parse(peer, &v4.sin_addr, &v6.sin6_addr);
    uint64_t number;
    if (family == NEITHER ||
        sluice_parse_uint(strrchr(peer, ':') + 1, &number, NULL) != SLUICE_OK ||
        number > UINT16_MAX)
        return false;
    *host = sluice_host_of(family == IPV4 ? (const struct sockaddr *)&v4
                                          : (const struct sockaddr *)&v6);
    *port = (uint16_t)number;
    return true;
}
