#include "base/cli.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HELP_COLUMN 28
#define HELP_WIDTH 88

/* ---- values ---- */

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

/* ---- writing values so that the parsers above give them back exactly ---- */

static void format_bytes(uint64_t bytes, char out[32])
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

static void format_double(double value, char out[32])
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

/* 400 characters hold the longest double without an exponent. */
static void format_rate(double rate, char out[400])
{
    if (!(rate > 0)) {
        snprintf(out, 400, "none");
        return;
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int decimals = 0; decimals <= 24; decimals++) {
            double back = 0;
            snprintf(out, 400, "%.*f%s", decimals, pass == 0 ? rate * 8 / 1e6 : rate,
                     pass == 0 ? "mbit" : "B");
            if (sluice_parse_rate(out, &back, NULL) == SLUICE_OK && back == rate)
                return;
        }
    }
}

/* ---- the table ---- */

/* The options that every program has, behind its own in one array of pointers. */
struct table {
    const struct sluice_cli *cli;
    struct sluice_option common[5];
    size_t num_common;
    bool is_help, is_version, is_print_config, is_json;
    const char *log_level;
};

static const char *const log_levels[] = {"error", "warn", "info", "debug", NULL};

static void table_init(struct table *table, const struct sluice_cli *cli)
{
    bool is_h_taken = false;
    for (size_t i = 0; i < cli->num_options; i++)
        is_h_taken = is_h_taken || cli->options[i].short_name == 'h';

    *table = (struct table){.cli = cli, .log_level = "info"};
    const struct sluice_option common[] = {
        {.name = "json",
         .type = SLUICE_OPTION_FLAG,
         .value = &table->is_json,
         .help = "Print results as JSON on standard output."},
        {.name = "log-level",
         .type = SLUICE_OPTION_CHOICE,
         .value = &table->log_level,
         .arg = "LEVEL",
         .help = "How much to say on standard error.",
         .choices = log_levels},
        {.name = "print-config",
         .type = SLUICE_OPTION_FLAG,
         .value = &table->is_print_config,
         .help = "Print every option's final value and exit."},
        {.name = "version",
         .type = SLUICE_OPTION_FLAG,
         .value = &table->is_version,
         .help = "Print the version and exit."},
        {.name = "help",
         .short_name = is_h_taken ? 0 : 'h',
         .type = SLUICE_OPTION_FLAG,
         .value = &table->is_help,
         .help = "Print this and exit."},
    };
    memcpy(table->common, common, sizeof(common));
    table->num_common = SLUICE_ARRAY_LEN(common);
}

static size_t table_len(const struct table *table)
{
    return table->cli->num_options + table->num_common;
}

static const struct sluice_option *table_at(const struct table *table, size_t i)
{
    return i < table->cli->num_options ? &table->cli->options[i]
                                       : &table->common[i - table->cli->num_options];
}

/* The options that only ask for a text and have no place in a configuration. */
static bool is_request(const struct table *table, const struct sluice_option *option)
{
    return option->value == &table->is_help || option->value == &table->is_version ||
           option->value == &table->is_print_config;
}

static bool is_name(const char *name, const char *text, size_t len)
{
    return name && strlen(name) == len && memcmp(name, text, len) == 0;
}

static const struct sluice_option *find_long(const struct table *table, const char *text,
                                             size_t len)
{
    for (size_t i = 0; i < table_len(table); i++) {
        const struct sluice_option *option = table_at(table, i);
        if (is_name(option->name, text, len) || is_name(option->alias, text, len))
            return option;
    }
    return NULL;
}

static const struct sluice_option *find_short(const struct table *table, char c)
{
    for (size_t i = 0; i < table_len(table); i++) {
        if (table_at(table, i)->short_name == c)
            return table_at(table, i);
    }
    return NULL;
}

/* ---- errors ---- */

static void usage_error(const struct sluice_cli *cli, const char *fmt, va_list args)
{
    char text[512];
    vsnprintf(text, sizeof(text), fmt, args);
    /* One line, whatever the argument held. */
    for (char *p = text; *p; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7F)
            *p = '?';
    }
    fprintf(stderr, "%s: %s (--help says more)\n", cli->program, text);
}

int sluice_cli_usage_error(const struct sluice_cli *cli, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    usage_error(cli, fmt, args);
    va_end(args);
    return 2;
}

