#include "store/http_text.h"

#include "base/c_locale.h"
#include "base/host_port.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <string.h>

bool sluice_http_header_value(const char *line, size_t len, const char *name, char *out,
                              size_t room)
{
    const size_t name_len = strlen(name);
    if (len <= name_len || sluice_strncasecmp(line, name, name_len) != 0 || line[name_len] != ':')
        return false;
    size_t from = name_len + 1, to = len;
    while (from < to && (line[from] == ' ' || line[from] == '\t'))
        from++;
    while (to > from && (line[to - 1] == '\r' || line[to - 1] == '\n' || line[to - 1] == ' '))
        to--;
    if (to - from >= room || memchr(line + from, '\0', to - from))
        return false;
    memcpy(out, line + from, to - from);
    out[to - from] = '\0';
    return true;
}

/* --- URLs --- */

bool sluice_http_encode(const char *text, bool keep_slash, char *out, size_t room)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t len = 0;
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        const bool is_plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                              (c >= '0' && c <= '9') || strchr("-_.~", c) ||
                              (c == '/' && keep_slash);
        if (len + (is_plain ? 1 : 3) >= room)
            return false;
        if (is_plain) {
            out[len++] = (char)c;
        } else {
            out[len++] = '%';
            out[len++] = digits[c >> 4];
            out[len++] = digits[c & 15];
        }
    }
    if (len >= room)
        return false;
    out[len] = '\0';
    return true;
}

sluice_status sluice_http_parse_address(const char *url, struct sluice_http_address *address,
                                        struct sluice_err *err)
{
    const bool is_tls = sluice_starts_with(url, "https://");
    if (!is_tls && !sluice_starts_with(url, "http://"))
        return sluice_fail(err, SLUICE_E_INVALID, "no http:// or https:// URL");
    const char *at = url + (is_tls ? 8 : 7);
    const size_t len = strcspn(at, "/?#");
    if (memchr(at, '@', len))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "a URL with a user's name and password would show them in every log");
    char text[sizeof(address->host) + 8];
    struct sluice_host_port parsed;
    struct sluice_err why = {0};
    if (len == 0 || !sluice_print(text, sizeof(text), "%.*s", (int)len, at) ||
        sluice_host_port_parse(text, is_tls ? 443 : 80, &parsed, &why) != SLUICE_OK ||
        !parsed.host[0] || parsed.port == 0)
        return sluice_fail(err, SLUICE_E_INVALID, "no host in the URL%s%s", why.text[0] ? ": " : "",
                           why.text);
    unsigned char binary[16];
    *address = (struct sluice_http_address){.is_tls = is_tls, .port = parsed.port};
    memcpy(address->host, parsed.host, sizeof(address->host));
    address->is_name = inet_pton(AF_INET, parsed.host, binary) != 1 &&
                       inet_pton(AF_INET6, parsed.host, binary) != 1;
    return SLUICE_OK;
}
