#include "cli/cli_internal.h"

#include "cli/command.h"

#include <stdio.h>
#include <string.h>

/* A program of several commands prints the function of the shell; each command a branch of it. */

/* ---- what both shells are told ---- */

enum kind { KIND_NONE, KIND_FILE, KIND_FOLDER };

/* The kind of a value, by its placeholder in --help. */
static enum kind kind_of(const char *arg)
{
    if (!arg)
        return KIND_NONE;
    if (strstr(arg, "FILE") || strstr(arg, "PATH") || strstr(arg, "IMAGE") || strstr(arg, "LIST") ||
        strstr(arg, "RUN"))
        return KIND_FILE;
    return strstr(arg, "DIR") || strstr(arg, "FOLDER") ? KIND_FOLDER : KIND_NONE;
}

static bool is_flag(const struct sluice_option *option)
{
    return option->type == SLUICE_OPTION_FLAG;
}

static bool has_no_form(const struct cli_table *table, const struct sluice_option *option)
{
    return is_flag(option) && !cli_is_request(table, option);
}

/* ---- bash ---- */

static void print_bash_values(const struct sluice_option *option)
{
    if (option->choices) {
        fputs("words='", stdout);
        for (size_t i = 0; option->choices[i]; i++)
            printf("%s%s", i ? " " : "", option->choices[i]);
        fputs("'", stdout);
    } else {
        const enum kind kind = kind_of(option->arg);
        fputs(kind == KIND_FILE     ? "action=-f"
              : kind == KIND_FOLDER ? "action=-d"
                                    : "action=",
              stdout);
    }
}

static void print_bash_options(const struct cli_table *table)
{
    puts("    case $prev in");
    for (size_t i = 0; i < cli_table_len(table); i++) {
        const struct sluice_option *option = cli_table_at(table, i);
        if (is_flag(option))
            continue;
        fputs("    ", stdout);
        if (option->short_name)
            printf("-%c | ", option->short_name);
        if (option->alias)
            printf("--%s | ", option->alias);
        printf("--%s) ", option->name);
        print_bash_values(option);
        puts(" ;;");
    }
    fputs("    *)\n        case $cur in\n        -*) words='", stdout);
    for (size_t i = 0; i < cli_table_len(table); i++) {
        const struct sluice_option *option = cli_table_at(table, i);
        printf("%s--%s", i ? " " : "", option->name);
        if (option->alias)
            printf(" --%s", option->alias);
        if (has_no_form(table, option))
            printf(" --no-%s", option->name);
    }
    const enum kind kind = kind_of(table->cli->positional);
    printf("' ;;\n        *) action=%s ;;\n        esac\n        ;;\n    esac\n",
           kind == KIND_FILE     ? "-f"
           : kind == KIND_FOLDER ? "-d"
                                 : "");
}

/* bash takes "--name=value" for three words. */
static void print_bash_head(const char *program)
{
    printf("# bash completion of %s, printed by '%s --completion=bash'\n"
           "_%s() {\n"
           "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
           "    local words= action=\n"
           "    if [ \"$cur\" = = ]; then\n"
           "        cur=\n"
           "    elif [ \"$prev\" = = ] && [ \"$COMP_CWORD\" -gt 1 ]; then\n"
           "        prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
           "    fi\n",
           program, program, program);
}

static void print_bash_foot(const char *program)
{
    printf("    COMPREPLY=()\n"
           "    if [ -n \"$words\" ]; then\n"
           "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
           "    elif [ -n \"$action\" ]; then\n"
           "        compopt -o filenames 2>/dev/null\n"
           "        mapfile -t COMPREPLY < <(compgen \"$action\" -- \"$cur\")\n"
           "    fi\n"
           "}\n"
           "complete -F _%s %s\n",
           program, program);
}

/* ---- zsh ---- */

