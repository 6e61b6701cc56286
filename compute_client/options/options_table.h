#ifndef SLUICE_COMPUTE_CLIENT_OPTIONS_OPTIONS_TABLE_H
#define SLUICE_COMPUTE_CLIENT_OPTIONS_OPTIONS_TABLE_H

#include "cli/cli.h"
#include "cli/cli_set.h"
#include "compute_client/options/options.h"

/* The table of all options: a command line of offload_train, or a loader's settings, read and
 * checked.
 *
 * Threads: parse at start, on the main thread. */

/* The options that a loader takes from a command line, as given there, gpu-decode as it is with the
 * trainer's device, and the trainer's GPU as gpu-device if that is not given. */
struct sluice_loader_settings {
    struct sluice_setting items[SLUICE_CLI_MAX_OPTIONS + SLUICE_MAX_STRINGS + SLUICE_MAX_ROOTS + 2];
    size_t num_items;
};

/* False: the program ends with *exit_code, and everything is printed already.  Borrows argv. */
bool sluice_options_parse(int argc, char **argv, struct sluice_options *options,
                          struct sluice_loader_settings *settings, int *exit_code);

/* Options from a loader's settings (sluice.h): "dir" is a DIR, and what is about training or
 * about offload_train's own output is refused.  `texts` takes copies that *options points to.  Any
 * thread. */
SLUICE_MUST_USE sluice_status sluice_options_set(const struct sluice_setting *settings,
                                                 size_t num_settings,
                                                 struct sluice_cli_texts *texts,
                                                 struct sluice_options *options,
                                                 struct sluice_err *err);

#endif
