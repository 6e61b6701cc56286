#ifndef SLUICE_TRAIN_CHECKPOINT_CHECKPOINT_CONTENT_H
#define SLUICE_TRAIN_CHECKPOINT_CHECKPOINT_CONTENT_H

#include "train/checkpoint/safetensors.h"

struct sluice_buf;

/* The content of a checkpoint, in either format (checkpoint.h, checkpoint_v1.h). */
struct sluice_checkpoint {
    char model[64];
    uint32_t height, width; /* of the images */
    uint32_t num_classes;
    uint64_t seed, steps;
    char *extra; /* owned, ends in NUL */
    /* Parameters, running statistics and counters; SGD's momentum, by the parameters' names. */
    struct sluice_safetensors values, momenta;
    char *names;                 /* owned; those of the tensors, where no header owns them */
    struct sluice_buf *files[2]; /* owned; their data */
};

#endif