int sluice_cli_exit_code(sluice_status status, const struct sluice_err *err)
{
    if (status == SLUICE_OK)
        return 0;
    sluice_log(SLUICE_LOG_ERROR, "%s", err->text);
    return 1;
}

/* ---- --help and --print-config ---- */

static void print_wrapped(const char *text, size_t column, size_t indent)
{
    while (*text) {
        const size_t word = strcspn(text, " ");
        if (column > indent && column + 1 + word > HELP_WIDTH) {
            printf("\n%*s", (int)indent, "");
            column = indent;
        } else if (column > indent) {
            putchar(' ');
            column++;
        }
        printf("%.*s", (int)word, text);
        column += word;
        text += word;
        text += strspn(text, " ");
    }
    putchar('\n');
}

/* The option's value as --name=value takes it; "" for a string that is not set. */
static void format_value(const struct sluice_option *option, char out[400])
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
        format_double(*(const double *)option->value, out);
        break;
    case SLUICE_OPTION_BYTES:
        format_bytes(*(const uint64_t *)option->value, out);
        break;
    case SLUICE_OPTION_RATE:
        format_rate(*(const double *)option->value, out);
        break;
    case SLUICE_OPTION_STRING:
    case SLUICE_OPTION_CHOICE:
    case SLUICE_OPTION_STRINGS:
        break; /* of any length: the callers print them themselves */
    }
}

static void print_option_help(const struct sluice_option *option)
{
    char head[256];
    char names[160];
    const bool is_flag = option->type == SLUICE_OPTION_FLAG;
    const bool is_on = is_flag && *(const bool *)option->value;
    snprintf(names, sizeof(names), "--%s%s%s%s", is_on ? "no-" : "", option->name,
             option->alias ? ", --" : "", option->alias ? option->alias : "");
    char dash[8] = "    ";
    if (option->short_name)
        snprintf(dash, sizeof(dash), "-%c, ", option->short_name);
    snprintf(head, sizeof(head), "  %s%s%s%s", dash, names, is_flag ? "" : " ",
             is_flag       ? ""
             : option->arg ? option->arg
                           : "VALUE");

    char text[1024];
    size_t len = (size_t)snprintf(text, sizeof(text), "%s", option->help ? option->help : "");
    if (len > sizeof(text) - 1)
        len = sizeof(text) - 1;
    if (option->choices) {
        for (size_t i = 0; option->choices[i] && len < sizeof(text) - 1; i++)
            len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", i ? ", " : " One of ",
                                    option->choices[i]);
        if (len < sizeof(text) - 1)
            len += (size_t)snprintf(text + len, sizeof(text) - len, ".");
    }
    if (option->is_required && len < sizeof(text) - 1) {
        snprintf(text + len, sizeof(text) - len, " Required.");
    } else if (len < sizeof(text) - 1) {
        char value[400];
        const char *shown = value;
        format_value(option, value);
        if (option->type == SLUICE_OPTION_STRING || option->type == SLUICE_OPTION_CHOICE)
            shown = *(const char *const *)option->value;
        if (is_on)
            shown = "on";
        else if (is_flag)
            shown = NULL;
        if (shown && shown[0])
            snprintf(text + len, sizeof(text) - len, " Default: %s.", shown);
    }

    size_t column = (size_t)printf("%s", head);
    if (column + 1 > HELP_COLUMN) {
        putchar('\n');
        column = 0;
    }
    printf("%*s", (int)(HELP_COLUMN - column), "");
    print_wrapped(text, HELP_COLUMN, HELP_COLUMN);
}

static void print_help(const struct table *table)
{
    const struct sluice_cli *cli = table->cli;
    printf("usage: %s [options]%s%s\n", cli->program, cli->positional ? " " : "",
           cli->positional ? cli->positional : "");
    if (cli->summary)
        printf("%s\n", cli->summary);
    printf("\noptions:\n");
    for (size_t i = 0; i < table_len(table); i++)
        print_option_help(table_at(table, i));
    if (cli->epilog)
        printf("\n%s\n", cli->epilog);
}

static void print_config_line(const char *name, const char *value)
{
    printf("%s =%s%s\n", name, value[0] ? " " : "", value);
}

