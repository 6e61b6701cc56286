#include "base/parse.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Decimal digits at *text; false if there are none or they do not fit. */
static bool take_digits(const char **text, uint64_t *value)
{
    const char *p = *text;
    uint64_t v = 0;
    if (!is_digit(*p))
        return false;
    for (; is_digit(*p); p++) {
        if (__builtin_mul_overflow(v, (uint64_t)10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
            return false;
    }
    *text = p;
    *value = v;
    return true;
}

sluice_status sluice_parse_uint(const char *text, uint64_t *value, struct sluice_err *err)
{
    const char *p = text;
    uint64_t v;
    if (!take_digits(&p, &v) || *p)
        return sluice_fail(err, SLUICE_E_INVALID, "'%s' is not a whole number below 2^64", text);
    *value = v;
    return SLUICE_OK;
}

sluice_status sluice_parse_double(const char *text, double *value, struct sluice_err *err)
{
    /* strtod alone would also take leading blanks, "nan", "inf" and hexadecimal. */
    const char *p = text + (*text == '-' || *text == '+');
    char *end = NULL;
    double v = NAN;
    if (is_digit(*p) || *p == '.')
        v = strtod(text, &end);
    if (!end || end == text || *end || !isfinite(v) || strpbrk(text, "xX"))
        return sluice_fail(err, SLUICE_E_INVALID, "'%s' is not a finite decimal number", text);
    *value = v;
    return SLUICE_OK;
}

sluice_status sluice_parse_bytes(const char *text, uint64_t *bytes, struct sluice_err *err)
{
    static const char suffixes[] = "kKmMgGtT";
    const char *p = text;
    uint64_t value;
    bool is_valid = take_digits(&p, &value);
    if (is_valid && *p) {
        const char *suffix = strchr(suffixes, *p);
        const unsigned shift = suffix ? 10u * ((unsigned)(suffix - suffixes) / 2 + 1) : 0;
        is_valid = suffix && !p[1] && value <= UINT64_MAX >> shift;
        value <<= shift;
    }
    if (!is_valid)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "'%s' is not a number of bytes such as 65536, 64k, 16M or 2G", text);
    *bytes = value;
    return SLUICE_OK;
}

static const struct {
    const char *name;
    double bits;
} rate_units[] = {
    {"", 1e6},      {"bit", 1}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9},
    {"tbit", 1e12}, {"B", 8},   {"kB", 8e3},   {"MB", 8e6},   {"GB", 8e9},
};

sluice_status sluice_parse_rate(const char *text, double *bytes_per_s, struct sluice_err *err)
{
    if (strcmp(text, "none") == 0) {
        *bytes_per_s = 0;
        return SLUICE_OK;
    }

    /* Digits and one point: an exponent that underflows would turn a tiny limit into none. */
    size_t len = strspn(text, "0123456789");
    bool is_valid = len > 0;
    if (text[len] == '.') {
        const size_t fraction = strspn(text + len + 1, "0123456789");
        is_valid = is_valid && fraction > 0;
        len += 1 + fraction;
    }
    const size_t first_nonzero = strspn(text, "0.");
    const bool is_zero = first_nonzero >= len;
    const double number = is_valid ? strtod(text, NULL) : 0;

    double rate = -1;
    for (size_t i = 0; is_valid && i < SLUICE_ARRAY_LEN(rate_units); i++) {
        if (strcmp(text + len, rate_units[i].name) == 0)
            rate = number * rate_units[i].bits / 8;
    }
    if (rate < 0 || !isfinite(rate) || (!is_zero && rate < 1))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "'%s' is not a rate such as 500mbit, 1gbit, 62.5MB or none", text);
    *bytes_per_s = rate;
    return SLUICE_OK;
}

/* --- writing --- */

void sluice_format_bytes(uint64_t bytes, char out[32])
{
    static const char suffixes[] = "kMGT";
    unsigned power = 0;
    while (power < 4 && bytes && bytes % 1024 == 0) {
        bytes /= 1024;
        power++;
    }
    if (power)
        snprintf(out, 32, "%llu%c", (unsigned long long)bytes, suffixes[power - 1]);
    else
        snprintf(out, 32, "%llu", (unsigned long long)bytes);
}

void sluice_format_double(double value, char out[32])
{
    /* As people write it, where that is short and exact. */
    for (int decimals = 0; decimals <= 9 && fabs(value) < 1e15; decimals++) {
        snprintf(out, 32, "%.*f", decimals, value);
        if (strtod(out, NULL) == value)
            return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, 32, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            return;
    }
}

void sluice_format_rate(double bytes_per_s, char out[400])
{
    if (!(bytes_per_s > 0)) {
        snprintf(out, 400, "none");
        return;
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int decimals = 0; decimals <= 24; decimals++) {
            double back = 0;
            snprintf(out, 400, "%.*f%s", decimals, pass == 0 ? bytes_per_s * 8 / 1e6 : bytes_per_s,
                     pass == 0 ? "mbit" : "B");
            if (sluice_parse_rate(out, &back, NULL) == SLUICE_OK && back == bytes_per_s)
                return;
        }
    }
}
