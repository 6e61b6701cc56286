#ifndef SLUICE_TRAIN_CHECKPOINT_CHECKPOINT_H
#define SLUICE_TRAIN_CHECKPOINT_CHECKPOINT_H

#include "train/checkpoint/checkpoint_content.h"

/* The checkpoint of a trainer: a pair of files in the safetensors format.
 *
 *   FILE                           torchvision's names alone, so that load_state_dict() takes it;
 *                                  the rest of the head is in its metadata, and `momentum`, the hash
 *                                  of the other file
 *   FILE.momentum-STEPS-DIGITS     SGD's momentum; DIGITS are the first 16 of its hash
 *
 * The rename of FILE is the commit point: the other file is durable before, and the one of the old
 * FILE is removed after.  A process that is killed in between leaves the old pair or the new one, and
 * maybe a file that no FILE names, which the next write removes.  One process at a time writes a
 * FILE.  docs/FORMATS.md has the metadata.
 *
 * Threads: one at a time for each FILE. */

#define SLUICE_CHECKPOINT_MAX_EXTRA 65536

struct sluice_checkpoint_head {
    const char *model;
    uint32_t height, width; /* of the images */
    uint32_t num_classes;
    uint64_t seed, steps;
    const char *extra; /* "": none; UTF-8, at most SLUICE_CHECKPOINT_MAX_EXTRA bytes */
    /* The engines that device cuda chose (train/engine_cache.h); NULL: none. */
    const char *engines;
};

/* Writes the pair, durably; the texts of `values` and `momenta` are not read.  After a failure the
 * old pair is in place; but if only the sync of the folder failed, the new one. */
SLUICE_MUST_USE sluice_status sluice_checkpoint_write(const char *path,
                                                      const struct sluice_checkpoint_head *head,
                                                      const struct sluice_safetensors_plan *values,
                                                      const struct sluice_safetensors_plan *momenta,
                                                      struct sluice_err *err);

/* Reads the pair, or a file of version 0.1.  Errors begin with the file's path; SLUICE_E_CORRUPT says
 * what is wrong with it, SLUICE_E_INVALID that it has weights alone, SLUICE_E_NOT_FOUND which of the
 * two is not there. */
SLUICE_MUST_USE sluice_status sluice_checkpoint_read(const char *path,
                                                     struct sluice_checkpoint *checkpoint,
                                                     struct sluice_err *err);
/* Reads `values` alone, of FILE, of a file of version 0.1, or of any file in the safetensors format. */
SLUICE_MUST_USE sluice_status sluice_checkpoint_read_weights(const char *path,
                                                             struct sluice_checkpoint *checkpoint,
                                                             struct sluice_err *err);
void sluice_checkpoint_clear(struct sluice_checkpoint *checkpoint);

#endif
