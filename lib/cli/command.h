#ifndef SLUICE_CLI_COMMAND_H
#define SLUICE_CLI_COMMAND_H

#include <stddef.h>

/* Programs of several commands: "offload_dataset index DIR".
 *
 * Each command parses its own options (cli/cli.h) from an argv whose first
 * element is "<program> <command>".
 *
 * Threads: at start, on the main thread. */

struct sluice_command {
    const char *name;
    int (*run)(int argc, char **argv); /* returns the exit code */
    const char *summary;               /* one line for --help */
};

struct sluice_program {
    const char *name;    /* "offload_dataset" */
    const char *summary; /* what it is for, one sentence */
    const struct sluice_command *commands;
    size_t num_commands;
};

/* Runs the command that argv[1] names and returns its exit code.  Handles --help (or help) and
 * --version.  A missing or unknown command is a usage error: prints one line with all commands and
 * similar ones, and returns 2. */
int sluice_program_run(const struct sluice_program *program, int argc, char **argv);

#endif