static void print_config(const struct table *table)
{
    for (size_t i = 0; i < table_len(table); i++) {
        const struct sluice_option *option = table_at(table, i);
        if (is_request(table, option))
            continue;
        if (option->type == SLUICE_OPTION_STRING || option->type == SLUICE_OPTION_CHOICE) {
            const char *value = *(const char *const *)option->value;
            print_config_line(option->name, value ? value : "");
        } else if (option->type == SLUICE_OPTION_STRINGS) {
            const struct sluice_option_strings *strings = option->value;
            for (size_t k = 0; k < strings->num_items; k++)
                print_config_line(option->name, strings->items[k]);
            if (strings->num_items == 0)
                print_config_line(option->name, "");
        } else {
            char value[400];
            format_value(option, value);
            print_config_line(option->name, value);
        }
    }
}

/* ---- parsing ---- */

static sluice_status check_range(const struct sluice_option *option, double value, const char *text,
                                 struct sluice_err *err)
{
    if (option->min == 0 && option->max == 0)
        return SLUICE_OK;
    const bool has_max = option->max >= option->min;
    if (value >= option->min && (!has_max || value <= option->max))
        return SLUICE_OK;
    char min[32], max[32];
    format_double(option->min, min);
    format_double(option->max, max);
    if (!has_max)
        return sluice_fail(err, SLUICE_E_INVALID, "'%s' is below %s", text, min);
    return sluice_fail(err, SLUICE_E_INVALID, "'%s' is not within %s to %s", text, min, max);
}

static sluice_status set_choice(const struct sluice_option *option, const char *text,
                                struct sluice_err *err)
{
    char known[160] = "";
    size_t len = 0;
    for (size_t i = 0; option->choices[i]; i++) {
        if (strcmp(text, option->choices[i]) == 0) {
            *(const char **)option->value = option->choices[i];
            return SLUICE_OK;
        }
        if (len < sizeof(known))
            len += (size_t)snprintf(known + len, sizeof(known) - len, "%s%s", i ? ", " : "",
                                    option->choices[i]);
    }
    return sluice_fail(err, SLUICE_E_INVALID, "'%.64s' is none of %s", text, known);
}

static sluice_status set_value(const struct sluice_option *option, const char *text,
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
        *(const char **)option->value = text;
        return SLUICE_OK;
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
        status = option->type == SLUICE_OPTION_DOUBLE ? sluice_parse_double(text, &real, err)
                                                      : sluice_parse_rate(text, &real, err);
        if (status == SLUICE_OK)
            status = check_range(option, real, text, err);
        if (status == SLUICE_OK)
            *(double *)option->value = real;
        return status;
    }
    return SLUICE_E_INTERNAL;
}

struct parser {
    struct table table;
    int argc, next; /* next: the argument to look at */
    char **argv;
    bool is_required_given[128]; /* by index in the program's own options */
};

static void note_given(struct parser *parser, const struct sluice_option *option)
{
    const struct sluice_cli *cli = parser->table.cli;
    if (option->is_given)
        *option->is_given = true;
    for (size_t i = 0; i < cli->num_options; i++) {
        if (option == &cli->options[i])
            parser->is_required_given[i] = true;
    }
}

/* The value of an option whose own argument brings none: the next argument.
 * One that begins with two dashes is far more likely a forgotten value. */
static const char *take_value(struct parser *parser)
{
    if (parser->next >= parser->argc || strncmp(parser->argv[parser->next], "--", 2) == 0)
        return NULL;
    return parser->argv[parser->next++];
}

static sluice_status apply(struct parser *parser, const struct sluice_option *option,
                           const char *shown, const char *value, struct sluice_err *err)
{
    if (!value)
        value = take_value(parser);
    if (!value)
        return sluice_fail(err, SLUICE_E_INVALID, "%s needs a value", shown);
    struct sluice_err why = {0};
    const sluice_status status = set_value(option, value, &why);
    if (status != SLUICE_OK)
        return sluice_fail(err, status, "%s: %s", shown, why.text);
    note_given(parser, option);
    return SLUICE_OK;
}

static sluice_status parse_long(struct parser *parser, const char *arg, struct sluice_err *err)
{
    const char *name = arg + 2;
    const char *equals = strchr(name, '=');
    const size_t len = equals ? (size_t)(equals - name) : strlen(name);
    const struct sluice_option *option = find_long(&parser->table, name, len);
    bool flag = true;
    if (!option && len > 3 && memcmp(name, "no-", 3) == 0) {
        option = find_long(&parser->table, name + 3, len - 3);
        if (option && (option->type != SLUICE_OPTION_FLAG || is_request(&parser->table, option)))
            option = NULL;
        flag = false;
    }
    if (!option)
        return sluice_fail(err, SLUICE_E_INVALID, "unknown option --%.*s", (int)len, name);

    char shown[128];
    snprintf(shown, sizeof(shown), "--%.*s", (int)len, name);
    if (option->type != SLUICE_OPTION_FLAG)
        return apply(parser, option, shown, equals ? equals + 1 : NULL, err);
    if (equals)
        return sluice_fail(err, SLUICE_E_INVALID, "%s takes no value", shown);
    *(bool *)option->value = flag;
    note_given(parser, option);
    return SLUICE_OK;
}

