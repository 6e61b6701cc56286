#ifndef SLUICE_BASE_LOG_H
#define SLUICE_BASE_LOG_H

#include "base/compiler.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* The log: lines on stderr for the person who runs a program.
 *
 *     2026-11-22T23:51:08.123Z offload_train warning: no checkpoint ...
 *     23:51:08 warning: no checkpoint ...                  (on a terminal, local time)
 *     {"time":"2026-11-22T23:51:08.123Z","level":"warning","program":"offload_train","message":...}
 *
 * One line is one write, so lines of different threads never mix.  Any text, such as a client's
 * name, stays one line (sluice_escape_line) and shows no secret (sluice_redact).  Results go to
 * stdout, not to the log.
 *
 * Threads: any. */

/* "error", "warn", "info" or "debug"; SLUICE_E_INVALID names what was given. */
SLUICE_MUST_USE sluice_status sluice_log_level_parse(const char *text, enum sluice_log_level *level,
                                                     struct sluice_err *err);

void sluice_log_set_level(enum sluice_log_level level);
bool sluice_log_is_enabled(enum sluice_log_level level); /* whether lines of this level are shown */

enum sluice_log_format { SLUICE_LOG_TEXT, SLUICE_LOG_JSON };

/* "text" or "json". */
SLUICE_MUST_USE sluice_status sluice_log_format_parse(const char *text,
                                                      enum sluice_log_format *format,
                                                      struct sluice_err *err);
void sluice_log_set_format(enum sluice_log_format format);

/* Sets the program's name, which lines then contain.  Borrows `name` until the process ends. */
void sluice_log_set_program(const char *name);

/* Shows a status line at the bottom of the terminal, below the log, until the next call; NULL or
 * "": removes it.  No effect if stderr is not a terminal that can erase a line, or if the level
 * hides info.  Keep it shorter than the terminal's width.  Remove it before writing to stdout. */
void sluice_log_set_status(const char *text);

/* Whether a status line can be shown: stderr is a terminal that can erase a line (base/terminal.h),
 * and the format is text. */
bool sluice_log_has_terminal(void);

/* Sends lines to `sink` instead of stderr (see sluice.h); NULL: to stderr again. */
void sluice_log_set_sink(sluice_log_fn *sink, void *ctx);

/* Formats the line of sluice_log(), with its newline, for other writers; returns the length. */
size_t sluice_log_line(char *out, size_t room, enum sluice_log_level level, const char *text);

void sluice_log(enum sluice_log_level level, const char *fmt, ...) SLUICE_PRINTF(2, 3);

#endif
