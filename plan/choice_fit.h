#ifndef SLUICE_PLAN_CHOICE_FIT_H
#define SLUICE_PLAN_CHOICE_FIT_H

#include "plan/choice_cost.h"
#include "plan/form_table.h"
#include "plan/sample_cost.h"

#include <stdbool.h>
#include <stddef.h>

/* Fits choice_cost.h's weights to measurements, and says how good a model is.
 *
 * For each class of files, choice and side the weights minimise
 *
 *     sum over samples ((predicted - measured) / measured)^2  +  how far they are from the prior
 *
 * with none below 0; then they are scaled so that the sum of all predictions is the sum of all
 * measurements, which is what a plan adds up.  The prior is a given model, brought to this
 * machine's speed by one factor; it weighs as much as one sample, so it decides where nothing was
 * measured and is overruled by a few dozen samples.
 *
 * Threads: pure functions. */

/* The sums that least squares need, so that measurements may come one by one.  {0} at first. */
struct sluice_weights_fit {
    double a[SLUICE_NUM_CHOICE_FEATURES][SLUICE_NUM_CHOICE_FEATURES];
    double b[SLUICE_NUM_CHOICE_FEATURES];
    double sum_feature[SLUICE_NUM_CHOICE_FEATURES], sum_measured;
    size_t num_rows;
};

/* Ignores a measurement that is not above 0, such as NAN. */
void sluice_weights_fit_add(struct sluice_weights_fit *fit,
                            const double feature[SLUICE_NUM_CHOICE_FEATURES], double measured);

/* The weights; the prior (NULL: all 0), brought to the measurements' sum, if nothing was added. */
struct sluice_choice_weights sluice_weights_fit_solve(const struct sluice_weights_fit *fit,
                                                      const struct sluice_choice_weights *prior);

/* Fits to the rows whose is_used is true (NULL: all). */
SLUICE_MUST_USE sluice_status sluice_choice_model_fit(const struct sluice_form_table *table,
                                                      const bool *is_used,
                                                      const struct sluice_choice_model *prior,
                                                      struct sluice_choice_model *model,
                                                      struct sluice_err *err);

/* Brings the time to read files to what was measured in those of the table's rows that a profile of
 * num_samples has (sluice_cost_table_is_sampled()); 0 where all were in memory.  No rows, or a time
 * that is none: it stays. */
void sluice_choice_model_set_disk(struct sluice_choice_model *model,
                                  const struct sluice_cost_table *table, uint64_t num_samples);

/* Brings the GPU's time to `decode_s` for each sample that it decoded, which were those of the
 * table's rows that were asked for so.  No such rows, or a time that is none: it stays. */
void sluice_choice_model_set_decode(struct sluice_choice_model *model,
                                    const struct sluice_form_table *table, double decode_s);

/* Errors of a model on one choice and side, over the rows whose is_used equals `used`. */
struct sluice_choice_quality {
    size_t num_rows;
    double median, p90; /* relative errors */
    double sum;         /* of all predictions over that of all measurements, less 1 */
    double mean;        /* of what was measured */
};

/* file_class: SLUICE_NUM_FILE_CLASSES for all of them.  num_rows is 0 where nothing was measured.
 */
SLUICE_MUST_USE sluice_status sluice_choice_model_try(
    const struct sluice_form_table *table, const bool *is_used, bool used,
    const struct sluice_choice_model *model, enum sluice_file_class file_class, unsigned choice,
    enum sluice_resource side, struct sluice_choice_quality *quality, struct sluice_err *err);

#endif
