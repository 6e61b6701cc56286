#ifndef SLUICE_BASE_TEXT_H
#define SLUICE_BASE_TEXT_H

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>

/* Text of a bounded length, such as paths.
 *
 * Threads: pure functions. */

/* As snprintf(), which cuts what is too long; false if it was. */
bool sluice_print(char *text, size_t room, const char *fmt, ...) SLUICE_PRINTF(3, 4);

#endif