static sluice_status parse_short(struct parser *parser, const char *arg, struct sluice_err *err)
{
    for (const char *p = arg + 1; *p; p++) {
        const struct sluice_option *option = find_short(&parser->table, *p);
        const char shown[] = {'-', *p, 0};
        if (!option)
            return sluice_fail(err, SLUICE_E_INVALID, "unknown option %s", shown);
        if (option->type != SLUICE_OPTION_FLAG)
            return apply(parser, option, shown, p[1] ? p + 1 : NULL, err);
        *(bool *)option->value = true;
        note_given(parser, option);
    }
    return SLUICE_OK;
}

/* How many arguments that are no options there may be. */
struct taken {
    size_t least, most;
};

static struct taken count_taken(const char *words)
{
    struct taken taken = {0};
    while (words && *words) {
        const size_t len = strcspn(words, " ");
        taken.least += words[0] != '[';
        taken.most++;
        if (len > 3 && memcmp(words + len - 3, "...", 3) == 0)
            taken.most = SLUICE_ARRAY_LEN(((struct sluice_cli_result *)0)->positional);
        words += len + strspn(words + len, " ");
    }
    return taken;
}

static sluice_status parse_args(struct parser *parser, struct sluice_cli_result *result,
                                struct sluice_err *err)
{
    const struct table *table = &parser->table;
    const struct sluice_cli *cli = table->cli;
    const struct taken taken = count_taken(cli->positional);
    bool is_ended = false;
    while (parser->next < parser->argc) {
        const char *arg = parser->argv[parser->next++];
        sluice_status status = SLUICE_OK;
        if (!is_ended && strcmp(arg, "--") == 0) {
            is_ended = true;
        } else if (!is_ended && strncmp(arg, "--", 2) == 0) {
            status = parse_long(parser, arg, err);
        } else if (!is_ended && arg[0] == '-' && arg[1]) {
            status = parse_short(parser, arg, err);
        } else {
            if (result->num_positional == taken.most)
                return sluice_fail(err, SLUICE_E_INVALID, "unexpected argument '%s'", arg);
            result->positional[result->num_positional++] = arg;
        }
        if (status != SLUICE_OK)
            return status;
        /* At once: whoever asks for help may have the rest wrong. */
        if (table->is_help || table->is_version)
            return SLUICE_OK;
    }
    if (table->is_print_config)
        return SLUICE_OK;

    for (size_t i = 0; i < cli->num_options; i++) {
        if (cli->options[i].is_required && !parser->is_required_given[i])
            return sluice_fail(err, SLUICE_E_INVALID, "--%s is required", cli->options[i].name);
    }
    if (result->num_positional < taken.least)
        return sluice_fail(err, SLUICE_E_INVALID, "%s is missing", cli->positional);
    return SLUICE_OK;
}

struct sluice_cli_result sluice_cli_parse(const struct sluice_cli *cli, int argc, char **argv)
{
    struct sluice_cli_result result = {0};
    struct parser parser = {.argc = argc, .next = 1, .argv = argv};
    assert(cli->num_options <= SLUICE_ARRAY_LEN(parser.is_required_given));
    table_init(&parser.table, cli);
    sluice_log_set_program(cli->program);

    struct sluice_err err = {0};
    if (parse_args(&parser, &result, &err) != SLUICE_OK) {
        result.should_exit = true;
        result.exit_code = sluice_cli_usage_error(cli, "%s", err.text);
        return result;
    }

    enum sluice_log_level level = SLUICE_LOG_INFO;
    if (sluice_log_level_parse(parser.table.log_level, &level, NULL) == SLUICE_OK)
        sluice_log_set_level(level);
    result.is_json = parser.table.is_json;

