#ifndef SLUICE_BASE_TEXT_H
#define SLUICE_BASE_TEXT_H

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>

/* Text that ends in a 0, such as paths.
 *
 * Threads: pure functions. */

/* snprintf(); false if the text was cut for lack of room. */
bool sluice_print(char *text, size_t room, const char *fmt, ...) SLUICE_PRINTF(3, 4);

bool sluice_starts_with(const char *text, const char *prefix);

/* The number of bytes of the UTF-8 character at `text` (RFC 3629: shortest form, no surrogates, up
 * to U+10FFFF); 0: not a valid character.  Reads nothing after the terminating NUL. */
size_t sluice_utf8_len(const char *text);
bool sluice_is_utf8(const char *text);

/* Whether a control character of ASCII is among text[0 .. len). */
bool sluice_has_control(const char *text, size_t len);

/* 3 if the text begins with the byte order mark that some programs write before UTF-8, else 0. */
size_t sluice_byte_order_mark(const char *text, size_t len);

/* Writes `text` to out[room] (room > 0) as one line that a terminal shows and does not obey:
 * control characters (also U+0080 to U+009F) and bytes that are not UTF-8 become \n, \r, \t or \x1b
 * for each byte, all else stays.  What has no room is cut, never within a character.  Returns the
 * length. */
size_t sluice_escape_line(char *out, size_t room, const char *text);

#endif
