#include "base/error.h"

#include "base/c_locale.h"
#include "base/redact.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

const char *sluice_status_name(sluice_status status)
{
    switch (status) {
    case SLUICE_OK:
        return "ok";
    case SLUICE_E_INVALID:
        return "invalid";
    case SLUICE_E_CORRUPT:
        return "corrupt";
    case SLUICE_E_UNSUPPORTED:
        return "unsupported";
    case SLUICE_E_NOT_FOUND:
        return "not found";
    case SLUICE_E_IO:
        return "i/o";
    case SLUICE_E_NO_MEMORY:
        return "no memory";
    case SLUICE_E_AGAIN:
        return "again";
    case SLUICE_E_CLOSED:
        return "closed";
    case SLUICE_E_INTERNAL:
        return "internal";
    case SLUICE_E_STALE:
        return "stale";
    }
    return "unknown";
}

/* In parentheses: error.h makes a macro of the name for the static analyser. */
sluice_status(sluice_fail)(struct sluice_err *err, sluice_status status, const char *fmt, ...)
{
    if (err && !err->text[0]) {
        char text[sizeof(err->text)] = "";
        va_list args;
        va_start(args, fmt);
        sluice_vsnprintf(text, sizeof(text), fmt, args);
        va_end(args);
        sluice_redact(text);
        (void)sluice_escape_line(err->text, sizeof(err->text), text);
    }
    return status;
}