    if (parser.table.is_help) {
        parser.table.is_help = false; /* so that it is not shown as an option that is on */
        print_help(&parser.table);
    } else if (parser.table.is_version) {
        printf("%s %s\n", cli->program, SLUICE_VERSION);
    } else if (parser.table.is_print_config) {
        print_config(&parser.table);
    } else {
        return result;
    }
    result.should_exit = true;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        sluice_log(SLUICE_LOG_ERROR, "cannot write to standard output");
        result.exit_code = 1;
    }
    return result;
}

/* ---- progress ---- */

#define TERMINAL_INTERVAL_NS 100000000u /* ten times a second: smooth, and not worth measuring */
#define PLAIN_INTERVAL_NS 5000000000u

static void format_seconds(uint64_t seconds, char out[32])
{
    if (seconds >= 3600)
        snprintf(out, 32, "%llu:%02llu:%02llu", (unsigned long long)(seconds / 3600),
                 (unsigned long long)(seconds / 60 % 60), (unsigned long long)(seconds % 60));
    else
        snprintf(out, 32, "%llu:%02llu", (unsigned long long)(seconds / 60),
                 (unsigned long long)(seconds % 60));
}

static void write_stderr(const char *text, size_t len)
{
    const ssize_t written = write(STDERR_FILENO, text, len);
    (void)written; /* as with a log line: nobody to tell */
}

static size_t append(char *line, size_t size, size_t len, const char *fmt, ...) SLUICE_PRINTF(4, 5);

/* Cuts what does not fit. */
static size_t append(char *line, size_t size, size_t len, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int more = vsnprintf(line + len, size - len, fmt, args);
    va_end(args);
    len += more > 0 ? (size_t)more : 0;
    return len < size ? len : size - 1;
}

void sluice_progress_start(struct sluice_progress *progress, const char *what, uint64_t total)
{
    const uint64_t now = sluice_clock_ns();
    *progress = (struct sluice_progress){
        .what = what,
        .total = total,
        .started_ns = now,
        .last_ns = now,
        .is_terminal = isatty(STDERR_FILENO) == 1,
    };
}

void sluice_progress_update(struct sluice_progress *progress, uint64_t done, const char *extra)
{
    const uint64_t now = sluice_clock_ns();
    const uint64_t interval = progress->is_terminal ? TERMINAL_INTERVAL_NS : PLAIN_INTERVAL_NS;
    if (now - progress->last_ns < interval || !sluice_log_is_enabled(SLUICE_LOG_INFO))
        return;
    progress->last_ns = now;

    const double seconds = (double)(now - progress->started_ns) / 1e9;
    const double rate = seconds > 0 ? (double)done / seconds : 0;
    char line[256];
    size_t len =
        append(line, sizeof(line), 0, "%s: %llu", progress->what, (unsigned long long)done);
    if (progress->total) {
        len =
            append(line, sizeof(line), len, "/%llu (%.0f %%)", (unsigned long long)progress->total,
                   100.0 * (double)done / (double)progress->total);
    }
    len = append(line, sizeof(line), len, ", %.*f/s", rate < 10 ? 1 : 0, rate);
    if (progress->total > done && rate > 0) {
        const double left = (double)(progress->total - done) / rate;
        char text[32];
        format_seconds(left < 1e9 ? (uint64_t)(left + 0.5) : 1000000000u, text);
        len = append(line, sizeof(line), len, ", %s left", text);
    }
    if (extra && extra[0])
        len = append(line, sizeof(line), len, ", %s", extra);

    if (!progress->is_terminal) {
        sluice_log(SLUICE_LOG_INFO, "%s", line);
        return;
    }
    char out[sizeof(line) + 8];
    /* To the first column, the line, and away with what an earlier one left behind it. */
    const int bytes = snprintf(out, sizeof(out), "\r%.*s\x1b[K", (int)len, line);
    write_stderr(out, (size_t)bytes);
    progress->is_shown = true;
}

void sluice_progress_end(struct sluice_progress *progress, uint64_t done)
{
    if (progress->is_shown)
        write_stderr("\r\x1b[K", 4);
    progress->is_shown = false;
    const double seconds = (double)(sluice_clock_ns() - progress->started_ns) / 1e9;
    if (progress->total) {
        sluice_log(SLUICE_LOG_INFO, "%s: %llu/%llu in %.1f s", progress->what,
                   (unsigned long long)done, (unsigned long long)progress->total, seconds);
    } else {
        sluice_log(SLUICE_LOG_INFO, "%s: %llu in %.1f s", progress->what, (unsigned long long)done,
                   seconds);
    }
}
