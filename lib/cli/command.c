#include "cli/command.h"

#include "base/suggest.h"
#include "base/text.h"
#include "cli/cli_internal.h"

#include <stdio.h>
#include <string.h>

static void print_help(const struct sluice_program *program)
{
    printf("usage: %s COMMAND [options]\n%s\n\ncommands:\n", program->name, program->summary);
    for (size_t i = 0; i < program->num_commands; i++)
        printf("  %-10s %s\n", program->commands[i].name, program->commands[i].summary);
    printf("\n'%s COMMAND --help' lists the options of a command.\n", program->name);
}

static void list_commands(const struct sluice_program *program, char *out, size_t room)
{
    size_t len = 0;
    for (size_t i = 0; i < program->num_commands && len < room; i++)
        len += (size_t)snprintf(out + len, room - len, "%s%s", i ? ", " : "",
                                program->commands[i].name);
}

struct build_text {
    const struct sluice_program *program;
    char *arg; /* what each command is asked for */
};

static void print_commands(void *ctx)
{
    const struct build_text *text = ctx;
    for (size_t i = 0; i < text->program->num_commands; i++) {
        char name[128];
        snprintf(name, sizeof(name), "%s %s", text->program->name, text->program->commands[i].name);
        char *argv[] = {name, text->arg, NULL};
        (void)text->program->commands[i].run(2, argv);
    }
}

static bool print_for_build(const struct sluice_program *program, char *arg)
{
    struct build_text text = {program, arg};
    if (strcmp(arg, "--help-man") == 0)
        cli_print_program_man(program, print_commands, &text);
    else if (strcmp(arg, "--completion=bash") == 0)
        cli_print_program_completion(program, CLI_BASH, print_commands, &text);
    else if (strcmp(arg, "--completion=zsh") == 0)
        cli_print_program_completion(program, CLI_ZSH, print_commands, &text);
    else
        return false;
    return true;
}

int sluice_program_run(const struct sluice_program *program, int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : NULL;
    char known[400];
    list_commands(program, known, sizeof(known));
    if (!word) {
        fprintf(stderr, "%s: which command? One of %s (--help says more)\n", program->name, known);
        return 2;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        print_help(program);
        return 0;
    }
    if (strcmp(word, "--version") == 0) {
        printf("%s %s\n", program->name, SLUICE_VERSION);
        return 0;
    }
    if (argc == 2 && print_for_build(program, argv[1]))
        return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
    for (size_t i = 0; i < program->num_commands; i++) {
        if (strcmp(word, program->commands[i].name) == 0) {
            char full_name[128];
            snprintf(full_name, sizeof(full_name), "%s %s", program->name, word);
            argv[1] = full_name;
            return program->commands[i].run(argc - 1, argv + 1);
        }
    }
    if (word[0] == '-') {
        fprintf(stderr,
                "%s: options stand after the command, which is one of %s (--help says more)\n",
                program->name, known);
        return 2;
    }
    struct sluice_suggestion suggestion = sluice_suggest_begin(word, strlen(word));
    for (size_t i = 0; i < program->num_commands; i++)
        sluice_suggest_try(&suggestion, program->commands[i].name);
    char near[160], shown[64];
    sluice_suggest_print(&suggestion, "", near, sizeof(near));
    (void)sluice_escape_line(shown, sizeof(shown), word);
    fprintf(stderr, "%s: '%s' is none of the commands %s%s (--help says more)\n", program->name,
            shown, known, near);
    return 2;
}
