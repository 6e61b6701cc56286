#include "base/text.h"

#include "base/c_locale.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

bool sluice_print(char *text, size_t room, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int len = sluice_vsnprintf(text, room, fmt, args);
    va_end(args);
    return len >= 0 && (size_t)len < room;
}

bool sluice_starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

size_t sluice_utf8_len(const char *text)
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

bool sluice_is_utf8(const char *text)
{
    while (*text) {
        const size_t len = sluice_utf8_len(text);
        if (len == 0)
            return false;
        text += len;
    }
    return true;
}

bool sluice_has_control(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            return true;
    }
    return false;
}

size_t sluice_byte_order_mark(const char *text, size_t len)
{
    return len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

/* C1 control characters, which terminals obey as they do ESC sequences, are C2 80 to C2 9F. */
static bool is_control(const char *text)
{
    const uint8_t *s = (const uint8_t *)text;
    return s[0] < 0x20 || s[0] == 0x7F || (s[0] == 0xC2 && s[1] >= 0x80 && s[1] < 0xA0);
}

size_t sluice_escape_line(char *out, size_t room, const char *text)
{
    size_t len = 0;
    while (*text) {
        size_t taken = sluice_utf8_len(text);
        char code[5];
        const char *put = text;
        size_t put_len = taken;
        if (taken == 0 || is_control(text)) {
            const char *letter = strchr("\nn\rr\tt", *text);
            if (letter)
                (void)sluice_print(code, sizeof(code), "\\%c", letter[1]);
            else
                (void)sluice_print(code, sizeof(code), "\\x%02x", (unsigned)(uint8_t)*text);
            put = code;
            put_len = strlen(code);
            taken = 1;
        }
        if (put_len >= room - len)
            break;
        memcpy(out + len, put, put_len);
        len += put_len;
        text += taken;
    }
    out[len] = '\0';
    return len;
}
