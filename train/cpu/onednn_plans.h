#ifndef SLUICE_TRAIN_CPU_ONEDNN_PLANS_H
#define SLUICE_TRAIN_CPU_ONEDNN_PLANS_H

#include "train/cpu/onednn_shim.h"
#include "train/net.h"

/* A net's operations of oneDNN for the batch sizes in use, an LRU cache: the last batch of an epoch
 * is short, and batches with skipped samples have other sizes.
 *
 * Threads: those of the oneDNN context. */

#define SLUICE_ONEDNN_MAX_PLANS 4

struct sluice_onednn_plan { /* for batches of n */
    unsigned n;
    uint64_t last_use;
    unsigned num_layers;
    struct sluice_onednn_layer *layers[]; /* by the net's index; NULL where plain.h does it */
};

/* Zeroed at first. */
struct sluice_onednn_plans {
    struct sluice_onednn_plan *plans[SLUICE_ONEDNN_MAX_PLANS];
    uint64_t uses;
};

/* *plan is of batches of n, and good until the next call; what was used the longest ago makes room.
 */
SLUICE_MUST_USE sluice_status sluice_onednn_plans_get(struct sluice_onednn_plans *plans,
                                                      struct sluice_onednn *onednn,
                                                      const struct sluice_net *net, unsigned n,
                                                      struct sluice_onednn_plan **plan,
                                                      struct sluice_err *err);
void sluice_onednn_plans_clear(struct sluice_onednn_plans *plans); /* before the context */

#endif
