#ifndef SLUICE_CLI_CLI_INTERNAL_H
#define SLUICE_CLI_CLI_INTERNAL_H

#include "cli/cli.h"

/* Private to the files behind cli.h.
 *
 *     cli.c        takes the arguments of a command line, one by one
 *     cli_table.c  the program's options and those that every program has, as one table
 *     cli_config.c the file of --config
 *     cli_set.c    an option of a table by name and text (cli_set.h)
 *     cli_value.c  an option's value from text and back
 *     cli_help.c   --help and --print-config
 *     cli_man.c, cli_completion.c  man pages and what shells complete, for the build
 *
 * Threads: at start, on the main thread. */

/* The options that every program has, behind its own in one array of pointers. */
struct cli_table {
    const struct sluice_cli *cli;
    struct sluice_option common[8];
    size_t num_common;
    bool is_help, is_version, is_print_config, is_check_config, is_json;
    const char *log_level, *log_format, *config;
};

/* The table points into itself: it must stay where it is. */
void cli_table_init(struct cli_table *table, const struct sluice_cli *cli);
size_t cli_table_len(const struct cli_table *table);
const struct sluice_option *cli_table_at(const struct cli_table *table, size_t i);
/* Finds an option by the long name or the alias text[0..len), or by the short name; NULL: unknown.
 */
const struct sluice_option *cli_find_long(const struct cli_table *table, const char *text,
                                          size_t len);
const struct sluice_option *cli_find_short(const struct cli_table *table, char c);
/* `option` is one of the table's. */
size_t cli_table_index(const struct cli_table *table, const struct sluice_option *option);
/* Whether an option is for the command line alone, and not allowed in a configuration. */
bool cli_is_request(const struct cli_table *table, const struct sluice_option *option);

bool cli_is_in_range(const struct sluice_option *option, double value);
/* The option's choice of this name; NULL: unknown. */
const char *cli_find_choice(const struct sluice_option *option, const char *text);
/* Sets the value of any option but a flag from `text`.  SLUICE_E_INVALID names the fault. */
SLUICE_MUST_USE sluice_status cli_set_value(const struct sluice_option *option, const char *text,
                                            struct sluice_err *err);
/* The value as cli_set_value() takes it; "" for text, which the callers have as it is. */
void cli_format_value(const struct sluice_option *option, char out[400]);

/* Sets the options of the file at `path` (config_lines.h) that are not in given[], which has the
 * options of the command line by index in the table, and adds them to it.  Values are in memory
 * that is never freed.  Errors name file, line and key.  Lines without a value are ignored.  A
 * repeated key is an error, except for options that may be given many times. */
SLUICE_MUST_USE sluice_status cli_read_config(const struct cli_table *table, const char *path,
                                              const char **given, struct sluice_err *err);

/* The description of an option in --help; cut to the room. */
void cli_option_text(const struct sluice_option *option, char text[1024]);

enum cli_shell { CLI_BASH, CLI_ZSH };

/* Print texts that the build installs; --help does not mention them.  For a command they print its
 * part; cli_print_program_*() print the program's text around the parts that print_commands(ctx)
 * prints. */
void cli_print_man(const struct cli_table *table);
void cli_print_completion(const struct cli_table *table, enum cli_shell shell);
struct sluice_program;
void cli_print_program_man(const struct sluice_program *program, void (*print_commands)(void *ctx),
                           void *ctx);
void cli_print_program_completion(const struct sluice_program *program, enum cli_shell shell,
                                  void (*print_commands)(void *ctx), void *ctx);

void cli_print_help(const struct cli_table *table);
void cli_print_config(const struct cli_table *table);

#endif
