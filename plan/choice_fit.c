#include "plan/choice_fit.h"

#include "plan/nnls.h"

#include <math.h>
#include <stdlib.h>

#define F SLUICE_NUM_CHOICE_FEATURES

/* Enough by far for ten weights. */
#define NUM_SWEEPS 2000
#define TOLERANCE 1e-9 /* in shares of the mean cost */

/* How many samples a prior counts as.  Without one, enough to share weight among features that say
 * the same (a crop that is the whole image). */
#define PRIOR_WEIGHT 1.0
#define NO_PRIOR_WEIGHT 1e-6

static double measured_of(const struct sluice_form_row *row, enum sluice_resource side)
{
    switch (side) {
    case SLUICE_STORAGE_CPU:
        return row->storage_s;
    case SLUICE_COMPUTE_CPU:
        return row->compute_s;
    case SLUICE_NETWORK:
        return (double)row->bytes;
    default:
        return 0;
    }
}

void sluice_weights_fit_add(struct sluice_weights_fit *fit, const double feature[F],
                            double measured)
{
    if (!(measured > 0))
        return;
    for (int f = 0; f < F; f++) {
        const double x = feature[f] / measured;
        for (int g = 0; g < F; g++)
            fit->a[f][g] += x * (feature[g] / measured);
        fit->b[f] += x;
        fit->sum_feature[f] += feature[f];
    }
    fit->sum_measured += measured;
    fit->num_rows++;
}

/* Scales the weights so that the predictions sum up to the measurements. */
static void bring_to_sum(const struct sluice_weights_fit *fit,
                         struct sluice_choice_weights *weights)
{
    const double predicted = sluice_choice_predict(weights, fit->sum_feature);
    for (int f = 0; predicted > 0 && f < F; f++)
        weights->per[f] *= fit->sum_measured / predicted;
}

struct sluice_choice_weights sluice_weights_fit_solve(const struct sluice_weights_fit *fit,
                                                      const struct sluice_choice_weights *prior)
{
    struct sluice_choice_weights weights = {{0}};
    if (prior)
        weights = *prior;
    if (fit->num_rows == 0)
        return weights;
    bring_to_sum(fit, &weights);

    /* A weight's unit is that share of the mean cost which it is of the mean sample. */
    const double n = (double)fit->num_rows, mean_cost = fit->sum_measured / n;
    double unit[F], a[F][F], b[F], near[F], w[F];
    for (int f = 0; f < F; f++)
        unit[f] = fit->sum_feature[f] > 0 ? mean_cost / (fit->sum_feature[f] / n) : mean_cost;
    for (int f = 0; f < F; f++) {
        for (int g = 0; g < F; g++)
            a[f][g] = fit->a[f][g] * unit[f] * unit[g];
        b[f] = fit->b[f] * unit[f];
        near[f] = weights.per[f] / unit[f];
        w[f] = near[f];
    }
    const struct sluice_nnls problem = {
        .num = F,
        .a = &a[0][0],
        .b = b,
        .prior = near,
        .pull = prior ? PRIOR_WEIGHT : NO_PRIOR_WEIGHT,
        .max_sweeps = NUM_SWEEPS,
        .tolerance = TOLERANCE,
    };
    sluice_nnls_solve(&problem, w);
    for (int f = 0; f < F; f++)
        weights.per[f] = w[f] * unit[f];
    bring_to_sum(fit, &weights);
    return weights;
}

/* --- a model --- */

