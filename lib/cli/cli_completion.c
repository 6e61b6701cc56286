#include "cli/cli_internal.h"

#include "cli/command.h"

#include <stdio.h>
#include <string.h>

/* A function of the shell around a table, a row of which is an option, a command or the positional
 * arguments:
 *
 *     command  name  action  many  placeholder  description
 *
 * with tabs between and "-" for nothing.  `action` is what follows the name: "-" no value, "-f" a
 * file, "-d" a folder, ":" any text, "!" for a command, or else the choices.  `many` is "*" if the
 * option may come again. */

static const char bash_head[] =
    "# bash completion of %s, printed by '%s --completion=bash'\n"
    "_%s() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "    local command=- of name action words= value=-\n"
    /* bash takes "--name=value" for three words. */
    "    if [ \"$cur\" = = ]; then\n"
    "        cur=\n"
    "    elif [ \"$prev\" = = ] && [ \"$COMP_CWORD\" -gt 1 ]; then\n"
    "        prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "    fi\n"
    "    [ %d = 0 ] || [ \"$COMP_CWORD\" -eq 1 ] || command=${COMP_WORDS[1]}\n"
    "    while IFS=$'\\t' read -r of name action _; do\n"
    "        [ \"$of\" = \"$command\" ] || continue\n"
    "        if [ \"$name\" = \"$prev\" ] && [ \"$action\" != - ]; then\n"
    "            words= value=$action\n"
    "            break\n"
    "        elif [ \"$name\" = '*' ]; then\n"
    "            case $cur in -*) ;; *) value=$action ;; esac\n"
    "        elif [ \"$action\" = ! ] || [[ $cur == -* ]]; then\n"
    "            words+=\" $name\"\n"
    "        fi\n"
    "    done <<'END'\n";
static const char bash_foot[] =
    "END\n"
    "    COMPREPLY=()\n"
    "    case $value in\n"
    "    -f | -d)\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        mapfile -t COMPREPLY < <(compgen \"$value\" -- \"$cur\")\n"
    "        ;;\n"
    "    :) ;;\n"
    "    -) mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\") ;;\n"
    "    *) mapfile -t COMPREPLY < <(compgen -W \"$value\" -- \"$cur\") ;;\n"
    "    esac\n"
    "}\n"
    "complete -F _%s %s\n";

static const char zsh_head[] =
    "#compdef %s\n# printed by '%s --completion=zsh'\n"
    "_%s() {\n"
    "    local command=- of name action many placeholder text\n"
    "    local -a specs commands\n"
    "    (( %d == 0 || CURRENT == 2 )) || command=$words[2]\n"
    "    while IFS=$'\\t' read -r of name action many placeholder text; do\n"
    "        [[ $of == $command ]] || continue\n"
    "        case $action in\n"
    "        !) commands+=(\"$name:$text\"); continue ;;\n"
    "        -) specs+=(\"${name}[$text]\"); continue ;;\n"
    "        -f) action=_files ;;\n"
    "        -d) action='_files -/' ;;\n"
    "        :) action= ;;\n"
    "        *) action=\"($action)\" ;;\n"
    "        esac\n"
    "        case $name in\n"
    "        --*) name+=\"=[$text]\" ;;\n"
    "        -*) name+=\"[$text]\" ;;\n"
    "        esac\n"
    "        specs+=(\"${many#-}$name:$placeholder:$action\")\n"
    "    done <<'END'\n";
static const char zsh_foot[] = "END\n"
                               "    if (( $#commands )); then\n"
                               "        _describe command commands\n"
                               "        return\n"
                               "    fi\n"
                               "    [[ $command == - ]] || { shift words; (( CURRENT-- )) }\n"
                               "    _arguments -s $specs\n"
                               "}\n"
                               "_%s \"$@\"\n";

/* The first sentence of a text, as _arguments and _describe of zsh take it. */
static void print_text(const char *text)
{
    for (const char *p = text; *p && !(p[0] == '.' && (p[1] == ' ' || !p[1])); p++)
        printf(strchr("[]:\\", *p) ? "\\%c" : "%c", *p);
}

static void print_row(const char *command, const char *dashes, const char *name,
                      const struct sluice_option *option)
{
    const char *arg = option->arg ? option->arg : "VALUE";
    printf("%s\t%s%s\t", command, dashes, name);
    if (option->type == SLUICE_OPTION_FLAG)
        putchar('-');
    else if (option->choices)
        for (size_t i = 0; option->choices[i]; i++)
            printf("%s%s", i ? " " : "", option->choices[i]);
    else if (strstr(arg, "FILE") || strstr(arg, "PATH") || strstr(arg, "IMAGE") ||
             strstr(arg, "LIST") || strstr(arg, "RUN"))
        fputs("-f", stdout);
    else
        fputs(strstr(arg, "DIR") || strstr(arg, "FOLDER") ? "-d" : ":", stdout);
    printf("\t%c\t", option->type == SLUICE_OPTION_STRINGS ? '*' : '-');
    print_text(arg);
    putchar('\t');
    print_text(option->help ? option->help : "");
    putchar('\n');
}

static void print_rows(const char *command, const struct cli_table *table)
{
    for (size_t i = 0; i < cli_table_len(table); i++) {
        const struct sluice_option *option = cli_table_at(table, i);
        const char short_name[] = {option->short_name, 0};
        if (option->short_name)
            print_row(command, "-", short_name, option);
        print_row(command, "--", option->name, option);
        if (option->alias)
            print_row(command, "--", option->alias, option);
        if (option->type == SLUICE_OPTION_FLAG && !cli_is_request(table, option))
            print_row(command, "--no-", option->name, option);
    }
    const struct sluice_option positional = {.arg = table->cli->positional,
                                             .type = SLUICE_OPTION_STRING};
    if (positional.arg)
        print_row(command, "", "*", &positional);
}

static void print_head(const char *program, enum cli_shell shell, bool has_commands)
{
    printf(shell == CLI_BASH ? bash_head : zsh_head, program, program, program, has_commands);
}

static void print_foot(const char *program, enum cli_shell shell)
{
    printf(shell == CLI_BASH ? bash_foot : zsh_foot, program, program);
}

void cli_print_completion(const struct cli_table *table, enum cli_shell shell)
{
    const char *program = table->cli->program, *command = strchr(program, ' ');
    if (!command)
        print_head(program, shell, false);
    print_rows(command ? command + 1 : "-", table);
    if (!command)
        print_foot(program, shell);
}

void cli_print_program_completion(const struct sluice_program *program, enum cli_shell shell,
                                  void (*print_commands)(void *ctx), void *ctx)
{
    print_head(program->name, shell, true);
    for (size_t i = 0; i < program->num_commands; i++) {
        printf("-\t%s\t!\t-\t-\t", program->commands[i].name);
        print_text(program->commands[i].summary);
        putchar('\n');
    }
    puts("-\t--help\t!\t-\t-\tPrint the commands\n-\t--version\t!\t-\t-\tPrint the version");
    print_commands(ctx);
    print_foot(program->name, shell);
}
