#ifndef SLUICE_BASE_TERMINAL_H
#define SLUICE_BASE_TERMINAL_H

#include <stdbool.h>

/* The abilities of the terminal on stderr.
 *
 * Threads: any, as long as nobody changes the environment. */

/* Whether stderr is a terminal that can erase a line: TERM is neither "dumb" nor missing. */
bool sluice_terminal_can_erase(void);

/* The terminal's current width, which may change at any time; 80 if unknown. */
unsigned sluice_terminal_columns(void);

/* Whether the locale's encoding is UTF-8: by LC_ALL, else LC_CTYPE, else LANG. */
bool sluice_terminal_has_utf8(void);

/* Cuts a line after this number of characters, each counted as one column. */
void sluice_terminal_cut(char *line, unsigned columns);

#endif
