#include "base/command.h"

#include <stdio.h>
#include <string.h>

static void print_help(const struct sluice_program *program)
{
    printf("usage: %s COMMAND [options]\n%s\n\ncommands:\n", program->name, program->summary);
    for (size_t i = 0; i < program->num_commands; i++)
        printf("  %-10s %s\n", program->commands[i].name, program->commands[i].summary);
    printf("\n'%s COMMAND --help' lists the options of a command.\n", program->name);
}

int sluice_program_run(const struct sluice_program *program, int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : NULL;
    if (!word) {
        fprintf(stderr, "%s: which command? (--help lists them)\n", program->name);
        return 2;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        print_help(program);
        return 0;
    }
    if (strcmp(word, "--version") == 0) {
        printf("%s %s\n", program->name, SLUICE_VERSION);
        return 0;
    }
    for (size_t i = 0; i < program->num_commands; i++) {
        if (strcmp(word, program->commands[i].name) == 0) {
            char full_name[128];
            snprintf(full_name, sizeof(full_name), "%s %s", program->name, word);
            argv[1] = full_name;
            return program->commands[i].run(argc - 1, argv + 1);
        }
    }
    fprintf(stderr, "%s: no command '%s' (--help lists them)\n", program->name, word);
    return 2;
}
