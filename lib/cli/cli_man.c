#include "cli/cli_internal.h"

#include "cli/command.h"

#include <stdio.h>
#include <string.h>

/* A program of several commands prints the head and the foot itself, and between them each command
 * a section. */

/* With every character as it is meant.  A line's first "." or "'" would be a request.  A long word
 * (a pipeline) may be broken after a comma. */
static void print_roff(const char *text)
{
    if (text[0] == '.' || text[0] == '\'')
        fputs("\\&", stdout);
    for (const char *p = text; *p; p++) {
        if (*p == '\\')
            fputs("\\e", stdout);
        else if (*p == '-')
            fputs("\\-", stdout);
        else
            putchar(*p);
        if (p[0] == ',' && p[1] && p[1] != ' ')
            fputs("\\:", stdout);
    }
}

static void print_line(const char *text)
{
    print_roff(text);
    putchar('\n');
}

/* In capitals, as sections of man pages are. */
static void print_section(const char *text)
{
    fputs(".SH \"", stdout);
    for (const char *p = text; *p; p++)
        putchar(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
    fputs("\"\n", stdout);
}

static void print_option(const struct sluice_option *option)
{
    const bool is_flag = option->type == SLUICE_OPTION_FLAG;
    char text[1024];
    fputs(".TP\n", stdout);
    if (option->short_name)
        printf("\\fB\\-%c\\fR, ", option->short_name);
    fputs(is_flag && *(const bool *)option->value ? "\\fB\\-\\-no\\-" : "\\fB\\-\\-", stdout);
    print_roff(option->name);
    fputs("\\fR", stdout);
    if (option->alias) {
        fputs(", \\fB\\-\\-", stdout);
        print_roff(option->alias);
        fputs("\\fR", stdout);
    }
    if (!is_flag) {
        fputs(" \\fI", stdout);
        print_roff(option->arg ? option->arg : "VALUE");
        fputs("\\fR", stdout);
    }
    putchar('\n');
    cli_option_text(option, text);
    print_line(text);
    if (!option->list)
        return;
    char lines[8192];
    option->list(lines, sizeof(lines));
    for (char *rest = lines, *line; (line = strtok_r(rest, "\n", &rest));) {
        fputs(".br\n", stdout);
        print_line(line);
    }
}

static void print_usage(const struct sluice_cli *cli)
{
    fputs("\\fB", stdout);
    print_roff(cli->program);
    fputs("\\fR [options]", stdout);
    if (cli->positional) {
        putchar(' ');
        print_roff(cli->positional);
    }
    putchar('\n');
}

static void print_options(const struct cli_table *table)
{
    const struct sluice_cli *cli = table->cli;
    for (unsigned group = 0; cli->groups && cli->groups[group]; group++) {
        fputs(".SS \"", stdout);
        print_roff(cli->groups[group]);
        fputs("\"\n", stdout);
        for (size_t i = 0; i < cli->num_options; i++) {
            if (cli->options[i].group == group)
                print_option(&cli->options[i]);
        }
    }
    if (cli->groups)
        puts(".SS general");
    for (size_t i = cli->groups ? cli->num_options : 0; i < cli_table_len(table); i++)
        print_option(cli_table_at(table, i));
}

static void print_head(const char *program, const char *summary)
{
    printf(".TH %s 1 \"\" \"sluice %s\" \"Sluice\"\n.ad l\n.nh\n.SH NAME\n", program,
           SLUICE_VERSION);
    printf("%s \\- ", program);
    print_line(summary);
    puts(".SH SYNOPSIS");
}

static void print_foot(void)
{
    puts(
        ".SH VALUES\n"
        "Sizes: 65536, 64KiB, 1.5GiB (powers of 1024), 100MB (powers of 1000); a letter alone is a "
        "power of 1024.\n"
        "Rates: 500mbit, 1Gbps (b: bits), 62.5MB/s (B: bytes); a bare number is Mbit/s.\n"
        "Times: 500ms, 90s, 2m, 1.5h; a bare number is in the unit that the option names.\n"
        ".SH EXIT STATUS\n"
        "0: done. 1: it failed, and a line on standard error says why. 2: a usage error.\n"
        ".SH SEE ALSO\n"
        ".BR offload_server (1),\n.BR offload_train (1),\n.BR offload_dataset (1),\n"
        ".BR offload_profile (1),\n.BR offload_top (1),\n.BR sluice.conf (5),\n"
        ".BR sluice\\-manifest (5),\n.BR sluice\\-profile (5),\n.BR sluice\\-tokens (5)");
}

void cli_print_man(const struct cli_table *table)
{
    const struct sluice_cli *cli = table->cli;
    const char *command = strchr(cli->program, ' ');
    if (command) {
        print_section(command + 1);
        print_usage(cli);
        puts(".PP");
        print_line(cli->summary);
        print_options(table);
    } else {
        print_head(cli->program, cli->summary);
        print_usage(cli);
        puts(".SH OPTIONS");
        print_options(table);
    }
    if (cli->epilog) {
        puts(command ? ".PP" : ".SH NOTES");
        print_line(cli->epilog);
    }
    if (!command)
        print_foot();
}

void cli_print_program_man(const struct sluice_program *program, void (*print_commands)(void *ctx),
                           void *ctx)
{
    print_head(program->name, program->summary);
    printf("\\fB%s\\fR \\fICOMMAND\\fR [options]\n.SH COMMANDS\n", program->name);
    for (size_t i = 0; i < program->num_commands; i++) {
        printf(".TP\n\\fB%s\\fR\n", program->commands[i].name);
        print_line(program->commands[i].summary);
    }
    print_commands(ctx);
    print_foot();
}
