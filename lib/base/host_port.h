#ifndef SLUICE_BASE_HOST_PORT_H
#define SLUICE_BASE_HOST_PORT_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct sockaddr;

/* Addresses as people write them: "host:50051", "10.0.0.1:50051", "[::1]:50051", ":50051".
 *
 * Threads: any. */

struct sluice_host_port {
    char host[256]; /* without the brackets of an IPv6 address; "": every address of this machine */
    uint16_t port;
};

/* Takes the whole text or none of it.  `default_port`: for a text without a port; below 0: a port
 * is needed.  SLUICE_E_INVALID says what is wrong: no port, a port that is not 0 to 65535, an IPv6
 * address without brackets. */
SLUICE_MUST_USE sluice_status sluice_host_port_parse(const char *text, int default_port,
                                                     struct sluice_host_port *address,
                                                     struct sluice_err *err);

/* "host:port", with brackets around an IPv6 address; an empty host becomes `any_host`. */
#define SLUICE_HOST_PORT_BYTES 272
void sluice_host_port_format(const struct sluice_host_port *address, const char *any_host,
                             char out[SLUICE_HOST_PORT_BYTES]);

/* Whether what listens there ("HOST:PORT", "unix:PATH", "unix-abstract:NAME") is reached from this
 * machine alone: 127.0.0.0/8, ::1, "localhost" or a Unix socket.  A text that is not an address is
 * not.
 */
bool sluice_is_loopback(const char *address);

/* Whom connections are counted by: an IPv4 address, an IPv6 /64, as the first 64 bits of an IPv6
 * address name a network whose user has all of its addresses, or, all 0, a Unix socket's peer. */
struct sluice_host {
    uint8_t bytes[16]; /* IPv4 as ::ffff:a.b.c.d */
};
struct sluice_host sluice_host_of(const struct sockaddr *address);
bool sluice_host_is_same(const struct sluice_host *a, const struct sluice_host *b);

/* Whether a server can listen there: resolves the name, binds a socket and lets go of it.
 * SLUICE_E_IO says in one line, with the address, what is in the way: a name that does not resolve,
 * a port that is in use or that only root may take, an address that is not this machine's.  Ask
 * after the attempt that failed rather than before it: another program may take the port between
 * the two. */
SLUICE_MUST_USE sluice_status sluice_host_port_try_listen(const struct sluice_host_port *address,
                                                          struct sluice_err *err);

#endif
