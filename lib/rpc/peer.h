#ifndef SLUICE_RPC_PEER_H
#define SLUICE_RPC_PEER_H

#include "base/host_port.h"

#include <stdbool.h>
#include <stdint.h>

/* Who a call comes from, for whatever is shared out by client: CPU, memory, the link.
 *
 * A client is its address.  Connections and streams cost it nothing, addresses do.  Programs behind
 * one address (NAT) are one client.  An IPv6 client is its /64 network, as that is what one machine
 * is usually given.
 *
 * Threads: any. */

#define SLUICE_PEER_HOST 64

/* The client of a peer as rpc_server.h has it: of "ipv4:10.0.0.1:4242" it is "10.0.0.1", of
 * "ipv6:%5B2001:db8::1%5D:4242" it is "2001:db8::"; of an IPv4 address in an IPv6 one it is the
 * IPv4 address.  Any other text is returned as it is, cut to the room. */
void sluice_peer_host(const char *peer, char host[static SLUICE_PEER_HOST]);

/* For people: the address with its port, "10.0.0.1:4242" or "[2001:db8::1]:4242".  Any other text
 * is returned as it is, cut to the room. */
#define SLUICE_PEER_TEXT 80
void sluice_peer_text(const char *peer, char text[static SLUICE_PEER_TEXT]);

/* The host and port of an IP address; false: not an IP address. */
bool sluice_peer_find(const char *peer, struct sluice_host *host, uint16_t *port);

#endif
