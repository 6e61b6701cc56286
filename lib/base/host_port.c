#include "base/host_port.h"

#include "base/parse.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

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
