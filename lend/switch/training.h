#ifndef SLUICE_LEND_SWITCH_TRAINING_H
#define SLUICE_LEND_SWITCH_TRAINING_H

#include "lend/switch/board.h"

/* The training process: owner of the page at `lend`, with a trainer for each model, which takes the same
 * random rows at each step.  Between orders it is idle, and its memory stays.
 *
 * Serves orders until the server closes the socket; the exit code.  Threads: one, besides lend's. */
int switch_training_serve(const struct switch_options *options, struct switch_board *board,
                          const char *lend);

#endif
