#ifndef SLUICE_STORAGE_TOP_SCREEN_H
#define SLUICE_STORAGE_TOP_SCREEN_H

#include "storage_top/table.h"

#include <stdbool.h>

/* The live view on a terminal, by ncurses.  Follows the terminal's size.
 *
 * Threads: one. */

struct top_screen;

/* Takes standard input and output over.  SLUICE_E_UNSUPPORTED: a terminal that can do too little
 * (TERM is not known). */
SLUICE_MUST_USE sluice_status top_screen_open(struct top_screen **screen, struct sluice_err *err);
void top_screen_close(struct top_screen *screen); /* the terminal is as before; NULL is allowed */

/* Shows the lines from where the user has scrolled to; what is wider than the terminal is cut. */
void top_screen_show(struct top_screen *screen, const struct top_lines *lines);
/* Waits for keys up to a time, and obeys them.  False: the user wants to go. */
bool top_screen_wait(struct top_screen *screen, int timeout_ms);

#endif
