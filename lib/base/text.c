#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

bool sluice_print(char *text, size_t room, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int len = vsnprintf(text, room, fmt, args);
    va_end(args);
    return len >= 0 && (size_t)len < room;
}
