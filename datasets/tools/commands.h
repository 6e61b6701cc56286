#ifndef SLUICE_DATASETS_TOOLS_COMMANDS_H
#define SLUICE_DATASETS_TOOLS_COMMANDS_H

#include "cli/cli.h"
#include "datasets/list/field_source.h"

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
        .name = "workers", .short_name = 'j', .group = (heading),                                  \
        SLUICE_VALUE_UINT(*(num_threads), "N"), SLUICE_RANGE(0, 4096),                             \
        .help = "Threads; 0: one for each CPU."                                                    \
    }

/* The option of commands that list a root: how its folders are used. */
#define SLUICE_DATASET_FOLDERS_OPTION(group_of, target)                                            \
    {                                                                                              \
        .name = "classes-are-folders", .group = (group_of), SLUICE_VALUE_FLAG(*(target)),          \
        .help = "Take folders of DIR that are called as splits (train, training; val, valid, "     \
                "validation, dev; test, testing) for classes like all others."                     \
    }

/* Where fields come from, of what kind they are: what is listed by the two. */
#define SLUICE_DATASET_TARGET_OPTION(of_group, to)                                                 \
    {                                                                                              \
        .name = "target", .group = (of_group), SLUICE_VALUE_STRINGS(*(to), "[NAME=]FROM[:KIND]"),  \
        .help = "A field of each image, for the program that trains; up to 16 options. FROM is a " \
                "column of the table of labels, which may then have no labels, or of MDS shards "  \
                "and LitData's chunks; or .txt, .json or another suffix: of files beside the "     \
                "images, or members of tars. KIND is vector, bytes, text, json, boxes, keypoints " \
                "or mask.",                                                                        \
        .default_text = "none"                                                                     \
    }
#define SLUICE_DATASET_TARGET_TYPE_OPTION(of_group, to)                                            \
    {                                                                                              \
        .name = "target-type", .group = (of_group), SLUICE_VALUE_CHOICE(*(to), "TYPE"),            \
        .choices = sluice_dataset_target_types,                                                    \
        .help = "KIND of --target without one. vector: as many numbers in each row, read as "      \
                "float32; bytes: whatever they are.",                                              \
        .default_text = "of a table, vector if the first row has numbers alone, else bytes; of "   \
                        "files, bytes"                                                             \
    }
extern const char *const sluice_dataset_target_types[];
/* SLUICE_E_INVALID: err names the option that is wrong. */
SLUICE_MUST_USE sluice_status sluice_dataset_fields(const struct sluice_option_strings *targets,
                                                    const char *type,
                                                    struct sluice_field_sources *sources,
                                                    struct sluice_err *err);

#endif
