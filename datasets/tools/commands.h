#ifndef SLUICE_DATASETS_TOOLS_COMMANDS_H
#define SLUICE_DATASETS_TOOLS_COMMANDS_H

#include "cli/cli.h"
#include "datasets/list/target_values.h"

/* The commands of offload_dataset.  Each returns the exit code. */

int sluice_dataset_cmd_synth(int argc, char **argv);
int sluice_dataset_cmd_index(int argc, char **argv);
int sluice_dataset_cmd_verify(int argc, char **argv);
int sluice_dataset_cmd_tensor(int argc, char **argv);
int sluice_dataset_cmd_preview(int argc, char **argv);
int sluice_dataset_cmd_fetch(int argc, char **argv);
int sluice_dataset_cmd_pack(int argc, char **argv);
int sluice_dataset_cmd_unpack(int argc, char **argv);

/* The option of commands that use several threads. */
#define SLUICE_DATASET_WORKERS_OPTION(heading, num_threads)                                        \
    {                                                                                              \
        .name = "workers", .short_name = 'j', .group = (heading), .type = SLUICE_OPTION_UINT,      \
        .value = (num_threads), .arg = "N", .min = 0, .max = 4096,                                 \
        .help = "Threads; 0: one for each CPU."                                                    \
    }

/* The option of commands that list a root: how its folders are used. */
#define SLUICE_DATASET_FOLDERS_OPTION(group_of, target)                                            \
    {                                                                                              \
        .name = "classes-are-folders", .group = (group_of), .type = SLUICE_OPTION_FLAG,            \
        .value = (target),                                                                         \
        .help = "Take folders of DIR that are called as splits (train, training; val, valid, "     \
                "validation, dev; test, testing) for classes like all others."                     \
    }

/* Where targets come from, of what kind they are: what is listed by the two. */
#define SLUICE_DATASET_TARGET_OPTION(of_group, to)                                                 \
    {                                                                                              \
        .name = "target", .group = (of_group), .type = SLUICE_OPTION_STRING, .value = (to),        \
        .arg = "NAME",                                                                             \
        .help = "What else is known of each image, for the program that trains: numbers, text or " \
                "other bytes. A column of the table of labels, which may then have no labels; or " \
                ".txt, .json or another suffix: of members of tars, beside the images.",           \
        .default_text = "none"                                                                     \
    }
#define SLUICE_DATASET_TARGET_TYPE_OPTION(of_group, to)                                            \
    {                                                                                              \
        .name = "target-type", .group = (of_group), .type = SLUICE_OPTION_CHOICE, .value = (to),   \
        .arg = "TYPE", .choices = sluice_dataset_target_types,                                     \
        .help = "vector: as many numbers in each row, read as float32; bytes: whatever they are.", \
        .default_text = "of a table, vector if the first row has numbers alone, else bytes; of "   \
                        "tars, bytes"                                                              \
    }
extern const char *const sluice_dataset_target_types[];
struct sluice_target_column sluice_dataset_target(const char *name, const char *type);
/* SLUICE_E_INVALID: a type without a name. */
SLUICE_MUST_USE sluice_status sluice_dataset_check_target(const char *name, const char *type,
                                                          struct sluice_err *err);

#endif
