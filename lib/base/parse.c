#include "base/parse.h"

#include "base/c_locale.h"
#include "base/text.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads decimal digits at *text; false: no digit, or out of range. */
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
        v = sluice_strtod(text, &end);
    if (!end || end == text || *end || !isfinite(v) || strpbrk(text, "xX"))
        return sluice_fail(err, SLUICE_E_INVALID, "'%s' is not a finite decimal number", text);
    *value = v;
    return SLUICE_OK;
}

/* --- numbers with units --- */

/* "1.5 GiB": the digits, and what stands behind them and an optional blank. */
struct quantity {
    uint64_t digits; /* without the point: 15 */
    unsigned num_decimals;
    bool is_exact; /* the digits fit */
    double value;
    const char *unit;
};

/* Digits and one point: an exponent that underflows would turn a tiny limit into none. */
static bool take_quantity(const char *text, struct quantity *quantity)
{
    const size_t whole = strspn(text, "0123456789");
    size_t len = whole;
    if (whole == 0)
        return false;
    if (text[len] == '.') {
        const size_t decimals = strspn(text + len + 1, "0123456789");
        if (decimals == 0)
            return false;
        len += 1 + decimals;
    }
    *quantity =
        (struct quantity){.value = sluice_strtod(text, NULL), .unit = text + len, .is_exact = true};
    /* Zeros at the end say nothing. */
    while (len > whole && text[len - 1] == '0')
        len--;
    for (size_t i = 0; i < len && quantity->is_exact; i++) {
        if (text[i] == '.')
            continue;
        uint64_t digits;
        quantity->is_exact =
            !__builtin_mul_overflow(quantity->digits, (uint64_t)10, &digits) &&
            !__builtin_add_overflow(digits, (uint64_t)(text[i] - '0'), &quantity->digits);
        quantity->num_decimals += i > whole;
    }
    if (*quantity->unit == ' ' && quantity->unit[1])
        quantity->unit++;
    return true;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* 1 for k to 4 for T, of either case; 0: none of them. */
static unsigned power_of(char prefix)
{
    static const char prefixes[] = "kmgt";
    const char *found = prefix ? strchr(prefixes, lower(prefix)) : NULL;
    return found ? (unsigned)(found - prefixes) + 1 : 0;
}

static uint64_t scale(unsigned base, unsigned power)
{
    uint64_t scale = 1;
    while (power-- > 0)
        scale *= base;
    return scale;
}

/* Bytes in a unit of "", "B", "k", "KiB" or "kB"; 0: unknown unit. */
static uint64_t bytes_in(const char *unit)
{
    const unsigned power = power_of(*unit);
    const char *rest = unit + (power > 0);
    if (power == 0)
        return strcmp(rest, "") == 0 || strcmp(rest, "B") == 0 ? 1 : 0;
    if (strcmp(rest, "") == 0 || strcmp(rest, "i") == 0 || strcmp(rest, "iB") == 0)
        return scale(1024, power);
    return strcmp(rest, "B") == 0 ? scale(1000, power) : 0;
}

sluice_status sluice_parse_bytes(const char *text, uint64_t *bytes, struct sluice_err *err)
{
    struct quantity quantity = {0};
    const uint64_t unit = take_quantity(text, &quantity) ? bytes_in(quantity.unit) : 0;
    uint64_t value = 0, divisor = 1;
    bool is_valid =
        unit > 0 && quantity.is_exact && !__builtin_mul_overflow(quantity.digits, unit, &value);
    for (unsigned i = 0; i < quantity.num_decimals && is_valid; i++)
        is_valid = !__builtin_mul_overflow(divisor, (uint64_t)10, &divisor);
    if (!is_valid || value % divisor != 0)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "'%s' is not a whole number of bytes such as 65536, 64KiB, 1.5GiB, "
                           "100MB (powers of 1000) or 64k, 16M, 2G (powers of 1024)",
                           text);
    *bytes = value / divisor;
    return SLUICE_OK;
}

static bool is_word(const char *text, const char *lower_case)
{
    for (; *text && lower(*text) == *lower_case; text++, lower_case++)
        ;
    return !*text && !*lower_case;
}

/* Removes the end of "Mbit/s" or "Mbps"; false: the text has no such end. */
static bool cut_end(char *unit, const char *end)
{
    const size_t len = strlen(unit), end_len = strlen(end);
    if (len < end_len || strcmp(unit + len - end_len, end) != 0)
        return false;
    unit[len - end_len] = '\0';
    return true;
}

/* Bits per second in a unit of rates; 0: unknown unit. */
static double bits_in(const char *text)
{
    char unit[12];
    if (!sluice_print(unit, sizeof(unit), "%s", text))
        return 0;
    if (!unit[0])
        return 1e6;
    const bool is_bps = cut_end(unit, "ps"); /* "bps" is a word of its own for bits */
    if (!is_bps)
        (void)cut_end(unit, "/s");
    const unsigned power = power_of(unit[0]);
    const char *rest = unit + (power > 0);
    const bool is_small = unit[0] == lower(unit[0]);
    if (is_word(rest, "bit") && !is_bps)
        return (double)scale(1000, power);
    if (strcmp(rest, "b") == 0 && (is_bps || (power > 0 && !is_small)))
        return (double)scale(1000, power);
    if (strcmp(rest, "B") == 0)
        return 8 * (double)scale(1000, power);
    return strcmp(rest, "iB") == 0 && power > 0 ? 8 * (double)scale(1024, power) : 0;
}

