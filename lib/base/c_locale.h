#ifndef SLUICE_BASE_C_LOCALE_H
#define SLUICE_BASE_C_LOCALE_H

#include "base/compiler.h"

#include <locale.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Functions of the C library, as they are in the locale "C".
 *
 * libsluice runs in processes of others, which may have called setlocale(): then a number has a
 * decimal comma, an I in lower case is not an i, and bytes beyond ASCII may be letters.
 * tests/check_layers forbids the functions that follow the locale in all that libsluice is made of.
 *
 * Threads: any; no other thread's locale changes. */

double sluice_strtod(const char *text, char **end);
float sluice_strtof(const char *text, char **end);

int sluice_snprintf(char *out, size_t room, const char *fmt, ...) SLUICE_PRINTF(3, 4);
int sluice_vsnprintf(char *out, size_t room, const char *fmt, va_list args) SLUICE_PRINTF(3, 0);
int sluice_fprintf(FILE *file, const char *fmt, ...) SLUICE_PRINTF(2, 3);

/* ASCII alone has letters, and spaces as isspace() knows them. */
int sluice_strcasecmp(const char *a, const char *b);
int sluice_strncasecmp(const char *a, const char *b, size_t len);
bool sluice_is_alnum(char c);
bool sluice_is_space(char c);
char sluice_to_lower(char c);

/* The calling thread is in the locale "C" until it leaves it; enter returns the one before. */
locale_t sluice_c_locale_enter(void);
void sluice_c_locale_leave(locale_t before);

/* The value of a call that reads or writes numbers by itself, such as jansson's json_loads() and
 * json_dumps(). */
#define SLUICE_IN_C_LOCALE(call)                                                                   \
    __extension__({                                                                                \
        const locale_t before_ = sluice_c_locale_enter();                                          \
        __typeof__(call) result_ = (call);                                                         \
        sluice_c_locale_leave(before_);                                                            \
        result_;                                                                                   \
    })

#endif
