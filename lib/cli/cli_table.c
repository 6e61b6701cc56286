#include "cli/cli_internal.h"

#include <string.h>

static const char *const log_levels[] = {"error", "warn", "info", "debug", NULL};
static const char *const log_formats[] = {"text", "json", NULL};

void cli_table_init(struct cli_table *table, const struct sluice_cli *cli)
{
    bool is_h_taken = false;
    for (size_t i = 0; i < cli->num_options; i++)
        is_h_taken = is_h_taken || cli->options[i].short_name == 'h';

    *table = (struct cli_table){.cli = cli, .log_level = "info", .log_format = "text"};
    const struct sluice_option common[] = {
        {.name = "json",
         SLUICE_VALUE_FLAG(table->is_json),
         .help = "Print results as JSON on standard output."},
        {.name = "log-level",
         SLUICE_VALUE_CHOICE(table->log_level, "LEVEL"),
         .help = "The least severe messages to log on standard error.",
         .choices = log_levels},
        {.name = "log-format",
         SLUICE_VALUE_CHOICE(table->log_format, "FORMAT"),
         .help = "Format of these messages; json: one object a line, with time, level, program and "
                 "message.",
         .choices = log_formats},
        {.name = "config",
         SLUICE_VALUE_STRING(table->config, "FILE"),
         .help = "Read options from FILE: lines 'name = value' with the names from here without "
                 "their dashes. An option of the command line counts more."},
        {.name = "check-config",
         SLUICE_VALUE_FLAG(table->is_check_config),
         .help = "Check options and their FILE and exit: 0, or 2 after a line with what is wrong."},
        {.name = "print-config",
         SLUICE_VALUE_FLAG(table->is_print_config),
         .help = "Print the final value of every option, as --config reads it, and exit."},
        {.name = "version",
         SLUICE_VALUE_FLAG(table->is_version),
         .help = "Print the version and exit."},
        {.name = "help",
         .short_name = is_h_taken ? 0 : 'h',
         SLUICE_VALUE_FLAG(table->is_help),
         .help = "Print this help and exit."},
    };
    memcpy(table->common, common, sizeof(common));
    table->num_common = SLUICE_ARRAY_LEN(common);
}

size_t cli_table_len(const struct cli_table *table)
{
    return table->cli->num_options + table->num_common;
}

const struct sluice_option *cli_table_at(const struct cli_table *table, size_t i)
{
    return i < table->cli->num_options ? &table->cli->options[i]
                                       : &table->common[i - table->cli->num_options];
}

size_t cli_table_index(const struct cli_table *table, const struct sluice_option *option)
{
    size_t i = 0;
    while (cli_table_at(table, i) != option)
        i++;
    return i;
}

bool cli_is_request(const struct cli_table *table, const struct sluice_option *option)
{
    return option->value == &table->is_help || option->value == &table->is_version ||
           option->value == &table->is_print_config || option->value == &table->is_check_config ||
           option->value == &table->config;
}

static bool is_name(const char *name, const char *text, size_t len)
{
    return name && strlen(name) == len && memcmp(name, text, len) == 0;
}

const struct sluice_option *cli_find_long(const struct cli_table *table, const char *text,
                                          size_t len)
{
    for (size_t i = 0; i < cli_table_len(table); i++) {
        const struct sluice_option *option = cli_table_at(table, i);
        if (is_name(option->name, text, len) || is_name(option->alias, text, len))
            return option;
    }
    return NULL;
}

const struct sluice_option *cli_find_short(const struct cli_table *table, char c)
{
    for (size_t i = 0; i < cli_table_len(table); i++) {
        if (cli_table_at(table, i)->short_name == c)
            return cli_table_at(table, i);
    }
    return NULL;
}