/* The first sentence of the help, within single quotes and brackets. */
static void print_zsh_text(const char *text)
{
    for (const char *p = text; *p && !(p[0] == '.' && (p[1] == ' ' || !p[1])); p++) {
        if (*p == '\'')
            fputs("'\\''", stdout);
        else if (strchr("[]:\\", *p))
            printf("\\%c", *p);
        else
            putchar(*p);
    }
}

static void print_zsh_action(const char *arg, const char *const *choices)
{
    putchar(':');
    print_zsh_text(arg ? arg : "VALUE");
    putchar(':');
    if (choices) {
        putchar('(');
        for (size_t i = 0; choices[i]; i++)
            printf("%s%s", i ? " " : "", choices[i]);
        putchar(')');
    } else if (kind_of(arg) != KIND_NONE) {
        fputs(kind_of(arg) == KIND_FILE ? "_files" : "_files -/", stdout);
    }
}

static void print_zsh_option(const struct sluice_option *option, const char *dashes,
                             const char *name)
{
    printf(" \\\n        '%s%s%s%s[", option->type == SLUICE_OPTION_STRINGS ? "*" : "", dashes,
           name, !is_flag(option) && dashes[1] ? "=" : "");
    print_zsh_text(option->help ? option->help : "");
    putchar(']');
    if (!is_flag(option))
        print_zsh_action(option->arg, option->choices);
    putchar('\'');
}

static void print_zsh_options(const struct cli_table *table)
{
    fputs("    _arguments -s", stdout);
    for (size_t i = 0; i < cli_table_len(table); i++) {
        const struct sluice_option *option = cli_table_at(table, i);
        const char short_name[] = {option->short_name, 0};
        if (option->short_name)
            print_zsh_option(option, "-", short_name);
        print_zsh_option(option, "--", option->name);
        if (option->alias)
            print_zsh_option(option, "--", option->alias);
        if (has_no_form(table, option))
            print_zsh_option(option, "--no-", option->name);
    }
    if (table->cli->positional) {
        fputs(" \\\n        '*", stdout);
        print_zsh_action(table->cli->positional, NULL);
        putchar('\'');
    }
    putchar('\n');
}

static void print_zsh_head(const char *program)
{
    printf("#compdef %s\n# printed by '%s --completion=zsh'\n_%s() {\n", program, program, program);
}

static void print_zsh_foot(const char *program)
{
    printf("}\n_%s \"$@\"\n", program);
}

/* ---- both ---- */

void cli_print_completion(const struct cli_table *table, enum cli_shell shell)
{
    const char *program = table->cli->program;
    const char *command = strchr(program, ' ');
    if (command)
        printf("    %s)\n", command + 1);
    else
        (shell == CLI_BASH ? print_bash_head : print_zsh_head)(program);
    (shell == CLI_BASH ? print_bash_options : print_zsh_options)(table);
    if (command)
        puts("    ;;");
    else
        (shell == CLI_BASH ? print_bash_foot : print_zsh_foot)(program);
}

void cli_print_program_completion(const struct sluice_program *program, enum cli_shell shell,
                                  void (*print_commands)(void *ctx), void *ctx)
{
    if (shell == CLI_BASH) {
        print_bash_head(program->name);
        fputs("    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        words='", stdout);
        for (size_t i = 0; i < program->num_commands; i++)
            printf("%s ", program->commands[i].name);
        puts("--help --version'\n    else\n    case ${COMP_WORDS[1]} in");
        print_commands(ctx);
        puts("    esac\n    fi");
        print_bash_foot(program->name);
        return;
    }
    print_zsh_head(program->name);
    puts("    if (( CURRENT == 2 )); then\n        local -a commands=(");
    for (size_t i = 0; i < program->num_commands; i++) {
        printf("        '%s:", program->commands[i].name);
        print_zsh_text(program->commands[i].summary);
        puts("'");
    }
    puts("        )\n        _describe command commands\n        return\n    fi\n"
         "    local command=$words[2]\n    shift words\n    (( CURRENT-- ))\n    case $command in");
    print_commands(ctx);
    puts("    esac");
    print_zsh_foot(program->name);
}
