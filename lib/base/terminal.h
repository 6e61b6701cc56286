#ifndef SLUICE_BASE_TERMINAL_H
#define SLUICE_BASE_TERMINAL_H

#include <stdbool.h>

/* The abilities of the terminal on stderr.
 *
 * Threads: any, as long as nobody changes the environment. */

/* stderr is a terminal that knows how to erase a line: TERM is neither "dumb" nor missing. */
bool sluice_terminal_can_erase(void);

/* How wide it is now, as it may change at any time; 80 if it does not say. */
unsigned sluice_terminal_columns(void);

/* The locale's characters are UTF-8: by LC_ALL, else LC_CTYPE, else LANG. */
bool sluice_terminal_has_utf8(void);

/* Cuts a line after this number of characters, each counted as one column. */
void sluice_terminal_cut(char *line, unsigned columns);

#endif
