#include "wire/wire_internal.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the UTF-8 character at `text` (RFC 3629: shortest form, no
 * surrogates, up to U+10FFFF); 0 if there is none.  The NUL at the end is no
 * continuation byte, so nothing behind it is read. */
static size_t utf8_len(const char *text)
{
    const uint8_t *s = (const uint8_t *)text;
    if (s[0] < 0x80)
        return 1;
    size_t len;
    uint32_t c, min;
    if ((s[0] & 0xE0) == 0xC0)
        len = 2, c = s[0] & 0x1Fu, min = 0x80;
    else if ((s[0] & 0xF0) == 0xE0)
        len = 3, c = s[0] & 0x0Fu, min = 0x800;
    else if ((s[0] & 0xF8) == 0xF0)
        len = 4, c = s[0] & 0x07u, min = 0x10000;
    else
        return 0;
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3Fu);
    }
    return c < min || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000) ? 0 : len;
}

void sluice_wire_copy_utf8(const char *text, char *out, size_t capacity)
{
    size_t used = 0;
    while (text && *text) {
        const size_t len = utf8_len(text);
        const size_t take = len ? len : 1;
        if (used + take >= capacity)
            break;
        if (len)
            memcpy(out + used, text, len);
        else
            out[used] = '?';
        used += take;
        text += take;
    }
    out[used] = 0;
}

const char *sluice_wire_clean_utf8(const char *text, char **owned)
{
    if (!text)
        return "";
    const char *at = text;
    size_t len = 1;
    while (*at && len) {
        len = utf8_len(at);
        at += len;
    }
    if (len)
        return text;
    const size_t capacity = strlen(text) + 1; /* the copy has as many bytes */
    char *copy = malloc(capacity);
    if (copy) {
        sluice_wire_copy_utf8(text, copy, capacity);
        *owned = copy;
    }
    return copy;
}

sluice_status sluice_wire_copy_string(const char *text, char **out, struct sluice_err *err)
{
    char *copy = strdup(text ? text : "");
    if (!copy)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a string of a message");
    *out = copy;
    return SLUICE_OK;
}

sluice_status sluice_wire_copy_dataset_id(const char *text, char out[33], struct sluice_err *err)
{
    const size_t len = strlen(text);
    if (len != 0 && (len != 32 || strspn(text, "0123456789abcdef") != 32))
        return sluice_fail(err, SLUICE_E_CORRUPT, "a dataset id that is not 32 hex digits");
    memcpy(out, text, len + 1);
    return SLUICE_OK;
}
