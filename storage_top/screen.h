#ifndef SLUICE_STORAGE_TOP_SCREEN_H
#define SLUICE_STORAGE_TOP_SCREEN_H

#include "storage_top/table.h"

#include <stdbool.h>

/* The live view on a terminal, by ncurses.  Follows the terminal's size.
 *
 * Threads: one. */

struct top_screen;

/* Takes over standard input and output.  SLUICE_E_UNSUPPORTED: the terminal lacks a capability, or
 * TERM is unknown. */
SLUICE_MUST_USE sluice_status top_screen_open(struct top_screen **screen, struct sluice_err *err);
void top_screen_close(struct top_screen *screen); /* the terminal is as before; NULL is allowed */

/* Shows the lines from the scroll position on; lines wider than the terminal are cut. */
void top_screen_show(struct top_screen *screen, const struct top_lines *lines);
/* Waits for keys, for timeout_ms at most, and handles them.  False: the user quits. */
bool top_screen_wait(struct top_screen *screen, int timeout_ms);

#endif
