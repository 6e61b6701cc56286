#ifndef SLUICE_CLI_CONFIG_LINES_H
#define SLUICE_CLI_CONFIG_LINES_H

#include "base/error.h"

#include <stddef.h>

/* Parses lines "key = value", the subset of INI for a table of options.
 *
 * Empty lines, lines that begin with # or ;, and headings ("[server]") are ignored.  Blanks around
 * key and value are removed.  A value extends to the end of its line and may contain # and ;.  One
 * pair of double quotes around a value is removed; it protects blanks at the ends.  Escapes are not
 * supported.
 *
 * Threads: an object belongs to one thread. */

struct sluice_config_lines {
    char *next;
    const char *end;
    unsigned number; /* of the last line read, from 1 */
};

struct sluice_config_line {
    const char *key, *value; /* NULL: the text has ended */
};

/* Borrows text[0..len], which is written to and has a 0 at text[len]. */
struct sluice_config_lines sluice_config_lines_begin(char *text, size_t len);

/* The next line with a key; it points into the text.  SLUICE_E_INVALID names the fault of line
 * `number`: no "=", no key, control characters, or invalid UTF-8.  Reading may continue. */
SLUICE_MUST_USE sluice_status sluice_config_lines_next(struct sluice_config_lines *lines,
                                                       struct sluice_config_line *line,
                                                       struct sluice_err *err);

#endif
