#include "storage_server/peer.h"

#include <arpa/inet.h>
#include <stdbool.h>
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

void sluice_peer_host(const char *peer, char host[static SLUICE_PEER_HOST])
{
    char address[SLUICE_PEER_HOST];
    struct in6_addr six;
    struct in_addr four;
    const bool is_ip = (strncmp(peer, "ipv4:", 5) == 0 || strncmp(peer, "ipv6:", 5) == 0) &&
                       take_address(peer + 5, address, sizeof(address));
    if (is_ip && inet_pton(AF_INET, address, &four) == 1) {
        (void)inet_ntop(AF_INET, &four, host, SLUICE_PEER_HOST);
    } else if (is_ip && inet_pton(AF_INET6, address, &six) == 1) {
        if (IN6_IS_ADDR_V4MAPPED(&six)) {
            (void)inet_ntop(AF_INET, &six.s6_addr[12], host, SLUICE_PEER_HOST);
        } else {
            memset(&six.s6_addr[8], 0, 8);
            (void)inet_ntop(AF_INET6, &six, host, SLUICE_PEER_HOST);
        }
    } else {
        snprintf(host, SLUICE_PEER_HOST, "%s", peer);
    }
}
