#ifndef SLUICE_STORE_HTTP_TEXT_H
#define SLUICE_STORE_HTTP_TEXT_H

#include "store/http.h"

/* Private to lib/store: text of HTTP.  http_text.c implements the URL functions of http.h, too.
 *
 * Threads: pure functions. */

/* Copies the value of the header `name` from a line of `len` bytes to `out`.  False: another
 * header, or no room. */
bool sluice_http_header_value(const char *line, size_t len, const char *name, char *out,
                              size_t room);

#endif
