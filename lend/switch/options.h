#ifndef SLUICE_LEND_SWITCH_OPTIONS_H
#define SLUICE_LEND_SWITCH_OPTIONS_H

#include "train/train.h"

/* The command line of offload_switch, checked.  Its worker processes read the same one.
 *
 * Threads: at start, on the main thread. */

#define SWITCH_MAX_MODELS 8
#define SWITCH_MAX_WORKERS 8
#define SWITCH_SIDE 224 /* height and width of images, as published clients send them */
#define SWITCH_ROW_BYTES (3 * SWITCH_SIDE * SWITCH_SIDE * sizeof(float))

struct switch_options {
    struct switch_model {
        char name[32];
        const char *path; /* of its weights */
    } models[SWITCH_MAX_MODELS];
    unsigned num_models;
    bool trains; /* each of them, on request */
    bool is_cuda;
    enum sluice_precision precision;
    uint64_t num_classes, batch_size, train_batch_size, num_workers, port;
    const char *device; /* "none", "cuda" */
    const char *lend;   /* socket of an owner outside; NULL: none */
    bool is_aside;
    double timeout_s;
};

/* False: the program ends with *exit_code, and everything is printed already.  Borrows argv; *options
 * lives as long as the process. */
bool switch_options_parse(int argc, char **argv, const struct switch_options **options,
                          int *exit_code);

#endif
