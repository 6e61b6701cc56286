#ifndef SLUICE_COMPUTE_CLIENT_REPLAN_COST_CORRECTION_H
#define SLUICE_COMPUTE_CLIENT_REPLAN_COST_CORRECTION_H

#include "compute_client/loader/tuning.h"
#include "plan/choice_cost.h"
#include "plan/transport_cost.h"

/* The cost of a sample in each choice, from the model, corrected by the rows that arrived:
 *
 *     cost of the ops by the model  x  factor of the choice and resource  +  transport
 *
 * A factor is a ratio estimator with shrinkage: the sum of the measured costs of the choice's rows
 * over the sum of the model's, over about the last correction_rows rows.  With few rows it shrinks
 * towards the factor of all choices on its resource, because one machine runs them all (but not for
 * bytes, where forms are unrelated).
 *
 * If only a part of a file is expected to be read (sluice_choice_read_bytes()), a separate factor
 * corrects the bytes read, because an index may be missing or of other files.
 *
 * The GPU's time is measured for many samples at once (chooser.h), so all choices share one factor:
 * the measured time of a decoded sample over the model's for the samples that were requested for
 * the GPU.
 *
 * - Work below least_work_s by the model (handing out a file, copying pixels) is all transport, and
 *   is not used.
 * - A row counts at most max_factor times its expected cost with the resource's factor, and at most
 *   max_row_factor times the model's, so that outliers have little effect.
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
    struct sluice_cost_ratio to_decode; /* expected from the rows; `seen` is not used */
    /* As of the last settle; undefined for resources that are not modelled. */
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
/* Adds samples that the GPU decoded, and its time for them.  Counts from the next settle on. */
void sluice_cost_correction_learn_decoded(struct sluice_cost_correction *costs,
                                          uint64_t num_samples, double device_s);
void sluice_cost_correction_settle(struct sluice_cost_correction *costs);

#endif
