#include "cli/cli_internal.h"

#include "base/parse.h"
#include "base/suggest.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

bool cli_is_in_range(const struct sluice_option *option, double value)
{
    if (option->min == 0 && option->max == 0)
        return true;
    return value >= option->min && (option->max < option->min || value <= option->max);
}

/* Seconds in a bare number. */
static double time_unit(const struct sluice_option *option)
{
    return option->type == SLUICE_OPTION_MS ? 1e-3 : 1;
}

void cli_format_value(const struct sluice_option *option, char out[400])
{
    out[0] = 0;
    switch (option->type) {
    case SLUICE_OPTION_FLAG:
        snprintf(out, 400, "%s", *(const bool *)option->value ? "true" : "false");
        break;
    case SLUICE_OPTION_UINT:
        snprintf(out, 400, "%llu", (unsigned long long)*(const uint64_t *)option->value);
        break;
    case SLUICE_OPTION_DOUBLE:
        sluice_format_double(*(const double *)option->value, out);
        break;
    case SLUICE_OPTION_BYTES:
        sluice_format_bytes(*(const uint64_t *)option->value, out);
        break;
    case SLUICE_OPTION_RATE:
        sluice_format_rate(*(const double *)option->value, out);
        break;
    case SLUICE_OPTION_SECONDS:
    case SLUICE_OPTION_MS:
        sluice_format_time(*(const double *)option->value, time_unit(option), out);
        break;
    case SLUICE_OPTION_STRING:
    case SLUICE_OPTION_CHOICE:
    case SLUICE_OPTION_STRINGS:
        break; /* of any length: the callers print them themselves */
    }
}

/* A limit in the option's own units. */
static void format_limit(const struct sluice_option *option, double limit, char out[400])
{
    if (option->type == SLUICE_OPTION_BYTES)
        sluice_format_bytes((uint64_t)limit, out);
    else if (option->type == SLUICE_OPTION_RATE && limit > 0)
        sluice_format_rate(limit, out);
    else if (option->type == SLUICE_OPTION_SECONDS || option->type == SLUICE_OPTION_MS)
        sluice_format_time(limit, time_unit(option), out);
    else
        sluice_format_double(limit, out);
}

static sluice_status check_range(const struct sluice_option *option, double value, const char *text,
                                 struct sluice_err *err)
{
    if (cli_is_in_range(option, value))
        return SLUICE_OK;
    const bool has_max = option->max >= option->min;
    char min[400], max[400];
    format_limit(option, option->min, min);
    format_limit(option, option->max, max);
    if (!has_max)
        return sluice_fail(err, SLUICE_E_INVALID, "'%s' is below %s", text, min);
    return sluice_fail(err, SLUICE_E_INVALID, "'%s' is not within %s to %s", text, min, max);
}

const char *cli_find_choice(const struct sluice_option *option, const char *text)
{
    const char *const *const lists[] = {option->choices, option->aliases};
    for (size_t k = 0; k < SLUICE_ARRAY_LEN(lists); k++) {
        for (size_t i = 0; lists[k] && lists[k][i]; i++) {
            if (strcmp(text, lists[k][i]) == 0)
                return lists[k][i];
        }
    }
    return NULL;
}

static sluice_status set_choice(const struct sluice_option *option, const char *text,
                                struct sluice_err *err)
{
    const char *choice = cli_find_choice(option, text);
    if (choice) {
        *(const char **)option->value = choice;
        return SLUICE_OK;
    }
    char known[300], near[160];
    sluice_join_words(option->choices, known, sizeof(known));
    sluice_suggest(text, option->choices, near, sizeof(near));
    return sluice_fail(err, SLUICE_E_INVALID, "'%.64s' is none of %s%s", text, known, near);
}

sluice_status cli_set_value(const struct sluice_option *option, const char *text,
                            struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    uint64_t whole = 0;
    double real = 0;
    switch (option->type) {
    case SLUICE_OPTION_FLAG:
        assert(false);
        return SLUICE_E_INTERNAL;
    case SLUICE_OPTION_STRING:
        status = option->check ? option->check(text, err) : SLUICE_OK;
        if (status == SLUICE_OK)
            *(const char **)option->value = text;
        return status;
    case SLUICE_OPTION_CHOICE:
        return set_choice(option, text, err);
    case SLUICE_OPTION_STRINGS: {
        struct sluice_option_strings *strings = option->value;
        if (strings->num_items == SLUICE_ARRAY_LEN(strings->items))
            return sluice_fail(err, SLUICE_E_INVALID, "given more than %zu times",
                               SLUICE_ARRAY_LEN(strings->items));
        strings->items[strings->num_items++] = text;
        return SLUICE_OK;
    }
    case SLUICE_OPTION_UINT:
    case SLUICE_OPTION_BYTES:
        status = option->type == SLUICE_OPTION_UINT ? sluice_parse_uint(text, &whole, err)
                                                    : sluice_parse_bytes(text, &whole, err);
        if (status == SLUICE_OK)
            status = check_range(option, (double)whole, text, err);
        if (status == SLUICE_OK)
            *(uint64_t *)option->value = whole;
        return status;
    case SLUICE_OPTION_DOUBLE:
    case SLUICE_OPTION_RATE:
    case SLUICE_OPTION_SECONDS:
    case SLUICE_OPTION_MS:
        status = option->type == SLUICE_OPTION_DOUBLE ? sluice_parse_double(text, &real, err)
                 : option->type == SLUICE_OPTION_RATE
                     ? sluice_parse_rate(text, &real, err)
                     : sluice_parse_time(text, time_unit(option), &real, err);
        if (status == SLUICE_OK)
            status = check_range(option, real, text, err);
        if (status == SLUICE_OK)
            *(double *)option->value = real;
        return status;
    }
    return SLUICE_E_INTERNAL;
}
