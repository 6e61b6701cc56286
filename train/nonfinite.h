#ifndef SLUICE_TRAIN_NONFINITE_H
#define SLUICE_TRAIN_NONFINITE_H

#include "train/net.h"

/* The search for where a loss or gradient that is not finite begins.  A device replays the forward
 * pass, checks each parameter before its layer and each output behind it, and stops at the first
 * value that is infinite or NaN; where all are finite, the last bad gradient in the net's order is
 * named.
 *
 * Threads: pure functions. */

struct sluice_nonfinite {
    uint64_t steps; /* taken before the one whose loss it is */
    /* "the input", "parameter fc.bias", "the output of layer1.0.bn2", "the gradient of fc.weight";
     * "": nothing was found. */
    char where[96];
};

bool sluice_all_finite(const float *values, size_t count);

/* For a layer without parameters: "the output of the add after layer1.0.bn2". */
void sluice_nonfinite_in_output(const struct sluice_net *net, unsigned layer,
                                struct sluice_nonfinite *found);
void sluice_nonfinite_in_param(const struct sluice_net *net, unsigned param,
                               struct sluice_nonfinite *found);
void sluice_nonfinite_in_grad(const struct sluice_net *net, unsigned param,
                              struct sluice_nonfinite *found);

#endif
