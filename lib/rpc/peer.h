#ifndef SLUICE_RPC_PEER_H
#define SLUICE_RPC_PEER_H

#include "base/host_port.h"

#include <stdbool.h>
#include <stdint.h>

/* The client of a call, for shares by client: CPU, memory, the link.
 *
 * A client is identified by its address, because connections and streams are free to open and
 * addresses are not.  Programs behind one address (NAT) are one client.  An IPv6 client is its /64
 * network, which one machine usually has.
 *
 * Threads: any. */

#define SLUICE_PEER_HOST 64

/* The client of a peer in the notation of rpc_server.h: "10.0.0.1" for "ipv4:10.0.0.1:4242",
 * "2001:db8::" for "ipv6:%5B2001:db8::1%5D:4242", and the IPv4 address for one mapped into IPv6.
 * Copies any other text, cut to the room. */
void sluice_peer_host(const char *peer, char host[static SLUICE_PEER_HOST]);

/* The address and port for people, "10.0.0.1:4242" or "[2001:db8::1]:4242".  Copies any other text,
 * cut to the room. */
#define SLUICE_PEER_TEXT 80
void sluice_peer_text(const char *peer, char text[static SLUICE_PEER_TEXT]);

/* The host and port of an IP address; false: not an IP address. */
bool sluice_peer_find(const char *peer, struct sluice_host *host, uint16_t *port);

#endif
