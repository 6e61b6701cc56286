#include "base/c_locale.h"

#include <assert.h>
#include <ctype.h>
#include <pthread.h>
#include <stdlib.h>
#include <strings.h>

static locale_t c_locale;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Never freed: threads may be in it until the process ends.  "C" is built in, and takes no memory
 * of glibc's. */
static void make(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    assert(c_locale);
}

static locale_t get(void)
{
    pthread_once(&once, make);
    return c_locale;
}

locale_t sluice_c_locale_enter(void)
{
    return uselocale(get());
}

void sluice_c_locale_leave(locale_t before)
{
    uselocale(before);
}

double sluice_strtod(const char *text, char **end)
{
    return strtod_l(text, end, get());
}

float sluice_strtof(const char *text, char **end)
{
    return strtof_l(text, end, get());
}

int sluice_vsnprintf(char *out, size_t room, const char *fmt, va_list args)
{
    return SLUICE_IN_C_LOCALE(vsnprintf(out, room, fmt, args));
}

int sluice_snprintf(char *out, size_t room, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int len = sluice_vsnprintf(out, room, fmt, args);
    va_end(args);
    return len;
}

int sluice_fprintf(FILE *file, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int len = SLUICE_IN_C_LOCALE(vfprintf(file, fmt, args));
    va_end(args);
    return len;
}

int sluice_strcasecmp(const char *a, const char *b)
{
    return strcasecmp_l(a, b, get());
}

int sluice_strncasecmp(const char *a, const char *b, size_t len)
{
    return strncasecmp_l(a, b, len, get());
}

bool sluice_is_alnum(char c)
{
    return isalnum_l((unsigned char)c, get());
}

bool sluice_is_space(char c)
{
    return isspace_l((unsigned char)c, get());
}

char sluice_to_lower(char c)
{
    return (char)tolower_l((unsigned char)c, get());
}
