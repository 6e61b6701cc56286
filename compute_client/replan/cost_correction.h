#ifndef SLUICE_COMPUTE_CLIENT_REPLAN_COST_CORRECTION_H
#define SLUICE_COMPUTE_CLIENT_REPLAN_COST_CORRECTION_H

#include "compute_client/loader/tuning.h"
#include "plan/choice_cost.h"
#include "plan/transport_cost.h"

/* The cost of a sample in each choice, by the model and by the rows that came in:
 *
 *     cost of the ops by the model  x  factor of the choice and resource  +  transport
 *
 * A factor is a ratio estimator: the sum of what rows of the choice cost over the sum of what the
 * model said, over the last correction_rows or so.  A choice with few rows or none shrinks towards
 * the factor of all choices on its resource, as one machine runs them all (but bytes of one form
 * say nothing of another's).
 *
 * Where only a part of a file is expected to be read (sluice_choice_read_bytes()), a factor of its
 * own says how far that is right, as an index may be missing or of other files.
 *
 * The GPU's time is told for many samples at once (chooser.h), so its factor is one for all
 * choices: what was seen for each sample that it decoded over what the model said of those that
 * were asked for so.
 *
 * - Work that the model takes for less than least_work_s (handing out a file, copying pixels) is
 *   all transport and teaches nothing.
 * - No row counts for more than max_factor times what its resource's factor lets expect, nor for
 *   more than max_row_factor times the model, so that outliers do not carry a factor away.
 *
 * Threads: one at a time; a plain value. */

struct sluice_cost_ratio {
    double seen, expected, rows;
};

struct sluice_cost_correction {
    const struct sluice_tuning *tuning; /* borrowed */
    struct sluice_choice_model model;
    struct sluice_transport_cost transport;
    struct sluice_cost_ratio ratios[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
    struct sluice_cost_ratio read;      /* bytes of files of which a part is expected to be read */
    struct sluice_cost_ratio decoded;   /* on the GPU */
    struct sluice_cost_ratio to_decode; /* what rows let expect of it; nothing is seen */
    /* As of the last settle; those of resources that are not modelled mean nothing. */
    double read_factor;
    double resource_factor[SLUICE_NUM_RESOURCES];
    double factor[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
};

/* Every factor is 1. */
struct sluice_cost_correction
sluice_cost_correction_init(const struct sluice_choice_model *model,
                            const struct sluice_transport_cost *transport,
                            const struct sluice_tuning *tuning);

/* As sluice_choice_model_costs, corrected and with the transport. */
void sluice_cost_correction_costs(const struct sluice_cost_correction *costs,
                                  const struct sluice_sample_facts *facts,
                                  double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES]);

/* Adds the observed costs of a row of the choice: CPU seconds as the nodes' workers measure them,
 * bytes of payload, and the bytes that were read of the file.  Counts from the next settle on. */
void sluice_cost_correction_learn(struct sluice_cost_correction *costs, unsigned choice,
                                  const struct sluice_sample_facts *facts,
                                  const double seen[SLUICE_NUM_RESOURCES], double read_bytes);
/* Adds samples that the GPU decoded, and its time for them.  Counts as the rows do. */
void sluice_cost_correction_learn_decoded(struct sluice_cost_correction *costs,
                                          uint64_t num_samples, double device_s);
void sluice_cost_correction_settle(struct sluice_cost_correction *costs);

#endif
