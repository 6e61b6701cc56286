#include "compute_client/replan/cost_correction.h"

#include <math.h>

struct sluice_cost_correction
sluice_cost_correction_init(const struct sluice_choice_model *model,
                            const struct sluice_transport_cost *transport,
                            const struct sluice_tuning *tuning)
{
    struct sluice_cost_correction costs = {
        .tuning = tuning, .model = *model, .transport = *transport};
    sluice_cost_correction_settle(&costs);
    return costs;
}

void sluice_cost_correction_costs(const struct sluice_cost_correction *costs,
                                  const struct sluice_sample_facts *facts,
                                  double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES])
{
    sluice_choice_model_costs(&costs->model, facts, cost);
    for (unsigned c = 0; c < costs->model.choices.num; c++) {
        const double read = sluice_choice_read_bytes(&costs->model, facts, c);
        cost[c][SLUICE_DISK] = fmin(read * costs->read_factor, (double)facts->file_bytes);
        SLUICE_EACH_RESOURCE (s, SLUICE_MODELLED)
            cost[c][s] *= costs->factor[c][s];
        sluice_transport_cost_add(
            &costs->transport, sluice_choice_is_preprocessed(costs->model.choices.at[c]), cost[c]);
    }
}

void sluice_cost_correction_learn(struct sluice_cost_correction *costs, unsigned choice,
                                  const struct sluice_sample_facts *facts,
                                  const double seen[SLUICE_NUM_RESOURCES], double read_bytes)
{
    const double part = sluice_choice_read_bytes(&costs->model, facts, choice);
    if (part < (double)facts->file_bytes) {
        costs->read.seen += fmin(read_bytes, costs->tuning->max_row_factor * part);
        costs->read.expected += part;
        costs->read.rows++;
    }
    double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
    sluice_choice_model_costs(&costs->model, facts, cost);
    costs->to_decode.expected += cost[choice][SLUICE_GPU];
    costs->to_decode.rows += cost[choice][SLUICE_GPU] > 0;
    SLUICE_EACH_RESOURCE (s, SLUICE_MODELLED_BY_SAMPLE) {
        const double expected = cost[choice][s];
        if (!(expected > (s == SLUICE_NETWORK ? 0 : costs->tuning->least_work_s)))
            continue;
        /* Reading the file is in the storage node's figure, and in the transport's. */
        const double beside = s == SLUICE_STORAGE_CPU ? costs->transport.storage_s_per_sample : 0;
        const double most = fmin(costs->tuning->max_factor * costs->resource_factor[s],
                                 costs->tuning->max_row_factor) *
                            expected;
        struct sluice_cost_ratio *ratio = &costs->ratios[choice][s];
        ratio->seen += fmin(fmax(seen[s] - beside, 0), most);
        ratio->expected += expected;
        ratio->rows++;
    }
}

void sluice_cost_correction_learn_decoded(struct sluice_cost_correction *costs,
                                          uint64_t num_samples, double device_s)
{
    const struct sluice_cost_ratio *to_decode = &costs->to_decode;
    if (!(to_decode->rows > 0) || num_samples == 0 || !(device_s >= 0))
        return;
    const double rows = (double)num_samples;
    const double expected = rows * to_decode->expected / to_decode->rows;
    costs->decoded.seen += fmin(device_s, costs->tuning->max_row_factor * expected);
    costs->decoded.expected += expected;
    costs->decoded.rows += rows;
}

/* Shrinkage: adds prior_rows rows whose ratio is `factor`. */
static double with_prior(const struct sluice_cost_ratio *sum, double factor, double prior_rows)
{
    if (!(sum->rows > 0))
        return factor;
    const double prior = prior_rows * sum->expected / sum->rows;
    return (sum->seen + factor * prior) / (sum->expected + prior);
}

static void forget(const struct sluice_tuning *tuning, struct sluice_cost_ratio *sum)
{
    if (!(sum->rows > tuning->correction_rows))
        return;
    const double kept = fmax(tuning->correction_kept, tuning->correction_rows / sum->rows);
    sum->seen *= kept;
    sum->expected *= kept;
    sum->rows *= kept;
}

void sluice_cost_correction_settle(struct sluice_cost_correction *costs)
{
    const struct sluice_tuning *tuning = costs->tuning;
    costs->read_factor = with_prior(&costs->read, 1, tuning->prior_rows);
    forget(tuning, &costs->read);
    const double gpu_factor = with_prior(&costs->decoded, 1, tuning->prior_rows);
    costs->resource_factor[SLUICE_GPU] = gpu_factor;
    for (unsigned c = 0; c < costs->model.choices.num; c++) {
        costs->factor[c][SLUICE_GPU] = gpu_factor;
        costs->ratios[c][SLUICE_GPU] = costs->decoded;
    }
    forget(tuning, &costs->decoded);
    forget(tuning, &costs->to_decode);
    SLUICE_EACH_RESOURCE (s, SLUICE_MODELLED_BY_SAMPLE) {
        struct sluice_cost_ratio all = {0};
        for (unsigned c = 0; c < costs->model.choices.num; c++) {
            all.seen += costs->ratios[c][s].seen;
            all.expected += costs->ratios[c][s].expected;
            all.rows += costs->ratios[c][s].rows;
        }
        costs->resource_factor[s] =
            s == SLUICE_NETWORK ? 1 : with_prior(&all, 1, tuning->prior_rows);
        for (unsigned c = 0; c < costs->model.choices.num; c++) {
            costs->factor[c][s] =
                with_prior(&costs->ratios[c][s], costs->resource_factor[s], tuning->prior_rows);
            forget(tuning, &costs->ratios[c][s]);
        }
    }
}
