#ifndef SLUICE_TRAIN_GROUPING_H
#define SLUICE_TRAIN_GROUPING_H

#include "train/infer.h"

/* Optimal model-aware grouping: how to part a model's stages into groups, so that an inference whose
 * weights are copied to the GPU group by group ends soonest.
 *
 *     copies    | group 0 | group 1  | group 2 |
 *     execution           | group 0     | group 1 | group 2 |
 *
 * Copies follow each other; a group is executed when its copy and the group before it are done.  Each
 * copy costs `overhead_s` besides its bytes.  Few groups hide little of the copies; many pay the
 * overhead often.
 *
 * Branch and bound as in PipeSwitch (Bai et al., "PipeSwitch: Fast Pipelined Context Switching for Deep
 * Learning Applications", OSDI 2020, section 4.2), with the paper's two prunings:
 *
 * 1. Lower bound.  What is left takes at least as long as if it were copied in one go, under execution
 *    that never waits.  A partial grouping whose bound is not below the best whole grouping is
 *    dropped.
 * 2. Packing.  While the groups before are executed, a copy is free: of all next groups whose copy
 *    ends by then, only the longest is tried.
 *
 * Both keep the optimum.  The search goes by number of groups: partial groupings with the same number
 * of groups and stages have copied equally long, so the one whose execution ends first replaces the
 * others.  n stages thus have at most n * (n + 1) / 2 nodes.
 *
 * Threads: any; all but sluice_grouping_measure() are pure functions. */

struct sluice_grouping_stage {
    uint64_t bytes; /* of weights; 0: has none */
    double seconds; /* of execution */
};

struct sluice_grouping_costs {
    double bytes_per_s; /* of the copy; > 0 */
    double overhead_s;  /* of each copy, with its event */
    /* Groups have this many bytes or more, the last excepted: a group may end only at a cut, and cuts
     * are the first stages, counted from the cut before, with which that many bytes are together. */
    uint64_t min_bytes;
};

#define SLUICE_GROUPING_MAX_STAGES 4096

struct sluice_grouping {
    size_t num_groups;
    /* The last stage of each group, ascending; the last one's is num_stages - 1. */
    unsigned last_stages[SLUICE_GROUPING_MAX_STAGES];
    double seconds;   /* from the first copy's start to the end of execution */
    size_t num_nodes; /* that the search visited */
};

/* SLUICE_E_INVALID: no stage, more than SLUICE_GROUPING_MAX_STAGES, or a time or rate that is negative
 * or not finite. */
SLUICE_MUST_USE sluice_status sluice_grouping_find(const struct sluice_grouping_stage *stages,
                                                   size_t num_stages,
                                                   const struct sluice_grouping_costs *costs,
                                                   struct sluice_grouping *grouping,
                                                   struct sluice_err *err);

/* The same for a model that is placed (infer.h), by what its device takes, which *costs gets.  The image is
 * pinned.  Errors as of sluice_infer_measure(), too. */
SLUICE_MUST_USE sluice_status sluice_grouping_measure(struct sluice_infer *infer, const void *image,
                                                      uint64_t min_bytes,
                                                      struct sluice_grouping_costs *costs,
                                                      struct sluice_grouping *grouping,
                                                      struct sluice_err *err);

/* When execution ends with these groups. */
double sluice_grouping_seconds(const struct sluice_grouping_stage *stages,
                               const unsigned *last_stages, size_t num_groups,
                               const struct sluice_grouping_costs *costs);

#endif
