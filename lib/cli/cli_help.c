#include "cli/cli_internal.h"

#include <stdio.h>
#include <string.h>

#define HELP_COLUMN 28
#define HELP_WIDTH 80

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

/* The default as --help prints it; NULL: not printed. */
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
        cli_format_value(option, room);
        return room[0] ? room : NULL;
    }
}

/* The lines of option->list, each indented and its continuation further. */
static void print_list(const struct sluice_option *option)
{
    char lines[8192];
    option->list(lines, sizeof(lines));
    for (char *rest = lines, *line; (line = strtok_r(rest, "\n", &rest));) {
        printf("%*s", HELP_COLUMN + 2, "");
        print_wrapped(line, HELP_COLUMN + 2, HELP_COLUMN + 4);
    }
}

void cli_option_text(const struct sluice_option *option, char text[1024])
{
    char value[400];
    /* Cuts what is too long; the last byte stays 0. */
    memset(text, 0, 1024);
    FILE *out = fmemopen(text, 1023, "w");
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
}

static void print_option_help(const struct sluice_option *option)
{
    char text[1024];
    cli_option_text(option, text);
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

void cli_print_help(const struct cli_table *table)
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
    for (size_t i = cli->groups ? cli->num_options : 0; i < cli_table_len(table); i++)
        print_option_help(cli_table_at(table, i));
    print_units(cli);
    if (cli->epilog) {
        putchar('\n');
        print_wrapped(cli->epilog, 0, 0);
    }
}

static void print_config_line(const char *name, const char *value)
{
    /* Quotes where --config would take something off. */
    const size_t len = strlen(value);
    const bool has_ends = len > 0 && (strchr(" \t\r", value[0]) || strchr(" \t\r", value[len - 1]));
    const bool is_quoted = len > 1 && value[0] == '"' && value[len - 1] == '"';
    const char *quote = has_ends || is_quoted ? "\"" : "";
    printf("%s =%s%s%s%s\n", name, len ? " " : "", quote, value, quote);
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
        return cli_is_in_range(option, (double)*(const uint64_t *)option->value);
    case SLUICE_OPTION_DOUBLE:
    case SLUICE_OPTION_RATE:
    case SLUICE_OPTION_SECONDS:
    case SLUICE_OPTION_MS:
        return cli_is_in_range(option, *(const double *)option->value);
    default:
        return true;
    }
}

void cli_print_config(const struct cli_table *table)
{
    for (size_t i = 0; i < cli_table_len(table); i++) {
        const struct sluice_option *option = cli_table_at(table, i);
        if (cli_is_request(table, option))
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
                cli_format_value(option, value);
            print_config_line(option->name, value);
        }
    }
}
