#include "base/cli.h"

#include "base/log.h"
#include "base/parse.h"
#include "base/suggest.h"
#include "base/text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELP_COLUMN 28
#define HELP_WIDTH 80

/* ---- the table ---- */

/* The options that every program has, behind its own in one array of pointers. */
struct table {
    const struct sluice_cli *cli;
    struct sluice_option common[6];
    size_t num_common;
    bool is_help, is_version, is_print_config, is_json;
    const char *log_level, *log_format;
};

static const char *const log_levels[] = {"error", "warn", "info", "debug", NULL};
static const char *const log_formats[] = {"text", "json", NULL};

static void table_init(struct table *table, const struct sluice_cli *cli)
{
    bool is_h_taken = false;
    for (size_t i = 0; i < cli->num_options; i++)
        is_h_taken = is_h_taken || cli->options[i].short_name == 'h';

    *table = (struct table){.cli = cli, .log_level = "info", .log_format = "text"};
    const struct sluice_option common[] = {
        {.name = "json",
         .type = SLUICE_OPTION_FLAG,
         .value = &table->is_json,
         .help = "Print results as JSON on standard output."},
        {.name = "log-level",
         .type = SLUICE_OPTION_CHOICE,
         .value = &table->log_level,
         .arg = "LEVEL",
         .help = "The least severe messages to log on standard error.",
         .choices = log_levels},
        {.name = "log-format",
         .type = SLUICE_OPTION_CHOICE,
         .value = &table->log_format,
         .arg = "FORMAT",
         .help = "Format of these messages; json: one object a line, with time, level, program and "
                 "message.",
         .choices = log_formats},
        {.name = "print-config",
         .type = SLUICE_OPTION_FLAG,
         .value = &table->is_print_config,
         .help = "Print the final value of every option and exit."},
        {.name = "version",
         .type = SLUICE_OPTION_FLAG,
         .value = &table->is_version,
         .help = "Print the version and exit."},
        {.name = "help",
         .short_name = is_h_taken ? 0 : 'h',
         .type = SLUICE_OPTION_FLAG,
         .value = &table->is_help,
         .help = "Print this help and exit."},
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

static bool is_in_range(const struct sluice_option *option, double value)
{
    if (option->min == 0 && option->max == 0)
        return true;
    return value >= option->min && (option->max < option->min || value <= option->max);
}

/* ---- errors ---- */

static void usage_error(const struct sluice_cli *cli, const char *fmt, va_list args)
{
    char text[3000];
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

/* Bytes of the next piece of `text` that stays on one line: a word, or of a word longer than a
 * line (a pipeline, say) what ends at a comma and fits. */
static size_t piece_len(const char *text, size_t indent)
{
    const size_t word = strcspn(text, " ");
    if (indent + word <= HELP_WIDTH)
        return word;
    size_t len = HELP_WIDTH - indent;
    while (len > 0 && text[len - 1] != ',')
        len--;
    return len > 0 ? len : word;
}

static void print_wrapped(const char *text, size_t column, size_t indent)
{
    bool is_word_start = false; /* whether a blank stands before the next piece */
    bool is_line_start = true;
    while (*text) {
        const size_t len = piece_len(text, indent);
        if (!is_line_start && column + is_word_start + len > HELP_WIDTH) {
            printf("\n%*s", (int)indent, "");
            column = indent;
        } else if (is_word_start && !is_line_start) {
            putchar(' ');
            column++;
        }
        printf("%.*s", (int)len, text);
        column += len;
        is_line_start = false;
        text += len;
        is_word_start = *text == ' ';
        text += strspn(text, " ");
    }
    putchar('\n');
}

/* Seconds in a bare number. */
static double time_unit(const struct sluice_option *option)
{
    return option->type == SLUICE_OPTION_MS ? 1e-3 : 1;
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

/* "  -j, --workers N", padded to HELP_COLUMN or followed by a new line. */
static void print_option_head(const struct sluice_option *option)
{
    const bool is_flag = option->type == SLUICE_OPTION_FLAG;
    size_t column =
        (size_t)(option->short_name ? printf("  -%c, ", option->short_name) : printf("      "));
    column += (size_t)printf("--%s%s", is_flag && *(const bool *)option->value ? "no-" : "",
                             option->name);
    if (option->alias)
        column += (size_t)printf(", --%s", option->alias);
    if (!is_flag)
        column += (size_t)printf(" %s", option->arg ? option->arg : "VALUE");
    if (column + 1 > HELP_COLUMN) {
        putchar('\n');
        column = 0;
    }
    printf("%*s", (int)(HELP_COLUMN - column), "");
}

/* What --help says of the default; NULL: nothing. */
static const char *shown_default(const struct sluice_option *option, char room[400])
{
    if (option->default_text)
        return option->default_text;
    switch (option->type) {
    case SLUICE_OPTION_FLAG:
        return NULL; /* shown with --no- if it is on */
    case SLUICE_OPTION_STRING:
    case SLUICE_OPTION_CHOICE:
        return *(const char *const *)option->value;
    default:
        format_value(option, room);
        return room[0] ? room : NULL;
    }
}

/* The lines of option->list, each indented and its continuation further. */
static void print_list(const struct sluice_option *option)
{
    char lines[2048];
    option->list(lines, sizeof(lines));
    for (char *rest = lines, *line; (line = strtok_r(rest, "\n", &rest));) {
        printf("%*s", HELP_COLUMN + 2, "");
        print_wrapped(line, HELP_COLUMN + 2, HELP_COLUMN + 4);
    }
}

static void print_option_help(const struct sluice_option *option)
{
    char text[1024] = "", value[400];
    /* Cuts what is too long; the last byte stays 0. */
    FILE *out = fmemopen(text, sizeof(text) - 1, "w");
    if (!out)
        return;
    fprintf(out, "%s", option->help ? option->help : "");
    for (size_t i = 0; option->choices && option->choices[i]; i++)
        fprintf(out, "%s%s%s", i ? ", " : " One of ", option->choices[i],
                option->choices[i + 1] ? "" : ".");
    const char *shown = shown_default(option, value);
    if (option->is_required)
        fprintf(out, " Required.");
    else if (shown && shown[0])
        fprintf(out, " Default: %s.", shown);
    fclose(out);
    print_option_head(option);
    print_wrapped(text, HELP_COLUMN, HELP_COLUMN);
    if (option->list)
        print_list(option);
}

/* How values with a unit are written, of the types that the program has. */
static void print_units(const struct sluice_cli *cli)
{
    static const struct {
        enum sluice_option_type types[2];
        const char *text;
    } units[] = {
        {{SLUICE_OPTION_BYTES, SLUICE_OPTION_BYTES},
         "Sizes: 65536, 64KiB, 1.5GiB (powers of 1024), 100MB (powers of 1000); a letter alone is "
         "a "
         "power of 1024: 64k, 16M, 2G."},
        {{SLUICE_OPTION_RATE, SLUICE_OPTION_RATE},
         "Rates: 500mbit, 1Gbps, 500Mbit/s (b: bits), 62.5MB/s, 60MiB/s (B: bytes); a bare number "
         "is Mbit/s."},
        {{SLUICE_OPTION_SECONDS, SLUICE_OPTION_MS},
         "Times: 500ms, 90s, 2m, 1.5h; a bare number is in the unit that the option names."},
    };
    bool is_first = true;
    for (size_t k = 0; k < SLUICE_ARRAY_LEN(units); k++) {
        bool is_used = false;
        for (size_t i = 0; i < cli->num_options; i++)
            is_used = is_used || cli->options[i].type == units[k].types[0] ||
                      cli->options[i].type == units[k].types[1];
        if (!is_used)
            continue;
        if (is_first)
            putchar('\n');
        is_first = false;
        print_wrapped(units[k].text, 0, 7);
    }
}

static void print_help(const struct table *table)
{
    const struct sluice_cli *cli = table->cli;
    printf("usage: %s [options]%s%s\n", cli->program, cli->positional ? " " : "",
           cli->positional ? cli->positional : "");
    if (cli->summary)
        print_wrapped(cli->summary, 0, 0);
    for (unsigned group = 0; cli->groups && cli->groups[group]; group++) {
        printf("\n%s:\n", cli->groups[group]);
        for (size_t i = 0; i < cli->num_options; i++) {
            if (cli->options[i].group == group)
                print_option_help(&cli->options[i]);
        }
    }
    printf("\n%s:\n", cli->groups ? "general" : "options");
    for (size_t i = cli->groups ? cli->num_options : 0; i < table_len(table); i++)
        print_option_help(table_at(table, i));
    print_units(cli);
    if (cli->epilog) {
        putchar('\n');
        print_wrapped(cli->epilog, 0, 0);
    }
}

static void print_config_line(const char *name, const char *value)
{
    printf("%s =%s%s\n", name, value[0] ? " " : "", value);
}

/* False for a default that cannot be written, such as a number out of the limits: then what
 * default_text says happens. */
static bool is_set(const struct sluice_option *option)
{
    if (option->is_given && *option->is_given)
        return true;
    if (option->is_given && option->default_text)
        return false;
    switch (option->type) {
    case SLUICE_OPTION_UINT:
    case SLUICE_OPTION_BYTES:
        return is_in_range(option, (double)*(const uint64_t *)option->value);
    case SLUICE_OPTION_DOUBLE:
    case SLUICE_OPTION_RATE:
    case SLUICE_OPTION_SECONDS:
    case SLUICE_OPTION_MS:
        return is_in_range(option, *(const double *)option->value);
    default:
        return true;
    }
}

static void print_config(const struct table *table)
{
    for (size_t i = 0; i < table_len(table); i++) {
        const struct sluice_option *option = table_at(table, i);
        if (is_request(table, option))
            continue;
        if (option->type == SLUICE_OPTION_STRING || option->type == SLUICE_OPTION_CHOICE) {
            const char *value = *(const char *const *)option->value;
            print_config_line(option->name, value && is_set(option) ? value : "");
        } else if (option->type == SLUICE_OPTION_STRINGS) {
            const struct sluice_option_strings *strings = option->value;
            for (size_t k = 0; k < strings->num_items; k++)
                print_config_line(option->name, strings->items[k]);
            if (strings->num_items == 0)
                print_config_line(option->name, "");
        } else {
            char value[400] = "";
            if (is_set(option))
                format_value(option, value);
            print_config_line(option->name, value);
        }
    }
}

/* ---- parsing ---- */

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
    if (is_in_range(option, value))
        return SLUICE_OK;
    const bool has_max = option->max >= option->min;
    char min[400], max[400];
    format_limit(option, option->min, min);
    format_limit(option, option->max, max);
    if (!has_max)
        return sluice_fail(err, SLUICE_E_INVALID, "'%s' is below %s", text, min);
    return sluice_fail(err, SLUICE_E_INVALID, "'%s' is not within %s to %s", text, min, max);
}

/* NULL: the option has no such choice. */
static const char *find_choice(const struct sluice_option *option, const char *text)
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
    const char *choice = find_choice(option, text);
    if (choice) {
        *(const char **)option->value = choice;
        return SLUICE_OK;
    }
    char known[300], near[160];
    sluice_join_words(option->choices, known, sizeof(known));
    sluice_suggest(text, option->choices, near, sizeof(near));
    return sluice_fail(err, SLUICE_E_INVALID, "'%.64s' is none of %s%s", text, known, near);
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

struct parser {
    struct table table;
    int argc, next; /* next: the argument to look at */
    char **argv;
    /* By index in the table: what was given last, and what before where that was another value. */
    const char *given[128], *given_before[128];
    bool is_far_off;                  /* an option is unknown, and near to no other */
    const struct sluice_option *flag; /* the argument before was this flag, without a value */
};

static void note_given(struct parser *parser, const struct sluice_option *option, const char *value)
{
    if (option->is_given)
        *option->is_given = true;
    for (size_t i = 0; i < table_len(&parser->table); i++) {
        if (option != table_at(&parser->table, i))
            continue;
        const char *before = parser->given[i];
        if (before && option->type != SLUICE_OPTION_STRINGS && strcmp(before, value) != 0)
            parser->given_before[i] = before;
        parser->given[i] = value;
    }
}

static void log_repeated(const struct parser *parser)
{
    for (size_t i = 0; i < table_len(&parser->table); i++) {
        if (parser->given_before[i])
            sluice_log(SLUICE_LOG_INFO, "--%s is given more than once: %s counts, not %s",
                       table_at(&parser->table, i)->name, parser->given[i],
                       parser->given_before[i]);
    }
}

static sluice_status apply(struct parser *parser, const struct sluice_option *option,
                           const char *shown, const char *value, struct sluice_err *err)
{
    /* Without its own value: the next argument.  One that begins with two dashes is far more likely
     * a forgotten value. */
    const char *next = !value && parser->next < parser->argc ? parser->argv[parser->next] : NULL;
    if (next && strncmp(next, "--", 2) == 0)
        return sluice_fail(err, SLUICE_E_INVALID, "%s needs a value: %s %s, and not '%s'", shown,
                           shown, option->arg ? option->arg : "VALUE", next);
    if (!value && !next)
        return sluice_fail(err, SLUICE_E_INVALID, "%s needs a value: %s %s", shown, shown,
                           option->arg ? option->arg : "VALUE");
    if (next)
        parser->next++;
    value = next ? next : value;
    struct sluice_err why = {0};
    const sluice_status status = set_value(option, value, &why);
    if (status != SLUICE_OK)
        return sluice_fail(err, status, "%s: %s", shown, why.text);
    note_given(parser, option, value);
    return SLUICE_OK;
}

static void set_flag(struct parser *parser, const struct sluice_option *option, bool is_on)
{
    *(bool *)option->value = is_on;
    note_given(parser, option, is_on ? "true" : "false");
}

static bool can_be_cleared(const struct parser *parser, const struct sluice_option *option)
{
    return option->type == SLUICE_OPTION_FLAG && !is_request(&parser->table, option);
}

/* With those that are near; where none is, sluice_cli_parse() names all. */
static sluice_status fail_unknown(struct parser *parser, const char *name, size_t len,
                                  struct sluice_err *err)
{
    const struct table *table = &parser->table;
    const bool is_no = len > 3 && memcmp(name, "no-", 3) == 0;
    const struct sluice_option *plain = is_no ? find_long(table, name + 3, len - 3) : NULL;
    if (plain)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "unknown option --%.*s: --%s is no flag that can be switched off",
                           (int)len, name, plain->name);
    struct sluice_suggestion suggestion =
        sluice_suggest_begin(name + (is_no ? 3 : 0), len - (is_no ? 3 : 0));
    for (size_t i = 0; i < table_len(table); i++) {
        const struct sluice_option *option = table_at(table, i);
        if (is_no && !can_be_cleared(parser, option))
            continue;
        sluice_suggest_try(&suggestion, option->name);
        if (option->alias)
            sluice_suggest_try(&suggestion, option->alias);
    }
    char near[200];
    sluice_suggest_print(&suggestion, is_no ? "--no-" : "--", near, sizeof(near));
    if (near[0])
        return sluice_fail(err, SLUICE_E_INVALID, "unknown option --%.*s%s", (int)len, name, near);
    parser->is_far_off = true;
    return sluice_fail(err, SLUICE_E_INVALID, "unknown option --%.*s", (int)len, name);
}

static sluice_status parse_long(struct parser *parser, const char *arg, struct sluice_err *err)
{
    const char *name = arg + 2;
    const char *equals = strchr(name, '=');
    const size_t len = equals ? (size_t)(equals - name) : strlen(name);
    const struct sluice_option *option = find_long(&parser->table, name, len);
    bool is_on = true;
    if (!option && len > 3 && memcmp(name, "no-", 3) == 0) {
        option = find_long(&parser->table, name + 3, len - 3);
        if (option && !can_be_cleared(parser, option))
            option = NULL;
        is_on = false;
    }
    if (!option)
        return fail_unknown(parser, name, len, err);

    char shown[128];
    snprintf(shown, sizeof(shown), "--%.*s", (int)len, name);
    if (option->type != SLUICE_OPTION_FLAG)
        return apply(parser, option, shown, equals ? equals + 1 : NULL, err);
    if (equals && is_on && can_be_cleared(parser, option)) {
        /* As --print-config writes it. */
        if (strcmp(equals + 1, "true") == 0 || strcmp(equals + 1, "false") == 0) {
            set_flag(parser, option, equals[1] == 't');
            return SLUICE_OK;
        }
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%s takes no value such as '%s': --%s or --no-%s is all", shown,
                           equals + 1, option->name, option->name);
    }
    if (equals)
        return sluice_fail(err, SLUICE_E_INVALID, "%s takes no value", shown);
    parser->flag = option;
    set_flag(parser, option, is_on);
    return SLUICE_OK;
}

static sluice_status parse_short(struct parser *parser, const char *arg, struct sluice_err *err)
{
    const size_t len = strcspn(arg + 1, "=");
    if (len > 1 && find_long(&parser->table, arg + 1, len))
        return sluice_fail(err, SLUICE_E_INVALID, "%s needs two dashes: -%s", arg, arg);
    for (const char *p = arg + 1; *p; p++) {
        const struct sluice_option *option = find_short(&parser->table, *p);
        const char shown[] = {'-', *p, 0};
        if (!option && len > 2)
            return fail_unknown(parser, arg + 1, len, err);
        if (!option)
            return sluice_fail(err, SLUICE_E_INVALID, "unknown option %s", shown);
        if (option->type != SLUICE_OPTION_FLAG)
            return apply(parser, option, shown, p[1] ? p + 1 : NULL, err);
        set_flag(parser, option, true);
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

static bool is_yes_or_no(const char *word)
{
    static const char *const words[] = {"true", "false", "yes", "no", "on", "off"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(words); i++) {
        if (strcmp(word, words[i]) == 0)
            return true;
    }
    return false;
}

/* The one option that must be given, and is not; NULL: there is none, or several. */
static const struct sluice_option *find_missing(const struct parser *parser)
{
    const struct sluice_option *missing = NULL;
    for (size_t i = 0; i < parser->table.cli->num_options; i++) {
        const struct sluice_option *option = &parser->table.cli->options[i];
        if (!option->is_required || parser->given[i])
            continue;
        if (missing)
            return NULL;
        missing = option;
    }
    return missing;
}

/* With what it was probably meant to be. */
static sluice_status fail_unexpected(const struct parser *parser, const char *arg,
                                     struct sluice_err *err)
{
    const size_t len = strcspn(arg, "=");
    const struct sluice_option *option = find_long(&parser->table, arg, len);
    const struct sluice_option *missing = find_missing(parser);
    if (option)
        return sluice_fail(err, SLUICE_E_INVALID, "unexpected argument '%s'; did you mean --%s?",
                           arg, arg);
    if (missing)
        return sluice_fail(err, SLUICE_E_INVALID, "unexpected argument '%s'; did you mean --%s %s?",
                           arg, missing->name, arg);
    for (size_t i = 0; i < parser->table.cli->num_options; i++) {
        if (find_choice(&parser->table.cli->options[i], arg))
            return sluice_fail(err, SLUICE_E_INVALID,
                               "unexpected argument '%s'; did you mean --%s %s?", arg,
                               parser->table.cli->options[i].name, arg);
    }
    return sluice_fail(err, SLUICE_E_INVALID, "unexpected argument '%s'", arg);
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
        const struct sluice_option *flag = parser->flag;
        parser->flag = NULL;
        sluice_status status = SLUICE_OK;
        if (!is_ended && strcmp(arg, "--") == 0) {
            is_ended = true;
        } else if (!is_ended && strncmp(arg, "--", 2) == 0) {
            status = parse_long(parser, arg, err);
        } else if (!is_ended && arg[0] == '-' && arg[1]) {
            status = parse_short(parser, arg, err);
        } else {
            if (!is_ended && flag && is_yes_or_no(arg))
                return sluice_fail(err, SLUICE_E_INVALID,
                                   "--%s takes no value such as '%s': --%s or --no-%s is all",
                                   flag->name, arg, flag->name, flag->name);
            if (result->num_positional == taken.most)
                return fail_unexpected(parser, arg, err);
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
        if (cli->options[i].is_required && !parser->given[i])
            return sluice_fail(err, SLUICE_E_INVALID, "--%s %s is required", cli->options[i].name,
                               cli->options[i].arg ? cli->options[i].arg : "VALUE");
    }
    if (result->num_positional < taken.least)
        return sluice_fail(err, SLUICE_E_INVALID, "%s is missing", cli->positional);
    return SLUICE_OK;
}

static void list_options(const struct sluice_cli *cli, char *out, size_t room)
{
    size_t len = 0;
    for (size_t i = 0; i < cli->num_options && len < room; i++)
        len += (size_t)snprintf(out + len, room - len, "%s--%s", i ? " " : "; there are ",
                                cli->options[i].name);
}

struct sluice_cli_result sluice_cli_parse(const struct sluice_cli *cli, int argc, char **argv)
{
    struct sluice_cli_result result = {0};
    struct parser parser = {.argc = argc, .next = 1, .argv = argv};
    table_init(&parser.table, cli);
    assert(table_len(&parser.table) <= SLUICE_ARRAY_LEN(parser.given));
    sluice_log_set_program(cli->program);

    struct sluice_err err = {0};
    if (parse_args(&parser, &result, &err) != SLUICE_OK) {
        result.should_exit = true;
        char known[2000] = "";
        if (parser.is_far_off)
            list_options(cli, known, sizeof(known));
        result.exit_code = sluice_cli_usage_error(cli, "%s%s", err.text, known);
        return result;
    }

    enum sluice_log_level level = SLUICE_LOG_INFO;
    if (sluice_log_level_parse(parser.table.log_level, &level, NULL) == SLUICE_OK)
        sluice_log_set_level(level);
    enum sluice_log_format format = SLUICE_LOG_TEXT;
    if (sluice_log_format_parse(parser.table.log_format, &format, NULL) == SLUICE_OK)
        sluice_log_set_format(format);
    result.is_json = parser.table.is_json;
    log_repeated(&parser);

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
