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
 * to U+10FFFF); 0 if there is no such character.  Reads nothing after the terminating NUL. */
size_t sluice_utf8_len(const char *text);
bool sluice_is_utf8(const char *text);

#endif
