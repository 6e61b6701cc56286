#ifndef SLUICE_DATASETS_COMMANDS_H
#define SLUICE_DATASETS_COMMANDS_H

/* The commands of offload_dataset.  Each returns the exit code. */

int sluice_dataset_cmd_synth(int argc, char **argv);
int sluice_dataset_cmd_index(int argc, char **argv);
int sluice_dataset_cmd_verify(int argc, char **argv);
int sluice_dataset_cmd_tensor(int argc, char **argv);
int sluice_dataset_cmd_fetch(int argc, char **argv);

#endif
