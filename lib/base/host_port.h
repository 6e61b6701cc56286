#ifndef SLUICE_BASE_HOST_PORT_H
#define SLUICE_BASE_HOST_PORT_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct sockaddr;

/* Addresses in text: "host:50051", "10.0.0.1:50051", "[::1]:50051", ":50051".
 *
 * Threads: any. */

struct sluice_host_port {
    char host[256]; /* without the brackets of an IPv6 address; "": every address of this machine */
    uint16_t port;
};

/* Takes the whole text or none of it.  `default_port`: for a text without a port; below 0: a port
 * is needed.  SLUICE_E_INVALID names the fault: a missing port, a port that is not 0 to 65535, an
 * IPv6 address without brackets. */
SLUICE_MUST_USE sluice_status sluice_host_port_parse(const char *text, int default_port,
                                                     struct sluice_host_port *address,
                                                     struct sluice_err *err);

/* "host:port", with brackets around an IPv6 address; an empty host becomes `any_host`. */
#define SLUICE_HOST_PORT_BYTES 272
void sluice_host_port_format(const struct sluice_host_port *address, const char *any_host,
                             char out[SLUICE_HOST_PORT_BYTES]);

/* Whether a listener at the address ("HOST:PORT", "unix:PATH", "unix-abstract:NAME") is reachable
 * only from this machine: 127.0.0.0/8, ::1, "localhost" or a Unix socket.  False for other text. */
bool sluice_is_loopback(const char *address);

/* The host by which connections are counted: an IPv4 address; an IPv6 /64, because one user has all
 * addresses of such a network; or, all 0, the peer of a Unix socket. */
struct sluice_host {
    uint8_t bytes[16]; /* IPv4 as ::ffff:a.b.c.d */
};
struct sluice_host sluice_host_of(const struct sockaddr *address);
bool sluice_host_is_same(const struct sluice_host *a, const struct sluice_host *b);

/* Checks whether a server can listen at the address: resolves the name, binds a socket and closes
 * it.  SLUICE_E_IO has the reason in one line, with the address: a name that does not resolve, a
 * port that is in use or reserved for root, an address of another machine.  Call it after a failed
 * attempt, not before: another program may take the port in between. */
SLUICE_MUST_USE sluice_status sluice_host_port_try_listen(const struct sluice_host_port *address,
                                                          struct sluice_err *err);

#endif
