#include "base/show.h"

#include "base/c_locale.h"
#include "base/compiler.h"

#include <math.h>
#include <stdio.h>

/* Digits behind the point that make three significant ones, after the rounding that they bring. */
static int decimals_of(double number)
{
    const double size = fabs(number);
    if (size == 0 || size >= 99.95)
        return 0;
    return size >= 9.995 ? 1 : 2;
}

static const char *show(double number, const char *unit, char out[SLUICE_SHOW_BYTES])
{
    /* Above, the digits would fill the room and tell nobody anything. */
    if (fabs(number) >= 1e15)
        sluice_snprintf(out, SLUICE_SHOW_BYTES, "%.2e%s", number, unit);
    else
        sluice_snprintf(out, SLUICE_SHOW_BYTES, "%.*f%s", decimals_of(number), number, unit);
    return out;
}

static const char *show_none(const char *word, char out[SLUICE_SHOW_BYTES])
{
    snprintf(out, SLUICE_SHOW_BYTES, "%s", word);
    return out;
}

const char *sluice_show_bytes(double bytes, char out[SLUICE_SHOW_BYTES])
{
    static const char *const units[] = {" B", " kB", " MB", " GB", " TB"};
    if (!isfinite(bytes))
        return show_none("-", out);
    if (fabs(bytes) < 999.5) {
        sluice_snprintf(out, SLUICE_SHOW_BYTES, "%.0f B", bytes);
        return out;
    }
    size_t unit = 0;
    while (unit + 1 < SLUICE_ARRAY_LEN(units) && fabs(bytes) >= 999.5) {
        bytes /= 1000;
        unit++;
    }
    return show(bytes, units[unit], out);
}

const char *sluice_show_rate(double bytes_per_s, char out[SLUICE_SHOW_BYTES])
{
    if (isnan(bytes_per_s))
        return show_none("-", out);
    if (isinf(bytes_per_s))
        return show_none("no limit", out);
    return show(bytes_per_s / 1e6 * 8, " Mbit/s", out);
}

const char *sluice_show_seconds(double seconds, char out[SLUICE_SHOW_BYTES])
{
    if (!isfinite(seconds))
        return show_none("-", out);
    if (seconds == 0 || fabs(seconds) >= 0.9995)
        return show(seconds, " s", out);
    return fabs(seconds) >= 0.9995e-3 ? show(seconds * 1e3, " ms", out)
                                      : show(seconds * 1e6, " us", out);
}

const char *sluice_show_clock(double seconds, char out[SLUICE_SHOW_BYTES])
{
    if (!(seconds >= 0 && seconds < 1e9))
        return show_none("-", out);
    const unsigned long whole = (unsigned long)(seconds + 0.5);
    if (whole >= 3600)
        snprintf(out, SLUICE_SHOW_BYTES, "%lu:%02lu:%02lu", whole / 3600, whole / 60 % 60,
                 whole % 60);
    else
        snprintf(out, SLUICE_SHOW_BYTES, "%lu:%02lu", whole / 60, whole % 60);
    return out;
}

const char *sluice_show_share(double share, char out[SLUICE_SHOW_BYTES])
{
    if (isnan(share))
        return show_none("-", out);
    int percent = share >= 1 ? 100 : share <= 0 ? 0 : (int)(share * 100 + 0.5);
    /* Almost all is not all. */
    if (share < 1 && percent > 99)
        percent = 99;
    if (share > 0 && percent < 1)
        return show_none("<1%", out);
    snprintf(out, SLUICE_SHOW_BYTES, "%d%%", percent);
    return out;
}

const char *sluice_show_number(double number, char out[SLUICE_SHOW_BYTES])
{
    return isfinite(number) ? show(number, "", out) : show_none("-", out);
}
