#ifndef SLUICE_BASE_LOG_H
#define SLUICE_BASE_LOG_H

#include "base/compiler.h"
#include "base/error.h"

#include <stdbool.h>

/* Lines for the person who runs a program, on stderr.
 *
 * One line is one write, so lines of different threads never mix.  Whatever is in a text, such as
 * the name that a client gave itself, it stays one line (sluice_escape_line).  Results go to stdout
 * and never through here.
 *
 * Threads: any. */

enum sluice_log_level {
    SLUICE_LOG_ERROR,
    SLUICE_LOG_WARN,
    SLUICE_LOG_INFO, /* the default */
    SLUICE_LOG_DEBUG,
};

/* "error", "warn", "info" or "debug"; SLUICE_E_INVALID names what was given. */
SLUICE_MUST_USE sluice_status sluice_log_level_parse(const char *text, enum sluice_log_level *level,
                                                     struct sluice_err *err);

void sluice_log_set_level(enum sluice_log_level level);
bool sluice_log_is_enabled(enum sluice_log_level level); /* would a line of this level show? */

/* Lines begin with "<program>: " once a name is set.  Borrows `name` for good. */
void sluice_log_set_program(const char *name);

void sluice_log(enum sluice_log_level level, const char *fmt, ...) SLUICE_PRINTF(2, 3);

#endif
