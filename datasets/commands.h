#ifndef SLUICE_DATASETS_COMMANDS_H
#define SLUICE_DATASETS_COMMANDS_H

#include "base/cli.h"

/* The commands of offload_dataset.  Each returns the exit code. */

int sluice_dataset_cmd_synth(int argc, char **argv);
int sluice_dataset_cmd_index(int argc, char **argv);
int sluice_dataset_cmd_verify(int argc, char **argv);
int sluice_dataset_cmd_tensor(int argc, char **argv);
int sluice_dataset_cmd_fetch(int argc, char **argv);
int sluice_dataset_cmd_pack(int argc, char **argv);
int sluice_dataset_cmd_unpack(int argc, char **argv);

/* The option of those that work with several threads. */
#define SLUICE_DATASET_WORKERS_OPTION(heading, num_threads)                                        \
    {                                                                                              \
        .name = "workers", .short_name = 'j', .group = (heading), .type = SLUICE_OPTION_UINT,      \
        .value = (num_threads), .arg = "N", .min = 0, .max = 4096,                                 \
        .help = "Threads; 0: one for each CPU."                                                    \
    }

#endif