sluice_status sluice_parse_rate(const char *text, double *bytes_per_s, struct sluice_err *err)
{
    if (strcmp(text, "none") == 0) {
        *bytes_per_s = 0;
        return SLUICE_OK;
    }
    struct quantity quantity = {0};
    const double bits = take_quantity(text, &quantity) ? bits_in(quantity.unit) : 0;
    const double rate = quantity.value * bits / 8;
    const bool is_zero = quantity.digits == 0 && quantity.is_exact;
    if (!(bits > 0) || !isfinite(rate) || (!is_zero && rate < 1))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "'%s' is not a rate such as 500mbit, 1Gbps, 500Mbit/s (b: bits), "
                           "62.5MB/s, 60MiB/s (B: bytes) or none",
                           text);
    *bytes_per_s = rate;
    return SLUICE_OK;
}

static const struct {
    const char *name;
    double seconds;
} time_units[] = {
    {"us", 1e-6}, {"ms", 1e-3}, {"s", 1},    {"sec", 1},
    {"m", 60},    {"min", 60},  {"h", 3600}, {"d", 86400},
};

/* A number of one unit in another; both are whole multiples of the smaller one, so that only the
 * result is rounded. */
static double convert(double number, double from_s, double to_s)
{
    return from_s < to_s ? number / round(to_s / from_s) : number * round(from_s / to_s);
}

sluice_status sluice_parse_time(const char *text, double unit_s, double *value,
                                struct sluice_err *err)
{
    struct quantity quantity = {0};
    bool is_valid = take_quantity(text, &quantity);
    double from_s = is_valid && !*quantity.unit ? unit_s : 0;
    for (size_t i = 0; is_valid && i < SLUICE_ARRAY_LEN(time_units); i++) {
        if (strcmp(quantity.unit, time_units[i].name) == 0)
            from_s = time_units[i].seconds;
    }
    const double time = is_valid && from_s > 0 ? convert(quantity.value, from_s, unit_s) : NAN;
    if (!isfinite(time))
        return sluice_fail(err, SLUICE_E_INVALID, "'%s' is not a time such as 500ms, 90s, 2m or 1h",
                           text);
    *value = time;
    return SLUICE_OK;
}

/* --- writing --- */

void sluice_format_bytes(uint64_t bytes, char out[32])
{
    static const char prefixes[] = "KMGT";
    unsigned power = 0, decimal_power = 0;
    uint64_t binary = bytes, decimal = bytes;
    for (; power < 4 && bytes && binary % 1024 == 0; power++)
        binary /= 1024;
    for (; decimal_power < 4 && bytes && decimal % 1000 == 0; decimal_power++)
        decimal /= 1000;
    /* The unit with the shorter number is printed ("1TB" = 976562500KiB). */
    if (decimal_power > 0 && (power == 0 || decimal < binary))
        snprintf(out, 32, "%llu%cB", (unsigned long long)decimal,
                 decimal_power == 1 ? 'k' : prefixes[decimal_power - 1]);
    else if (power > 0)
        snprintf(out, 32, "%llu%ciB", (unsigned long long)binary, prefixes[power - 1]);
    else
        snprintf(out, 32, "%llu", (unsigned long long)bytes);
}

void sluice_format_double(double value, char out[32])
{
    /* As people write it, where that is short and exact. */
    for (int decimals = 0; decimals <= 9 && fabs(value) < 1e15; decimals++) {
        sluice_snprintf(out, 32, "%.*f", decimals, value);
        if (sluice_strtod(out, NULL) == value)
            return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        sluice_snprintf(out, 32, "%.*g", digits, value);
        if (sluice_strtod(out, NULL) == value)
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
            sluice_snprintf(out, 400, "%.*f%s", decimals,
                            pass == 0 ? bytes_per_s * 8 / 1e6 : bytes_per_s,
                            pass == 0 ? "Mbit/s" : "B/s");
            if (sluice_parse_rate(out, &back, NULL) == SLUICE_OK && back == bytes_per_s)
                return;
        }
    }
}

void sluice_format_time(double value, double unit_s, char out[32])
{
    double back;
    for (size_t i = SLUICE_ARRAY_LEN(time_units); i-- > 0;) {
        /* Whole days to seconds, or parts of a second; "sec" and "min" are for reading. */
        const double number = convert(value, unit_s, time_units[i].seconds);
        const bool is_part = time_units[i].seconds < 1;
        if (strlen(time_units[i].name) == 3 || number < 1 || number != floor(number) ||
            number >= 1e6 || (is_part && convert(value, unit_s, 1) >= 1))
            continue;
        sluice_snprintf(out, 32, "%.0f%s", number, time_units[i].name);
        if (sluice_parse_time(out, unit_s, &back, NULL) == SLUICE_OK && back == value)
            return;
    }
    /* Without an exponent, which the parser does not take. */
    for (int decimals = 0; decimals <= 20; decimals++) {
        sluice_snprintf(out, 32, "%.*f%s", decimals, value, unit_s == 1 ? "s" : "");
        if (sluice_parse_time(out, unit_s, &back, NULL) == SLUICE_OK && back == value)
            return;
    }
}
