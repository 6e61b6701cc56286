#ifndef SLUICE_PLAN_CHOICE_FIT_H
#define SLUICE_PLAN_CHOICE_FIT_H

#include "plan/choice_cost.h"
#include "plan/form_table.h"
#include "plan/sample_cost.h"

#include <stdbool.h>
#include <stddef.h>

/* Fits choice_cost.h's weights to measurements by non-negative least squares (nnls.h), and measures
 * the error of a model.
 *
 * For each class of files, choice and side the weights, all >= 0, minimise
 *
 *     sum over samples ((predicted - measured) / measured)^2  +  distance from the prior
 *
 * Then they are scaled so that the sum of all predictions equals the sum of all measurements,
 * because a plan adds them up.  The prior is a given model, brought to this machine's speed by one
 * factor; it weighs as much as one sample, so it decides where nothing was measured, and a few
 * dozen samples overrule it.
 *
 * Threads: pure functions. */

/* The running sums of least squares, so that measurements may come one by one.  {0} at first. */
struct sluice_weights_fit {
    double a[SLUICE_NUM_CHOICE_FEATURES][SLUICE_NUM_CHOICE_FEATURES];
    double b[SLUICE_NUM_CHOICE_FEATURES];
    double sum_feature[SLUICE_NUM_CHOICE_FEATURES], sum_measured;
    size_t num_rows;
};

/* Ignores a measurement that is not above 0, such as NAN. */
void sluice_weights_fit_add(struct sluice_weights_fit *fit,
                            const double feature[SLUICE_NUM_CHOICE_FEATURES], double measured);

/* The fitted weights.  prior NULL: all 0.  Without measurements, the prior as it is scaled. */
struct sluice_choice_weights sluice_weights_fit_solve(const struct sluice_weights_fit *fit,
                                                      const struct sluice_choice_weights *prior);

/* Fits to the rows whose is_used is true (NULL: all). */
SLUICE_MUST_USE sluice_status sluice_choice_model_fit(const struct sluice_form_table *table,
                                                      const bool *is_used,
                                                      const struct sluice_choice_model *prior,
                                                      struct sluice_choice_model *model,
                                                      struct sluice_err *err);

/* Sets the time to read files from the measured rows of the table: those that a profile of
 * num_samples has (sluice_cost_table_is_sampled()).  0 if all files were in memory.  Without such
 * rows, or with an invalid time, the model's time stays. */
void sluice_choice_model_set_disk(struct sluice_choice_model *model,
                                  const struct sluice_cost_table *table, uint64_t num_samples);

/* Scales the GPU's decode time so that its mean is `decode_s` over the table's rows that were
 * requested for the GPU.  Without such rows, or with an invalid time, the model's time stays. */
void sluice_choice_model_set_decode(struct sluice_choice_model *model,
                                    const struct sluice_form_table *table, double decode_s);

/* Errors of a model on one choice and side, over the rows whose is_used equals `used`. */
struct sluice_choice_quality {
    size_t num_rows;
    double median, p90; /* relative errors */
    double sum;         /* sum of all predictions / sum of all measurements - 1 */
    double mean;        /* of the measurements */
};

/* file_class: SLUICE_NUM_FILE_CLASSES for all classes.  num_rows is 0 if nothing was measured. */
SLUICE_MUST_USE sluice_status sluice_choice_model_try(
    const struct sluice_form_table *table, const bool *is_used, bool used,
    const struct sluice_choice_model *model, enum sluice_file_class file_class, unsigned choice,
    enum sluice_resource side, struct sluice_choice_quality *quality, struct sluice_err *err);

#endif
