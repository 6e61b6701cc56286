#ifndef SLUICE_CLI_CONFIG_LINES_H
#define SLUICE_CLI_CONFIG_LINES_H

#include "base/error.h"

#include <stddef.h>

/* Lines "key = value" of a text, the part of INI that a table of options needs.
 *
 * An empty line, one that begins with # or ;, and a heading ("[server]") mean nothing.  Blanks
 * around key and value go; all else of a value stays, also # and ;, but for one pair of double
 * quotes around it, which a value with blanks at its ends needs.  A value goes on to the end of its
 * line.  Escapes are not known.
 *
 * Threads: an object belongs to one thread. */

struct sluice_config_lines {
    char *next;
    const char *end;
    unsigned number; /* of the line read last, from 1 */
};

struct sluice_config_line {
    const char *key, *value; /* NULL: the text has ended */
};

/* Borrows text[0..len], which is written to and has a 0 at text[len]. */
struct sluice_config_lines sluice_config_lines_begin(char *text, size_t len);

/* The next line that says something; it points into the text.  SLUICE_E_INVALID says what is wrong
 * with line `number`: no "=", no key, control characters, or no UTF-8.  Reading may go on then. */
SLUICE_MUST_USE sluice_status sluice_config_lines_next(struct sluice_config_lines *lines,
                                                       struct sluice_config_line *line,
                                                       struct sluice_err *err);

#endif
