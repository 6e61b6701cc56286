#ifndef SLUICE_BASE_TEXT_H
#define SLUICE_BASE_TEXT_H

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>

/* NUL-terminated text, such as paths.
 *
 * Threads: pure functions. */

/* snprintf(); false if the text was cut for lack of room. */
bool sluice_print(char *text, size_t room, const char *fmt, ...) SLUICE_PRINTF(3, 4);

bool sluice_starts_with(const char *text, const char *prefix);

/* The number of bytes of the UTF-8 character at `text` (RFC 3629: shortest form, no surrogates, up
 * to U+10FFFF); 0: not a valid character.  Reads nothing after the terminating NUL. */
size_t sluice_utf8_len(const char *text);
bool sluice_is_utf8(const char *text);

/* Whether text[0 .. len) contains an ASCII control character. */
bool sluice_has_control(const char *text, size_t len);

/* The length of the byte order mark at the beginning of UTF-8 text: 3, or 0 without one. */
size_t sluice_byte_order_mark(const char *text, size_t len);

/* Writes `text` to out[room] (room > 0) as one line without control sequences: control characters
 * (also U+0080 to U+009F) and bytes that are not UTF-8 become \n, \r, \t or \x1b for each byte.
 * Cuts text that does not fit at a character's end.  Returns the length. */
size_t sluice_escape_line(char *out, size_t room, const char *text);

#endif
