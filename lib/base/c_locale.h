#ifndef SLUICE_BASE_C_LOCALE_H
#define SLUICE_BASE_C_LOCALE_H

#include "base/compiler.h"

#include <locale.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Functions of the C library with the behaviour of the locale "C".
 *
 * libsluice runs in host processes that may have called setlocale().  Then numbers may have a
 * decimal comma, the lower case of I may not be i, and bytes beyond ASCII may be letters.
 * tests/check_layers forbids locale-dependent functions in the sources of libsluice.
 *
 * Threads: any; no other thread's locale changes. */

double sluice_strtod(const char *text, char **end);
float sluice_strtof(const char *text, char **end);

int sluice_snprintf(char *out, size_t room, const char *fmt, ...) SLUICE_PRINTF(3, 4);
int sluice_vsnprintf(char *out, size_t room, const char *fmt, va_list args) SLUICE_PRINTF(3, 0);
int sluice_fprintf(FILE *file, const char *fmt, ...) SLUICE_PRINTF(2, 3);

/* Only ASCII letters are letters, and only the spaces of isspace() in ASCII are spaces. */
int sluice_strcasecmp(const char *a, const char *b);
int sluice_strncasecmp(const char *a, const char *b, size_t len);
bool sluice_is_alnum(char c);
bool sluice_is_space(char c);
char sluice_to_lower(char c);

/* enter switches the calling thread to the locale "C" and returns the previous locale for leave. */
locale_t sluice_c_locale_enter(void);
void sluice_c_locale_leave(locale_t before);

/* Evaluates a call in the locale "C", for functions that parse or print numbers, such as jansson's
 * json_loads() and json_dumps(). */
#define SLUICE_IN_C_LOCALE(call)                                                                   \
    __extension__({                                                                                \
        const locale_t before_ = sluice_c_locale_enter();                                          \
        __typeof__(call) result_ = (call);                                                         \
        sluice_c_locale_leave(before_);                                                            \
        result_;                                                                                   \
    })

#endif