struct fits {
    struct sluice_weights_fit of[SLUICE_NUM_FILE_CLASSES][SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
};

/* One side of all choices.  A machine that is faster at what was measured is so at the rest; but
 * how well pictures pack says nothing of other bytes. */
static void solve_side(const struct fits *fits, enum sluice_resource side,
                       struct sluice_choice_model *model)
{
    double measured = 0, expected = 0;
    for (int file_class = 0; file_class < SLUICE_NUM_FILE_CLASSES; file_class++) {
        for (unsigned choice = 0; choice < model->choices.num; choice++) {
            const struct sluice_weights_fit *fit = &fits->of[file_class][choice][side];
            measured += fit->sum_measured;
            expected +=
                sluice_choice_predict(&model->weights[file_class][choice][side], fit->sum_feature);
        }
    }
    const double speed =
        side != SLUICE_NETWORK && measured > 0 && expected > 0 ? measured / expected : 1;
    for (int file_class = 0; file_class < SLUICE_NUM_FILE_CLASSES; file_class++) {
        for (unsigned choice = 0; choice < model->choices.num; choice++) {
            const struct sluice_weights_fit *fit = &fits->of[file_class][choice][side];
            struct sluice_choice_weights *weights = &model->weights[file_class][choice][side];
            if (fit->num_rows > 0)
                *weights = sluice_weights_fit_solve(fit, weights);
            for (int f = 0; fit->num_rows == 0 && f < F; f++)
                weights->per[f] *= speed;
        }
    }
}

sluice_status sluice_choice_model_fit(const struct sluice_form_table *table, const bool *is_used,
                                      const struct sluice_choice_model *prior,
                                      struct sluice_choice_model *model, struct sluice_err *err)
{
    struct fits *fits = calloc(1, sizeof(*fits));
    if (!fits)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to fit a model");
    size_t num_used = 0;
    for (size_t i = 0; i < table->num_rows; i++) {
        const struct sluice_form_row *row = &table->rows[i];
        if (is_used && !is_used[i])
            continue;
        num_used++;
        double feature[F];
        sluice_choice_features(&row->facts, feature);
        struct sluice_weights_fit *of = fits->of[sluice_file_class_of(&row->facts)][row->choice];
        SLUICE_EACH_RESOURCE (side, SLUICE_MODELLED_BY_SAMPLE) {
            if (side != SLUICE_NETWORK ||
                !sluice_choice_has_exact_bytes(prior->choices.at[row->choice]))
                sluice_weights_fit_add(&of[side], feature, measured_of(row, side));
        }
    }
    if (num_used > 0) {
        struct sluice_choice_model fitted = *prior;
        SLUICE_EACH_RESOURCE (side, SLUICE_MODELLED)
            solve_side(fits, side, &fitted);
        *model = fitted;
    }
    free(fits);
    if (num_used == 0)
        return sluice_fail(err, SLUICE_E_INVALID, "there are no measurements to fit to");
    return SLUICE_OK;
}

void sluice_choice_model_set_disk(struct sluice_choice_model *model,
                                  const struct sluice_cost_table *table, uint64_t num_samples)
{
    double seconds = 0, expected = 0;
    for (size_t i = 0; i < table->num_rows; i++) {
        if (!sluice_cost_table_is_sampled(i, table->num_rows, num_samples))
            continue;
        seconds += table->rows[i].op_s[0];
        expected +=
            model->disk_s_per_sample + model->disk_s_per_byte * (double)table->rows[i].bytes[0];
    }
    if (!(seconds >= 0) || !(expected > 0))
        return;
    model->disk_s_per_sample *= seconds / expected;
    model->disk_s_per_byte *= seconds / expected;
}

void sluice_choice_model_set_decode(struct sluice_choice_model *model,
                                    const struct sluice_form_table *table, double decode_s)
{
    double expected_s = 0, num_decoded = 0;
    for (size_t i = 0; i < table->num_rows; i++) {
        const struct sluice_form_row *row = &table->rows[i];
        double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
        sluice_choice_model_costs(model, &row->facts, cost);
        expected_s += cost[row->choice][SLUICE_GPU];
        num_decoded += cost[row->choice][SLUICE_GPU] > 0;
    }
    if (!(decode_s > 0) || !(expected_s > 0))
        return;
    const double factor = decode_s * num_decoded / expected_s;
    for (int file_class = 0; file_class < SLUICE_NUM_FILE_CLASSES; file_class++) {
        for (unsigned c = 0; c < model->choices.num; c++) {
            for (int f = 0; f < F; f++)
                model->weights[file_class][c][SLUICE_GPU].per[f] *= factor;
        }
    }
}

/* --- how good it is --- */

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double model_of(const struct sluice_choice_model *model,
                       const struct sluice_sample_facts *facts, unsigned choice,
                       enum sluice_resource side)
{
    double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
    sluice_choice_model_costs(model, facts, cost);
    return cost[choice][side] - (side == SLUICE_NETWORK ? SLUICE_REPLY_BYTES : 0);
}

sluice_status sluice_choice_model_try(const struct sluice_form_table *table, const bool *is_used,
                                      bool used, const struct sluice_choice_model *model,
                                      enum sluice_file_class file_class, unsigned choice,
                                      enum sluice_resource side,
                                      struct sluice_choice_quality *quality, struct sluice_err *err)
{
    double *errors = calloc(table->num_rows + 1, sizeof(*errors));
    if (!errors)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to try %zu rows", table->num_rows);
    struct sluice_choice_quality tried = {0};
    double sum_predicted = 0, sum_measured = 0;
    for (size_t i = 0; i < table->num_rows; i++) {
        const struct sluice_form_row *row = &table->rows[i];
        if ((is_used && is_used[i] != used) || row->choice != choice)
            continue;
        if (file_class != SLUICE_NUM_FILE_CLASSES &&
            sluice_file_class_of(&row->facts) != file_class)
            continue;
        const double measured = measured_of(row, side);
        if (!(measured > 0))
            continue;
        const double predicted = model_of(model, &row->facts, choice, side);
        errors[tried.num_rows++] = fabs(predicted / measured - 1);
        sum_predicted += predicted;
        sum_measured += measured;
    }
    if (tried.num_rows > 0) {
        qsort(errors, tried.num_rows, sizeof(*errors), compare);
        tried.median = errors[(tried.num_rows - 1) / 2];
        tried.p90 = errors[(tried.num_rows - 1) * 9 / 10];
        tried.sum = sum_predicted / sum_measured - 1;
        tried.mean = sum_measured / (double)tried.num_rows;
    }
    free(errors);
    *quality = tried;
    return SLUICE_OK;
}
